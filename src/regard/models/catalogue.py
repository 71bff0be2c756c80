"""Every model by its name: where it stands, what it is, and the words to cite it with. Imports no model."""

import dataclasses
import importlib
from typing import TYPE_CHECKING, Any

from regard.errors import RegardError, nearest

if TYPE_CHECKING:
    from torch import nn


@dataclasses.dataclass(frozen=True)
class Entry:
    """One model of the family.

    Attributes:
        name: As the command line knows it.
        title: One line.
        place: Its module and its class.
        tasks: The tasks that it can learn.
        paper: Authors, title, where, arXiv.
        cite: A BibTeX entry.
    """

    name: str
    title: str
    place: tuple[str, str]
    tasks: tuple[str, ...]
    paper: str
    cite: str

    def config(self) -> type[Any]:
        """The dataclass of its sizes and choices."""
        kind: type[Any] = importlib.import_module(self.place[0]).Config
        return kind

    def presets(self) -> dict[str, Any]:
        """Named configurations, "small" and "paper" among them."""
        named: dict[str, Any] = importlib.import_module(self.place[0]).PRESETS
        return named

    def preset(self, name: str) -> Any:
        """One of them.

        Raises:
            RegardError: if there is none of that name.
        """
        named = self.presets()
        if name not in named:
            raise RegardError(f"{self.name} has no preset {name!r}: {nearest(name, named)}")
        return named[name]

    def make(self, config: Any) -> "nn.Module":
        """The model."""
        module: nn.Module = getattr(importlib.import_module(self.place[0]), self.place[1])(config)
        return module


MODELS = (
    Entry(
        "seq2seq",
        "one fixed vector between encoder and decoder, source reversed",
        ("regard.models.seq2seq", "Seq2Seq"),
        ("translate",),
        "Sutskever, Vinyals, Le: Sequence to Sequence Learning with Neural Networks. NeurIPS 2014, arXiv:1409.3215",
        """@inproceedings{sutskever2014sequence,
  title     = {Sequence to Sequence Learning with Neural Networks},
  author    = {Sutskever, Ilya and Vinyals, Oriol and Le, Quoc V.},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2014},
}""",
    ),
    Entry(
        "rnnsearch",
        "additive attention over a bidirectional encoder",
        ("regard.models.rnnsearch", "RnnSearch"),
        ("translate",),
        "Bahdanau, Cho, Bengio: Neural Machine Translation by Jointly Learning to Align and Translate. "
        "ICLR 2015, arXiv:1409.0473",
        """@inproceedings{bahdanau2015neural,
  title     = {Neural Machine Translation by Jointly Learning to Align and Translate},
  author    = {Bahdanau, Dzmitry and Cho, Kyunghyun and Bengio, Yoshua},
  booktitle = {International Conference on Learning Representations},
  year      = {2015},
}""",
    ),
)


def entry(name: str) -> Entry:
    """The model of that name.

    Raises:
        RegardError: if there is none; the nearest is suggested.
    """
    known = {model.name: model for model in MODELS}
    if name in known:
        return known[name]
    raise RegardError(f"there is no model {name[:80]!r}: {nearest(name, known)} (regard ls models)")
