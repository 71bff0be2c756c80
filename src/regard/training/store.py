"""A run as a folder: complete states to resume from, and one published model, safe at every instant.

    RUN/config.json  model.safetensors  tokenizer.json …  manifest.json      the published model
    RUN/state/step-00000123/  tensors.safetensors  record.json  manifest.json
    RUN/lock                                                                  the one trainer
    RUN/README.md  metrics.jsonl                                              free to change

Nothing in a run holds an absolute path: a copy elsewhere is the same run. Nothing in it is code.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from regard.errors import BadData, Damaged, RegardError
from regard.training import files, lock, manifest, publish, strict, tensors
from regard.training.header import Expected, Mismatch, largest_file
from regard.training.publish import Published

_STATES = "state"
_TENSORS, _RECORD = "tensors.safetensors", "record.json"
_FOLDER = re.compile(r"step-(\d{8,18})(?:\.(\d{1,9}))?")
_KEPT = 2
_MOST_STEPS = 10**15


class State(NamedTuple):
    """What training needs to go on as if it had not stopped.

    Attributes:
        step: The training step.
        tensors: All tensors by name: of the model, the optimiser, averages.
        record: Everything else, as JSON has it.
        best: Whether it was the best so far.
        warnings: Newer states that were found damaged, and passed over.
    """

    step: int
    tensors: dict[str, Tensor]
    record: dict[str, Any]
    best: bool
    warnings: tuple[str, ...]


class Store:
    """A run folder.

    Reading needs nothing; writing needs the lock:

    >>> import tempfile, torch
    >>> store = Store(Path(tempfile.mkdtemp()) / "run")
    >>> with store.lock():
    ...     store.save_state(3, {"weight": torch.ones(2)}, {"epoch": 0})
    >>> store.load_state().tensors
    {'weight': tensor([1., 1.])}

    Args:
        path: The folder. It is made when it is first locked.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._lock: lock.Held | None = None
        self._passed_over: set[str] = set()
        self._looked = False

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Holds the run while the block runs, after finishing or removing what a crash left.

        A folder in which nothing was written does not stay.

        Raises:
            RegardError: at once, if another process that lives holds it.
        """
        files.make_folder(self.path)
        with contextlib.ExitStack() as after, lock.held(self.path) as self._lock:
            after.callback(files.remove_if_empty, self.path)
            try:
                files.make_folder(self._states)
                self._check_states_folder()
                files.remove_leftovers(self.path)
                files.remove_leftovers(self._states)
                publish.finish(self.path)
                yield
            finally:
                with contextlib.suppress(RegardError):
                    self._check_locked("lock")
                    files.remove_if_empty(self._states)
                self._lock = None

    def save_state(
        self, step: int, tensors_by_name: Mapping[str, Tensor], record: Mapping[str, Any], *, best: bool = False
    ) -> None:
        """Writes a complete state, then removes those no longer kept: all but the newest two and the best.

        Args:
            step: The training step. A state of the same step is replaced.
            tensors_by_name: Any tensors, on any device.
            record: Any JSON: no NaN or infinity, and text for keys.
            best: Whether it is the best so far.

        Raises:
            NoSpace: if the disk is full, or would be; every state before stays.
            RegardError: if a good state of a later step is there, or the lock is lost.
        """
        self._check_locked("save_state")
        if not 0 <= step < _MOST_STEPS:
            raise ValueError(f"Store.save_state: step must be at least 0 and below {_MOST_STEPS}, got {step}")
        if not self._looked:
            self._look_for_damage()
        later = [name for name in self._names() if name not in self._passed_over and _order(name)[0] > step]
        if later:
            raise RegardError(
                f"{self.path} has a state of step {_order(later[0])[0]}, which step {step} would come before: "
                "resume from it, or train into another folder"
            )
        contents = {_TENSORS: tensors.pack(tensors_by_name), _RECORD: strict.render(dict(record), _RECORD)}
        listed = manifest.manifest_of("state", step, contents, best=best)
        files.write_folder(self._states / self._next_name(step), {**contents, manifest.NAME: listed.render()})
        self._remove_old()

    def load_state(self, *, expect: Expected | None = None) -> State | None:
        """The state of the latest step that is whole, or None if there are no states.

        Args:
            expect: What `tensors.expected` says of the tensors that must be there; None to accept any.

        Raises:
            Damaged: if there are states, and none is whole.
            Mismatch: if the state is of another model.
        """
        names = self._names()
        state, warnings = self._first_whole(names, expect)
        if state is None and names:
            raise Damaged(
                f"{self._states}: all {len(names)} states are damaged, so there is nothing to resume from; restore "
                f"one from a copy, or train anew into another folder. {'; '.join(warnings)}"
            )
        return state

    def load_best(self, *, expect: Expected | None = None) -> State | None:
        """The latest state that was saved as the best and is whole, or None if there is none."""
        return self._first_whole([name for name in self._names() if self._is_best(name)], expect)[0]

    def publish(self, contents: Mapping[str, bytes], step: int) -> None:
        """Replaces the published model: at every instant a loader finds the old one or the new one, complete.

        Raises:
            NoSpace: if the disk is full, or would be; the version before stays.
            RegardError: if a name is reserved, or the lock is lost.
        """
        self._check_locked("publish")
        publish.publish(self.path, contents, step)

    def load_published(self) -> Published:
        """Reads the published model, checked against its manifest.

        Raises:
            RegardError: if nothing has been published.
            Damaged: if no complete version is there.
        """
        try:
            return publish.load(self.path)
        except publish.Nothing:
            if names := self._names():
                raise publish.Nothing(
                    f"{self.path} is at step {_order(names[0])[0]}, before its first validation, so that nothing is "
                    f"published yet: go on with regard train --resume --out {self.path}"
                ) from None
            raise

    @property
    def _states(self) -> Path:
        return self.path / _STATES

    def _names(self) -> list[str]:
        """The folders of states, the latest step first; of one step, what was saved last."""
        if not os.path.lexists(self._states):
            return []
        self._check_states_folder()
        return sorted((name for name in os.listdir(self._states) if _FOLDER.fullmatch(name)), key=_order, reverse=True)

    def _check_states_folder(self) -> None:
        if self._states.is_symlink() or not self._states.is_dir():
            raise Damaged(f"{self._states} is not an ordinary folder: links in a run are not followed")

    def _check_locked(self, what: str) -> None:
        if self._lock is None:
            raise RuntimeError(f"Store.{what} needs the lock: call it inside `with store.lock():`")
        self._lock.check()

    def _first_whole(self, names: list[str], expect: Expected | None) -> tuple[State | None, list[str]]:
        warnings: list[str] = []
        for name in names:
            try:
                state = self._read(name, expect)
            except Damaged as error:
                warnings.append(f"{name} is passed over: {error}")
                self._passed_over.add(name)
                continue
            self._looked = True
            return state._replace(warnings=tuple(warnings)), warnings
        return None, warnings

    def _read(self, name: str, expect: Expected | None) -> State:
        folder = self._states / name
        listed = self._listed(name)
        if expect is not None and listed.files[_TENSORS].size > largest_file(expect):
            raise Mismatch(
                f"made for another model: {listed.files[_TENSORS].size:,} bytes of tensors", file=str(folder)
            )
        try:
            record = strict.parse_object(manifest.read_listed(folder, listed, _RECORD), str(folder / _RECORD))
            data = manifest.read_listed(folder, listed, _TENSORS)
            found = tensors.unpack(data, str(folder / _TENSORS), expect=expect)
        except Mismatch:
            raise
        except BadData as error:
            raise Damaged(str(error)) from None
        return State(listed.step, found, record, listed.best, ())

    def _listed(self, name: str) -> manifest.Manifest:
        folder = self._states / name
        if folder.is_symlink():
            raise Damaged(f"{folder} is a link: links in a run are not followed")
        listed = manifest.read_manifest(folder, "state")
        if listed.step != _order(name)[0] or set(listed.files) != {_TENSORS, _RECORD}:
            raise Damaged(f"{folder / manifest.NAME} is that of step {listed.step}, with {', '.join(listed.files)}")
        return listed

    def _look_for_damage(self) -> None:
        """Finds out which of the latest states cannot be read, for a store that has not loaded one."""
        for name in self._names():
            try:
                listed = self._listed(name)
                for file in listed.files:
                    manifest.read_listed(self._states / name, listed, file)
                break
            except Damaged:
                self._passed_over.add(name)
        self._looked = True

    def _is_best(self, name: str) -> bool:
        try:
            return self._listed(name).best
        except Damaged:
            return False

    def _next_name(self, step: int) -> str:
        again = max((_order(name)[1] for name in self._names() if _order(name)[0] == step), default=0) + 1
        return f"step-{step:08d}" if again == 1 else f"step-{step:08d}.{again}"

    def _remove_old(self) -> None:
        """Keeps the newest two, the newest that was the best, and what a newer version of regard wrote."""
        newest: set[int] = set()
        best = False
        for name in self._names():
            try:
                listed = self._listed(name)
            except manifest.Newer:
                continue
            except Damaged:
                files.remove(self._states / name)
                continue
            if name in self._passed_over:
                files.remove(self._states / name)
            elif listed.step not in newest and len(newest) < _KEPT:
                newest.add(listed.step)
                best |= listed.best
            elif listed.best and not best:
                best = True
            else:
                files.remove(self._states / name)


def _order(name: str) -> tuple[int, int]:
    match = _FOLDER.fullmatch(name)
    if match is None:
        raise RegardError(f"{name} is not the folder of a state")
    return int(match[1]), int(match[2] or 1)
