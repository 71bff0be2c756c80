"""`regard ls [models|tasks|data|claims]`: what there is."""

from regard.claims.catalogue import CLAIMS
from regard.data.known import KNOWN
from regard.errors import RegardError, nearest
from regard.models.catalogue import MODELS
from regard.tasks.catalogue import TASKS

DATA = {
    "dates": "embedded: dates of some forty languages to ISO 8601, by Babel",
    "copy": "generated: lines of at most 20 symbols, as they are; copy:30 for at most 30",
    "reversal": "generated: the same, turned round",
    "multi30k": "image descriptions, German to English; multi30k:en-de the other way",
    "tatoeba": "sentences, English to German",
    "cmudict": "spelling to phonemes; cmudict:nostress without stress marks",
}
FILES = "or your own: pairs.tsv, .csv, .jsonl, .parquet, a folder of such, or two aligned files a.src,b.tgt"


def run(words: list[str]) -> int:
    """Lists what was asked for, or everything."""
    lists = {
        "models": {model.name: f"{model.title}; {model.paper}" for model in MODELS},
        "tasks": {task.name: task.title for task in TASKS},
        "data": DATA,
        "claims": {claim.name: f"{claim.says} (about {claim.minutes} min)" for claim in CLAIMS},
    }
    if {"-h", "--help"} & set(words):
        print(f"usage: regard ls [{'|'.join(lists)}]\n\n{__doc__}")  # noqa: T201
        return 0
    if len(words) > 1:
        raise RegardError(f"ls: names one list, got {' '.join(words)}")
    if words and words[0] not in lists:
        raise RegardError(f"ls: there is no list {words[0]!r}: {nearest(words[0], lists)}")
    for name in words or lists:
        print(name)  # noqa: T201
        for entry, text in lists[name].items():
            print(f"  {entry:16} {text}")  # noqa: T201
            if name == "data" and entry in KNOWN:
                print(f"  {'':16} licence: {KNOWN[entry].licence}")  # noqa: T201
        if name == "data":
            print(f"  {FILES}")  # noqa: T201
    return 0
