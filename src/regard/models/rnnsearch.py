"""RNNsearch: neural translation that learns to align (Bahdanau et al. 2015, arXiv:1409.0473).

    h_j = [→h_j ; ←h_j]                                      a bidirectional encoder
    e_ij = vᵀ tanh(W_a s_{i-1} + U_a h_j)                    the state *before* the step asks
    c_i = Σ_j softmax_j(e_ij) h_j
    s_i = f(s_{i-1}, E y_{i-1}, c_i),  s_0 = tanh(W_s ←h_1)  the backward state at position 1
    p(y_i) ∝ exp(W_o maxout(U_o s + V_o E y_{i-1} + C_o c_i))

The body of the paper reads out s_i, its appendix (A.2.2) s_{i-1}; most code takes s_i. Its unit resets the
state before the matrix, PyTorch's after. Both are settings.

Axes: `batch`, `n` source positions, `m` target positions, `width` of a state.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from regard.core import Additive, Dot, General, Look, Prepared, Score, lengths, scaled_dot, watch
from regard.core.additive import KeySide
from regard.core.call import Call
from regard.core.cells import Cells
from regard.core.looked import Looked
from regard.core.score import is_seen, surely_finite
from regard.core.weigh import softmax
from regard.nn.recurrent import GatedUnit, Maxout, Reader, Reset
from regard.nn.sizes import check_sizes
from regard.nn.stepwise import BEGIN, Step
from regard.nn.unrolled import Inputs, Plan, unrolled


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The sizes and choices of an RNNsearch. The defaults are a small one; `PRESETS["paper"]` is the paper's."""

    source_vocabulary: int = 0
    """Set from the data."""
    target_vocabulary: int = 0
    """Set from the data."""
    width: int = 192
    """Units of the decoder, and of the encoder in each direction."""
    embedding: int = 96
    """Width of a token."""
    readout: int = 96
    """Units of the maxout layer."""
    alignment: int = 128
    """Hidden units of the additive score."""
    score: Literal["additive", "general", "dot", "scaled_dot"] = "additive"
    """How a state matches a source position; the dot products compare through a projection of the state."""
    reads: Literal["after", "before"] = "after"
    """Which state the readout sees: s_i, or s_{i-1} as in the paper's appendix."""
    reset: Reset = "after"
    """Where the reset gate acts: before the matrix as in the paper, or after it as in PyTorch (fused, faster)."""
    dropout: float = 0.0
    """Share of embedding and readout entries set to 0 in training."""
    start: Literal["scaled", "paper"] = "scaled"
    """First weights: PyTorch's, scaled by width; or the paper's, N(0, 0.01) and orthogonal."""

    def __post_init__(self) -> None:
        check_sizes(self)


PRESETS = {
    "small": Config(),
    "paper": Config(
        width=1000, embedding=620, readout=500, alignment=1000, reset="before", reads="before", start="paper"
    ),
}


@dataclasses.dataclass(frozen=True)
class Progress:
    """What the decoder remembers between two steps."""

    state: Float[Tensor, "batch width"]
    keys: Prepared
    notes: Float[Tensor, "batch n two_widths"]
    length: Int[Tensor, " batch"]

    def map(self, change: Callable[[Tensor], Tensor]) -> "Progress":
        """The same after a change of the batch axis."""
        return Progress(change(self.state), self.keys.map(change), change(self.notes), change(self.length))


