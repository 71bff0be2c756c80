"""ONNX's Attention, RotaryEmbedding and FlexAttention, said in the words of `regard`'s operation.

Nothing is computed here: each operator's inputs and attributes become a score, a predicate, a normaliser and the
position of the first query. Arguments have the names of the operators' schemas, and their defaults.

Axes: Q (batch, heads, m, d_q), K (batch, key heads, n, d_k), V (batch, key heads, n, d_v), or all three
(sequence last but one) with their heads side by side in the last axis.
"""

from typing import Any

import numpy as np
import torch
from onnx import GraphProto
from onnx.reference import ReferenceEvaluator
from torch import Tensor
from torch.nn.functional import pad

from regard import Bias, Cache, attend, causal, everywhere, given, lengths, scaled_dot, scores, softmax, weights, window
from regard import softcap as capped
from regard.core import Cells, Dot, Score, Weigh, Where
from regard.core.positions import rotated
from tests.conformance.onnx_vectors import DTYPES

_MODIFIER_OPSET = 26
"""The opset of the graphs that FlexAttention's vectors carry."""


def attention(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    attn_mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    nonpad_kv_seqlen: Tensor | None = None,
    *,
    scale: float | None = None,
    is_causal: int = 0,
    q_num_heads: int | None = None,
    kv_num_heads: int | None = None,
    softmax_precision: int | None = None,
    softcap: float = 0.0,
    qk_matmul_output_mode: int = 0,
    left_window_size: int = -1,
    right_window_size: int = -1,
) -> dict[str, Tensor]:
    """ONNX's Attention (opsets 23 to 25): its four outputs by name.

    The first query stands behind the keys that are already there: those of the past, or those of an example's
    length that are not its queries'. The latter is negative where an example has more queries than keys.
    """
    query, key, value = _split(Q, q_num_heads), _split(K, kv_num_heads), _split(V, kv_num_heads)
    first: int | Tensor
    present, first = _present(key, value, past_key, past_value)
    rows, columns = query.shape[-2], present.key.shape[-2]
    if nonpad_kv_seqlen is not None:
        first = (nonpad_kv_seqlen - rows)[:, None]

    compared = _compared(scale)
    limited = capped(compared, softcap) if softcap else compared
    biased, where = limited, everywhere
    if attn_mask is not None:
        bias, visible = _mask(attn_mask, columns)
        where &= given(visible)
        biased = limited if bias is None else limited + Bias(bias)
    if is_causal:
        where &= causal
    if nonpad_kv_seqlen is not None:
        where &= lengths(nonpad_kv_seqlen[:, None])
    where &= _window(left_window_size, right_window_size, rows + columns)

    keys, values = (_repeated(shared, query) for shared in (present.key, present.value))
    weigh = _weigh(softmax_precision)
    output = attend(query, keys, values, score=biased, where=where, weigh=weigh, first=first)
    match qk_matmul_output_mode:
        case 0:
            seen = scores(query, keys, score=compared)
        case 1:
            seen = scores(query, keys, score=limited)
        case 2:
            seen = scores(query, keys, score=biased, where=where, first=first)
        case 3:
            seen = weights(query, keys, score=biased, where=where, weigh=weigh, first=first)
        case unknown:
            raise ValueError(f"qk_matmul_output_mode must be 0, 1, 2 or 3, got {unknown}")
    return {
        "Y": output.transpose(1, 2).flatten(2) if Q.ndim == 3 else output,
        "present_key": present.key,
        "present_value": present.value,
        "qk_matmul_output": seen,
    }


def rotary_embedding(
    X: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    position_ids: Tensor | None = None,
    *,
    interleaved: int = 0,
    rotary_embedding_dim: int = 0,
    num_heads: int = 0,
) -> dict[str, Tensor]:
    """ONNX's RotaryEmbedding (opset 23). Its tables are any numbers, so it is `rotated`, not `Rotary`."""
    cosine, sine = (cache if position_ids is None else cache[position_ids] for cache in (cos_cache, sin_cache))
    vectors = _split(X, num_heads)
    if rotary_embedding_dim not in (0, 2 * cosine.shape[-1]):
        pairs = cosine.shape[-1]
        raise ValueError(f"rotary_embedding_dim must be twice the tables' {pairs} pairs, got {rotary_embedding_dim}")
    turned = rotated(vectors, cosine[:, None], sine[:, None], "interleaved" if interleaved else "halves")
    return {"Y": turned.transpose(1, 2).flatten(2) if X.ndim == 3 else turned}


def flex_attention(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    *,
    scale: float | None = None,
    score_mod: GraphProto | None = None,
    prob_mod: GraphProto | None = None,
    softmax_precision: int | None = None,
) -> dict[str, Tensor]:
    """ONNX's FlexAttention (preview opset 1)."""
    score, weigh = _compared(scale), _weigh(softmax_precision)
    if score_mod is not None:
        score = _ModifiedScore(score, score_mod, softmax_precision)
    if prob_mod is not None:
        weigh = _ModifiedWeigh(weigh, prob_mod)
    return {"Y": attend(Q, _repeated(K, Q), _repeated(V, Q), score=score, weigh=weigh)}


