"""How well a query matches a key: the interface, prepared keys, and sums.

A score has two seats. `key_share(key)` is what can be computed from the keys alone, once; `forward(query,
share, cells)` compares queries with it. A recurrent decoder asks the same keys at every step, so
`score.prepare(key)` runs the first seat ahead and its result goes wherever a key does.

To write one's own, subclass `Score` and define `forward`; `key_share` is the key itself unless you say more.
Keys and queries that reach a score are finite: an entry that is not is replaced by 0 before, and its row
of the output marked after, by the operation (see `plain.py`).
"""

import dataclasses
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.core.cells import Cells
from regard.core.errors import Misfit

Share = Tensor | tuple["Share", ...]
"""What a score keeps of the keys: a tensor whose first axes are the batch axes, or a tuple of such."""


class Score(nn.Module, ABC):
    """A score function. It is a module, so that what it learns is found, moved and saved.

    A kernel may ask for some rows of a call alone, and whoever looks for some examples or heads. A score that
    compares one query with one key, knows where they stand by `cells.row_position` and `cells.column_position`,
    and passes tensors of its own through `cells.cut`, can say so with `by_cell = True`; others are asked for all
    at once.
    """

    by_cell: bool = False
    shows: bool = False
    """Whether a score is never finite where an entry of its query or key is not, as a product's is not."""

    @abstractmethod
    def forward(self, query: Float[Tensor, "*_ m _"], key: Any, cells: Cells) -> Float[Tensor, "*_ _ _"]:
        """The scores, in a shape that broadcasts to (*batch, m, n).

        Args:
            query: The queries, (*batch, m, d_q).
            key: What `key_share` made of the keys; the keys themselves, (*batch, n, d_k), by default.
            cells: Where the queries and the keys stand.
        """

    def key_share(self, key: Float[Tensor, "*batch n _"]) -> Share:
        """What the score can do with the keys alone."""
        return key

    def check(self, query_width: int, key_width: int, cells: Cells) -> None:
        """Raises `Misfit` if the score cannot be used on vectors of these widths, on these cells."""
        del query_width, key_width, cells

    @final
    def prepare(self, key: Float[Tensor, "*batch n width"]) -> "Prepared":
        """Does the keys' share of the work once. The result is accepted wherever a key is.

        >>> import torch
        >>> from regard.core import Additive, attend
        >>> score = Additive(2, 3, hidden=5)
        >>> source, query = torch.randn(1, 7, 3), torch.randn(1, 1, 2)
        >>> keys = score.prepare(source)                        # once
        >>> attend(query, keys, source, score=score).shape      # at every step
        torch.Size([1, 1, 3])
        """
        self.check_key_width(key.shape[-1])
        sound, clean = sound_rows(key)
        return Prepared(self, self.key_share(clean), sound, tuple(key.shape), key.dtype, key.device)

    def check_key_width(self, key_width: int) -> None:
        """Raises `Misfit` if keys of this width cannot be prepared."""
        del key_width

    @final
    def __add__(self, other: "Score") -> "Score":
        if not isinstance(other, Score):
            remedy = "wrap a tensor in Bias(tensor)" if isinstance(other, Tensor) else "both sides must be scores"
            raise TypeError(f"{self!r} + {type(other).__name__}: {remedy}")
        return Sum(*_terms(self), *_terms(other))

    def __repr__(self) -> str:
        names = [n for n in inspect.signature(type(self).__init__).parameters if n != "self"]
        settings = [f"{n}={getattr(self, n)!r}" for n in names if isinstance(getattr(self, n, None), (int, float, str))]
        return f"{type(self).__name__}({', '.join(settings)})"