class RnnSearch(nn.Module):
    """Source tokens to target tokens.

    Args:
        config: Its sizes and choices.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width, notes = config.width, 2 * config.width
        self.source = nn.Embedding(config.source_vocabulary, config.embedding)
        self.target = nn.Embedding(config.target_vocabulary, config.embedding)
        self.reader = Reader(config.embedding, width, reset=config.reset)
        self.first = nn.Linear(width, width)
        self.ask, score = _score(config)
        self.look = Look(score)
        self.unit = GatedUnit(config.embedding + notes, width, reset=config.reset)
        self.mix = nn.Linear(width + config.embedding + notes, 2 * config.readout)
        self.readout = nn.Sequential(Maxout(), nn.Dropout(config.dropout))
        self.word = nn.Linear(config.readout, config.target_vocabulary)
        self.dropout = nn.Dropout(config.dropout)
        if config.start == "paper":
            _start_as_in_the_paper(self)

    def forward(
        self, source: Int[Tensor, "batch n"], source_length: Int[Tensor, " batch"], target: Int[Tensor, "batch m"]
    ) -> Float[Tensor, "batch m vocabulary"]:
        """The logits of every target token, each given those before it."""
        progress = self.begin(source, source_length)
        before = torch.cat([torch.full_like(target[:, :1], BEGIN), target[:, :-1]], 1)
        words = self.dropout(self.target(before.T))
        if not len(words):
            return self.word.weight.new_zeros(*target.shape, self.config.target_vocabulary)
        learns = self.training and torch.is_grad_enabled()
        states, contexts = (self._unrolled(progress, words) if learns else None) or self._steps(progress, words)
        if self.config.reads == "before":
            states = torch.cat([progress.state[None].to(states.dtype), states[:-1]])
        return self._read_out(states, words, contexts, turned=True)

    def begin(self, source: Int[Tensor, "batch n"], source_length: Int[Tensor, " batch"]) -> Progress:
        """Reads the sources, and does the keys' share of the score once."""
        read = self.reader(self.dropout(self.source(source)), source_length)
        return Progress(torch.tanh(self.first(read.backward)), self.look.prepare(read.notes), read.notes, source_length)

    def step(self, state: Progress, token: Int[Tensor, " batch"]) -> Step:
        """One token on: its word and a look from the state before make the next state."""
        weights = self.weights(state, state.state)
        if state.keys.sound is None:
            context = (weights[:, None] @ state.notes)[:, 0]
            self._note(state, state.state[None])
        else:  # there are notes to be cleaned
            context = self._look(state, state.state)
        word = self.target(token)
        following = self.unit(self.unit.project(torch.cat([word, context], -1)), state.state)
        read = following if self.config.reads == "after" else state.state
        return Step(
            logits=self._read_out(read, word, context),
            state=dataclasses.replace(state, state=following),
            weights=weights,
        )

    def weights(self, progress: Progress, state: Float[Tensor, "batch width"]) -> Float[Tensor, "batch n"]:
        """Where a state looks."""
        return self.look.weights(self.ask(state)[:, None], progress.keys, where=lengths(progress.length))[:, 0]

    def _look(self, progress: Progress, state: Tensor) -> Tensor:
        asked = self.ask(state)[:, None]
        context: Tensor = self.look(asked, progress.keys, progress.notes, where=lengths(progress.length))
        return context[:, 0]

    def _steps(self, progress: Progress, words: Float[Tensor, "m batch embedding"]) -> tuple[Tensor, Tensor]:
        """The states and contexts of all steps, one by one."""
        width, project = words.shape[-1], self.unit.project
        shares = functional.linear(words, project.weight[:, :width], project.bias)  # these do not wait for the state
        state, states, contexts = progress.state, [], []
        for share in shares:
            context = self._look(progress, state)
            state = self.unit(share + functional.linear(context, project.weight[:, width:]), state)
            states.append(state)
            contexts.append(context)
        return torch.stack(states), torch.stack(contexts)

    def _unrolled(self, progress: Progress, words: Float[Tensor, "m batch embedding"]) -> tuple[Tensor, Tensor] | None:
        """The same in the form that learns fast; nothing where that form does not hold all that `attend` promises."""
        keys, notes, score = progress.keys, progress.notes, self.look.score
        if not is_seen(words, notes) or keys.sound is not None or 0 in notes.shape:
            return None
        weight, bias, unit = self.unit.parts()
        width, recurrent = words.shape[-1], unit.recurrent
        vector = exponential = None
        if isinstance(score, Additive) and isinstance(keys.share, KeySide):
            compared, vector = keys.share.projected, score.vector
            if isinstance(keys.share.exponential, tuple):
                return None
            exponential, recurrent = keys.share.exponential, torch.cat([recurrent, score.query.weight])
        elif isinstance(keys.share, Tensor):
            compared = keys.share
            recurrent = torch.cat([recurrent, self.ask.weight]) if isinstance(self.ask, nn.Linear) else recurrent
        scale = notes.shape[-1] ** -0.5 if score is scaled_dot else 1.0
        hidden = torch.arange(notes.shape[1], device=notes.device) >= progress.length[:, None]
        shares = functional.linear(words, weight[:, :width], bias)
        inputs = Inputs(
            *(shares, progress.state, notes, compared, vector),
            *(weight[:, width:], recurrent, unit.inner, unit.bias),
        )
        states, contexts = unrolled(Plan(hidden if hidden.any() else None, exponential, scale), inputs)
        if not surely_finite(contexts, states):
            return None
        self._note(progress, torch.cat([progress.state[None].to(states.dtype), states[:-1]]) if watch.OPEN else states)
        return states, contexts

    def _note(self, progress: Progress, states: Float[Tensor, "m batch width"]) -> None:
        """Tells whoever watches that each of these states looked, since `look` itself was not called."""
        watches = watch.watches() if watch.OPEN else []
        if not watches:
            return
        keys, notes, where = progress.keys, progress.notes, lengths(progress.length)
        cells = Cells(tuple(notes.shape[:1]), 1, notes.shape[1], 0, notes.device)
        for asked in self.ask(states):
            call = Call(asked[:, None], keys, notes, self.look.score, where, softmax, cells)
            for each in watches:
                each.record(self.look, partial(Looked, call=call, heads=False))

    def _read_out(self, state: Tensor, word: Tensor, context: Tensor, *, turned: bool = False) -> Tensor:
        """The logits; turned, of (m, batch, …) as (batch, m, …), which is done before they are many."""
        read: Tensor = self.readout(self.mix(torch.cat([state, word, context], -1)))
        logits: Tensor = self.word(read.transpose(0, 1) if turned else read)
        return logits


def _score(config: Config) -> tuple[nn.Module, Score]:
    """What turns a state into a query, and the score."""
    width, notes = config.width, 2 * config.width
    if config.score == "additive":
        return nn.Identity(), Additive(width, notes, config.alignment)
    if config.score == "general":
        return nn.Identity(), General(width, notes)
    return nn.Linear(width, notes, bias=False), scaled_dot if config.score == "scaled_dot" else Dot()


def _start_as_in_the_paper(model: RnnSearch) -> None:
    """Recurrent matrices orthogonal, W_a and U_a N(0, 0.001), v 0, everything else N(0, 0.01), biases 0."""
    for name, parameter in model.named_parameters():
        if parameter.ndim < 2:
            nn.init.zeros_(parameter)
        elif name.endswith(("gates.weight", "state.weight")) or "weight_hh" in name:
            for block in torch.split(parameter.data, parameter.shape[1]):
                nn.init.orthogonal_(block)
        else:
            nn.init.normal_(parameter, std=0.001 if name.startswith("look.score.") else 0.01)
