"""What `--data` may say, and the splits that it means.

    dates                      the embedded default                 multi30k:en-de         a known public set
    copy, reversal:30          generated lines of symbols
    pairs.tsv                  a file of one's own                  hub:ID, hub:ID@REVISION   a data set of the Hub
    train.de,train.en          two files of lines                   folder                 of shards, or of splits

A folder whose files are named train.*, valid.* (or val, dev) and test.* is a division; anything else of one's own is
divided 90/5/5 by its sources, unless `valid` and `test` are given.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from regard.data import dates, hub, symbols
from regard.data.divide import completed, overlap
from regard.data.fetch import Notify, to_stderr
from regard.data.formats import NO_COLUMNS, Columns
from regard.data.known import KNOWN, load_known
from regard.data.normal import Normalise
from regard.data.pairs import Pairs, Splits
from regard.data.readers import Empty, files_of, kind_of, read_pairs
from regard.errors import RegardError, nearest

NAMES = ("dates", *symbols.KINDS, *KNOWN)
FILES = {"train": ("train", "training"), "valid": ("valid", "val", "dev", "validation"), "test": ("test",)}
OWN = "files of the user's own"
LEAVE_OUT = "leave out --read.valid and --read.test (valid=, test=)"


@dataclass(frozen=True, kw_only=True)
class Read:
    """How the user's own data is read; the known sets need none of it."""

    valid: str | None = None
    """A file to choose the best model by; otherwise a twentieth of the data."""
    test: str | None = None
    """A file to report on; otherwise a twentieth of the data."""
    source: str | None = None
    """The column of what is read."""
    target: str | None = None
    """The column of what is to be written."""
    empty: Literal["error", "skip"] = "error"
    """A pair with an empty side stops the reading, or is left out and counted."""
    normalise: Literal["nfc", "nfkc", "none"] = "nfc"
    """The normal form of Unicode that texts are put into."""

    @property
    def columns(self) -> Columns | None:
        """The names of both columns, where one of them is given."""
        return (self.source or "source", self.target or "target") if self.source or self.target else None


def splits_of(spec: str, read: Read, seed: int) -> Splits:
    """The splits of a specification, read as asked; see `load`."""
    return load(
        spec,
        seed=seed,
        valid=read.valid,
        test=read.test,
        columns=read.columns,
        empty=read.empty,
        normalise=read.normalise,
    )


def undivided(spec: str, read: Read) -> Pairs | None:
    """All pairs of one's own file or files; None of what comes divided, or is divided by `read`."""
    if not _own(spec) or read.valid or read.test or (os.path.isdir(spec) and _division(Path(spec), None, None)):
        return None
    _check_there(spec)
    return read_pairs(spec, columns=read.columns, empty=read.empty, normalise=read.normalise)


def has_columns(spec: str) -> bool:
    """Whether columns may be chosen: not of a known set, nor of two files of lines."""
    return spec.partition(":")[0] not in NAMES and ("," not in spec or os.path.exists(spec))


def load(
    spec: str,
    *,
    seed: int = 0,
    valid: str | None = None,
    test: str | None = None,
    columns: Columns | None = None,
    empty: Empty = "error",
    normalise: Normalise = "nfc",
    notify: Notify = to_stderr,
) -> Splits:
    """The splits that a specification means.

    Args:
        spec: As above. A known name comes before a file of that name, which is `./name`.
        seed: Of a generated set, and of a division.
        valid: A file or folder to choose by, for one's own data.
        test: The same, to report on.
        columns: The names of the source's and the target's column.
        empty: What to do with a pair of one's own that has an empty side; see `read_pairs`.
        normalise: The normal form of Unicode that texts are put into.
        notify: Is told of a download.

    Raises:
        RegardError: if there is no such set or file; the message suggests the nearest name.
        BadData: if something in it cannot be read.
    """
    name = spec.partition(":")[0]
    if not _own(spec) and (valid or test):
        raise RegardError(f"{spec} has a division of its own: {LEAVE_OUT}")
    if name in NAMES and columns:
        raise RegardError(f"{spec} has no columns to choose: {NO_COLUMNS.format(columns)}")
    if name == "dates":
        if spec != name:
            raise RegardError(f"{spec}: dates has no variants, say {name!r}")
        return dates.splits(seed)
    if name in symbols.KINDS:
        return symbols.splits(spec, seed)
    if name in KNOWN:
        return _warned(load_known(spec, seed=seed, normalise=normalise, notify=notify), seed)
    if spec.startswith("hub:"):
        return _warned(hub.load_hub(spec, seed=seed, columns=columns, empty=empty, normalise=normalise), seed)

    def read(path: str) -> Pairs:
        return read_pairs(path, columns=columns, empty=empty, normalise=normalise, seed=seed)

    _check_there(spec)
    if os.path.isdir(spec) and (files := _division(Path(spec), valid, test)):
        return _whole(spec, seed, {part: read(file) for part, file in files.items()})
    given = {"train": spec, "valid": valid, "test": test}
    return _whole(spec, seed, {part: read(file) for part, file in given.items() if file})


def _whole(spec: str, seed: int, parts: dict[str, Pairs]) -> Splits:
    """The splits of some files: what is not given is taken from the training file."""
    skipped = sum(part.skipped for part in parts.values())
    warnings = [f"{skipped} pairs left out: one side is empty"] if skipped else []
    whole = completed(parts, seed, file=spec)
    return _warned(Splits(*whole, name=spec, description=OWN, warnings=tuple(warnings)), seed)


def _warned(made: Splits, seed: int) -> Splits:
    """The same splits, with a warning for each overlap with training."""
    found = [overlap(made.train, part, name, seed) for name, part in (("valid", made.valid), ("test", made.test))]
    texts = (*made.warnings, *(text for text in found if text))
    return replace(made, warnings=texts)


def _division(folder: Path, valid: str | None, test: str | None) -> dict[str, str]:
    """The files of a folder that are named after the parts; nothing if there is no such division."""
    found: dict[str, str] = {}
    for part, names in FILES.items():
        files = [file for file in files_of(folder) if file.name.split(".")[0] in names]
        if len(files) > 1:
            raise RegardError(f"{folder}: both {files[0].name} and {files[1].name} could be its {part} part")
        if files:
            found[part] = str(files[0])
    if "train" not in found or len(found) < 2:
        return {}
    if valid or test:
        raise RegardError(f"{folder} has a division of its own: {LEAVE_OUT}, or name its train file")
    return found


def _own(spec: str) -> bool:
    """Whether a specification names files of the user's own."""
    return spec.partition(":")[0] not in NAMES and not spec.startswith("hub:")


def _check_there(spec: str) -> None:
    if not any(map(os.path.exists, [spec, *spec.split(",")])):
        raise RegardError(_unknown(spec))


def _unknown(spec: str) -> str:
    if "/" in spec or "," in spec or kind_of(spec):
        return f"{spec}: there is no such file or folder"
    return f"{spec!r} is no known set, file or folder: {nearest(spec.partition(':')[0], NAMES)}; or hub:ID"
