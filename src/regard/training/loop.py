"""Training, read from top to bottom.

Every random number comes from (seed, step), every batch from (seed, epoch, place), every schedule from the step:
so a run that was stopped at any moment goes on bit for bit, and nothing of the clock or of a global state is in
its result.
"""

import dataclasses
import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.training import files, stopping, strict, tensors
from regard.training.finite import check_measures, check_step, check_weights
from regard.training.memory import explained_memory
from regard.training.moments import restore, snapshot
from regard.training.record import Journal, Progress
from regard.training.resuming import (
    check_data,
    impatient,
    machine,
    marks,
    other_machine,
    steps_of_minutes,
    why_no_more,
)
from regard.training.schedule import rate
from regard.training.settings import Duration, Settings
from regard.training.store import State, Store

WARM = 12
"""Steps that are timed before `minutes` become a number of steps."""
_BEGINNING: dict[str, Any] = {"steps": None, "epoch": 0, "place": 0, "waited": 0, "metrics": {}, "seconds": 0.0}


@dataclasses.dataclass
class Outcome:
    """Where training ended.

    Attributes:
        step: The last step.
        steps: The step at which it was to end, or None if that was not found out yet.
        metrics: Of the best validation.
        seconds: That all steps took, those before a resumption included; without validation and saving.
        stopped: The signal that ended it, or 0.
        ended: Why it ended sooner, or did nothing, and the remedy; "" otherwise.
    """

    step: int
    steps: int | None
    metrics: dict[str, float]
    seconds: float
    stopped: int
    ended: str


