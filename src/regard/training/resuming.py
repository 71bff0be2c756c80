"""Going on with a run: from which state, whether with the same data, how far, and what to say before the first step."""

import hashlib
from typing import Any

import torch

from regard.errors import RegardError
from regard.training.settings import Duration, Settings
from regard.training.store import State, Store

_SOME = 64
"""Examples of each part of the data that its mark is taken of."""
_SHOWN = 8


def newest(store: Store) -> State:
    """The state to go on from.

    Raises:
        RegardError: if there is none.
        Damaged: if there are some, and none is whole.
    """
    state = store.load_state()
    if state is None:
        raise RegardError(f"{store.path} has no state to resume from: leave out --resume to begin")
    return state


def found(store: Store, *, resume: bool) -> State | None:
    """The state to go on from if that is what was asked for, or None to begin.

    Raises:
        RegardError: if there is a state and nobody asked for it, or none and somebody did.
    """
    if resume:
        return newest(store)
    state = store.load_state()
    if state is not None:
        raise RegardError(
            f"{store.path} holds a run at step {state.step}: add --resume to go on, or choose another --out"
        )
    return None


def marks(task: Any, splits: Any) -> dict[str, str]:
    """What tells one data set from another without reading all of it: sizes, some examples, the task's files."""
    made = {name: _digest(data) for name, data in task.files().items()}
    for part in ("train", "valid"):
        examples = getattr(splits, part)
        chosen = sorted({len(examples) * place // _SOME for place in range(_SOME)}) if len(examples) else []
        made[part] = f"{len(examples):,} examples {_digest(repr([examples[place] for place in chosen]).encode())}"
    return made


def machine() -> dict[str, str]:
    """What else the last bits of a result depend on."""
    return {"threads": str(torch.get_num_threads()), "torch": str(torch.__version__)}


def check_data(record: dict[str, Any], now: dict[str, str], name: str) -> None:
    """Refuses to go on with other data than a run had: batches and tokens would be others, and nothing would say so.

    Raises:
        RegardError: with what differs.
    """
    if changed := _changed(record.get("data"), now):
        raise RegardError(
            f"{name} is no longer the data of this run ({changed}): give back what it was and how it was read, or "
            "train into another --out"
        )


def other_machine(record: dict[str, Any], now: dict[str, str]) -> str:
    """A warning if the run was on another number of threads, or with another PyTorch."""
    changed = _changed(record.get("machine"), now)
    return f"{changed}: the last bits may differ from those of a run that was never stopped" if changed else ""


def steps_of_minutes(minutes: float, state: State | None) -> int | None:
    """The number of steps that a time means, or None if the first steps are to be timed.

    It is found once and stays: other minutes than before are a share of it, or go by the speed of the steps so far.
    """
    if state is None or state.record["steps"] is None:
        return None
    before = state.record.get("duration", state.record["options"]).get("minutes")
    if before is not None:
        return max(1, int(state.record["steps"] * (minutes / before)))
    return max(1, int(minutes * 60 * state.step / state.record["seconds"]))


def impatient(record: dict[str, Any], settings: Settings) -> bool:
    """Whether too many validations have gone by without a better one."""
    return 0 < settings.patience <= int(record["waited"])


def why_no_more(step: int, steps: int | None, record: dict[str, Any], settings: Settings, duration: Duration) -> str:
    """Why there is no step left to do, and the remedy."""
    if impatient(record, settings):
        return (
            f"ended at step {step} by --train.patience {settings.patience}: none of the last {record['waited']} "
            f"validations was better than that of step {record['metrics']['step']}; to go on: --resume "
            f"--train.patience {2 * int(record['waited'])}, or 0 for no limit"
        )
    if steps is not None and step >= steps:
        return f"step {step} is reached already, and {duration} ends at step {steps}: give more to go on"
    return ""


def _changed(before: dict[str, str] | None, now: dict[str, str]) -> str:
    """What differs, in words; nothing for a run that was begun before it was kept."""
    names = [name for name in {**(before or {}), **now} if before is not None and before.get(name) != now.get(name)]
    return ", ".join(f"{name} was {(before or {}).get(name)}, is {now.get(name)}" for name in names)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_SHOWN]
