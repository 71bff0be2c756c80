"""`regard cite MODEL|RUN`: whom to cite, as BibTeX."""

from pathlib import Path

from regard.errors import RegardError
from regard.models.catalogue import entry

USAGE = """usage: regard cite MODEL|RUN

Prints the BibTeX entry of a model (regard ls models), or of the model of a run folder."""


def run(words: list[str]) -> int:
    """Prints the entry of a model, or of the model of a run."""
    if {"-h", "--help"} & set(words):
        print(USAGE)  # noqa: T201
        return 0
    if len(words) != 1:
        raise RegardError("cite: name one model or one run folder")
    name = words[0]
    if Path(name).is_dir():
        import msgspec

        from regard.training.store import Store

        name = msgspec.json.decode(Store(name).load_published().files["config.json"])["model_name"]
    print(entry(name).cite)  # noqa: T201
    return 0
