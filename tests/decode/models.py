"""Small models that write step by step, each made to show one thing."""

import dataclasses
import hashlib

import torch
from torch import nn

from regard.data.tokens import BEGIN, END, PAD
from regard.nn.stepwise import Step

NEVER = (PAD, BEGIN)


@dataclasses.dataclass(frozen=True, eq=False)
class Memory:
    """A decoder's state as a tuple of tensors."""

    tensors: tuple

    def map(self, change):
        return Memory(tuple(change(tensor) for tensor in self.tensors))


def number(*parts) -> int:
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:7], "big")


class Table:
    """Random logits for every (source, prefix), the same wherever and whenever they are asked for."""

    def __init__(self, vocabulary: int, seed: int = 0, spread: float = 1.5, dtype=torch.float64):
        self.vocabulary, self.seed, self.spread, self.dtype = vocabulary, seed, spread, dtype
        self.rows = []  # how many rows each step computed

    def logits(self, source: tuple, prefix: tuple) -> torch.Tensor:
        generator = torch.Generator().manual_seed(number(self.seed, source, prefix))
        return self.spread * torch.randn(self.vocabulary, generator=generator, dtype=torch.float64)

    def begin(self, source, source_length):
        return Memory((source, source_length, torch.zeros(len(source), 0, dtype=torch.long)))

    def step(self, state, token):
        source, length, prefix = state.tensors
        self.rows.append(len(token))
        prefix = torch.cat([prefix, token[:, None]], dim=1)
        logits = [
            self.logits(tuple(s[:n]), tuple(p))
            for s, n, p in zip(source.tolist(), length.tolist(), prefix.tolist(), strict=True)
        ]
        table = torch.stack(logits) if logits else torch.zeros(0, self.vocabulary)
        return Step(table.to(self.dtype), Memory((source, length, prefix)), None)

    def all_outputs(self, source: tuple, longest: int) -> list:
        """Every (tokens, finished, log-probabilities) of at most `longest` tokens, END included."""
        found, open_ = [], [((), ())]
        for _ in range(longest):
            longer = []
            for tokens, logs in open_:
                each = torch.log_softmax(self.logits(source, (BEGIN, *tokens)), -1).tolist()
                for token in range(self.vocabulary):
                    if token == END:
                        found.append((tokens, True, (*logs, each[token])))
                    elif token not in NEVER:
                        longer.append(((*tokens, token), (*logs, each[token])))
            open_ = longer
        return found + [(tokens, False, logs) for tokens, logs in open_]


class Fixed:
    """The same logits at every step, whatever was written: for ties, limits and numbers that are not."""

    def __init__(self, *logits, weights=None):
        self.row, self.weights = torch.tensor(logits, dtype=torch.float64), weights

    def begin(self, source, source_length):
        return Memory((source,))

    def step(self, state, token):
        count = len(token)
        weights = None if self.weights is None else torch.tensor(self.weights).expand(count, -1)
        return Step(self.row.expand(count, -1), state, weights)


class Witness(Table):
    """Its weights say for whom they were computed: source number, token before, step, and the whole prefix."""

    def step(self, state, token):
        logits, state, _ = super().step(state, token)
        source, _, prefix = state.tensors
        return Step(logits, state, torch.stack([self.seen(s, p) for s, p in zip(source, prefix, strict=True)]))

    @staticmethod
    def seen(source, prefix) -> torch.Tensor:
        marks = [source[0].item(), prefix[-1].item(), len(prefix), number(tuple(prefix.tolist())) % 2**40]
        row = torch.zeros(len(source), dtype=torch.float64)
        row[:4] = torch.tensor(marks, dtype=torch.float64)
        return row


class Recurrent(nn.Module):
    """A GRU that attends to embedded sources: real arithmetic, random weights."""

    def __init__(self, vocabulary: int, width: int, dtype=torch.float64, sharp: float = 4.0, ending: float = 0.0):
        super().__init__()
        generator = torch.Generator().manual_seed(7)
        self.embedding = nn.Embedding(vocabulary, width)
        self.cell = nn.GRUCell(2 * width, width)
        self.query = nn.Linear(width, width, bias=False)
        self.readout = nn.Linear(2 * width, vocabulary)
        for parameter in self.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator) * sharp / width**0.5
        self.readout.bias.data[END] += ending
        self.to(dtype)

    def begin(self, source, source_length):
        keys = self.embedding(source)
        real = torch.arange(source.shape[1]) < source_length[:, None]
        mean = (keys * real[..., None]).sum(1) / source_length[:, None].clamp(min=1)
        return Memory((mean.tanh(), keys, real))

    def step(self, state, token):
        hidden, keys, real = state.tensors
        scores = (keys @ self.query(hidden)[..., None])[..., 0] / keys.shape[-1] ** 0.5
        weights = torch.softmax(scores.masked_fill(~real, -torch.inf), -1)
        context = (weights[:, None] @ keys)[:, 0]
        hidden = self.cell(torch.cat([self.embedding(token), context], -1), hidden)
        return Step(self.readout(torch.cat([hidden, context], -1)), Memory((hidden, keys, real)), weights)


def sentences(count: int, vocabulary: int, least: int, most: int, seed: int = 1) -> list:
    """Random sources of mixed lengths, each ending with END."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(least, most + 1, (count,), generator=generator).tolist()
    return [
        [*torch.randint(END + 1, vocabulary, (n - 1,), generator=generator).tolist(), END] for n in lengths
    ]  # fmt: skip


def padded(sources: list) -> tuple:
    """(source, source_length) of a batch."""
    width = max((len(s) for s in sources), default=1)
    rows = [[*s, *[PAD] * (width - len(s))] for s in sources]
    return torch.tensor(rows, dtype=torch.long).reshape(len(rows), width), torch.tensor(
        [len(s) for s in sources], dtype=torch.long
    )
