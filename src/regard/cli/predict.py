"""`regard predict RUN [TEXT …] [--input FILE] [--output FILE]`: a line in, a line out, order and count kept."""

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from regard.cli.options import taken
from regard.errors import RegardError

CHUNK = 1024
"""Lines that are decoded together."""


def run(words: list[str]) -> int:
    """Answers lines of the arguments, of a file, or of the standard input."""
    if {"-h", "--help"} & set(words):
        print(f"usage: regard predict RUN [TEXT …] [--input FILE] [--output FILE]\n\n{__doc__}")  # noqa: T201
        return 0
    source, words = taken(words, "--input")
    target, words = taken(words, "--output")
    wrong = [word for word in words if word.startswith("--")]
    if wrong or not words:
        raise RegardError(f"predict: name a run folder, then text; {wrong[0] if wrong else 'no run'} was given")
    folder, texts = words[0], words[1:]
    if texts and source:
        raise RegardError("predict: give text or --input, not both")
    from regard.run import load

    trained = load(folder)
    lines = iter(texts) if texts else _lines(source)
    out = Path(target).open("wb") if target else os.fdopen(os.dup(sys.stdout.fileno()), "wb")  # noqa: SIM115
    with out:
        while chunk := list(itertools.islice(lines, CHUNK)):
            for answer in trained.predict(chunk):
                # An answer is one line, whatever the model wrote.
                out.write(answer.replace("\r", " ").replace("\n", " ").encode() + b"\n")
            out.flush()
    return 0


def _lines(source: str | None) -> Iterator[str]:
    """Lines as bytes split at newlines alone; what is not UTF-8 becomes the replacement character, not an end."""
    try:
        file = Path(source).open("rb") if source else os.fdopen(os.dup(sys.stdin.fileno()), "rb")  # noqa: SIM115
    except OSError as fact:
        raise RegardError(f"predict: --input {source}: {fact.strerror}") from None
    with file:
        for line in file:
            yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", errors="replace")