def train(
    model: nn.Module,
    task: Any,
    splits: Any,
    settings: Settings,
    duration: Duration,
    *,
    store: Store,
    config: dict[str, Any],
    options: dict[str, Any],
    seed: int = 0,
    state: State | None = None,
    describe: Callable[[dict[str, float]], str] | None = None,
    report: Callable[[Progress], None] = lambda _: None,
    warn: Callable[[str], None] = lambda _: None,
    watch: Callable[[nn.Module, Any, int], None] | None = None,
) -> Outcome:
    """Trains a model, in a run folder whose lock is held.

    Args:
        model: What learns. Its first weights are drawn before, from the same seed.
        task: What is learned: plan, batch, loss, validation (`regard.tasks`).
        splits: The data.
        settings: How.
        duration: How long.
        store: The run folder.
        config: What is published beside the weights: model, task, data, settings, command.
        options: What the run was started with, kept in its states for going on.
        seed: Of everything random.
        state: What to go on from, as `resuming.found` gave it; its tensors are taken out of it.
        describe: What README.md says of each published model, by its metrics.
        report: Is told how it goes, after every step.
        warn: Is told what should be known before the first step.
        watch: Is shown the model, in evaluation mode, and the task, after every step.

    Raises:
        RegardError: if the data is not that of the state, or there is nothing to train on.
        Diverged: if a loss, gradient, weight or validation is not finite; nothing of that step is saved.
        OutOfMemory: if memory runs out; the last state is whole.
    """
    strict.render({**config, **options}, "config.json")  # what cannot be saved is refused now, not at the first save
    optimizer = torch.optim.AdamW(_groups(model, settings), lr=settings.rate, betas=(0.9, settings.beta2), eps=1e-9)
    averaged = {name: p.detach().clone() for name, p in model.named_parameters()} if settings.average else {}
    examples = task.examples(splits.train)
    plan = task.plan(examples, tokens=settings.tokens, seed=seed)

    now = {"data": marks(task, splits), "machine": machine(), "duration": dataclasses.asdict(duration)}
    begin, record = 0, {**_BEGINNING, "options": options, **now}
    if state is not None:
        check_data(state.record, now["data"], splits.name)
        for text in (*state.warnings, other_machine(state.record, now["machine"])):
            if text:
                warn(text)
        restore(model, optimizer, averaged, state.tensors)
        begin, record = state.step, {**state.record, "options": options, **now}
        state.tensors.clear()  # the model has copies: the weights would be there twice as long as it trains
    steps = _steps(duration, plan, settings, state)
    journal = Journal(store.path, after=begin, every=settings.log, tensorboard=settings.tensorboard)
    parts = _begun(_parts(plan, record["epoch"], record["place"], settings.accumulate))
    left_out = len(plan.too_long)
    if left_out:
        warn(_left_out(plan, examples))
    step, spent = begin, []
    model.train()
    with stopping.requested() as stop, explained_memory("what a step adds to its batches: optimiser, validation, save"):
        while step < (steps or math.inf) and not stop.signal and not impatient(record, settings):
            step += 1
            clock = time.perf_counter()
            record["epoch"], record["place"], places = next(parts)
            likelihood, count, norm = _gradient(model, task, examples, places, settings, (seed, step))
            for group in optimizer.param_groups:
                group["lr"] = rate(step, steps or 10 * WARM, settings)
            optimizer.step()
            optimizer.zero_grad()
            for name, parameter in model.named_parameters() if averaged else ():
                averaged[name].lerp_(parameter.detach(), 1 - settings.average)

            spent.append(time.perf_counter() - clock)
            record["seconds"] += spent[-1]
            if steps is None and step >= WARM:
                steps = max(step + 1, int((duration.minutes or 0) * 60 / statistics.median(spent)))
            record["steps"] = steps
            journal.step(step, loss=likelihood / count, tokens=count, rate=optimizer.param_groups[0]["lr"], norm=norm)
            with stop.if_nobody_listens():
                report(journal.progress(step, steps, record["metrics"]))
                if watch is not None:
                    with _evaluating(model, {}):
                        watch(model, task, step)

            better = False
            if step == steps or step % settings.validate == 0:
                check_weights(model, averaged, step)
                with _evaluating(model, averaged):
                    found = task.validated(model, splits, tokens=settings.tokens)
                    check_measures(found, step)
                    better = _is_better(task, found, record["metrics"])
                    record["waited"] = 0 if better else record["waited"] + 1
                    if better:
                        record["metrics"] = {**found, "step": step}
                        store.publish(published(model, task, config, record["metrics"]), step)
                        if describe is not None:
                            files.write_atomically(store.path / "README.md", describe(record["metrics"]).encode())
                journal.validated(step, found)
            ends = step == steps or stop.signal or impatient(record, settings)
            if better or ends or step % settings.save == 0:
                check_weights(model, averaged, step)
                # First the lines, then the state: those of later steps are dropped, missing ones would not come again.
                journal.flush()
                store.save_state(step, snapshot(model, optimizer, averaged), record, best=better)
    if len(plan.too_long) > left_out:  # a large split is read as it is trained on
        warn(_left_out(plan, examples))
    ended = why_no_more(step, steps, record, settings, duration) if step == begin or impatient(record, settings) else ""
    return Outcome(step, steps, record["metrics"], record["seconds"], stop.signal, ended)


def _gradient(
    model: nn.Module, task: Any, examples: Any, places: list[list[int]], settings: Settings, key: tuple[int, int]
) -> tuple[float, int, float]:
    """The gradient of the mean over all tokens of a step, however many batches made it, clipped.

    Returns:
        The sum of their negative log-likelihood, their number, and the norm that the gradient had.
    """
    likelihood, count = 0.0, 0
    for number, part in enumerate(places):
        batch = task.batch(examples, part)
        with explained_memory(batch):
            loss = _loss(model, task, batch, settings, (*key, number))
            torch.autograd.backward(loss.objective)
        likelihood, count = likelihood + float(loss.likelihood), count + int(loss.tokens)
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    for gradient in gradients:
        gradient /= count
    norm = nn.utils.get_total_norm(gradients)

    def again() -> None:
        for number, part in enumerate(places):
            _loss(model, task, task.batch(examples, part), settings, (*key, number))

    # Before clipping, which would spread what is not finite over all of it.
    check_step(model, key[1], likelihood, float(norm), places, again)
    if settings.clip:
        nn.utils.clip_grads_with_norm_(model.parameters(), settings.clip, norm)
    return likelihood, count, float(norm)


