"""One look, as a module: for a model that has no heads, and asks from wherever it is."""

import torch
from torch import Tensor, nn

from regard.core.compare import scaled_dot
from regard.core.local import Factor
from regard.core.operation import attend, weights
from regard.core.score import Prepared, Score, as_score
from regard.core.weigh import Weigh, as_weigh, softmax
from regard.core.where import Where, as_where, everywhere


class Look(nn.Module):
    """The operation with its choices made, so that it has a name in a model.

    A model that calls `attend` while none of its modules is running, as a recurrent decoder does in its step, could
    not be told from another. With a `Look` for each attention it has, `regard.watch` says which is which.

    Args:
        score: How well a query matches a key.
        where: Which keys a query may see, in every call. A call may narrow it further.
        weigh: How scores become weights.
        dropout: The share of weights set to 0 in training.

    >>> import torch
    >>> from regard.core import Additive, Look
    >>> look = Look(Additive(4, 6, hidden=5))
    >>> state, notes = torch.randn(2, 1, 4), torch.randn(2, 7, 6)
    >>> keys = look.prepare(notes)
    >>> look(state, keys, notes).shape, look.weights(state, keys).shape
    (torch.Size([2, 1, 6]), torch.Size([2, 1, 7]))
    """

    def __init__(
        self,
        score: Score = scaled_dot,
        *,
        where: Where = everywhere,
        weigh: Weigh = softmax,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if not 0 <= dropout < 1:
            raise ValueError(f"Look: dropout must be at least 0 and below 1, got {dropout}")
        self.score = as_score(score, "Look: score")
        self.where = as_where(where, "Look: where")
        self.weigh = as_weigh(weigh)
        self.dropout = dropout

    def forward(
        self,
        query: Tensor,
        key: Tensor | Prepared,
        value: Tensor,
        *,
        where: Where = everywhere,
        first: int | Tensor = 0,
        after: Tensor | Factor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """`attend` with these choices: (*batch, m, d_v). `where` narrows the look's own."""
        return attend(
            *(query, key, value),
            score=self.score,
            where=self.where & as_where(where),
            weigh=self.weigh,
            first=first,
            after=after,
            dropout=self.dropout if self.training else 0.0,
            generator=generator,
        )

    def weights(
        self, query: Tensor, key: Tensor | Prepared, *, where: Where = everywhere, first: int | Tensor = 0
    ) -> Tensor:
        """The weights, (*batch, m, n), before `after` and dropout."""
        within = self.where & as_where(where)
        return weights(query, key, score=self.score, where=within, weigh=self.weigh, first=first)

    def prepare(self, key: Tensor) -> Prepared:
        """Does the keys' share of the score once, for many looks."""
        return self.score.prepare(key)