def run(operator: str, inputs: dict[str, Tensor], attributes: dict[str, Any]) -> dict[str, Tensor]:
    """The outputs of one node, by name; a node may leave out some of them."""
    operators = {"Attention": attention, "RotaryEmbedding": rotary_embedding, "FlexAttention": flex_attention}
    return operators[operator](**inputs, **attributes)


class _ModifiedScore(Score):
    """Another score after a graph that maps (batch, heads, m, n) to the same. It passes no gradient.

    The graph finds the indices of rows and columns itself, and forbids a cell with -inf, as a score may.
    """

    def __init__(self, score: Score, graph: GraphProto, precision: int | None) -> None:
        super().__init__()
        self.score, self.graph, self.precision = score, graph, precision

    def forward(self, query: Tensor, key: Any, cells: Cells) -> Tensor:
        table = self.score(query, key, cells).expand(*cells.batch, cells.rows, cells.columns)
        return _evaluated(self.graph, table.to(_working(table.dtype, self.precision)))

    def key_share(self, key: Tensor) -> Any:
        return self.score.key_share(key)

    def check(self, query_width: int, key_width: int, cells: Cells) -> None:
        self.score.check(query_width, key_width, cells)

    def check_key_width(self, key_width: int) -> None:
        self.score.check_key_width(key_width)


class _ModifiedWeigh(Weigh):
    """Another normaliser's weights after a graph. They need not sum to 1 any more, and pass no gradient.

    A forbidden cell keeps its weight of 0, whatever the graph makes of it.
    """

    def __init__(self, weigh: Weigh, graph: GraphProto) -> None:
        self.weigh, self.graph = weigh, graph

    def over(self, scores: Tensor, open_cells: Tensor) -> Tensor:
        return _evaluated(self.graph, self.weigh(scores, open_cells))


class _Precise(Weigh):
    """Another normaliser, computed in a type of one's own."""

    def __init__(self, weigh: Weigh, dtype: torch.dtype) -> None:
        self.weigh, self.dtype = weigh, dtype

    def over(self, scores: Tensor, open_cells: Tensor) -> Tensor:
        return self.weigh(scores.to(self.dtype), open_cells).to(scores.dtype)


def _compared(scale: float | None) -> Score:
    return scaled_dot if scale is None else Dot(scale)


def _weigh(precision: int | None) -> Weigh:
    """Softmax; half types are in float32 there anyway, unless a precision is asked for."""
    return softmax if precision is None else _Precise(softmax, DTYPES[precision])


def _working(dtype: torch.dtype, precision: int | None) -> torch.dtype:
    if precision is not None:
        return DTYPES[precision]
    return torch.promote_types(dtype, torch.float32)


def _window(left: int, right: int, furthest: int) -> Where:
    """A side of -1 has no bound: no key is as far as `furthest` from any query."""
    if left < 0 and right < 0:
        return everywhere
    return window(furthest if left < 0 else left, furthest if right < 0 else right)


def _mask(mask: Tensor, columns: int) -> tuple[Tensor | None, Tensor]:
    """What a mask adds, if it is not of booleans, and which cells it leaves visible; both with four axes.

    It broadcasts from the right, but hides the keys beyond its own last column.
    """
    mask = mask[(None,) * (4 - mask.ndim)]
    beyond = (0, max(columns - mask.shape[-1], 0))
    if mask.dtype is torch.bool:
        return None, pad(mask, beyond)
    visible = mask != -torch.inf
    return pad(torch.where(visible, mask, 0), beyond), pad(visible, beyond)


def _present(key: Tensor, value: Tensor, past_key: Tensor | None, past_value: Tensor | None) -> tuple[Cache, int]:
    """A cache that holds the past and these keys and values, and its length before these came."""
    longest = key.shape[-2] + (0 if past_key is None else past_key.shape[-2])
    key_room, value_room = (new.new_empty(*new.shape[:-2], longest, new.shape[-1]) for new in (key, value))
    cache = Cache(key_room, value_room)
    if past_key is not None and past_value is not None:
        cache.extend(past_key, past_value)
    first = cache.length
    cache.extend(key, value)
    return cache, first


def _split(vectors: Tensor, heads: int | None) -> Tensor:
    """(batch, k, heads · width) → (batch, heads, k, width); four axes are so already."""
    return vectors.unflatten(-1, (heads, -1)).transpose(1, 2) if vectors.ndim == 3 else vectors


def _repeated(shared: Tensor, query: Tensor) -> Tensor:
    """Keys or values once for each query head of their group."""
    return shared.repeat_interleave(query.shape[1] // shared.shape[1], dim=1)


def _evaluated(graph: GraphProto, table: Tensor) -> Tensor:
    evaluator = ReferenceEvaluator(graph, opsets={"": _MODIFIER_OPSET})
    (changed,) = evaluator.run(None, {graph.input[0].name: table.detach().numpy()})
    return torch.from_numpy(np.asarray(changed))
