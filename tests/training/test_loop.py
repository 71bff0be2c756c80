"""The loop: exact resumption above all, on a task of a few numbers."""

import json
import math
import os
import signal

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from regard.errors import Diverged, RegardError
from regard.training.loop import train
from regard.training.resuming import found
from regard.training.settings import Duration, Settings
from regard.training.store import Store
from tests.training import toy

SETTINGS = Settings(rate=0.02, warmup=3, validate=7, save=5, average=0.9)


def run(path, steps=40, settings=SETTINGS, *, resume=False, task=None, seed=0, splits=toy.SPLITS, **more):
    """One sitting: the outcome, the final weights, and the lines of metrics.jsonl."""
    store, model = Store(path), toy.model(seed)
    duration = {name: more.pop(name) for name in ("epochs", "minutes") if name in more}
    with store.lock():
        outcome = train(
            model,
            task or toy.Toy(),
            splits,
            settings,
            Duration(**(duration or {"steps": steps})),
            store=store,
            config={"model_name": "toy"},
            options={"a": 1},
            seed=seed,
            state=found(store, resume=resume),
            **more,
        )
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return outcome, {name: tensor.clone() for name, tensor in model.state_dict().items()}, lines


def losses(lines):
    return {line["step"]: float.hex(line["loss"]) for line in lines if "loss" in line}


def stops_at(step, number=signal.SIGINT):
    return lambda progress: os.kill(os.getpid(), number) if progress.step == step else None


def test_it_learns(tmp_path):
    outcome, _, lines = run(tmp_path / "run", 300)
    each = list(losses(lines).values())
    first, last = (sum(float.fromhex(loss) for loss in part) / 20 for part in (each[:20], each[-20:]))
    assert last < first / 3
    assert outcome.step == outcome.steps == 300
    assert outcome.metrics["score"] > -0.1


@pytest.mark.parametrize("accumulate", [1, 2, 4])
@pytest.mark.parametrize("cut", [1, 4, 5, 7, 9, 14, 20, 39])
def test_a_run_that_was_stopped_goes_on_bit_for_bit(tmp_path, cut, accumulate):
    """T2: in the middle of an epoch, at its end, at a validation, with dropout, averages and accumulation."""
    settings = Settings(rate=0.02, warmup=3, validate=7, save=5, average=0.9, accumulate=accumulate)
    whole, weights, lines = run(tmp_path / "whole", settings=settings)
    stopped, _, _ = run(tmp_path / "cut", settings=settings, report=stops_at(cut))
    assert (stopped.step, stopped.stopped) == (cut, signal.SIGINT)
    task = toy.Toy()
    resumed, again, more = run(tmp_path / "cut", settings=settings, resume=True, task=task)
    assert losses(more) == losses(lines)
    assert [line for line in more if "valid.score" in line] == [line for line in lines if "valid.score" in line]
    assert resumed.metrics == whole.metrics
    assert all(torch.equal(weights[name], again[name]) for name in weights)
    states = [Store(tmp_path / name).load_state() for name in ("whole", "cut")]
    seconds = [state.record.pop("seconds") for state in states]
    assert min(seconds) > 0
    assert resumed.seconds == seconds[1] > stopped.seconds
    assert states[0].record == states[1].record
    assert all(torch.equal(states[0].tensors[name], states[1].tensors[name]) for name in states[0].tensors)


def test_every_example_is_seen_once_an_epoch_across_a_stop(tmp_path):
    first, second = toy.Toy(), toy.Toy()
    run(tmp_path / "run", 14, task=first, report=stops_at(4))
    run(tmp_path / "run", 14, task=second, resume=True)
    seen = [place for part in first.seen + second.seen for place in part]
    assert sorted(seen[:20]) == sorted(seen[20:40]) == list(range(20))