def _loss(model: nn.Module, task: Any, batch: Any, settings: Settings, key: tuple[int, int, int]) -> Any:
    # A seed of its own for each part of each step: where a run was cut off leaves no trace in its dropout.
    torch.manual_seed(((key[0] * 1_000_003 + key[1]) * 1_000_003 + key[2]) % 2**63)
    with torch.autocast("cpu", torch.bfloat16, settings.precision == "bfloat16"):
        return task.loss(model, batch, settings.smoothing)


def published(model: nn.Module, task: Any, config: dict[str, Any], metrics: dict[str, float]) -> dict[str, bytes]:
    """The files of a published model."""
    weights = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    return {
        "config.json": strict.render({**config, "metrics": metrics}, "config.json"),
        "model.safetensors": tensors.pack(weights),
        **task.files(),
    }


def _groups(model: nn.Module, settings: Settings) -> list[dict[str, Any]]:
    """Matrices decay; biases and vectors do not."""
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    return [{"params": matrices, "weight_decay": settings.decay}, {"params": others, "weight_decay": 0.0}]


def _is_better(task: Any, found: dict[str, float], best: dict[str, float]) -> bool:
    """Whether a validation is better than the best before it; there is none if the metric was not measured then."""
    reached = task.goodness(found)
    try:
        return bool(reached > task.goodness(best))
    except KeyError:
        return True


def _left_out(plan: Any, examples: Any) -> str:
    so_far = ", so far," if len(examples) > plan.pool else ""
    return (
        f"{len(plan.too_long):,} of {len(examples):,} training examples{so_far} are longer than --task.longest, "
        "and were left out"
    )


def _steps(duration: Duration, plan: Any, settings: Settings, state: State | None) -> int | None:
    """The number of steps, or None where it is found by timing the first ones."""
    if duration.epochs is not None:
        sizes = (sum(1 for _ in plan.batches(epoch)) for epoch in range(duration.epochs))
        return sum(math.ceil(size / settings.accumulate) for size in sizes)
    return duration.steps if duration.minutes is None else steps_of_minutes(duration.minutes, state)


def _parts(plan: Any, epoch: int, place: int, accumulate: int) -> Iterator[tuple[int, int, list[list[int]]]]:
    """From a place of an epoch on, for ever: where the next step will begin, and the batches of this one."""
    while True:
        batches = itertools.islice(plan.batches(epoch), place, None)
        while part := list(itertools.islice(batches, accumulate)):
            place += len(part)
            yield epoch, place, part
        if not place:
            raise RegardError("there is no example to train on")
        epoch, place = epoch + 1, 0


def _begun(parts: Iterator[tuple[int, int, list[list[int]]]]) -> Iterator[tuple[int, int, list[list[int]]]]:
    """The same, the first of them found now: what is wrong with the data shows before the first step."""
    first = next(parts)
    return itertools.chain((first,), parts)


class _evaluating:  # noqa: N801
    """Evaluation mode while the block runs, with the averaged weights in place if there are any."""

    def __init__(self, model: nn.Module, averaged: dict[str, Tensor]) -> None:
        self.model, self.averaged = model, averaged

    def __enter__(self) -> None:
        self.model.eval()
        self.kept = {name: p.detach().clone() for name, p in self.model.named_parameters() if self.averaged}
        self._put(self.averaged)

    def __exit__(self, *_: object) -> None:
        self._put(self.kept)
        self.model.train()

    def _put(self, values: dict[str, Tensor]) -> None:
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                if name in values:
                    parameter.copy_(values[name])
