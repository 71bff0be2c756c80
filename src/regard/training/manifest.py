"""What a complete folder of a run holds: the size and SHA-256 of each file, and of the list itself.

The text of a manifest is canonical: what is not, byte for byte, what `Manifest.render` writes is refused, so
that no bit of it can change unseen. It is made last; a folder without it is not complete.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from regard.errors import BadData, Damaged
from regard.training import strict
from regard.training.files import checked_name, read_file, size_of

NAME = "manifest.json"
FORMAT = 1
"""The format of run folders that is written; newer ones are refused, older ones read."""
_LARGEST = 2**20

Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
Count = Annotated[int, msgspec.Meta(ge=0)]


class Newer(Damaged):
    """A folder that a newer version wrote. It is whole for that version: it must not be removed."""


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file: its size in bytes and its SHA-256."""

    size: Count
    sha256: Digest


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The files of a folder.

    Attributes:
        kind: "state" or "published": the one is never taken for the other.
        step: The training step that the files belong to.
        best: Whether it was the best so far when it was written.
        files: Every file but the manifest.
    """

    kind: str
    step: Count
    best: bool
    files: dict[str, Entry]
    format_version: Annotated[int, msgspec.Meta(ge=1)] = FORMAT

    def render(self) -> bytes:
        """The text, which ends with its own digest."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        digest = hashlib.sha256(strict.render(fields, NAME)).hexdigest()
        return strict.render({**fields, "this": digest}, NAME)


def manifest_of(kind: str, step: int, contents: Mapping[str, bytes], *, best: bool = False) -> Manifest:
    """The manifest of files that are about to be written."""
    entries = {name: Entry(len(data), hashlib.sha256(data).hexdigest()) for name, data in contents.items()}
    return Manifest(kind, step, best, entries)


def read_manifest(folder: Path, kind: str) -> Manifest:
    """Reads the manifest of a folder.

    Raises:
        Damaged: if it is missing, changed, of another kind, or names what is not a file's name.
        Newer: if a newer version of the format wrote it.
    """
    place = str(folder / NAME)
    data = read_file(folder, NAME, _LARGEST)
    try:
        fields = strict.parse_object(data, place)
        _refuse_newer(fields, place)
        manifest = msgspec.convert({k: v for k, v in fields.items() if k != "this"}, Manifest)
        for name in manifest.files:
            checked_name(name, place)
    except (BadData, msgspec.ValidationError) as error:
        raise Damaged(f"{place} is damaged: {error}") from None
    if manifest.render() != data:
        raise Damaged(f"{place} is damaged: it is not what was written")
    if manifest.kind != kind:
        raise Damaged(f"{place} lists a {manifest.kind} folder, expected a {kind} one")
    return manifest


def read_listed(folder: Path, manifest: Manifest, name: str) -> bytes:
    """Reads a file that a manifest lists, and checks it.

    Raises:
        Damaged: if it is missing or not what was written.
    """
    entry = manifest.files[name]
    if (size := size_of(folder, name)) != entry.size:
        raise Damaged(f"{folder / name} has {size:,} bytes, {entry.size:,} were written")
    data = read_file(folder, name, entry.size)
    if hashlib.sha256(data).hexdigest() != entry.sha256:
        raise Damaged(f"{folder / name} is damaged: its SHA-256 is not the one in {NAME}")
    return data


def _refuse_newer(fields: dict[str, Any], place: str) -> None:
    version = fields.get("format_version")
    if isinstance(version, int) and version > FORMAT:
        raise Newer(f"{place} has format {version}, this version of regard reads up to {FORMAT}: update regard")
