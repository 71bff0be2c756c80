"""The operation: three independent choices (score, where, weigh) make every attention.

    attend(query, key, value)                                   the Transformer's
    attend(query, key, value, score=Additive(…))                Bahdanau's
    attend(query, key, value, where=causal & window(255))       a decoder's, local
    attend(query, key, value, weigh=sparsemax)                  with exact zeros

Axes: query (*batch, m, d_q), key (*batch, n, d_k), value (*batch, n, d_v). The last batch axis is heads,
where there are heads. Batch axes of the three broadcast; tensors inside a score or a predicate that have
batch axes have exactly as many as the call. The laws that hold for every combination are listed in
`docs/attention.md`, and tested in `tests/contract`.

This module checks what comes and explains what does not fit; `dispatch.py` chooses a kernel that computes.
"""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from regard.core import dispatch, plain, watch
from regard.core.call import Call
from regard.core.cells import Cells
from regard.core.compare import scaled_dot
from regard.core.errors import Misfit, described
from regard.core.local import Factor
from regard.core.score import Prepared, Score, as_score
from regard.core.weigh import Weigh, as_weigh, softmax
from regard.core.where import Where, as_where, everywhere

Result = TypeVar("Result")


def attend(
    query: Tensor,
    key: Tensor | Prepared,
    value: Tensor,
    *,
    score: Score = scaled_dot,
    where: Where = everywhere,
    weigh: Weigh = softmax,
    first: int | Tensor = 0,
    after: Tensor | Factor | None = None,
    dropout: float = 0.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Looks at the keys and returns the values where it looked: `output_i = Σ_j w_ij · v_j`.

    Args:
        query: (*batch, m, d_q).
        key: (*batch, n, d_k), or what `score.prepare(key)` made of it.
        value: (*batch, n, d_v).
        score: How well a query matches a key.
        where: Which keys a query may see. True means *may look*.
        weigh: How the scores of the allowed keys become weights.
        first: The position of the first query, an int or one for each example (a tensor with exactly the
            call's batch axes). A cached decoder passes the number of keys before its query.
        after: Multiplies the weights once they are normalised, (m, n) or (*batch, m, n), or a factor of
            positions such as Luong's Gaussian. The weights as applied are then no longer a distribution.
        dropout: The share of weights set to 0 at random, the others scaled up, last of all. It acts whenever
            it is above 0: pass 0 in evaluation.
        generator: Where dropout's random numbers come from; PyTorch's default generator otherwise.

    Returns:
        (*batch, m, d_v). A row that may see nothing is exactly 0.

    Raises:
        TypeError: if an argument is not of its kind.
        ValueError: if two arguments do not fit each other; the message says which, and the remedy.

    >>> import torch
    >>> from regard import attend, causal
    >>> x = torch.randn(2, 5, 8)
    >>> attend(x, x, x, where=causal).shape
    torch.Size([2, 5, 8])
    """
    call = check_call(
        "attend",
        *(query, key, value),
        score=score,
        where=where,
        weigh=weigh,
        first=first,
        after=after,
        dropout=_dropout_share(dropout),
        generator=generator,
    )
    if watch.OPEN:
        watch.note(call)
    return computed("attend", dispatch.output, call)


def weights(
    query: Tensor,
    key: Tensor | Prepared,
    *,
    score: Score = scaled_dot,
    where: Where = everywhere,
    weigh: Weigh = softmax,
    first: int | Tensor = 0,
) -> Tensor:
    """The weights (*batch, m, n): at least 0, exactly 0 where not allowed, each row summing to 1 or empty.

    The arguments and errors are those of `attend`.

    >>> import torch
    >>> from regard import causal, weights
    >>> weights(torch.zeros(3, 2), torch.zeros(3, 2), where=causal)
    tensor([[1.0000, 0.0000, 0.0000],
            [0.5000, 0.5000, 0.0000],
            [0.3333, 0.3333, 0.3333]])
    """
    call = check_call("weights", query, key, None, score=score, where=where, weigh=weigh, first=first)
    cells = computed("weights", dispatch.table, call)
    return plain.marked(plain.weights(cells, weigh), cells).to(query.dtype)


def log_weights(
    query: Tensor,
    key: Tensor | Prepared,
    *,
    score: Score = scaled_dot,
    where: Where = everywhere,
    weigh: Weigh = softmax,
    first: int | Tensor = 0,
) -> Tensor:
    """The logarithms of `weights`, (*batch, m, n): -inf where a weight is 0, with a gradient of exactly 0.

    The arguments and errors are those of `attend`.
    """
    call = check_call("log_weights", query, key, None, score=score, where=where, weigh=weigh, first=first)
    cells = computed("log_weights", dispatch.table, call)
    return plain.marked(plain.log_weights(cells, weigh), cells).to(query.dtype)


def scores(
    query: Tensor,
    key: Tensor | Prepared,
    *,
    score: Score = scaled_dot,
    where: Where = everywhere,
    first: int | Tensor = 0,
) -> Tensor:
    """The scores (*batch, m, n), before they are normalised; forbidden cells are -inf.

    The arguments and errors are those of `attend`.
    """
    call = check_call("scores", query, key, None, score=score, where=where, weigh=softmax, first=first)
    return plain.scores(computed("scores", dispatch.table, call)).to(query.dtype)


def check_call(
    call: str,
    query: Tensor,
    key: Tensor | Prepared,
    value: Tensor | None,
    *,
    score: Score,
    where: Where,
    weigh: Weigh,
    first: int | Tensor,
    after: Tensor | Factor | None = None,
    dropout: float = 0.0,
    generator: torch.Generator | None = None,
) -> Call:
    """Checks everything that one call combines."""
    _check_kinds(call, query, key, value, score, where, weigh, after)
    try:
        _check_prepared(key, score)
        cells = _cells(query, key, value, first)
        score.check(query.shape[-1], key.shape[-1], cells)
        if isinstance(after, Tensor):
            cells.fit(after.shape, ("m", "n"), "after")
    except Misfit as fact:
        told = described(
            {
                "query": query,
                "key": key,
                "value": value,
                "score": score,
                "where": where,
                "first": _told(first),
                "after": after,
            }
        )
        raise ValueError(f"{call}: {fact}\n  called with {told}") from None
    return Call(query, key, value, score, where, weigh, cells, after, dropout, generator)


def computed(name: str, function: Callable[[Call], Result], call: Call) -> Result:
    """What a function makes of a call; a predicate or score that does not fit it is explained."""
    try:
        return function(call)
    except Misfit as fact:
        told = described({"query": call.query, "value": call.value, "score": call.score, "where": call.where})
        raise ValueError(f"{name}: {fact}\n  called with {told}") from None


def _check_kinds(
    call: str,
    query: Tensor,
    key: Tensor | Prepared,
    value: Tensor | None,
    score: Score,
    where: Where,
    weigh: Weigh,
    after: Tensor | Factor | None,
) -> None:
    _check_tensor(call, "query", query)
    if not isinstance(key, Prepared):
        _check_tensor(call, "key", key)
    if value is not None:
        _check_tensor(call, "value", value)
    try:
        as_score(score)
        as_where(where)
        as_weigh(weigh)
    except TypeError as fact:
        raise TypeError(f"{call}: {fact}") from None
    if after is not None and not isinstance(after, (Tensor, Factor)):
        kind = type(after).__name__
        raise TypeError(f"{call}: after must be a tensor of factors or a Gaussian, got {kind}: {after!r}")


def _check_tensor(call: str, name: str, value: object) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{call}: {name} must be a tensor, got {type(value).__name__}")
    if not value.is_floating_point():
        dtype = str(value.dtype).removeprefix("torch.")
        raise TypeError(f"{call}: {name} must hold real numbers, got {dtype}: convert it with .float()")
    if value.ndim < 2:
        axes = {"query": "(*batch, m, d_q)", "key": "(*batch, n, d_k)", "value": "(*batch, n, d_v)"}[name]
        raise ValueError(f"{call}: {name} must have at least two axes, {axes}, got shape {tuple(value.shape)}")


def _dropout_share(dropout: object) -> float:
    if isinstance(dropout, bool) or not isinstance(dropout, (int, float)):
        raise TypeError(f"attend: dropout must be a number, got {type(dropout).__name__}: {dropout!r}")
    if not 0 <= dropout < 1:
        raise ValueError(f"attend: dropout must be at least 0 and below 1, got {dropout}")
    return dropout


def _check_prepared(key: Tensor | Prepared, score: Score) -> None:
    if isinstance(key, Prepared) and key.score is not score:
        raise Misfit(f"the keys were prepared by {key.score!r}, but the call's score is {score!r}: use the same object")


def _cells(query: Tensor, key: Tensor | Prepared, value: Tensor | None, first: int | Tensor) -> Cells:
    """Checks that the vectors fit each other, and says where they stand."""
    if not _alike(query, key) or (value is not None and not _alike(query, value)):
        _explain_kinds(query, {"key": key} if value is None else {"key": key, "value": value})
    if value is not None and value.shape[-2] != key.shape[-2]:
        raise Misfit(f"there are {key.shape[-2]} keys but {value.shape[-2]} values: each key needs one value")
    batch = tuple(query.shape[:-2])
    if key.shape[:-2] != batch or (value is not None and value.shape[:-2] != batch):
        named = {"query": query, "key": key} if value is None else {"query": query, "key": key, "value": value}
        batch = _broadcast({name: each.shape[:-2] for name, each in named.items()})
    return Cells(batch, query.shape[-2], key.shape[-2], first, query.device)


def _alike(one: Tensor, other: Tensor | Prepared) -> bool:
    return one.dtype == other.dtype and one.device == other.device


def _explain_kinds(query: Tensor, others: dict[str, Tensor | Prepared]) -> None:
    """Refuses another device, and another type except under autocast."""
    for name, other in others.items():
        if other.device != query.device:
            raise Misfit(f"query is on {query.device}, {name} on {other.device}: move one with .to()")
        if other.dtype != query.dtype and not torch.is_autocast_enabled(query.device.type):
            raise Misfit(
                f"query is {_name(query.dtype)}, {name} {_name(other.dtype)}: convert one, {name}.to(query.dtype)"
            )


def _broadcast(shapes: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    try:
        return tuple(torch.broadcast_shapes(*shapes.values()))  # type: ignore[no-untyped-call]
    except RuntimeError:
        listed = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
        raise Misfit(
            f"the batch axes do not broadcast: {listed}. Heads that share keys go through Heads(…, key_heads=…), "
            f"or repeat the keys with .repeat_interleave(groups, dim=-3)"
        ) from None


def _told(first: int | Tensor) -> int | Tensor | None:
    """A position of 0 is not worth a word in an error."""
    return None if isinstance(first, int) and first == 0 else first


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
