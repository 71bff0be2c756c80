"""entmax: sparse normalisers, masked as softmax is."""

from collections.abc import Iterator
from functools import partial

from docs.answers.ours import alone
from docs.answers.parts import Path, load
from docs.answers.pytorch import by_hand
from regard.core import Entmax


def looks() -> Iterator[Path]:
    """With scores of -inf in the masked cells."""
    entmax = load("entmax")
    for name, normalise, alpha in (
        ("sparsemax", entmax.sparsemax, 2),
        ("entmax15", entmax.entmax15, 1.5),
        ("entmax_bisect", partial(entmax.entmax_bisect, alpha=1.5), 1.5),
    ):
        look = partial(by_hand, normalise)
        yield Path("entmax", f"`masked_fill(-inf)`, `{name}`", look, alone(weigh=Entmax(alpha)))
