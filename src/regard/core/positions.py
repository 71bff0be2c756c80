"""Positions: sinusoidal, learned, rotary. All three take vectors and return them with their positions in.

    position(vectors, first=0)        vectors (*batch, m, width); the first stands at position `first`

`first` is an int, or a tensor with exactly the batch axes of the vectors (one for each example).
ALiBi, T5's buckets and CoAtNet's grid are scores: see `bias.py`.
"""

import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.core.errors import integers, one_of, whole

Layout = Literal["interleaved", "halves"]
"""How the pairs of a vector lie: (0, 1), (2, 3), … or (0, d/2), (1, d/2 + 1), …"""

_LAYOUTS = ("interleaved", "halves")


class Sinusoid(nn.Module):
    """Adds `sin(p / 10000^{2i/d})` and `cos(…)` (Vaswani et al. 2017, arXiv:1706.03762, section 3.5).

    Args:
        width: d, even.
        layout: "interleaved", sin and cos in turn, as in the paper; or "halves", all sines, then all cosines,
            as in its first code and in Marian.
    """

    def __init__(self, width: int, *, layout: Layout = "interleaved") -> None:
        super().__init__()
        self.width = _even(width, "Sinusoid: width")
        one_of(layout, "Sinusoid: layout", _LAYOUTS)
        self.layout: Layout = layout

    def forward(
        self, vectors: Float[Tensor, "*batch m width"], *, first: int | Tensor = 0
    ) -> Float[Tensor, "*batch m width"]:
        _check_width(self, vectors, self.width)
        angle = _angles(vectors, first, self.width, 10000.0)
        sine, cosine = angle.sin().to(vectors.dtype), angle.cos().to(vectors.dtype)
        if self.layout == "halves":
            return vectors + torch.cat([sine, cosine], -1)
        return vectors + torch.stack([sine, cosine], -1).flatten(-2)

    def extra_repr(self) -> str:
        return f"{self.width}, layout={self.layout!r}"


class Learned(nn.Module):
    """Adds a learned vector for each position, up to `longest` of them.

    Attributes:
        weight: (longest, width), drawn from N(0, 0.02).
    """

    def __init__(self, longest: int, width: int) -> None:
        super().__init__()
        self.longest = whole(longest, "Learned: longest", least=1)
        self.width = whole(width, "Learned: width", least=1)
        self.weight = nn.Parameter(torch.randn(longest, width) * 0.02)

    def forward(
        self, vectors: Float[Tensor, "*batch m width"], *, first: int | Tensor = 0
    ) -> Float[Tensor, "*batch m width"]:
        _check_width(self, vectors, self.width)
        position = _positions(vectors, first)
        if not isinstance(first, Tensor) and not 0 <= first <= self.longest - vectors.shape[-2]:
            last = first + vectors.shape[-2] - 1
            raise ValueError(
                f"Learned: holds positions 0 to {self.longest - 1}, but the vectors stand at {first} to {last}: "
                f"make it with longest={last + 1}"
            )
        return vectors + self.weight[position].to(vectors.dtype)

    def extra_repr(self) -> str:
        return f"{self.longest}, {self.width}"


