"""The operation beside the strongest peers, as ratios in one run: `make bench`.

    regard bench attention [PART …] [--json FILE]       parts: products biases additive local modules costs

A ratio above 1 says how many times longer ours takes. Times are the best of several, taken in turn, so that what
else the machine does touches both alike. A peer that is not installed is left out.
"""

import importlib.metadata
import os
import sys
import warnings
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

import regard
from benchmarks.timing import Row, best, both_ways, kept, shown
from regard.core.score import surely_finite
from regard.errors import RegardError, nearest

fused = functional.scaled_dot_product_attention


def compared(
    name: str,
    size: str,
    peer: str,
    ours: Callable[..., Tensor],
    theirs: Callable[..., Tensor],
    *tensors: Tensor,
    others: tuple[Tensor, ...] | None = None,
    learned: tuple[Tensor, ...] = (),
    their_learned: tuple[Tensor, ...] = (),
    goals: tuple[str, str] = ("", ""),
    ways: tuple[str, ...] = ("forward", "+ backward"),
) -> Iterator[Row]:
    """Ours beside a peer: forward, and forward and backward."""
    others = tensors if others is None else others
    if "forward" in ways:
        with torch.no_grad():
            times = best(lambda: ours(*tensors), lambda: theirs(*others))
        yield Row(name, f"{size} forward", peer, *times, goals[0])
    if "+ backward" in ways:
        times = best(both_ways(ours, *tensors, learned=learned), both_ways(theirs, *others, learned=their_learned))
        yield Row(name, f"{size} + back", peer, *times, goals[1])


SMALL = "≤ 1.05, or 15 µs"


