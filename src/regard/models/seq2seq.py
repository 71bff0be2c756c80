"""seq2seq: a source read into one vector, and a target written from it (Sutskever et al. 2014, arXiv:1409.3215).

An encoder LSTM reads the source, reversed; its last states, of every layer, are the decoder's first. There is
no attention: whatever the target needs must pass through those states, and accuracy falls with length.

Axes: `batch`, `n` source positions, `m` target positions, `layers`, `width` of a state.
"""

import dataclasses
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.nn.recurrent import reversed_lines
from regard.nn.sizes import check_sizes
from regard.nn.stepwise import BEGIN, Step


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The sizes and choices of a seq2seq. The defaults are a small one; `PRESETS["paper"]` is the paper's."""

    source_vocabulary: int = 0
    """Set from the data."""
    target_vocabulary: int = 0
    """Set from the data."""
    layers: int = 2
    """LSTM layers of the encoder, and of the decoder."""
    width: int = 192
    """Units of each layer."""
    embedding: int = 96
    """Width of a token."""
    reverse: bool = True
    """Whether the source is read from its end, so that its first words are the freshest."""
    dropout: float = 0.0
    """Share of entries set to 0 in training, before each layer and the readout."""
    uniform: float = 0.0
    """First weights from U(±uniform), as the paper's 0.08; 0 for PyTorch's."""

    def __post_init__(self) -> None:
        check_sizes(self)


PRESETS = {
    "small": Config(),
    "paper": Config(layers=4, width=1000, embedding=1000, uniform=0.08),
}


@dataclasses.dataclass(frozen=True)
class Progress:
    """The decoder's states, batch first."""

    hidden: Float[Tensor, "batch layers width"]
    cell: Float[Tensor, "batch layers width"]

    def map(self, change: Callable[[Tensor], Tensor]) -> "Progress":
        """The same after a change of the batch axis."""
        return Progress(change(self.hidden), change(self.cell))


class Seq2Seq(nn.Module):
    """Source tokens to target tokens.

    Args:
        config: Its sizes and choices.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        sizes = (config.embedding, config.width, config.layers)
        between = config.dropout if config.layers > 1 else 0.0
        self.source = nn.Embedding(config.source_vocabulary, config.embedding)
        self.target = nn.Embedding(config.target_vocabulary, config.embedding)
        self.encoder = nn.LSTM(*sizes, batch_first=True, dropout=between)
        self.decoder = nn.LSTM(*sizes, batch_first=True, dropout=between)
        self.word = nn.Linear(config.width, config.target_vocabulary)
        self.dropout = nn.Dropout(config.dropout)
        if config.uniform:
            for parameter in self.parameters():
                nn.init.uniform_(parameter, -config.uniform, config.uniform)

    def forward(
        self, source: Int[Tensor, "batch n"], source_length: Int[Tensor, " batch"], target: Int[Tensor, "batch m"]
    ) -> Float[Tensor, "batch m vocabulary"]:
        """The logits of every target token, each given those before it."""
        if not target.shape[1]:
            return self.word.weight.new_zeros(*target.shape, self.config.target_vocabulary)
        before = torch.cat([torch.full_like(target[:, :1], BEGIN), target[:, :-1]], 1)
        logits, _ = self._write(self.begin(source, source_length), before)
        return logits

    def begin(self, source: Int[Tensor, "batch n"], source_length: Int[Tensor, " batch"]) -> Progress:
        """Reads the sources; the states are those at each line's own end, not at the padding's."""
        if self.config.reverse:
            source = reversed_lines(source, source_length)
        words = self.dropout(self.source(source))
        packed = nn.utils.rnn.pack_padded_sequence(words, source_length.cpu(), batch_first=True, enforce_sorted=False)
        _, (hidden, cell) = self.encoder(packed)
        return Progress(hidden.transpose(0, 1), cell.transpose(0, 1))

    def step(self, state: Progress, token: Int[Tensor, " batch"]) -> Step:
        """One token on."""
        logits, state = self._write(state, token[:, None])
        return Step(logits[:, 0], state, None)

    def _write(self, progress: Progress, before: Int[Tensor, "batch m"]) -> tuple[Tensor, Progress]:
        first = (progress.hidden.transpose(0, 1).contiguous(), progress.cell.transpose(0, 1).contiguous())
        states, (hidden, cell) = self.decoder(self.dropout(self.target(before)), first)
        return self.word(self.dropout(states)), Progress(hidden.transpose(0, 1), cell.transpose(0, 1))