class Rotary(nn.Module):
    """Turns each pair of a query or key by `p · base^{-2i/d}` (Su et al. 2021, arXiv:2104.09864).

    The dot product of two turned vectors depends on the difference of their positions only. `Heads` takes it
    as `position=` and turns queries and keys of each head.

    Args:
        width: d, the width of one head, even.
        pairing: "halves", pairs (i, i + d/2), as GPT-NeoX and Llama; or "interleaved", pairs (2i, 2i + 1), as
            the paper and GPT-J. `reorder` moves weights between them.
        base: The base of the wavelengths.
        turned: How many of the first dimensions are turned, all unless given; the others pass.
    """

    def __init__(
        self, width: int, *, pairing: Layout = "halves", base: float = 10000.0, turned: int | None = None
    ) -> None:
        super().__init__()
        self.width = _even(width, "Rotary: width")
        one_of(pairing, "Rotary: pairing", _LAYOUTS)
        self.pairing: Layout = pairing
        self.base = float(base)
        self.turned = self.width if turned is None else _even(turned, "Rotary: turned")
        if not base > 0:
            raise ValueError(f"Rotary: base must be above 0, got {base}")
        if self.turned > self.width:
            raise ValueError(f"Rotary: turned must be at most the width {width}, got {turned}")

    def forward(
        self, vectors: Float[Tensor, "*batch m width"], *, first: int | Tensor = 0
    ) -> Float[Tensor, "*batch m width"]:
        _check_width(self, vectors, self.width)
        angle = _angles(vectors, first, self.turned, self.base)
        return rotated(vectors, angle.cos(), angle.sin(), self.pairing)

    def reorder(self, weight: Tensor, *, into: Layout) -> Tensor:
        """Rows of a query's or key's projection, reordered for the other pairing: the scores stay the same.

        Args:
            weight: (heads · width, …), the weight or the bias of the projection, for this object's pairing.
            into: The pairing to reorder for.
        """
        one_of(into, "Rotary.reorder: into", _LAYOUTS)
        if weight.shape[0] % self.width:
            raise ValueError(f"Rotary.reorder: {weight.shape[0]} rows are not whole heads of width {self.width}")
        if into == self.pairing:
            return weight
        order = torch.arange(self.turned)
        order = order.view(2, -1).T if into == "interleaved" else order.view(-1, 2).T
        order = torch.cat([order.flatten(), torch.arange(self.turned, self.width)]).to(weight.device)
        return weight.reshape(-1, self.width, *weight.shape[1:])[:, order].flatten(0, 1)

    def extra_repr(self) -> str:
        return f"{self.width}, pairing={self.pairing!r}, base={self.base}, turned={self.turned}"


def rotated(
    vectors: Float[Tensor, "*batch m width"],
    cosine: Float[Tensor, "*_ m pairs"],
    sine: Float[Tensor, "*_ m pairs"],
    pairing: Layout,
) -> Float[Tensor, "*batch m width"]:
    """Turns the first 2 · pairs entries of each vector, pair by pair: (a, b) → (a cos - b sin, a sin + b cos)."""
    one_of(pairing, "rotated: pairing", _LAYOUTS)
    pairs = cosine.shape[-1]
    turned, rest = vectors[..., : 2 * pairs].to(cosine.dtype), vectors[..., 2 * pairs :]
    if pairing == "halves":
        a, b = turned[..., :pairs], turned[..., pairs:]
        turned = torch.cat([a * cosine - b * sine, a * sine + b * cosine], -1)
    else:
        a, b = turned[..., 0::2], turned[..., 1::2]
        turned = torch.stack([a * cosine - b * sine, a * sine + b * cosine], -1).flatten(-2)
    return torch.cat([turned.to(vectors.dtype), rest], -1)


def _positions(vectors: Float[Tensor, "*batch m _"], first: int | Tensor) -> Tensor:
    """(m), or (*batch, m) where each example starts elsewhere."""
    steps = torch.arange(vectors.shape[-2], device=vectors.device)
    if not isinstance(first, Tensor):
        return steps + whole(first, "first")
    if integers(first, "first").ndim not in (0, vectors.ndim - 2):
        raise ValueError(
            f"first has shape {tuple(first.shape)}, but the vectors have batch axes {tuple(vectors.shape[:-2])}: "
            f"give none of them or all of them, with size 1 where it does not vary"
        )
    return first[..., None] + steps


def _angles(
    vectors: Float[Tensor, "*batch m _"], first: int | Tensor, width: int, base: float
) -> Float[Tensor, "*_ m pairs"]:
    """Angles p · base^{-2i/width}, in the vectors' type but float32 at least.

    A position in the millions times a frequency near 1 leaves float32 no digits after the point, so the
    product is formed in float64 where the device has it, and reduced to one turn before it is rounded.
    """
    working = torch.float32 if vectors.device.type == "mps" else torch.float64
    exponent = torch.arange(0, width, 2, device=vectors.device, dtype=working) / width
    angle = _positions(vectors, first)[..., None].to(working) * torch.exp(-math.log(base) * exponent)
    return (angle % (2 * math.pi)).to(torch.float64 if vectors.dtype is torch.float64 else torch.float32)


def _even(value: object, name: str) -> int:
    size = whole(value, name, least=2)
    if size % 2:
        raise ValueError(f"{name} must be even, for it is taken in pairs, got {size}")
    return size


def _check_width(module: nn.Module, vectors: Tensor, width: int) -> None:
    if vectors.shape[-1] != width:
        raise ValueError(
            f"{type(module).__name__} was made for vectors of width {width}, got shape {tuple(vectors.shape)}"
        )