def products() -> Iterator[Row]:
    """The dot product: what PyTorch's own kernel does."""
    for n in (32, 128, 512, 2048, 8192):
        heads = 8 if n < 8192 else 2
        batch = max(1, min(16, 2048 // n))
        query, key, value = (torch.randn(batch, heads, n, 64) for _ in range(3))
        size = f"{batch}×{heads}×{n}×64"
        yield from compared("scaled_dot", size, "SDPA", regard.attend, fused, query, key, value, goals=(SMALL, SMALL))
        yield from compared(
            "scaled_dot, causal",
            size,
            "SDPA is_causal",
            lambda *t: regard.attend(*t, where=regard.causal),
            lambda *t: fused(*t, is_causal=True),
            *(query, key, value),
            goals=(SMALL, SMALL),
        )
    for n in (32, 512, 8192):
        query, (key, value) = torch.randn(4, 8, 1, 64), (torch.randn(4, 8, n, 64) for _ in range(2))
        yield from compared(
            "one query, causal, cached",
            f"4×8×1, {n} keys",
            "SDPA",
            lambda *t, n=n: regard.attend(*t, where=regard.causal, first=n - 1),
            fused,
            *(query, key, value),
            goals=(SMALL, ""),
            ways=("forward",),
        )


def biases() -> Iterator[Row]:
    """Scores that PyTorch's kernel takes only through a table, or not at all."""
    for batch, n in ((4, 128), (2, 512), (1, 2048)):
        query, key, value = (torch.randn(batch, 8, n, 64) for _ in range(3))
        table = nn.Parameter(torch.randn(1, 8, n, n))
        relative = regard.RelativeBias(8)
        scores = {
            "cosine": regard.Cosine(8.0),
            "general": regard.General(64, 64),
            "+ learned bias": regard.scaled_dot + regard.Bias(table),
            "+ RelativeBias, learned": regard.scaled_dot + relative,
            "+ Alibi": regard.scaled_dot + regard.Alibi(8),
        }
        for name, score in scores.items():
            yield from compared(
                name,
                f"{batch}×8×{n}×64",
                "SDPA without",
                lambda *t, score=score: regard.attend(*t, score=score),
                fused,
                *(query, key, value),
                learned=tuple(score.parameters()),
                goals=("≤ 1.2", "≤ 1.4"),
            )
        yield from compared(
            "(PyTorch's own with a learned bias)",
            f"{batch}×8×{n}×64",
            "SDPA without",
            lambda *t, table=table: fused(*t, attn_mask=table),
            fused,
            *(query, key, value),
            learned=(table,),
        )


def additive() -> Iterator[Row]:
    """Bahdanau's score: of queries and keys that are projected already, as Keras has it, and with the projections."""
    width = 256
    for batch, n in ((16, 128), (64, 32)):
        tensors = tuple(torch.randn(batch, n, width) for _ in range(3))
        size, goals = f"{batch}×{n}×{n}×{width}", ("≤ 1/40", "≤ 1/15")
        for name, projected in (("additive", True), ("additive with projections", False)):
            score = regard.Additive(width, width, hidden=width)
            if projected:
                score.query, score.key = nn.Identity(), nn.Identity()  # type: ignore[assignment]
            learned = tuple(score.parameters())
            ours, plain = _ours(score), _plain(score)
            both = {
                "learned": learned,
                "their_learned": learned,
                "goals": goals if n == 128 and projected else ("", ""),
            }
            yield from compared(name, size, "plain PyTorch", ours, plain, *tensors, **both)
            if projected:
                four = tuple(tensor[:, None] for tensor in tensors)
                within = ("≤ 3.5", "") if n == 128 else ("", "")
                yield from compared(
                    name, size, "SDPA", ours, fused, *tensors, others=four, learned=learned, goals=within
                )
                yield from _beside_keras(size, ours, tensors)


def _ours(score: regard.Additive) -> Callable[..., Tensor]:
    return lambda *tensors: regard.attend(*tensors, score=score)


def _plain(score: regard.Additive) -> Callable[..., Tensor]:
    """Additive attention as most would write it."""

    def function(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        hidden = torch.tanh(score.query(query)[..., :, None, :] + score.key(key)[..., None, :, :])
        return (hidden @ score.vector).softmax(-1) @ value

    return function


def _beside_keras(size: str, ours: Callable[..., Tensor], tensors: tuple[Tensor, ...]) -> Iterator[Row]:
    if (keras := _keras()) is not None:
        layer, (query, key, value) = keras.layers.AdditiveAttention(), tensors
        with torch.no_grad():
            times = best(lambda: ours(*tensors), lambda: layer([query, value, key]))
        yield Row("additive", f"{size} forward", "Keras", *times)


def local() -> Iterator[Row]:
    """A window at length 8192."""
    tensors = tuple(torch.randn(1, 4, 8192, 64) for _ in range(3))
    where = regard.causal & regard.window(255)
    yield from compared(
        "causal & window(255)",
        "1×4×8192×64",
        "SDPA is_causal",
        lambda *t: regard.attend(*t, where=where),
        lambda *t: fused(*t, is_causal=True),
        *tensors,
        goals=("", "≤ 1/5"),
    )
    yield from compared(
        "blocks(256)",
        "1×4×8192×64",
        "SDPA is_causal",
        lambda *t: regard.attend(*t, where=regard.blocks(256)),
        lambda *t: fused(*t, is_causal=True),
        *tensors,
    )
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = create_block_mask(lambda b, h, i, j: (i >= j) & (i - j <= 255), None, None, 8192, 8192, device="cpu")
    compiled = torch.compile(flex_attention)
    yield from compared(
        "causal & window(255)",
        "1×4×8192×64",
        "FlexAttention",
        lambda *t: regard.attend(*t, where=where),
        lambda *t: compiled(*t, block_mask=mask),
        *tensors,
        ways=("forward",),
    )


def modules() -> Iterator[Row]:
    """Whole layers, with their projections."""
    x, width, heads = torch.randn(4, 256, 512), 512, 8
    ours = regard.Heads(width, heads)
    torch_heads = nn.MultiheadAttention(width, heads, batch_first=True)
    learned = tuple(ours.parameters())
    goals = (SMALL, SMALL)
    yield from compared(
        *("Heads", "4×256×512", "nn.MultiheadAttention", ours),
        lambda y: torch_heads(y, y, y, need_weights=False)[0],
        x,
        learned=learned,
        their_learned=tuple(torch_heads.parameters()),
        goals=goals,
    )
    yield from compared(
        *("Heads with weights", "4×256×512", "nn.MultiheadAttention", lambda y: (ours(y), ours.weights(y))[0]),
        lambda y: torch_heads(y, y, y, average_attn_weights=False)[0],
        x,
        ways=("forward",),
    )
    shared = regard.Heads(width, heads, key_heads=2)
    yield from compared(
        "Heads, 2 key heads",
        "4×256×512",
        "Heads, 8",
        shared,
        ours,
        x,
        learned=tuple(shared.parameters()),
        their_learned=learned,
    )
    try:
        from x_transformers.x_transformers import Attention
    except ImportError:
        pass
    else:
        other = Attention(dim=width, heads=heads, dim_head=width // heads, flash=True)
        yield from compared(
            *("Heads", "4×256×512", "x-transformers flash", ours),
            lambda y: _first(other(y)),
            x,
            learned=learned,
            their_learned=tuple(other.parameters()),
            goals=goals,
        )
    if (keras := _keras()) is not None:
        layer = keras.layers.MultiHeadAttention(heads, width // heads)
        with torch.no_grad():
            yield Row("Heads", "4×256×512 forward", "Keras", *best(lambda: ours(x), lambda: layer(x, x)), SMALL)


def costs() -> Iterator[Row]:
    """What a law, the dispatch and a watch cost alone."""
    for shape in ((2, 4, 8, 16), (4, 8, 512, 64)):
        x, size = torch.randn(shape), "×".join(map(str, shape))
        with torch.no_grad():
            yield Row("law 3: a look at all inputs", size, "the whole call", *best(
                lambda x=x: surely_finite(x, x, x), lambda x=x: regard.attend(x, x, x)
            ))  # fmt: skip
    x = torch.randn(2, 4, 1, 1)
    with torch.no_grad():
        yield Row(
            "the smallest call",
            "2×4×1×1",
            "SDPA",
            *best(lambda: regard.attend(x, x, x), lambda: fused(x, x, x)),
            "15 µs",
        )
    layer, y = regard.Heads(64, 4), torch.randn(2, 32, 64)

    def watched() -> None:
        with regard.watch(layer) as seen:
            layer(y)
        assert len(seen) == 1

    with torch.no_grad():
        yield Row("a layer watched", "2×32×64", "the same unwatched", *best(watched, lambda: layer(y)))


def _first(found: object) -> Tensor:
    return found[0] if isinstance(found, tuple) else found  # type: ignore[return-value]


def _keras():  # noqa: ANN202
    os.environ.setdefault("KERAS_BACKEND", "torch")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import keras
    except ImportError:
        return None
    return keras


PARTS = {part.__name__: part for part in (products, biases, additive, local, modules, costs)}


def main(words: list[str]) -> None:
    """Prints the table, and keeps it where asked."""
    path = words[words.index("--json") + 1] if "--json" in words[:-1] else None
    chosen = [word for word in words if word not in ("--json", path)]
    wrong = [word for word in chosen if word not in PARTS]
    if wrong:
        raise RegardError(f"bench attention: there is no part {wrong[0]!r}: {nearest(wrong[0], PARTS)}")
    threads = torch.get_num_threads()
    print(
        f"torch {torch.__version__}, {threads} threads; ratios of ours to the peer's, best of several taken in turn\n"
    )
    rows = []
    for name in chosen or PARTS:
        rows += list(PARTS[name]())
        print(f"[{name}] done", file=sys.stderr, flush=True)
    print(shown(rows))
    if path is not None:
        peers = {name: importlib.metadata.version(name) for name in ("keras", "x-transformers") if _installed(name)}
        kept(path, rows, " ".join(["regard bench attention", *words]), **peers)


def _installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


if __name__ == "__main__":
    main(sys.argv[1:])
