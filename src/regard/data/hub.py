"""Data sets of the Hugging Face Hub. Needs `datasets`, which comes with `pip install "regard[hub]"`."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, final

from regard.data.divide import completed
from regard.data.formats import Columns, chosen
from regard.data.normal import Normalise
from regard.data.pairs import Pair, Pairs, Splits
from regard.data.readers import Empty, Rules
from regard.errors import BadData, RegardError

NAMES = {"train": ("train",), "valid": ("validation", "valid", "dev"), "test": ("test",)}


def load_hub(
    spec: str,
    *,
    seed: int = 0,
    columns: Columns | None = None,
    empty: Empty = "error",
    normalise: Normalise = "nfc",
) -> Splits:
    """The splits of `hub:ID` or `hub:ID@REVISION`.

    Texts stand in two columns, or in one column `translation` with a text for each language, as on the Hub;
    `columns` then names two languages. What has no valid or test split is divided.
    """
    name, _, revision = spec.removeprefix("hub:").partition("@")
    try:
        library = importlib.import_module("datasets")
    except ImportError:
        raise RegardError(f'{spec}: data sets of the Hub need datasets: pip install "regard[hub]"') from None
    try:
        found: Mapping[str, Any] = library.load_dataset(name, revision=revision or None)
    except Exception as fault:  # of a dozen types, from several libraries
        reason = (str(fault) or repr(fault)).splitlines()[0]
        raise RegardError(f"{spec} could not be loaded: {reason}") from None
    rules = Rules(empty, normalise)
    parts = {
        part: HubPairs(found[there], f"{spec}:{there}", columns, rules)
        for part, names in NAMES.items()
        if (there := next((n for n in names if n in found), None))
    }
    if "train" not in parts:
        raise BadData(f"no split named 'train': there are {', '.join(map(repr, found))}", file=spec)
    skipped = sum(part.skipped for part in parts.values())
    warnings = (f"{skipped} pairs left out: one side is empty",) if skipped else ()
    whole = completed(parts, seed, file=spec)
    return Splits(*whole, name=spec, licence="see its card on the Hub", description=spec, warnings=warnings)


@final
class HubPairs(Pairs):
    """One split, read row by row from where `datasets` keeps it."""

    def __init__(self, rows: Any, name: str, columns: Columns | None, rules: Rules) -> None:
        self.rows, self.rules = rows, rules
        self.nested = list(rows.column_names) == ["translation"]
        languages = list(rows[0]["translation"]) if self.nested and len(rows) else list(rows.column_names)
        source, target = chosen(languages, columns, name, None)
        self.columns = languages[source], languages[target]
        kept = [i for i in range(len(rows)) if rules.pair(*self._texts(i, name), (name, name), i + 1) is not None]
        self.places: Sequence[int] = kept
        self.skipped = len(rows) - len(kept)
        self.name = name

    def __len__(self) -> int:
        return len(self.places)

    def pair(self, index: int) -> Pair:
        return self.rules.made(*self._texts(self.places[index], self.name))

    def _texts(self, row: int, name: str) -> tuple[str, str]:
        found = self.rows[row]["translation"] if self.nested else self.rows[row]
        for column in self.columns:
            if not isinstance(found[column] or "", str):
                raise BadData(f"the column {column!r} holds {found[column]!r}, expected text", file=name, line=row + 1)
        return found[self.columns[0]] or "", found[self.columns[1]] or ""
