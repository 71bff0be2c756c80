"""The operation and its parts. Everything public is re-exported here; files may move behind it."""

from regard.core.addressing import Address, Addressing
from regard.core.bias import Alibi, Bias, GridBias, RelativeBias
from regard.core.cache import Cache
from regard.core.cells import Cells
from regard.core.choice import By, Choice, Gumbel, Sample, StraightThrough, choose
from regard.core.compare import Additive, Cosine, Dot, General, Location, ScaledDot, dot, scaled_dot
from regard.core.errors import Misfit
from regard.core.extents import blocks, given, lengths, packed, prefix, window
from regard.core.heads import Heads, Projections, Source
from regard.core.local import Factor, Focus, Gaussian, LocalMonotonic, LocalPredictive
from regard.core.look import Look
from regard.core.operation import attend, log_weights, scores, weights
from regard.core.partial import Partial, merge, partial
from regard.core.positions import Learned, Rotary, Sinusoid, rotated
from regard.core.record import Record
from regard.core.score import Prepared, Score, softcap
from regard.core.seen import Seen, Site
from regard.core.weigh import Entmax, Weigh, hardmax, softmax, sparsemax
from regard.core.where import Where, causal, everywhere

__all__ = [
    "Additive",
    "Address",
    "Addressing",
    "Alibi",
    "Bias",
    "By",
    "Cache",
    "Cells",
    "Choice",
    "Cosine",
    "Dot",
    "Entmax",
    "Factor",
    "Focus",
    "Gaussian",
    "General",
    "GridBias",
    "Gumbel",
    "Heads",
    "Learned",
    "LocalMonotonic",
    "LocalPredictive",
    "Location",
    "Look",
    "Misfit",
    "Partial",
    "Prepared",
    "Projections",
    "Record",
    "RelativeBias",
    "Rotary",
    "Sample",
    "ScaledDot",
    "Score",
    "Seen",
    "Sinusoid",
    "Site",
    "Source",
    "StraightThrough",
    "Weigh",
    "Where",
    "attend",
    "blocks",
    "causal",
    "choose",
    "dot",
    "everywhere",
    "given",
    "hardmax",
    "lengths",
    "log_weights",
    "merge",
    "packed",
    "partial",
    "prefix",
    "rotated",
    "scaled_dot",
    "scores",
    "softcap",
    "softmax",
    "sparsemax",
    "weights",
    "window",
]
