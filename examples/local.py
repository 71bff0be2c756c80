"""Luong's local-p learns where to look: on reversal the centre runs backwards (arXiv:1508.04025).

Each query carries its own position only; the keys say nothing about theirs. So the predicted centre is all
that can tell the answer, and only the Gaussian teaches it: without it the centre gets no gradient at all.

    python examples/local.py
"""

import torch
from torch import Tensor, nn

from regard import LocalPredictive, attend, lengths
from regard.core import Focus

LONGEST, WIDTH, DIGITS = 20, 32, 10


class Local(nn.Module):
    """At step t the answer is the digit at S - 1 - t, found through the window alone."""

    def __init__(self, gaussian: bool = True) -> None:
        super().__init__()
        self.gaussian = gaussian
        self.query = nn.Sequential(nn.Linear(2, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
        self.local = LocalPredictive(WIDTH, distance=3)
        self.value = nn.Embedding(DIGITS, WIDTH)
        self.readout = nn.Linear(WIDTH, DIGITS)

    def forward(self, digits: Tensor, length: Tensor) -> tuple[Tensor, Focus]:
        """(batch, n) and (batch) → logits (batch, n, digits), and where each step looked."""
        place = torch.arange(digits.shape[1]).expand(digits.shape) / length[:, None]
        query = self.query(torch.stack([place, 1 / length[:, None].expand(digits.shape)], -1))
        focus = self.local(query, length)
        values = self.value(digits)
        context = attend(
            query,
            torch.zeros_like(query),
            values,
            where=lengths(length) & focus.where,
            after=focus.after if self.gaussian else None,
        )
        return self.readout(context), focus


def train(steps: int = 600, *, gaussian: bool = True) -> tuple[Local, float, float]:
    """The model, its share of right digits, and the mean distance of its centres from the right ones."""
    torch.manual_seed(0)
    model = Local(gaussian)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    place = torch.arange(LONGEST)
    for _ in range(steps):
        length = torch.randint(5, LONGEST + 1, (64,))
        digits = torch.randint(0, DIGITS, (64, LONGEST))
        inside = place < length[:, None]
        wanted = (length[:, None] - 1 - place).clamp_min(0)
        target = digits.gather(1, wanted)
        logits, focus = model(digits, length)
        loss = nn.functional.cross_entropy(logits[inside], target[inside])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    right = (logits.argmax(-1) == target)[inside].double().mean().item()
    distance = (focus.centre - wanted)[inside].abs().mean().item()
    return model, right, distance


if __name__ == "__main__":
    for gaussian in (True, False):
        model, right, distance = train(gaussian=gaussian)
        kind = "with" if gaussian else "without"
        learned = "a" if all(p.grad is not None for p in model.local.parameters()) else "no"
        print(f"{kind} the Gaussian: {right:.1%} of the digits, centre off by {distance:.2f} positions,", end=" ")
        print(f"{learned} gradient to the centre")