@dataclasses.dataclass(frozen=True, eq=False)
class Prepared:
    """Keys of which a score has done its share. Made by `score.prepare(key)`, used with that score only.

    It holds what the score's weights gave at that moment: prepare again after they have changed.

    Attributes:
        score: The score that made it.
        share: What the score keeps of the keys.
        sound: (*batch, n), False for a key with an entry that is not finite; None where all are known to be.
        shape: The shape of the keys, (*batch, n, d_k).
        dtype: The type of the keys.
        device: Where the keys are.
    """

    score: Score
    share: Share
    sound: Bool[Tensor, "*batch n"] | None
    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    def map(self, change: Callable[[Tensor], Tensor]) -> "Prepared":
        """The same keys after a change of their batch axes, such as the choice or repetition of examples.

        >>> import torch
        >>> from regard.core import scaled_dot
        >>> keys = scaled_dot.prepare(torch.randn(3, 5, 7))
        >>> keys.map(lambda t: t.repeat_interleave(4, dim=0)).shape   # four beams an example
        (12, 5, 7)
        """
        kept = torch.ones((), dtype=torch.bool, device=self.device).expand(self.shape[:-1])
        changed = change(kept if self.sound is None else self.sound)
        return dataclasses.replace(
            self,
            share=_map(change, self.share),
            sound=None if self.sound is None else changed,
            shape=(*changed.shape, self.shape[-1]),
        )

    def __repr__(self) -> str:
        return f"Prepared{self.shape} by {self.score!r}"


def _map(change: Callable[[Tensor], Tensor], share: Share) -> Share:
    if isinstance(share, Tensor):
        return change(share)
    parts = (_map(change, part) for part in share)
    return type(share)(*parts) if hasattr(share, "_fields") else tuple(parts)


def sound_rows(
    vectors: Float[Tensor, "*batch k d"],
) -> tuple[Bool[Tensor, "*batch k"] | None, Float[Tensor, "*batch k d"]]:
    """Which rows hold finite numbers only, and the vectors with every other row set to 0.

    The rows are set to 0 before anything is computed from them, so that what is not finite reaches no
    gradient, not even multiplied by 0. Where a sum shows at once that all is finite, the answer is None, and
    nothing is copied.
    """
    if surely_finite(vectors):
        return None, vectors
    sound = vectors.isfinite().all(-1)
    return sound, torch.where(sound[..., None], vectors, 0)


def surely_finite(*tensors: Tensor) -> bool:
    """True if one pass shows that every entry is finite; False says nothing.

    It reads a number back, so that inside of a compiler or a transform the answer is False, without a look.
    """
    return is_seen(*tensors) and has_finite_sum(*tensors)


def has_finite_sum(*tensors: Tensor) -> bool:
    """The same, for tensors that are known to be seen."""
    total = 0.0
    for tensor in tensors:
        looked = tensor.detach() if tensor.requires_grad else tensor
        total += (looked.float() if tensor.dtype.itemsize < 4 else looked).sum().item()
    return math.isfinite(total)


def is_seen(*tensors: Tensor) -> bool:
    """Whether numbers can be read from these tensors here and now."""
    if torch.compiler.is_compiling():
        return False
    for tensor in tensors:  # noqa: SIM110  a generator costs as much as the rest
        if is_transformed(tensor):
            return False
    return True


