"""The operation once more, as loops over Python floats, from the equations and from nothing else.

Nothing here imports the library or uses a tensor operation: vectors are lists, a row of scores is a list with
None where a key may not be seen. It is slow and meant to be read beside the papers.
"""

import math
from collections.abc import Callable, Sequence

Vector = Sequence[float]
Row = list[float | None]


def dot(q: Vector, k: Vector) -> float:
    return sum(a * b for a, b in zip(q, k, strict=True))


def scaled_dot(q: Vector, k: Vector) -> float:
    return dot(q, k) / math.sqrt(len(k))


def cosine(q: Vector, k: Vector, strength: float) -> float:
    q_length, k_length = math.hypot(*q), math.hypot(*k)
    if not q_length or not k_length:
        return 0.0
    return strength * dot([a / q_length for a in q], [b / k_length for b in k])


def general(q: Vector, k: Vector, w: Sequence[Vector]) -> float:
    return sum(q[a] * w[a][b] * k[b] for a in range(len(q)) for b in range(len(k)))


def additive(q: Vector, k: Vector, w: Sequence[Vector], u: Sequence[Vector], v: Vector) -> float:
    return sum(v[h] * math.tanh(dot(w[h], q) + dot(u[h], k)) for h in range(len(v)))


def location(q: Vector, w: Sequence[Vector], j: int) -> float:
    return dot(w[j], q)


def alibi_slope(heads: int, h: int) -> float:
    """Slope of head h, counted from 0."""
    below = 1
    while below * 2 <= heads:
        below *= 2
    slopes = [2 ** (-8 * (a + 1) / below) for a in range(below)]
    slopes += [2 ** (-8 * (a + 1) / (2 * below)) for a in range(0, 2 * below, 2)]
    return slopes[h]


def bucket(offset: int, buckets: int, furthest: int, both_ways: bool) -> int:
    """The bucket of key minus query position: found by walking up the boundaries, not by a logarithm."""
    start = 0
    if both_ways:
        buckets //= 2
        start = buckets if offset > 0 else 0
        distance = abs(offset)
    else:
        distance = max(-offset, 0)
    exact = buckets // 2
    if distance < exact:
        return start + distance
    chosen = exact
    while chosen + 1 < buckets and distance >= exact * (furthest / exact) ** (
        (chosen + 1 - exact) / (buckets - exact)
    ) * (1 - 1e-6):
        chosen += 1
    return start + chosen


def softmax(row: Row) -> list[float]:
    seen = [s for s in row if s is not None and s > -math.inf]
    if not seen:
        return [0.0] * len(row)
    top = max(seen)
    total = math.fsum(math.exp(s - top) for s in seen)
    return [0.0 if s is None else math.exp(s - top) / total for s in row]


def entmax(row: Row, alpha: float) -> list[float]:
    """By halving an interval that holds the threshold, until floats cannot tell its ends apart."""
    seen = [s for s in row if s is not None and s > -math.inf]
    if not seen:
        return [0.0] * len(row)

    def weight(s: float, threshold: float) -> float:
        return max((alpha - 1) * s - threshold, 0.0) ** (1 / (alpha - 1))

    low = (alpha - 1) * max(seen) - 1
    high = (alpha - 1) * max(seen)
    for _ in range(200):
        middle = (low + high) / 2
        if math.fsum(weight(s, middle) for s in seen) >= 1:
            low = middle
        else:
            high = middle
    return [0.0 if s is None or s == -math.inf else weight(s, low) for s in row]


def hardmax(row: Row) -> list[float]:
    seen = [s for s in row if s is not None and s > -math.inf]
    if not seen:
        return [0.0] * len(row)
    best = row.index(max(seen))
    return [1.0 if j == best else 0.0 for j in range(len(row))]


def combined(weights: Vector, values: Sequence[Vector], width: int) -> list[float]:
    return [math.fsum(w * value[d] for w, value in zip(weights, values, strict=True)) for d in range(width)]


def address(
    key: Vector,
    strength: float,
    gate: float,
    shift: Vector,
    sharpness: float,
    memory: Sequence[Vector],
    before: Vector,
) -> list[float]:
    """One head of the Neural Turing Machine, eq. 5 to 9."""
    slots = len(memory)
    content = softmax([cosine(key, row, strength) for row in memory])
    gated = [gate * c + (1 - gate) * b for c, b in zip(content, before, strict=True)]
    radius = len(shift) // 2
    moved = [0.0] * slots
    for j in range(slots):
        for offset in range(-radius, radius + 1):
            moved[(j + offset) % slots] += gated[j] * shift[offset + radius]
    powers = [w**sharpness for w in moved]
    return [p / math.fsum(powers) for p in powers]


def sinusoid(position: int, width: int) -> list[float]:
    """The paper's layout: sine and cosine in turn."""
    out = []
    for d in range(width):
        angle = position / 10000 ** (2 * (d // 2) / width)
        out.append(math.sin(angle) if d % 2 == 0 else math.cos(angle))
    return out


def rotated(
    vector: Vector, position: int, base: float, pair: Callable[[int], tuple[int, int]], turned: int
) -> list[float]:
    """Each pair of the first `turned` entries as a complex number, times e^{i · position · base^{-2i/turned}}."""
    out = list(vector)
    for i in range(turned // 2):
        a, b = pair(i)
        angle = position * base ** (-2 * i / turned)
        turn = complex(vector[a], vector[b]) * complex(math.cos(angle), math.sin(angle))
        out[a], out[b] = turn.real, turn.imag
    return out


def predicted_centre(h: Vector, w: Sequence[Vector], v: Vector, length: int) -> float:
    """Luong's local-p: S · sigmoid(vᵀ tanh(W h))."""
    inner = math.fsum(v[a] * math.tanh(dot(w[a], h)) for a in range(len(v)))
    return length / (1 + math.exp(-inner))


def gaussian(j: int, centre: float, distance: int) -> float:
    """The factor for the key at j: σ = D / 2."""
    sigma = distance / 2
    return math.exp(-((j - centre) ** 2) / (2 * sigma**2))
