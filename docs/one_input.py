"""Writes `one-input.md`: what libraries answer to a few small inputs, each answer found by running it.

    python -m docs.one_input

The paths are in `answers`. One that differs from `regard` where nothing is asked stops the script:
it would not be the same computation. Nothing is random but dropout, of which only the presence is told.
"""

from collections.abc import Callable
from pathlib import Path as File
from typing import Any, NamedTuple

import torch
from torch import Tensor

from docs.answers import entmax_functions, keras_layers, ours, pytorch, transformers_models, x_transformers_layers
from docs.answers.parts import LENGTH, PEERS, WIDTH, Asked, Look, Path, Step, installed

PAGE = File(__file__).with_name("one-input.md")
TOKENS = (torch.arange(2 * LENGTH * WIDTH) * 0.7).sin().view(2, LENGTH, WIDTH)
NOTHING_TO_SEE = torch.tensor([[True] * LENGTH, [False] * LENGTH])
LAST_HIDDEN = torch.tensor([[True] * (LENGTH - 1) + [False], [True] * LENGTH])
CLOSE = 1e-5

LIBRARIES = {
    "torch": pytorch,
    "keras": keras_layers,
    "transformers": transformers_models,
    "x-transformers": x_transformers_layers,
    "entmax": entmax_functions,
}