def is_transformed(tensor: Tensor) -> bool:
    """Whether it stands for many tensors, as inside of `torch.func.vmap`, so that no number can be read from it."""
    return torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def at_least_single(dtype: torch.dtype) -> torch.dtype:
    """The type to compute sums, angles and distances in: float32 for the half types, else the type itself."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


class Sum(Score):
    """The sum of scores, term by term: `scaled_dot + Alibi(8)`."""

    def __init__(self, *terms: Score) -> None:
        super().__init__()
        self.terms = nn.ModuleList(terms)
        self.by_cell = all(term.by_cell for term in terms)

    def forward(self, query: Float[Tensor, "*_ m _"], key: tuple[Share, ...], cells: Cells) -> Float[Tensor, "*_ _ _"]:
        parts = [term(query, share, cells) for term, share in zip(self.terms, key, strict=True)]
        total: Tensor = parts[0]
        for part in parts[1:]:
            total = total + part
        return total

    def key_share(self, key: Float[Tensor, "*batch n _"]) -> Share:
        return tuple(term.key_share(key) for term in _scores(self.terms))

    def check(self, query_width: int, key_width: int, cells: Cells) -> None:
        for term in _scores(self.terms):
            term.check(query_width, key_width, cells)

    def check_key_width(self, key_width: int) -> None:
        for term in _scores(self.terms):
            term.check_key_width(key_width)

    def __repr__(self) -> str:
        return " + ".join(repr(term) for term in self.terms)


class SoftCap(Score):
    """`limit · tanh(score / limit)`: another score, held between -limit and limit (Gemma 2)."""

    def __init__(self, score: Score, limit: float) -> None:
        super().__init__()
        self.score = score
        self.limit = limit
        self.by_cell = score.by_cell

    def forward(self, query: Float[Tensor, "*_ m _"], key: Share, cells: Cells) -> Float[Tensor, "*_ _ _"]:
        inner: Tensor = self.score(query, key, cells)
        return self.limit * torch.tanh(inner / self.limit)

    def key_share(self, key: Float[Tensor, "*batch n _"]) -> Share:
        return self.score.key_share(key)

    def check(self, query_width: int, key_width: int, cells: Cells) -> None:
        self.score.check(query_width, key_width, cells)

    def check_key_width(self, key_width: int) -> None:
        self.score.check_key_width(key_width)

    def __repr__(self) -> str:
        return f"softcap({self.score!r}, {self.limit})"


def softcap(score: Score, limit: float) -> Score:
    """Holds a score between -limit and limit: `limit · tanh(score / limit)`.

    Forbidden cells stay forbidden: they are no part of a score. Terms added outside are not capped.

    Raises:
        TypeError: if `score` is not a score or `limit` not a number.
        ValueError: if `limit` is not above 0.
    """
    as_score(score, "softcap: score")
    if isinstance(limit, bool) or not isinstance(limit, (int, float)):
        raise TypeError(f"softcap: limit must be a number, got {type(limit).__name__}: {limit!r}")
    if not limit > 0:
        raise ValueError(f"softcap: limit must be above 0, got {limit}")
    return SoftCap(score, float(limit))


def _terms(score: Score) -> tuple[Score, ...]:
    return tuple(_scores(score.terms)) if isinstance(score, Sum) else (score,)


def _scores(modules: nn.ModuleList) -> list[Score]:
    return [module for module in modules if isinstance(module, Score)]


def as_score(value: object, name: str = "score") -> Score:
    """Checks that an argument is a score, and says what to do with one that is not."""
    if isinstance(value, Score):
        return value
    if isinstance(value, type) and issubclass(value, Score):
        raise TypeError(f"{name} must be a score, got the class {value.__name__}: make one, {value.__name__}(…)")
    if isinstance(value, Tensor):
        raise TypeError(f"{name} must be a score, got a Tensor: a bias goes in as score + Bias(tensor)")
    raise TypeError(f"{name} must be a score such as scaled_dot or Additive(…), got {value!r}")


def check_width(name: str, side: str, have: int, want: int) -> None:
    """Raises `Misfit` if a vector's width is not the one that a score was made for."""
    if have != want:
        raise Misfit(f"{name} was made for {side} of width {want}, got {side} of width {have}")


def keep_factor(score: Score, name: str, factor: object) -> None:
    """Keeps a factor as what it is: a parameter to learn, a tensor that moves with the module, or a number."""
    if isinstance(factor, nn.Parameter):
        setattr(score, name, factor)
    elif isinstance(factor, Tensor):
        score.register_buffer(name, factor, persistent=False)
    elif isinstance(factor, bool) or not isinstance(factor, (int, float)):
        kind = type(score).__name__
        raise TypeError(f"{kind}: {name} must be a number or a tensor, got {type(factor).__name__}: {factor!r}")
    else:
        setattr(score, name, float(factor))


def by_cell(factor: float | Tensor) -> float | Tensor:
    """The factor of each cell, from one for each head or example, or from a number."""
    return factor[..., None, None] if isinstance(factor, Tensor) else factor
