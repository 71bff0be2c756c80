"""A small RNNsearch learns to reverse a line of digits, and shows where it looked.

Bahdanau et al. 2015 (arXiv:1409.0473): a bidirectional encoder, and a decoder that at each step looks at the
encoder's states with additive attention. The keys are prepared once a sentence; a step asks them anew.

    python examples/reversal.py            half a minute on two cores
"""

import sys

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard import Additive, attend, lengths, weights

DIGITS, START, PAD, LONGEST = 10, 10, 11, 9


class Search(nn.Module):
    """The decoder's state before the step is the query, s_{i-1}; the context enters the step and the readout."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.embed = nn.Embedding(12, width)
        self.encoder = nn.GRU(width, width, bidirectional=True, batch_first=True)
        self.score = Additive(query_width=width, key_width=2 * width, hidden=width)
        self.begin = nn.Linear(width, width)
        self.cell = nn.GRUCell(3 * width, width)
        self.readout = nn.Linear(4 * width, DIGITS)

    def forward(self, source: Tensor, length: Tensor, target: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Reads the source, answers step by step: fed the target where there is one, else its own answers.

        Returns:
            Logits (batch, n, digits), and the queries of all steps (batch, n, width), for `looked`.
        """
        notes, state = self.read(source, length)
        keys, within = self.score.prepare(notes), lengths(length)
        token = torch.full_like(length, START)
        logits, queries = [], []
        for step in range(source.shape[1]):
            queries.append(state)
            context = attend(state[:, None], keys, notes, score=self.score, where=within)[:, 0]
            given = torch.cat([self.embed(token), context], -1)
            state = self.cell(given, state)
            logits.append(self.readout(torch.cat([state, given], -1)))
            token = logits[-1].argmax(-1) if target is None else target[:, step]
        return torch.stack(logits, 1), torch.stack(queries, 1)

    def read(self, source: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
        """The encoder's states (batch, n, 2 width), and the decoder's first, from the backward state at 1."""
        embedded = self.embed(source)
        packed = nn.utils.rnn.pack_padded_sequence(embedded, length, batch_first=True, enforce_sorted=False)
        states, last = self.encoder(packed)
        notes, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True, total_length=source.shape[1])
        return notes, torch.tanh(self.begin(last[1]))

    def looked(self, queries: Tensor, source: Tensor, length: Tensor) -> Tensor:
        """The weights of all steps at once, (batch, n, n)."""
        return weights(queries, self.read(source, length)[0], score=self.score, where=lengths(length))


def batch(size: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Lines of digits of different lengths, padded, and the same lines reversed."""
    length = torch.randint(2, LONGEST + 1, (size,), generator=generator)
    source = torch.randint(0, DIGITS, (size, LONGEST), generator=generator)
    place = torch.arange(LONGEST)
    inside = place < length[:, None]
    target = source.gather(1, (length[:, None] - 1 - place).clamp_min(0))
    return source.where(inside, PAD), length, target.where(inside, PAD)


def train(steps: int, seed: int = 0) -> Search:
    """Trains with teacher forcing."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = Search()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        source, length, target = batch(64, generator)
        logits, _ = model(source, length, target)
        loss = functional.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 200 == 199:
            print(f"step {step + 1:4}  loss {loss.item():.3f}", flush=True)
    return model.eval()


@torch.no_grad()
def accuracy(model: Search, examples: int = 1000) -> float:
    """The share of lines reversed without a fault, the model fed its own answers."""
    source, length, target = batch(examples, torch.Generator().manual_seed(1))
    answer = model(source, length)[0].argmax(-1)
    return ((answer == target) | (target == PAD)).all(1).double().mean().item()


@torch.no_grad()
def show(model: Search) -> None:
    """One line, and where each answer looked: the darker the more."""
    source, length, _ = batch(1, torch.Generator().manual_seed(5))
    size = int(length)
    logits, queries = model(source, length)
    looked = model.looked(queries, source, length)
    print("\n      " + " ".join(f"{digit:2}" for digit in source[0, :size].tolist()))
    for answer, row in zip(logits[0, :size].argmax(-1).tolist(), looked[0, :size].tolist(), strict=True):
        print(f"  {answer:2}  " + " ".join(2 * " ░▒▓█"[min(int(w * 5), 4)] for w in row[:size]))


if __name__ == "__main__":
    trained = train(int(sys.argv[1]) if len(sys.argv) > 1 else 1200)
    print(f"{accuracy(trained):.1%} of 1000 lines reversed without a fault")
    show(trained)
    print("\nRows are answers, columns the line that was read. Next: docs/attention.md")
