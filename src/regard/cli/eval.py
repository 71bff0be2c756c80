"""`regard eval RUN [--data SPEC] [--split NAME] [--beam N] [--gold FILE] [--json]`: measure a run."""

import itertools
import json
import sys

from regard.cli.options import flag, taken
from regard.cli.words import no_more_options, within
from regard.errors import RegardError, nearest

USAGE = """usage: regard eval RUN [options]

  --data SPEC          other data than it was trained on; a file of your own is measured whole
  --split NAME         train, valid or test (the default); a file of your own is divided first
  --read.source NAME   how that data is read, and --read.target, --read.empty, …: as in training unless given
  --beam N             hypotheses kept while decoding; what the run was trained with unless given
  --length-penalty A   exponent of the length penalty of a beam
  --edges 10,20,30     where a new range of source lengths begins
  --gold FILE          gold alignments, a line for each example (3-4 sure, 3?4 possible): alignment error rate;
                       links are of words, which white space parts, whatever the tokens are
  --no-text-scores     leave out BLEU and chrF
  --json               one JSON object

Loss and perplexity are of the references, teacher forced; the rest is of what the run writes itself."""


SPLITS = ("train", "valid", "test")
READ = ("valid", "test", "source", "target", "empty", "normalise")
OPTIONS = (
    "--data",
    "--split",
    "--beam",
    "--length-penalty",
    "--edges",
    "--gold",
    "--no-text-scores",
    "--json",
    "--help",
)


def run(words: list[str]) -> int:
    """Prints one table, or one JSON object."""
    if {"-h", "--help"} & set(words):
        print(USAGE)  # noqa: T201
        return 0
    data, words = taken(words, "--data")
    split, words = taken(words, "--split")
    beam, words = within(words, "--beam", int, least=1)
    penalty, words = within(words, "--length-penalty", float)
    edges, words = taken(words, "--edges")
    gold, words = taken(words, "--gold")
    as_json, words = flag(words, "--json")
    no_scores, words = flag(words, "--no-text-scores")
    typed = {}
    for name in READ:
        typed[name], words = taken(words, f"--read.{name}")
    no_more_options("eval", words, (*OPTIONS, *(f"--read.{name}" for name in READ)))
    if len(words) != 1:
        raise RegardError(f"eval: name one run folder, got {' '.join(words) or 'none'}: regard eval --help")
    if split not in (None, *SPLITS):
        raise RegardError(f"eval: there is no split {split!r}: {nearest(str(split), SPLITS)}")
    begins = _edges(edges)
    from regard.run import evaluated, load, read_of
    from regard.training.options import over

    changed = {name: value for name, value in (("beam", beam), ("length_penalty", penalty)) if value is not None}
    trained = load(words[0]).with_options(**changed)
    found = evaluated(
        trained,
        data=data,
        split=split,
        read=over(read_of(trained, data), {name: text for name, text in typed.items() if text is not None}, "--read"),
        edges=begins,
        gold=gold,
        text_scores=not no_scores and _has_sacrebleu(),
    )
    if as_json:
        name = data or trained.config["data"]
        print(json.dumps({"run": words[0], "data": name, "split": split or "test", **found.as_json()}))  # noqa: T201
    else:
        print(found.as_text())  # noqa: T201
    return 0


def _edges(said: str | None) -> list[int]:
    """The numbers of `--edges`.

    Raises:
        RegardError: if they are not whole numbers that rise, from 1 on.
    """
    parts = [] if said is None else said.split(",")
    edges = [int(part) if part.isascii() and part.isdigit() and len(part) < 10 else -1 for part in parts]
    if any(a >= b for a, b in itertools.pairwise([0, *edges])):
        raise RegardError(f"eval: --edges must be whole numbers that rise, from 1 on, with commas between, got {said}")
    return edges


def _has_sacrebleu() -> bool:
    """Whether BLEU and chrF can be computed; if not, one line says how."""
    import importlib.util

    if importlib.util.find_spec("sacrebleu"):
        return True
    print('BLEU and chrF are computed by sacreBLEU: pip install "regard[metrics]"', file=sys.stderr)  # noqa: T201
    return False
