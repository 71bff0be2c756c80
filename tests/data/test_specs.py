"""What a specification means."""

import subprocess
import sys

import pytest

from regard.data.pairs import Pair
from regard.data.specs import Read, has_columns, load, undivided
from regard.errors import BadData, RegardError

ROWS = "".join(f"source {i % 200}\ttarget {i}\n" for i in range(400)).encode()


def test_dates():
    made = load("dates", seed=5)
    assert (len(made.train), len(made.valid), len(made.test)) == (200_000, 2000, 2000)
    assert made.train[7] == load("dates", seed=5).train[7] != load("dates", seed=6).train[7]
    assert made.warnings == ()
    assert "CLDR" in made.licence


def test_a_file_of_ones_own(tmp_path):
    (tmp_path / "a.tsv").write_bytes(ROWS)
    made = load(str(tmp_path / "a.tsv"))
    assert len(made.train) + len(made.valid) + len(made.test) == 400
    assert not {p.source for p in made.train} & {p.source for p in made.test}
    assert made.warnings == ()
    other = load(str(tmp_path / "a.tsv"), seed=1)
    assert list(other.test) != list(made.test)


def test_a_test_file_given(tmp_path):
    (tmp_path / "a.tsv").write_bytes(ROWS)
    (tmp_path / "t.tsv").write_bytes(b"source 3\tx\nother\ty\n")
    made = load(str(tmp_path / "a.tsv"), valid=str(tmp_path / "t.tsv"), test=str(tmp_path / "t.tsv"))
    assert len(made.train) == 400
    assert list(made.test) == [Pair("source 3", "x"), Pair("other", "y")]
    assert made.warnings == (
        "1 of 2 different valid sources are also in training: scores on them measure memory",
        "1 of 2 different test sources are also in training: scores on them measure memory",
    )
    made = load(str(tmp_path / "a.tsv"), test=str(tmp_path / "t.tsv"))
    assert len(made.train) + len(made.valid) == 400
    assert len(made.valid) > 0


def test_what_is_left_out_is_counted(tmp_path):
    (tmp_path / "a.tsv").write_bytes(ROWS + b"x\t\n\ty\n")
    with pytest.raises(BadData, match=r"a\.tsv:401: the target is empty"):
        load(str(tmp_path / "a.tsv"))
    assert load(str(tmp_path / "a.tsv"), empty="skip").warnings == ("2 pairs left out: one side is empty",)


def test_two_files(tmp_path):
    for side in "ab":
        (tmp_path / side).write_bytes("".join(f"{side}{i}\n" for i in range(50)).encode())
    made = load(f"{tmp_path}/a,{tmp_path}/b")
    for pair in [*made.train, *made.valid, *made.test]:
        assert pair.source[1:] == pair.target[1:]
    with pytest.raises(RegardError, match="no: there is no such file"):
        load(f"{tmp_path}/a,{tmp_path}/no")


def test_a_folder_of_shards_and_a_folder_of_parts(tmp_path):
    for folder in ("shards", "parts"):
        (tmp_path / folder).mkdir()
    for shard in range(3):
        (tmp_path / "shards" / f"{shard}.tsv").write_bytes(ROWS.replace(b"source", b"s%d" % shard))
    made = load(str(tmp_path / "shards"))
    assert len(made.train) + len(made.valid) + len(made.test) == 1200
    for name in ("train", "dev", "test"):
        (tmp_path / "parts" / f"{name}.tsv").write_bytes(f"{name}\tx\n".encode())
    made = load(str(tmp_path / "parts"))
    assert [part[0].source for part in (made.train, made.valid, made.test)] == ["train", "dev", "test"]
    with pytest.raises(RegardError, match="has a division of its own"):
        load(str(tmp_path / "parts"), test="x.tsv")
    (tmp_path / "parts" / "val.tsv").write_bytes(b"a\tb\n")
    with pytest.raises(RegardError, match=r"both dev\.tsv and val\.tsv could be its valid part"):
        load(str(tmp_path / "parts"))


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("multi3k", "'multi3k' is no known set, file or folder: did you mean 'multi30k'? one of: cmudict, copy, "),
        ("zzz", "no known set, file or folder: one of: cmudict, copy, dates, multi30k, reversal, tatoeba; or hub"),
        ("date:en", "did you mean 'dates'?"),
        ("some/where", "some/where: there is no such file or folder"),
        ("data.tsv", "data.tsv: there is no such file or folder"),
        ("", "'' is no known set"),
        ("../../etc/nothing", "there is no such file or folder"),
        ("dates:en", "dates has no variants"),
    ],
)
def test_an_unknown_one(spec, text):
    with pytest.raises(RegardError) as fault:
        load(spec)
    assert text in str(fault.value)
    assert fault.value.exit_code == 1


def test_options_that_do_not_fit():
    with pytest.raises(RegardError, match=r"dates has a division of its own: leave out --read\.valid"):
        load("dates", test="a.tsv")
    with pytest.raises(RegardError, match=r"multi30k has no columns to choose: leave out --read\.source"):
        load("multi30k", columns=("a", "b"))


@pytest.mark.parametrize(
    ("rows", "how", "remedy"),
    [
        (b"a\tb\n\tc\n", {}, "leave such pairs out with --read.empty skip (empty='skip')"),
        (b"from\tto\tno\n", {}, "choose two of them with --read.source and --read.target (columns=("),
        (b"source\tsrc\ttarget\n", {}, "choose with --read.source and --read.target (columns=("),
        (b"a\tb\n", {"columns": ("x", "y")}, "choose two with --read.source and --read.target (columns=("),
    ],
)
def test_remedies_are_said_for_the_command_and_for_python(rows, how, remedy, tmp_path):
    (tmp_path / "a.tsv").write_bytes(rows)
    with pytest.raises(BadData) as fault:
        load(str(tmp_path / "a.tsv"), **how)
    assert remedy in str(fault.value)


def test_what_is_undivided(tmp_path):
    """One's own file is all there is, unless it is divided by a folder's names or by what is given beside it."""
    for name in ("train.tsv", "test.tsv", "other/a.tsv", "other/b.tsv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"a\tb\nc\td\n")
    counts = {name: undivided(str(tmp_path / name), Read()) for name in ("train.tsv", "other", "")}
    assert {name: found and len(found) for name, found in counts.items()} == {"train.tsv": 2, "other": 4, "": None}
    assert undivided(str(tmp_path / "train.tsv"), Read(test=str(tmp_path / "test.tsv"))) is None
    assert undivided("dates", Read()) is undivided("hub:x", Read()) is undivided("copy:3", Read()) is None
    with pytest.raises(RegardError, match="there is no such file or folder"):
        undivided("nowhere.tsv", Read())
    assert all(map(has_columns, ["a.tsv", "hub:x"]))
    assert not any(map(has_columns, ["a,b", "dates", "copy:3"]))


def test_neither_torch_nor_babel_is_imported_to_read_a_file(tmp_path):
    (tmp_path / "a.tsv").write_bytes(ROWS)
    code = (
        f"import sys; from regard.data.specs import load; load({str(tmp_path / 'a.tsv')!r});"
        "import regard.data.tokens, regard.data.plan;"
        "sys.exit(' '.join({'torch', 'babel', 'pyarrow', 'datasets'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert found.stderr.strip() == ""