def test_a_run_that_was_killed_goes_on_from_its_last_state(tmp_path):
    """As after SIGKILL: lines and weights beyond the last state are forgotten, and come again the same."""
    _, weights, lines = run(tmp_path / "whole")

    def die(progress):
        if progress.step == 18:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", report=die)
    assert Store(tmp_path / "cut").load_state().step == 15
    _, again, more = run(tmp_path / "cut", resume=True)
    assert losses(more) == losses(lines)
    assert all(torch.equal(weights[name], again[name]) for name in weights)


def test_seeds_differ_and_repeat(tmp_path):
    runs = [losses(run(tmp_path / str(place), 9, seed=seed)[2]) for place, seed in enumerate((1, 1, 2))]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_accumulated_batches_are_one_larger_batch(tmp_path):
    """The mean is over the tokens of the step, not a mean of means: the last batch of an epoch is smaller."""

    class Steady(toy.Toy):
        too_long = ()

        def plan(self, examples, *, tokens, seed):
            return self

        def batches(self, number):
            return [[0, 1, 2, 3, 4], [5]] if self.apart else [[0, 1, 2, 3, 4, 5]]

    found = []
    for apart, accumulate in ((True, 2), (False, 1)):
        task, settings = Steady(), Settings(rate=0.02, warmup=0, shape="constant", accumulate=accumulate, clip=0)
        task.apart = apart
        store, model = Store(tmp_path / str(apart)), toy.model()
        model[1].p = 0.0
        with store.lock():
            arguments = {"store": store, "config": {}, "options": {}}
            train(model, task, toy.SPLITS, settings, Duration(steps=5), **arguments)
        found.append(model[0].weight.detach())
    torch.testing.assert_close(found[0], found[1], atol=1e-6, rtol=0)


@pytest.mark.parametrize(("value", "step"), [(math.nan, 1), (math.inf, 1), (math.nan, 9)])
def test_a_loss_that_is_not_finite_stops_and_is_not_applied(tmp_path, value, step):
    """T6: the step is not applied, nothing of it is saved, and the message names the batch."""
    task = toy.Toy()
    batch = toy.Plan(0).batches((step - 1) // 7)[(step - 1) % 7]
    expected = losses(run(tmp_path / "clean", 20)[2])
    task.spoiled = {}

    def spoil(progress):
        if progress.step == step - 1:
            task.spoiled = {batch[0]: value}

    if step == 1:
        task.spoiled = {batch[0]: value}
    with pytest.raises(Diverged) as caught:
        run(tmp_path / "run", 20, task=task, report=spoil)
    assert f"step {step}: the loss is {value}" in str(caught.value)
    assert f"Examples {batch}" in str(caught.value)
    state = Store(tmp_path / "run").load_state()
    assert (state is None) == (step == 1)
    if state is not None:
        assert state.step == 7
        assert all(tensor.isfinite().all() for tensor in state.tensors.values())
        assert losses(run(tmp_path / "run", 20, resume=True)[2]) == expected


def test_what_is_published_is_the_best_and_averaged(tmp_path):
    outcome, _, lines = run(tmp_path / "run", 40)
    scores = {line["step"]: line["valid.score"] for line in lines if "valid.score" in line}
    assert set(scores) == {7, 14, 21, 28, 35, 40}
    published = Store(tmp_path / "run").load_published()
    best = max(scores, key=scores.get)
    assert (published.step, outcome.metrics) == (best, {"score": scores[best], "step": best})
    assert set(published.files) == {"config.json", "model.safetensors", "toy.json"}


def test_patience(tmp_path):
    settings = Settings(rate=1e-9, warmup=0, validate=2, save=50, patience=3, shape="constant")

    class Worse(toy.Toy):
        score = 0.0

        def validated(self, model, pairs, *, tokens):
            Worse.score -= 1
            return {"score": Worse.score}

    outcome, _, _ = run(tmp_path / "run", 100, settings, task=Worse())
    assert outcome.step == 8
    assert Store(tmp_path / "run").load_state().step == 8
    assert run(tmp_path / "run", 100, settings, task=Worse(), resume=True)[0].step == 8


def test_a_finished_run_goes_on_when_it_is_given_more(tmp_path):
    settings = Settings(rate=0.02, warmup=3, shape="constant", validate=50, save=50)
    _, weights, lines = run(tmp_path / "whole", 20, settings)
    run(tmp_path / "more", 12, settings)
    assert run(tmp_path / "more", 12, settings, resume=True)[0].step == 12
    outcome, again, more = run(tmp_path / "more", 20, settings, resume=True)
    assert outcome.step == 20
    assert losses(more) == losses(lines)
    assert all(torch.equal(weights[name], again[name]) for name in weights)


def test_minutes_become_steps_and_stay_those(tmp_path):
    outcome, _, _ = run(tmp_path / "run", minutes=0.01, report=stops_at(14))
    assert outcome.steps >= 13
    record = Store(tmp_path / "run").load_state().record
    assert record["steps"] == outcome.steps


def test_epochs_become_steps(tmp_path):
    assert run(tmp_path / "run", epochs=2)[0].step == 14


def test_what_is_told(tmp_path):
    told = []
    run(tmp_path / "run", 10, report=told.append)
    assert [progress.step for progress in told] == list(range(1, 11))
    assert all(progress.steps == 10 for progress in told)
    assert told[-1].left == pytest.approx(0, abs=1e-6)
    assert told[-1].speed > 0


def test_a_folder_is_not_written_over(tmp_path):
    run(tmp_path / "run", 5)
    with pytest.raises(RegardError, match="holds a run at step 5: add --resume to go on, or choose another --out"):
        run(tmp_path / "run", 5)
    with pytest.raises(RegardError, match="has no state to resume from: leave out --resume to begin"):
        run(tmp_path / "other", 5, resume=True)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "give one of --steps, --epochs and --minutes, got none"),
        ({"steps": 3, "epochs": 1}, "got --steps and --epochs"),
        ({"minutes": 0}, "--minutes must be above 0 and finite, got 0"),
    ],
)
def test_durations_that_cannot_be(given, text):
    with pytest.raises(RegardError) as caught:
        Duration(**given)
    assert text in str(caught.value)


