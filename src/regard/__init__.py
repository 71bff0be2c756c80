"""regard: the whole lineage of attention in one operation.

`import regard` costs nothing: a name is looked up, and PyTorch imported, when it is first used.
Interfaces to extend (`Score`, `Where`, `Weigh`) are in `regard.core`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.adapters import watch as watch
    from regard.core.explain import explain as explain
    from regard.job import train as train
    from regard.run import load as load

    __version__: str
    from regard.core import (
        Additive as Additive,
    )
    from regard.core import (
        Addressing as Addressing,
    )
    from regard.core import (
        Alibi as Alibi,
    )
    from regard.core import (
        Bias as Bias,
    )
    from regard.core import (
        Cache as Cache,
    )
    from regard.core import (
        Cosine as Cosine,
    )
    from regard.core import (
        Entmax as Entmax,
    )
    from regard.core import (
        General as General,
    )
    from regard.core import (
        GridBias as GridBias,
    )
    from regard.core import (
        Gumbel as Gumbel,
    )
    from regard.core import (
        Heads as Heads,
    )
    from regard.core import (
        Learned as Learned,
    )
    from regard.core import (
        LocalMonotonic as LocalMonotonic,
    )
    from regard.core import (
        LocalPredictive as LocalPredictive,
    )
    from regard.core import (
        Location as Location,
    )
    from regard.core import (
        Prepared as Prepared,
    )
    from regard.core import (
        RelativeBias as RelativeBias,
    )
    from regard.core import (
        Rotary as Rotary,
    )
    from regard.core import (
        Sample as Sample,
    )
    from regard.core import (
        Sinusoid as Sinusoid,
    )
    from regard.core import (
        StraightThrough as StraightThrough,
    )
    from regard.core import (
        attend as attend,
    )
    from regard.core import (
        blocks as blocks,
    )
    from regard.core import (
        causal as causal,
    )
    from regard.core import (
        choose as choose,
    )
    from regard.core import (
        dot as dot,
    )
    from regard.core import (
        everywhere as everywhere,
    )
    from regard.core import (
        given as given,
    )
    from regard.core import (
        hardmax as hardmax,
    )
    from regard.core import (
        lengths as lengths,
    )
    from regard.core import (
        log_weights as log_weights,
    )
    from regard.core import (
        packed as packed,
    )
    from regard.core import (
        prefix as prefix,
    )
    from regard.core import (
        scaled_dot as scaled_dot,
    )
    from regard.core import (
        scores as scores,
    )
    from regard.core import (
        softcap as softcap,
    )
    from regard.core import (
        softmax as softmax,
    )
    from regard.core import (
        sparsemax as sparsemax,
    )
    from regard.core import (
        weights as weights,
    )
    from regard.core import (
        window as window,
    )

_PLACES = {
    "regard.core": (
        # the operation
        *("attend", "choose", "log_weights", "scores", "weights"),
        # score: how well a query matches a key
        *("dot", "scaled_dot", "Additive", "Cosine", "General", "Location"),
        *("Alibi", "Bias", "GridBias", "RelativeBias", "softcap", "Prepared"),
        # where: which keys a query may see
        *("everywhere", "causal", "window", "blocks", "prefix", "lengths", "packed", "given"),
        # weigh: from scores to weights; and choose: one key at random
        *("softmax", "sparsemax", "Entmax", "hardmax"),
        *("Sample", "Gumbel", "StraightThrough"),
        # parts
        *("Heads", "Cache", "Sinusoid", "Learned", "Rotary"),
        *("LocalMonotonic", "LocalPredictive", "Addressing"),
    ),
    "regard.core.explain": ("explain",),
    "regard.adapters": ("watch",),
    "regard.job": ("train",),
    "regard.run": ("load",),
}
_PLACE = {name: place for place, names in _PLACES.items() for name in names}

__all__ = sorted(_PLACE)


def __getattr__(name: str) -> Any:
    """Finds a public name in its place, the first time that it is used."""
    if name == "__version__":
        from importlib.metadata import version

        return version("regard")
    if name not in _PLACE:
        from difflib import get_close_matches

        close = get_close_matches(name, _PLACE, n=1)
        raise AttributeError(
            f"module 'regard' has no attribute {name!r}" + (f": did you mean {close[0]!r}?" if close else "")
        )
    value = getattr(import_module(_PLACE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return [*__all__, "__version__"]
