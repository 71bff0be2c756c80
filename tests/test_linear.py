"""S9: twice the text takes at most two and a half times as long, in everything that reads text from outside."""

import contextlib
import gzip
import json
import time
from collections.abc import Callable

import pytest

from regard.cli import printable
from regard.data.divide import mark
from regard.data.normal import normalised
from regard.data.readers import read_pairs
from regard.data.tokens import Tokeniser
from regard.errors import RegardError
from regard.training import foreign, strict
from regard.training.files import checked_name

pytestmark = pytest.mark.usefixtures("unchecked")

TEXTS = {
    "letters": "a",
    "spaces": " ",
    "marks": "\u0301\u0323",
    "letters and marks": "a\u0323\u0301\u0315",
    "emoji": "😀",
    "joined emoji": "👩\u200d",
    "quotes": '"',
    "brackets": "[",
    "backslashes": "\\",
    "tabs": "\t",
    "returns": "\r",
    "dots": "../",
    "digits": "9",
}
SIZE = 2**18
QUICK = 0.05
"""Seconds below which a machine's noise is larger than what is measured."""


def file_of(ending: str, wrap: Callable[[str], bytes]):
    def read(text: str, folder) -> Callable[[], object]:
        path = folder / f"a.{ending}"
        path.write_bytes(wrap(text))
        return lambda: list(read_pairs(path, empty="skip"))

    return read


def lines(text: str) -> bytes:
    """The text as many short lines and one that is long."""
    return "".join(f"x{text[:30]}\tb\n" for _ in range(len(text) // 60)).encode() + f"x{text}\ty\n".encode()


def tokeniser(kind: str):
    learnt = Tokeniser.train(["".join(TEXTS.values()) + "ab"] * 3, kind)

    def encode(text: str, folder) -> Callable[[], object]:
        return lambda: learnt.encode(text)

    return encode


def plain(action: Callable[[str], object]):
    return lambda text, folder: lambda: action(text)


READERS = {
    "characters": tokeniser("characters"),
    "words": tokeniser("words"),
    "subwords": tokeniser("subwords"),
    "training": plain(lambda text: Tokeniser.train([text], "subwords", 300)),
    "nfc": plain(lambda text: normalised(text, "nfc")),
    "nfkc": plain(lambda text: normalised(text, "nfkc")),
    "mark": plain(mark),
    "tsv": file_of("tsv", lines),
    "csv": file_of("csv", lambda text: f"source,target\n{text},b\n".encode()),
    "jsonl": file_of("jsonl", lambda text: json.dumps({"source": text, "target": "b"}).encode()),
    "raw jsonl": file_of("jsonl", lambda text: text.encode()),
    "gzip": file_of("tsv", lambda text: gzip.compress(lines(text), 1)),
    "json": plain(lambda text: strict.parse(text.encode(), "a")),
    "json text": plain(lambda text: strict.parse(json.dumps({text[:99]: text}).encode(), "a")),
    "name": plain(lambda text: checked_name(text, "a")),
    "fact": plain(foreign._fact),
    "printable": plain(printable),
}


def seconds(action: Callable[[], object], times: int) -> float:
    """The best of several; what is refused counts as well, by how long that took."""
    found = []
    for _ in range(times):
        begin = time.process_time()
        with contextlib.suppress(RegardError):
            action()
        found.append(time.process_time() - begin)
    return min(found)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("reader", READERS)
def test_linear(reader, text, memory):
    """Two doublings at once, which noise moves less than one: 6.25 is the bound, 16 what is quadratic takes."""
    unit = TEXTS[text]
    whole = unit * (SIZE // len(unit.encode()))
    taken = seconds(READERS[reader](whole, memory), 1)
    if taken > QUICK:
        quarter = seconds(READERS[reader](whole[: len(whole) // 4], memory), 3)
        taken = min(taken, seconds(READERS[reader](whole, memory), 1))
        assert taken / max(quarter, QUICK / 4) <= 2.5**2, (quarter, taken)
    assert taken <= 2


def test_a_control():
    """What is quadratic is seen."""
    slow = [seconds(lambda size=size: [0 for _ in range(size) for _ in range(size)], 2) for size in (500, 2000)]
    assert slow[1] / slow[0] > 2.5**2
