"""Pairs from parquet."""

import sys

import pytest

from regard.data.pairs import Pair
from regard.data.readers import read_pairs
from regard.errors import BadData, RegardError

FILE = "a.parquet"


@pytest.fixture
def written(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="parquet needs pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    def write(columns, names):
        table = pyarrow.Table.from_arrays([pyarrow.array(c) for c in columns], names=names)
        parquet.write_table(table, tmp_path / FILE)
        return tmp_path / FILE

    return write


def test_pairs(written):
    file = written([[1, 2], ["b", "d"], ["a", "e\u0301"]], ["n", "target", "source"])
    assert list(read_pairs(file)) == [Pair("a", "b"), Pair("é", "d")]
    file = written([["a"], ["b"]], ["de", "en"])
    assert list(read_pairs(file, columns=("en", "de"))) == [Pair("b", "a")]


def test_empty_sides(written):
    file = written([["a", None, "c", "d"], ["1", "2", " ", "4"]], ["source", "target"])
    pairs = read_pairs(file, empty="skip")
    assert (list(pairs), pairs.skipped) == ([Pair("a", "1"), Pair("d", "4")], 2)
    with pytest.raises(BadData, match=r"a\.parquet:2: the source is empty"):
        read_pairs(file)


def test_what_does_not_fit(written):
    for columns, names, text in (
        ([["a"], [1]], ["source", "target"], "the column 'target' holds int64, expected text"),
        ([["a"], ["b"]], ["source", "x"], "no column named 'target'"),
        ([["a"], ["b"], ["c"]], ["source", "target", "target"], "two columns named 'target'"),
    ):
        with pytest.raises(BadData, match=text):
            read_pairs(written(columns, names))


def test_without_pyarrow(tmp_path, monkeypatch):
    (tmp_path / FILE).write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(RegardError, match=r'needs pyarrow: pip install "regard\[data\]"'):
        read_pairs(tmp_path / FILE)
