"""The published model of a run, replaced as one thing although it is several files.

A new version is first made as a complete hidden folder, `.publish`, which appears by one rename: from then on
it is the published one. Its files are then moved to the top level, the manifest last. Whoever loads looks for
each file in `.publish` first; whoever starts next, after a crash, finishes the move.
"""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from regard.errors import Damaged, RegardError
from regard.training import files, manifest
from regard.training.manifest import Manifest

PENDING = ".publish"
RESERVED = ("manifest.json", "metrics.jsonl", "readme.md", "lock", "state")
"""Names at the top level that are no part of a published model, in small letters."""
_TRIES = 100
_PAUSE = 0.005


class Nothing(RegardError):  # noqa: N818
    """Nothing has been published in a folder."""


class Published(NamedTuple):
    """A published model: all of one version, checked.

    Attributes:
        step: The training step that it was taken at.
        files: The content of each file, by name.
        warnings: What was found damaged, and passed over.
    """

    step: int
    files: dict[str, bytes]
    warnings: tuple[str, ...]


def publish(run: Path, contents: Mapping[str, bytes], step: int) -> None:
    """Replaces the published model. Only for whoever holds the lock.

    Args:
        run: The run folder.
        contents: The files by name, such as config.json, model.safetensors and tokenizer.json.
        step: The training step.

    Raises:
        NoSpace: if the disk is full, or would be; the version before stays.
        RegardError: if a name is reserved, or the folder cannot be written to.
        Newer: if a newer version of regard published here.
    """
    for name in contents:
        if name.lower() in RESERVED:
            raise RegardError(f"{name} is not for a published model: the run keeps that name for itself")
    finish(run)
    _listed_before(run)
    files.remove(run / PENDING)
    listed = manifest.manifest_of("published", step, contents)
    files.write_folder(run / PENDING, {**contents, manifest.NAME: listed.render()})
    _move_up(run, listed)


def finish(run: Path) -> None:
    """Finishes what a crash interrupted, if anything. Only for whoever holds the lock.

    A pending version that is damaged is dropped if the one before is whole; otherwise all stays as it is.
    """
    pending = run / PENDING
    if not os.path.lexists(pending):
        return
    try:
        listed = manifest.read_manifest(pending, "published")
        _read_files((pending, run), listed)
    except manifest.Newer:
        raise
    except Damaged:
        if _is_moved(pending) or _is_whole(run):
            files.remove(pending)
        return
    _move_up(run, listed)


def load(run: Path) -> Published:
    """Reads the published model, also while another process replaces it.

    Raises:
        Nothing: if nothing has been published.
        Damaged: if no complete version is there.
    """
    for attempt in range(_TRIES):
        before = _signature(run)
        try:
            found = _load(run)
        except Damaged:
            if _signature(run) == before or attempt == _TRIES - 1:
                raise
        else:
            if not found.warnings or _signature(run) == before:
                return found
        time.sleep(_PAUSE)
    raise Damaged(f"{run} changes without end")


def _load(run: Path) -> Published:
    warnings: tuple[str, ...] = ()
    pending = run / PENDING
    if os.path.lexists(pending) and not _is_moved(pending):
        try:
            listed = manifest.read_manifest(pending, "published")
            return Published(listed.step, _read_files((pending, run), listed), ())
        except manifest.Newer:
            raise
        except Damaged as error:
            warnings = (str(error),)
    if not any(os.path.lexists(run / name) for name in (manifest.NAME, "config.json", "model.safetensors")):
        if warnings:
            raise Damaged(warnings[0])
        raise Nothing(f"{run} holds no published model: train into it, or choose another folder")
    try:
        listed = manifest.read_manifest(run, "published")
        return Published(listed.step, _read_files((run,), listed), warnings)
    except manifest.Newer:
        raise
    except Damaged as error:
        raise Damaged("; ".join((*warnings, str(error)))) from None


def _read_files(places: tuple[Path, ...], listed: Manifest) -> dict[str, bytes]:
    return {name: _read_first(places, listed, name) for name in listed.files}


def _read_first(places: tuple[Path, ...], listed: Manifest, name: str) -> bytes:
    """A file from the first place that has it."""
    *firsts, last = places
    for place in firsts:
        if os.path.lexists(place / name):
            try:
                return manifest.read_listed(place, listed, name)
            except Damaged:
                if os.path.lexists(place / name):
                    raise
    return manifest.read_listed(last, listed, name)


def _move_up(run: Path, listed: Manifest) -> None:
    pending = run / PENDING
    for name in listed.files:
        if os.path.lexists(pending / name):
            files.move(pending / name, run / name)
    for name in _listed_before(run) - listed.files.keys():
        files.remove(run / name)
    files.sync_folder(run)
    files.move(pending / manifest.NAME, run / manifest.NAME)
    files.sync_folder(run)
    files.remove(pending)


def _listed_before(run: Path) -> set[str]:
    """The names of the version at the top level. One of a newer format is not touched: that raises."""
    try:
        return set(manifest.read_manifest(run, "published").files)
    except manifest.Newer:
        raise
    except Damaged:
        return set()


def _is_moved(pending: Path) -> bool:
    return not os.path.lexists(pending / manifest.NAME)


def _is_whole(run: Path) -> bool:
    try:
        _read_files((run,), manifest.read_manifest(run, "published"))
    except Damaged:
        return False
    return True


def _signature(run: Path) -> tuple[tuple[int, int] | None, ...]:
    """What changes whenever a version is replaced."""
    return tuple(_stamp(path) for path in (run / manifest.NAME, run / PENDING, run / PENDING / manifest.NAME))


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