def test_tensorboard_files_hold_what_the_lines_do(tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    _, _, lines = run(tmp_path / "run", 9, Settings(validate=5, save=5, tensorboard=True))
    found = events.EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    assert [event.step for event in found.Scalars("loss")] == list(range(1, 10))
    assert [event.value for event in found.Scalars("loss")] == pytest.approx(
        [line["loss"] for line in lines if "loss" in line]
    )
    assert [event.step for event in found.Scalars("valid.score")] == [5, 9]


def test_half_precision_trains_and_repeats(tmp_path):
    settings = Settings(rate=0.02, warmup=3, shape="constant", precision="bfloat16")
    outcome, _, lines = run(tmp_path / "one", 200, settings)
    assert outcome.metrics["score"] > -0.2
    assert losses(run(tmp_path / "two", 200, settings)[2]) == losses(lines)


def test_every_part_of_a_step_has_a_seed_of_its_own(tmp_path, monkeypatch):
    """Otherwise the batches of one step all drop the same units."""
    seeds = []
    monkeypatch.setattr(torch, "manual_seed", seeds.append)
    run(tmp_path / "run", 6, Settings(rate=0.02, accumulate=2, validate=50, save=50))
    drawn = seeds[1:]  # the first is that of the first weights
    assert len(set(drawn)) == len(drawn) == 6 * 2 - 1, "an epoch of seven batches ends with a step of one"


class Measured(toy.Toy):
    """The toy, whose validations give what is listed: a metric and a loss."""

    def __init__(self, *found):
        super().__init__()
        self.found = list(found)

    def validated(self, model, splits, *, tokens):
        score, loss = self.found.pop(0)
        return {"score": score, "loss": loss}

    def goodness(self, measures):
        return (measures["score"], -measures["loss"])


RARE = Settings(rate=0.02, validate=2, save=50)


@pytest.mark.parametrize(
    ("found", "best"),
    [
        ([(0.0, 3.0), (0.0, 2.0), (0.0, 2.5)], 4),  # nothing is right yet: the first would stand for ever
        ([(1.0, 3.0), (1.0, 2.0), (1.0, 2.0)], 4),  # all is right: the surest, and of equals the first
        ([(0.5, 2.0), (0.6, 9.0), (0.5, 1.0)], 4),  # the metric comes first
    ],
)
def test_where_the_metric_ties_the_lower_loss_is_better(tmp_path, found, best):
    outcome, _, _ = run(tmp_path / "run", 6, RARE, task=Measured(*found))
    assert (outcome.metrics["step"], Store(tmp_path / "run").load_published().step) == (best, best)


def test_patience_counts_by_the_loss_too(tmp_path):
    settings = Settings(rate=0.02, validate=2, save=50, patience=2)
    falling = [(0.0, 3.0), (0.0, 2.0), (0.0, 2.5), (0.0, 1.5), (0.0, 1.5), (0.0, 1.6), (0.0, 1.0)]
    outcome, _, _ = run(tmp_path / "run", 100, settings, task=Measured(*falling))
    assert (outcome.step, outcome.steps, outcome.metrics["step"]) == (12, 100, 8)
    assert outcome.ended.startswith("ended at step 12 by --train.patience 2: none of the last 2 validations was")


def test_a_metric_that_is_chosen_anew_has_no_best_yet(tmp_path):
    class Other(Measured):
        def validated(self, model, splits, *, tokens):
            return {**super().validated(model, splits, tokens=tokens), "other": 0.1}

        def goodness(self, measures):
            return (measures["other"],)

    run(tmp_path / "run", 2, RARE, task=Measured((0.9, 1.0)))
    assert run(tmp_path / "run", 4, RARE, task=Other((0.0, 5.0)), resume=True)[0].metrics["step"] == 4


def test_a_best_of_before_that_was_a_number(tmp_path):
    run(tmp_path / "run", 2, RARE, task=Measured((0.5, 1.0)))
    store = Store(tmp_path / "run")
    state = store.load_state()
    with store.lock():
        store.save_state(2, state.tensors, {**state.record, "best": 0.5})
    task = Measured((0.5, 1.1), (0.5, 0.9))
    assert run(tmp_path / "run", 6, RARE, task=task, resume=True)[0].metrics["step"] == 6


def test_a_validation_is_of_the_model_as_it_is_used(tmp_path):
    """Without dropout; and training goes on with it."""
    modes = {"step": [], "validation": []}

    class Watched(toy.Toy):
        def loss(self, model, batch, smoothing):
            modes["step"].append(model.training)
            return super().loss(model, batch, smoothing)

        def validated(self, model, splits, *, tokens):
            modes["validation"].append(model.training)
            before = len(modes["step"])
            found = super().validated(model, splits, tokens=tokens)
            del modes["step"][before:]
            return found

    _, weights, lines = run(tmp_path / "run", 9, Settings(rate=0.02, validate=3, save=50), task=Watched())
    assert modes == {"step": [True] * 9, "validation": [False] * 3}
    used = toy.model().eval()
    used.load_state_dict(weights)
    with torch.no_grad():
        assert lines[-1]["valid.score"] == toy.Toy().validated(used, toy.SPLITS, tokens=1)["score"]


def test_matrices_decay_and_biases_do_not(tmp_path):
    """Where the gradient is 0 there is nothing but the decay."""

    class Still(toy.Toy):
        def loss(self, model, batch, smoothing):
            found = super().loss(model, batch, smoothing)
            return found._replace(objective=found.objective * 0)

    settings = Settings(rate=0.1, warmup=0, shape="constant", decay=0.5)
    _, weights, _ = run(tmp_path / "run", 3, settings, task=Still())
    for name, first in toy.model().state_dict().items():
        share = (1 - 0.1 * 0.5) ** 3 if first.ndim == 2 else 1.0
        torch.testing.assert_close(weights[name], first * share)


@pytest.fixture
def applied():
    """The gradients that every step of the optimiser is made with."""
    steps = []

    def look(optimizer, given, more):
        steps.append([p.grad.clone() for group in optimizer.param_groups for p in group["params"]])

    hook = register_optimizer_step_pre_hook(look)
    yield steps
    hook.remove()


def test_a_gradient_is_clipped(tmp_path, applied):
    """Adam divides the size of a gradient away again, unless sizes differ: so look at what it is given."""
    _, _, lines = run(tmp_path / "run", 20, Settings(rate=0.02, clip=1.5, validate=50, save=50))
    norms = [math.sqrt(sum(float(part.square().sum()) for part in parts)) for parts in applied]
    before = [line["norm"] for line in lines if "norm" in line]
    assert max(before) > 1.5 > min(before), "some are longer and some are not"
    assert norms == pytest.approx([min(norm, 1.5) for norm in before], rel=1e-5)


@pytest.mark.parametrize("accumulate", [1, 3])
def test_a_gradient_is_of_the_mean_over_tokens(tmp_path, applied, accumulate):
    task = toy.Toy()
    net = toy.model()
    net[1].p = 0.0
    store = Store(tmp_path / "run")
    settings = Settings(clip=0, accumulate=accumulate)
    with store.lock():
        loop = {"store": store, "config": {}, "options": {}}
        train(net, task, toy.SPLITS, settings, Duration(steps=1), **loop)
    seen = [place for part in task.seen[:accumulate] for place in part]
    assert len(seen) == 3 * accumulate
    fresh = toy.model()
    fresh[1].p = 0.0
    loss = toy.Toy().loss(fresh, toy.Toy().batch(toy.SPLITS.train, seen), 0.0)
    (loss.objective / len(seen)).backward()
    expected = sorted(fresh.parameters(), key=lambda parameter: parameter.ndim < 2)  # as they are grouped
    for parameter, gradient in zip(expected, applied[0], strict=True):
        torch.testing.assert_close(gradient, parameter.grad)


def test_the_data_of_a_state_must_be_the_data(tmp_path):
    run(tmp_path / "run", 5)
    other = toy.SPLITS._replace(train=[*range(19), 25], name="numbers")
    with pytest.raises(
        RegardError, match=r"^numbers is no longer the data of this run \(train was 20 examples \w{8}, is"
    ):
        run(tmp_path / "run", 9, splits=other, resume=True)
    fewer = toy.SPLITS._replace(valid=[20])
    with pytest.raises(RegardError, match=r"\(valid was 4 examples \w{8}, is 1 examples \w{8}\): give back"):
        run(tmp_path / "run", 9, splits=fewer, resume=True)
    assert run(tmp_path / "run", 9, resume=True)[0].step == 9


def test_a_state_gives_its_memory_back(tmp_path):
    run(tmp_path / "run", 5)
    store = Store(tmp_path / "run")
    with store.lock():
        state = found(store, resume=True)
        loop = {"store": store, "config": {}, "options": {}}
        train(toy.model(), toy.Toy(), toy.SPLITS, SETTINGS, Duration(steps=6), state=state, **loop)
    assert state.tensors == {}


def test_what_is_said_of_a_model_comes_with_it(tmp_path):
    told = []

    def look(progress):
        told.append((tmp_path / "run" / "README.md").read_text() if (tmp_path / "run" / "README.md").exists() else "")

    task = Measured((0.1, 1.0), (0.0, 2.0), (0.2, 1.0))
    run(tmp_path / "run", 6, RARE, task=task, report=look, describe=lambda metrics: f"score {metrics['score']}")
    assert told == ["", "", "score 0.1", "score 0.1", "score 0.1", "score 0.1"]
    assert (tmp_path / "run" / "README.md").read_text() == "score 0.2"
