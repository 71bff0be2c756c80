"""T6: a number that is not finite, wherever it arises: it stops the run, is named, and is never saved or published."""

import math

import pytest
import torch

from regard.errors import Diverged
from regard.training.loop import train
from regard.training.resuming import found
from regard.training.settings import Duration, Settings
from regard.training.store import Store
from tests.training import toy

SETTINGS = Settings(rate=0.02, warmup=3, validate=7, save=5, average=0.9)
STEPS = 60


class Poisoned(toy.Toy):
    """The toy, of which something is spoiled at one step.

    Args:
        where: "loss", "gradient", "weight", "average", "moments", "validation", or the name of a module.
        step: At which, or at the first validation from there on.
        value: What stands there then.
    """

    def __init__(self, where: str = "", step: int = 0, value: float = math.nan) -> None:
        super().__init__()
        self.where, self.step, self.value, self.batches = where, step, value, 0

    def batch(self, examples, places):
        self.batches += 1
        return super().batch(examples, places)

    def spoils(self, where: str) -> bool:
        return self.where == where and self.batches == self.step

    def loss(self, model, batch, smoothing):
        if self.spoils("gradient"):
            model[3].weight.register_hook(lambda grad: torch.where(torch.arange(16) == 5, self.value, grad))
        for name, module in model.named_modules():
            if name and self.spoils(name):
                module.register_forward_hook(lambda module, given, made: made * self.value)
        found = super().loss(model, batch, smoothing)
        return found._replace(likelihood=found.likelihood * self.value) if self.spoils("loss") else found

    def validated(self, *arguments, **options):
        found = super().validated(*arguments, **options)
        late = self.where == "validation" and self.batches >= self.step
        return dict.fromkeys(found, self.value) if late else found


def run(path, task, *, resume=False, report=lambda _: None, spare=False, seen=None):
    """One sitting, in which a weight may be spoiled that no batch looks at."""
    model = toy.model()
    if spare:
        model.register_parameter("spare", torch.nn.Parameter(torch.zeros(7)))
    if seen is not None:
        seen.append(model)
    store = Store(path)
    with store.lock():
        arguments = {
            "store": store,
            "config": {},
            "options": {},
            "state": found(store, resume=resume),
            "report": report,
        }
        train(model, task, toy.SPLITS, SETTINGS, Duration(steps=STEPS), **arguments)
    return (path / "metrics.jsonl").read_text(), Store(path).load_published().files


def refused(path, task, **options) -> str:
    """What is said, when nothing that is not finite has been written."""
    with pytest.raises(Diverged) as caught:
        run(path, task, **options)
    store = Store(path)
    state = store.load_state()
    if state is not None:
        assert all(tensor.isfinite().all() for tensor in state.tensors.values())
        assert all(map(math.isfinite, state.record["metrics"].values()))
        assert store.load_best() is None or all(map(math.isfinite, store.load_best().record["metrics"].values()))
    text = (path / "metrics.jsonl").read_text()
    assert "NaN" not in text
    assert "Infinity" not in text
    return str(caught.value)


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    return run(tmp_path_factory.mktemp("clean") / "run", toy.Toy())


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("step", [1, 50])
@pytest.mark.parametrize("where", ["loss", "gradient", "0", "2"])
def test_a_step_is_not_applied(memory, clean, where, step, value):
    said = refused(memory / "run", Poisoned(where, step, value))
    assert said.startswith(f"step {step}: the loss is ")
    named = {
        "loss": "no module's output, the loss itself",
        "gradient": "gradient not finite in 3.weight",
        "0": "first not finite in what 0 gives",
        # An infinite tanh is ±inf times 0 somewhere, or passes through the last layer as it is.
        "2": "first not finite in what 2 gives",
    }[where]
    assert named in said
    batch = toy.Plan(0).batches((step - 1) // 7)[(step - 1) % 7]
    assert f"the step was not applied. Examples {batch} of the training data were in the batch" in said
    state = Store(memory / "run").load_state()
    assert (state.step if state else None) == (None if step == 1 else 49)
    assert run(memory / "run", toy.Toy(), resume=state is not None) == clean


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("step", [1, 50])
def test_a_weight_that_no_loss_depends_on(memory, step, value):
    """The loss goes on as if nothing were; the weight would be in every state and published model from then on."""
    models: list = []

    def change(progress):
        if progress.step == step:
            with torch.no_grad():
                models[0].spare[3] = value

    said = refused(memory / "run", toy.Toy(), spare=True, seen=models, report=change)
    assert f"step {5 if step == 1 else 50}: weights not finite in spare; no state of this step was saved" in said
    state = Store(memory / "run").load_state()
    assert (state.step if state else None) == (None if step == 1 else 49)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("step", [1, 50])
def test_a_validation_that_gives_no_number(memory, clean, step, value):
    said = refused(memory / "run", Poisoned("validation", step, value))
    at = 7 if step == 1 else 56
    assert said.startswith(f"step {at}: the validation gave score {value}, with weights that are finite; no state of")
    assert Store(memory / "run").load_state().step == (5 if step == 1 else 55)
    assert run(memory / "run", toy.Toy(), resume=True) == clean


def test_a_gradient_whose_square_overflows(memory):
    """Without clipping it would be applied, and its second moment would hold that weight still for ever."""

    class Large(toy.Toy):
        def loss(self, model, batch, smoothing):
            found = super().loss(model, batch, smoothing)
            return found._replace(objective=found.objective * 1e25)

    settings = Settings(rate=0.02, clip=0, save=5, validate=100)
    store = Store(memory / "run")
    arguments = {"store": store, "config": {}, "options": {}}
    with store.lock(), pytest.raises(Diverged) as caught:
        train(toy.model(), Large(), toy.SPLITS, settings, Duration(steps=STEPS), **arguments)
    assert str(caught.value).startswith("step 1: the loss is ")
    assert "(the norm of the gradient is inf); the step was not applied" in str(caught.value)
    assert store.load_state() is None
