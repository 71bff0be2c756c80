"""`regard eval RUN [--data SPEC] [--split test] [--beam N] [--gold FILE] [--json]`: measure a run."""

import json
import sys

from regard.cli.options import flag, number, taken
from regard.errors import RegardError

USAGE = """usage: regard eval RUN [options]

  --data SPEC          other data than it was trained on
  --split NAME         train, valid or test (the default)
  --beam N             hypotheses kept while decoding; what the run was trained with unless given
  --length-penalty A   exponent of the length penalty of a beam
  --edges 10,20,30     where a new range of source lengths begins
  --gold FILE          gold alignments, a line for each example (3-4 sure, 3?4 possible): alignment error rate
  --no-text-scores     leave out BLEU and chrF
  --json               one JSON object

Loss and perplexity are of the references, teacher forced; the rest is of what the run writes itself."""


def run(words: list[str]) -> int:
    """Prints one table, or one JSON object."""
    if {"-h", "--help"} & set(words):
        print(USAGE)  # noqa: T201
        return 0
    data, words = taken(words, "--data")
    split, words = taken(words, "--split", "test")
    beam, words = number(words, "--beam", int)
    penalty, words = number(words, "--length-penalty", float)
    edges, words = taken(words, "--edges", "")
    gold, words = taken(words, "--gold")
    as_json, words = flag(words, "--json")
    no_scores, words = flag(words, "--no-text-scores")
    if len(words) != 1 or words[0].startswith("--"):
        raise RegardError(f"eval: name one run folder, got {' '.join(words) or 'none'}: regard eval --help")
    if split not in ("train", "valid", "test"):
        raise RegardError(f"eval: there is no split {split!r}: one of train, valid, test")
    if not all(part.isdigit() for part in str(edges).split(",") if edges):
        raise RegardError(f"eval: --edges must be whole numbers with commas between, got {edges}")
    from regard.run import evaluated, load

    changed = {name: value for name, value in (("beam", beam), ("length_penalty", penalty)) if value is not None}
    found = evaluated(
        load(words[0]).with_options(**changed),
        data=data,
        split=str(split),
        edges=[int(part) for part in str(edges).split(",") if part],
        gold=gold,
        text_scores=not no_scores and _has_sacrebleu(),
    )
    if as_json:
        print(json.dumps({"run": words[0], "split": split, **found.as_json()}))  # noqa: T201
    else:
        print(found.as_text())  # noqa: T201
    return 0


def _has_sacrebleu() -> bool:
    """Whether BLEU and chrF can be computed; if not, one line says how."""
    import importlib.util

    if importlib.util.find_spec("sacrebleu"):
        return True
    print('BLEU and chrF are computed by sacreBLEU: pip install "regard[metrics]"', file=sys.stderr)  # noqa: T201
    return False
