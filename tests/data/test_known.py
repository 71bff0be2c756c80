"""Known public sets: small made files in their place, and the real ones where they are."""

import dataclasses
import gzip
import hashlib
import os
import zipfile

import pytest

from regard.data import known
from regard.data.fetch import VARIABLE
from regard.data.known import KNOWN, load_known
from regard.data.pairs import Pair
from regard.errors import BadData, RegardError

REAL = os.environ.get(VARIABLE)
real = pytest.mark.skipif(not REAL, reason=f"{VARIABLE} is not set: no public data here")


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Puts a made file in the place of a public one, and makes its hash the expected one."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))

    def put(name, contents):
        files = []
        for remote in KNOWN[name].files:
            path = tmp_path / remote.path
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(contents[path.name])
            files.append(dataclasses.replace(remote, sha256=hashlib.sha256(contents[path.name]).hexdigest()))
        monkeypatch.setitem(known.KNOWN, name, dataclasses.replace(KNOWN[name], files=tuple(files)))

    return put


def zipped(tmp_path, name, text):
    with zipfile.ZipFile(tmp_path / "made.zip", "w") as archive:
        archive.writestr(name, text)
    return (tmp_path / "made.zip").read_bytes()


def test_multi30k(put):
    put("multi30k", {f"{part}.{side}.gz": gzip.compress(f"{side} {part}\n".encode())
                     for part in ("train", "val", "test_2016_flickr") for side in ("de", "en")})  # fmt: skip
    made = load_known("multi30k")
    assert list(made.train) == [Pair("de train", "en train")]
    assert list(made.valid) == [Pair("de val", "en val")]
    assert load_known("multi30k:en-de").test[0] == Pair("en test_2016_flickr", "de test_2016_flickr")
    assert "research" in made.licence
    assert made.name == "multi30k"


def test_tatoeba(put, tmp_path):
    lines = [f"english {i // 3}\tdeutsch {i}\tCC-BY" for i in range(3000)]
    put("tatoeba", {"deu-eng.zip": zipped(tmp_path, "deu.txt", "\n".join(lines) + "\n")})
    made = load_known("tatoeba", seed=3)
    sides = [{pair.source for pair in part} for part in (made.train, made.valid, made.test)]
    assert len(sides[0]) + len(sides[1]) + len(sides[2]) == 1000
    assert len(sides[0] | sides[1] | sides[2]) == 1000
    source = made.test[0].source
    number = 3 * int(source.split()[1])
    assert made.references[source] == [f"deutsch {number + i}" for i in range(3)]
    assert {pair.source for pair in load_known("tatoeba", seed=4).test} != sides[2]
    back = load_known("tatoeba:de-en", seed=3)
    assert {pair.target for pair in back.test} == sides[2]
    put("tatoeba", {"deu-eng.zip": zipped(tmp_path, "deu.txt", "a\tb\nc\n")})
    with pytest.raises(BadData, match=r"deu\.txt:2: 1 column, expected 2"):
        load_known("tatoeba")


def test_cmudict(put, tmp_path):
    lines = [f"WORD{i} {n} AH{n} B" for i in range(600) for n in (1, 2)] + ["WORD7 3 AH1 B"]
    put("cmudict", {"cmudict.zip": zipped(tmp_path, "cmudict/cmudict", "\n".join(lines) + "\n")})
    made = load_known("cmudict")
    held = {pair.source for pair in [*made.valid, *made.test]}
    assert len(held) == len(made.valid) + len(made.test) == len(made.references)
    assert not held & {pair.source for pair in made.train}
    assert len(made.train) == 2 * (600 - len(held))
    assert made.references[made.test[0].source] == ["AH1 B", "AH2 B"]
    plain = load_known("cmudict:nostress")
    assert plain.references[plain.test[0].source] == ["AH B"]
    assert len(plain.train) == 600 - len(held)


def test_what_does_not_fit(put):
    with pytest.raises(RegardError, match="multi30k has no variant 'fr', expected one of de-en, en-de"):
        load_known("multi30k:fr")


def test_every_set_says_where_it_is_from():
    for each in KNOWN.values():
        assert each.licence
        assert each.description
        for remote in each.files:
            assert remote.url.startswith("https://")
            assert len(remote.sha256) == 64
            assert remote.size > 0


@real
def test_the_real_multi30k(unchecked):
    made = load_known("multi30k")
    assert (len(made.train), len(made.valid), len(made.test)) == (29_000, 1014, 1000)
    assert made.train[0] == Pair(
        "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
        "Two young, White males are outside near many bushes.",
    )
    assert all(pair.source and pair.target for pair in made.train)


@real
def test_the_real_tatoeba(unchecked):
    made = load_known("tatoeba")
    assert len(made.train) + len(made.valid) + len(made.test) == 169_159
    english = [{pair.source for pair in part} for part in (made.train, made.valid, made.test)]
    assert len(english[0] | english[1] | english[2]) == sum(map(len, english))
    assert set(made.references) == english[1] | english[2]


@real
def test_the_real_cmudict(unchecked):
    made = load_known("cmudict")
    words = [{pair.source for pair in part} for part in (made.train, made.valid, made.test)]
    assert sum(map(len, words)) == 123_455
    assert len(made.train) + sum(map(len, made.references.values())) == 133_737
    phonemes = {sound for pair in made.train for sound in pair.target.split()}
    assert len({sound.rstrip("012") for sound in phonemes}) == 39
    assert len(phonemes) > 60
