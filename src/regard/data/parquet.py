"""Pairs from a parquet file: two columns of text. Needs pyarrow, which comes with `pip install "regard[data]"`."""

import importlib
from typing import TYPE_CHECKING, Any, final

from regard.data.formats import Columns, chosen
from regard.data.pairs import Pair, Pairs
from regard.errors import BadData, RegardError

if TYPE_CHECKING:
    from regard.data.readers import Rules


@final
class Table(Pairs):
    """Two columns, held as pyarrow holds them. Errors count rows from 1."""

    def __init__(self, file: str, columns: Columns | None, rules: "Rules") -> None:
        self.rules = rules
        self.source, self.target = _columns(file, columns)
        self.rows: list[int] | range = range(len(self.source))
        kept = [row for row in self.rows if self._is_kept(row, file)]
        self.skipped = len(self.rows) - len(kept)
        self.rows = kept if self.skipped else self.rows

    def __len__(self) -> int:
        return len(self.rows)

    def pair(self, index: int) -> Pair:
        row = self.rows[index]
        return self.rules.made(self.source[row].as_py(), self.target[row].as_py())

    def _is_kept(self, row: int, file: str) -> bool:
        try:
            texts = [side[row].as_py() or "" for side in (self.source, self.target)]
        except UnicodeDecodeError:
            raise BadData("a text that is not UTF-8", file=file, line=row + 1) from None
        return self.rules.pair(texts[0], texts[1], (file, file), row + 1) is not None


def _columns(file: str, columns: Columns | None) -> tuple[Any, Any]:
    try:
        pyarrow: Any = importlib.import_module("pyarrow")
        importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise RegardError(f'{file}: parquet needs pyarrow: pip install "regard[data]"') from None
    try:
        with pyarrow.parquet.ParquetFile(file) as opened:
            schema = opened.schema_arrow
            places = chosen(schema.names, columns, file, None)
            names = [schema.names[place] for place in places]
            for place, name in zip(places, names, strict=True):
                _check_text(pyarrow, schema.types[place], name, file)
            table = opened.read(columns=names)
    except FileNotFoundError:
        raise RegardError(f"{file}: there is no such file") from None
    except (pyarrow.ArrowException, OSError) as fault:
        reason = str(fault).splitlines()[0]
        raise BadData(f"not a parquet file that can be read: {reason}", file=file) from None
    return table.column(names[0]), table.column(names[1])


def _check_text(pyarrow: Any, kind: Any, name: str, file: str) -> None:
    inner = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
    if not (pyarrow.types.is_string(inner) or pyarrow.types.is_large_string(inner)):
        raise BadData(f"the column {name!r} holds {kind}, expected text", file=file)