class Table(NamedTuple):
    """A table of the page."""

    header: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def column(self, name: str) -> list[str]:
        """The cells under a heading."""
        return [row[self.header.index(name)] for row in self.rows]

    def __str__(self) -> str:
        lines = [self.header, ("---",) * len(self.header), *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _all(kind: str) -> list[Any]:
    """All ways of one kind, of the libraries that are here."""
    makers = [getattr(library, kind, tuple) for peer, library in LIBRARIES.items() if peer in installed()]
    return [way for maker in makers for way in maker()]


def every_key_masked() -> Table:
    """The second example has no key at all; a loss is taken on the first."""
    header = (
        "path",
        "that row",
        "gradients of a loss on the other rows",
        "`regard`: that row",
        "`regard`: gradients",
    )
    return Table(header, [_masked_row(path) for path in _all("looks")])


def _masked_row(path: Path) -> tuple[str, ...]:
    mean = TOKENS.mean(1, keepdim=True).expand_as(TOKENS)
    candidates = {
        "zeros": path.shown(TOKENS, torch.zeros_like(TOKENS))[1],
        "the mean of the values": path.shown(TOKENS, mean)[1],
    }
    mine, our_gradients = _ran(path, path.ours, [TOKENS] * 3, NOTHING_TO_SEE, 0)
    theirs, gradients = _ran(path, path.there, [TOKENS] * 3, NOTHING_TO_SEE, 0)
    if isinstance(theirs, Exception):
        answer = _raised(theirs)
    else:
        _require_same(path, theirs[0], mine[0])
        answer = _called(theirs[1], candidates)
    return (_label(path), answer, gradients, _called(mine[1], candidates), our_gradients)


def hidden_nan() -> Table:
    """NaN in the last token of the first example, which nothing may see."""
    header = ("path", "NaN in its key", "NaN in its value", "`regard`: in its key", "`regard`: in its value")
    rows = []
    for path in _all("looks"):
        cells = [_nan_answer(path, look, place) for look in (path.there, path.ours) for place in (1, 2)]
        rows.append((_label(path) + (" ¹" if path.itself else ""), *cells))
    return Table(header, rows)


def _nan_answer(path: Path, look: Look, place: int) -> str:
    """How the rows that may not see the NaN, and the gradients of a loss on them, are affected by it."""
    rows = (0, slice(-1))
    inputs = [TOKENS.clone() for _ in range(3)]
    plain, _ = _ran(path, look, inputs, LAST_HIDDEN, rows)
    _require_same(path, plain[rows], _ran(path, path.ours, inputs, LAST_HIDDEN, rows)[0][rows])
    inputs[0 if path.itself else place][0, -1] = torch.nan
    output, gradients = _ran(path, look, inputs, LAST_HIDDEN, rows)
    if isinstance(output, Exception):
        return _raised(output)
    answer = _called(output[rows], {"unaffected": plain[rows]})
    return "NaN gradients" if (answer, gradients) == ("unaffected", "NaN") else answer


def one_query() -> Table:
    """Each value is 1 in a place of its own, so that the output shows which were seen."""
    return Table(
        ("path", "what the query sees"), [(_label(step), _seen(step)) for step in [*_all("steps"), *ours.steps()]]
    )


def _seen(step: Step) -> str:
    tokens = torch.eye(LENGTH)[None]
    output = _tried(lambda: step.look(tokens[:, -1:], tokens))
    if isinstance(output, Exception):
        return _raised(output)
    keys = [str(key) for key in output[0, 0].nonzero().flatten().tolist()]
    return f"keys {', '.join(keys)}" if len(keys) > 1 else f"key {keys[0]} only"


def asking_for_weights() -> Table:
    """Each path is called without asking, with asking, and with asking and dropout."""
    header = (
        "path",
        "what comes back",
        "the output, asked and not",
        "the same, every key masked",
        "sum of the weights, every key masked",
        "sums of the others in training with dropout",
    )
    ways = [*_all("asked"), *ours.asked()]
    return Table(header, [_asked_row(way) for way in ways])


def _asked_row(way: Asked) -> tuple[str, ...]:
    module = way.make(0.0, False)
    plain, _ = way.call(module, TOKENS, NOTHING_TO_SEE, False)
    answer = _tried(lambda: way.call(module, TOKENS, NOTHING_TO_SEE, True))
    if isinstance(answer, Exception):
        return (_label(way), _raised(answer), "–", "–", "–", "–")
    output, weights = answer
    compared = [_difference(plain[example], output[example]) for example in (0, 1)]
    if not isinstance(weights, Tensor):
        return (_label(way), f"`{weights!r}`", *compared, "–", "–")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        dropped = way.call(way.make(0.5, True), TOKENS, NOTHING_TO_SEE, True)[1]
    return (
        _label(way),
        _which_weights(way, weights),
        *compared,
        _sums(weights[1]),
        _sums(dropped[0]) if way.drops else "–",
    )


def _which_weights(way: Asked, weights: Tensor) -> str:
    tokens = way.inner(TOKENS[:1])
    heads = ours.our_heads().weights(tokens)
    candidates = {"those of each head": heads, "their average over the heads": heads.mean(1)}
    if way.alone:
        candidates = {"those of its one head": (tokens @ tokens.mT).softmax(-1)}
    return _called(weights[:1], candidates)


def _sums(weights: Tensor) -> str:
    total = weights.sum(-1)
    return _called(total, {"1": torch.ones_like(total), "0": torch.zeros_like(total)}, otherwise="not 1")


def _difference(plain: Tensor, asked: Tensor) -> str:
    if plain.isnan().any() or asked.isnan().any():
        before, after = ("NaN" if output.isnan().any() else "numbers" for output in (plain, asked))
        return "NaN both times" if before == after else f"{after}, and {before} when not asked"
    apart = (plain - asked).abs().max().item()
    return "the same" if apart < CLOSE else f"{apart:.2f} apart"


def _ran(path: Path, look: Look, inputs: list[Tensor], here: Tensor, rows: Any) -> tuple[Any, str]:
    """The output or the error; and what becomes of the gradients of a loss on some rows."""
    leaves = [tokens.clone().requires_grad_() for tokens in (inputs[:1] if path.itself else inputs)]
    output = _tried(lambda: look(*(leaves * 3 if path.itself else leaves), here))
    if isinstance(output, Exception):
        return output, "–"
    parameters = [parameter for module in path.modules for parameter in module.parameters()]
    return output.detach(), _gradients(output[rows], leaves + parameters)


def _gradients(output: Tensor, leaves: list[Tensor]) -> str:
    """Whether the gradients are numbers, wherever a leaf is one."""
    if not output.requires_grad:
        return "–"
    found = torch.autograd.grad(output.square().sum(), leaves, allow_unused=True)
    pairs = zip(found, leaves, strict=True)
    sound = all(gradient is None or gradient[leaf.isfinite()].isfinite().all() for gradient, leaf in pairs)
    return "finite" if sound else "NaN"


def _tried(compute: Callable[[], Any]) -> Any:
    try:
        return compute()
    except Exception as error:  # whatever a library raises is its answer
        return error


def _raised(error: Exception) -> str:
    """The first sentence of an error."""
    sentence = str(error).splitlines()[0].split(". ")[0]
    return f"raises {type(error).__name__}: {sentence}"


def _called(output: Tensor, candidates: dict[str, Tensor], otherwise: str = "other numbers") -> str:
    """The name of the candidate that an output is."""
    if output.isnan().any():
        return "NaN" if output.isnan().all() else "NaN in part"
    same = (
        name
        for name, candidate in candidates.items()
        if candidate.shape == output.shape and torch.allclose(output, candidate, rtol=0, atol=CLOSE)
    )
    return next(same, otherwise)


def _require_same(path: Path, theirs: Tensor, mine: Tensor) -> None:
    if not torch.allclose(theirs, mine, rtol=0, atol=CLOSE):
        raise RuntimeError(f"{_label(path)} differs from regard where nothing is asked: it is set up wrongly")


def _label(path: Path | Step | Asked) -> str:
    return f"{PEERS.get(path.peer, '**regard**')} {path.name}"


def versions() -> str:
    """The sentence that names what the page was made with, and what was left out."""
    here = installed()
    sentence = f"Made with {', '.join(f'{PEERS[peer]} {number}' for peer, number in here.items())}, on a CPU."
    missing = [name for peer, name in PEERS.items() if peer not in here]
    return f"{sentence} Left out, since they could not be imported: {', '.join(missing)}." if missing else sentence


def page() -> str:
    """The whole page."""
    masked = every_key_masked()
    return f"""\
# One input, many answers

Libraries of attention agree on ordinary inputs. On a few small ones they do not, sometimes not even with
themselves. This page gives such inputs to the libraries that are at hand and shows what came back.
`python -m docs.one_input` writes it, and finds each answer by running the path that gives it.

{versions()}

All paths compute the same thing: two heads of width 2 (one of width 4 where a path has no heads), identity
matrices for projections, no biases. In the rows that may see something, all agree with `regard` to 1e-5. A dash
stands where there is nothing to tell: no gradients under `no_grad`, no dropout in evaluation, no weights.

## A row with every key masked

Two examples of four tokens, of which the second is padding only: its queries may look at nothing. The gradients
are those of a loss on the first example alone.

{masked}

{_answers(masked)}

The mean of the values is a mean over padding, and looks like any other vector. A NaN spreads: where the gradients
are NaN, the loss never touched the row that caused it. `regard` answers with zeros because a sum over no keys is
0. There is no score to normalise and nothing to learn from, so the row's gradients are 0 too. The mask goes to
the normaliser and not into the scores, so that this holds for every score, every normaliser and every path.

## NaN in a masked key or value

The last of the first example's four tokens is masked, and holds NaN: in its key, or in its value. The table tells
what happens to the three rows before it, which may not see it.

{hidden_nan()}

¹ Query, key and value are one tensor here, so that the NaN is in all three of its last token.

*NaN gradients*: the output is right, and gradients of a loss on it are NaN. A weight of 0 does not hide a NaN,
since 0 times NaN is NaN; nor does an added -inf. `regard` takes what is not finite out of its inputs before it
computes, and marks afterwards the rows that may see it. So a NaN that may not be seen changes no output and no
gradient, and one that may be seen still comes out as NaN.

## One query, four keys, causal

A decoder with a cache has one query and the keys of all positions so far. The query is the last of four, so that
it may see all four.

{one_query()}

*Key 0 only* takes the query to stand at position 0, since a mask made from a table of one row and four columns
cannot tell where the row stands. `regard` does not guess it from the sizes. The first query stands at `first`, 0
unless given, and a cache gives it.

## Asking for the weights

The same two examples, called once without asking for the weights and once with. Dropout is off except in the last
column.

{asking_for_weights()}

Weights that do not sum to 1 were taken after dropout. Where every key is masked, weights that sum to 1 beside an
output of zeros (first table) are not those that were applied. In `regard` the weights are a call of their own,
with the same scores, mask and normaliser, so that asking cannot change an output. They are those of each head
before dropout, and each row sums to 1, or to 0 where it may see nothing.
"""


def _answers(masked: Table) -> str:
    """Which answers each library has."""
    found: dict[str, dict[str, None]] = {}
    for path, answer in zip(_all("looks"), masked.column("that row"), strict=True):
        found.setdefault(PEERS[path.peer], {})[answer.split(":")[0]] = None
    listed = [f"- {peer}: {', '.join(answers)}" for peer, answers in found.items()]
    return "All answers of each library:\n\n" + "\n".join(listed)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote docs/{PAGE.name}")
