"""`regard bench [WHAT …]`: ours beside the peers, as ratios in one run; from a clone of the source."""

import importlib
import sys
from pathlib import Path

from regard.errors import RegardError, nearest

FOLDER = "benchmarks"
USAGE = """usage: regard bench [WHAT [PART …]] [--json FILE]

Runs a benchmark of the source's benchmarks/ folder, in whose parent it must be called. WHAT is the name of one,
attention unless given; PART some of its parts. Peers that are not installed are left out."""


def run(words: list[str]) -> int:
    """Runs one benchmark."""
    if {"-h", "--help"} & set(words):
        print(USAGE)  # noqa: T201
        return 0
    known = sorted(path.stem for path in Path(FOLDER).glob("*.py") if path.stem not in ("__init__", "timing"))
    if not known:
        raise RegardError("bench: there is no benchmarks/ here: call it in a clone of the source")
    what = words[0] if words and not words[0].startswith("-") else "attention"
    if what not in known:
        raise RegardError(f"bench: there is no benchmark {what!r}: {nearest(what, known)}")
    sys.path.insert(0, str(Path.cwd()))
    importlib.import_module(f"{FOLDER}.{what}").main(words[1:] if words[:1] == [what] else words)
    return 0
