"""`regard eval RUN [--data SPEC] [--split test] [--json]`: measure a run."""

import json

from regard.cli.options import taken
from regard.errors import RegardError


def run(words: list[str]) -> int:
    """Prints one table, or one JSON object."""
    if {"-h", "--help"} & set(words):
        print(f"usage: regard eval RUN [--data SPEC] [--split train|valid|test] [--json]\n\n{__doc__}")  # noqa: T201
        return 0
    data, words = taken(words, "--data")
    split, words = taken(words, "--split", "test")
    plain = "--json" not in words
    words = [word for word in words if word != "--json"]
    if len(words) != 1 or words[0].startswith("--"):
        raise RegardError("eval: name one run folder: regard eval RUN [--data SPEC] [--split test] [--json]")
    if split not in ("train", "valid", "test"):
        raise RegardError(f"eval: there is no split {split!r}: one of train, valid, test")
    from regard.data.specs import load as load_data
    from regard.run import load

    trained = load(words[0])
    splits = load_data(data or trained.config["data"], seed=trained.config["seed"])
    pairs = getattr(splits, str(split))
    if not len(pairs):
        raise RegardError(f"eval: the {split} split of {data or trained.config['data']} is empty")
    found = trained.task.validated(trained.model, pairs, tokens=trained.config["train"]["tokens"], decoded=len(pairs))
    found = {"examples": len(pairs), **found}
    if plain:
        for name, value in found.items():
            print(f"{name:12} {value:.6g}")  # noqa: T201
    else:
        print(json.dumps({"run": words[0], "split": split, **found}))  # noqa: T201
    return 0
