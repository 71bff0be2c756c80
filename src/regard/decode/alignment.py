"""Where a hypothesis looked, in the forms that people and programs read: a matrix, links, Pharaoh, JSON.

A row is a target token, a column a source token. Both sentences may close with END: `ends` says whether its row and
its column are shown.
"""

import json
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.decode.hypothesis import Hypothesis


def matrix(hypothesis: Hypothesis, *, ends: bool = True) -> list[list[float]]:
    """The weights, a list for each target token.

    Args:
        hypothesis: What was written.
        ends: Whether to show the row of END, where it was produced, and the last column, which is the source's
            END. Without them a row need not sum to 1.

    Raises:
        ValueError: if the hypothesis has no weights.

    >>> import torch
    >>> looked = torch.tensor([[0.75, 0.25, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]])
    >>> seen = Hypothesis([7, 8], True, -0.5, -0.5, [-0.25, -0.125, -0.125], looked)
    >>> matrix(seen, ends=False)
    [[0.75, 0.25], [0.0, 0.5]]
    """
    rows: list[list[float]] = _shown(hypothesis, ends).tolist()
    return rows


def links(hypothesis: Hypothesis, *, threshold: float = 0.0, ends: bool = False) -> list[tuple[int, int]]:
    """For each target token the source position with the greatest weight, as (source, target) from 0.

    A target token has no link where that weight is 0 or below `threshold`, nor, without `ends`, where it is the
    source's END: such a token is aligned with nothing. Of equal weights the first counts.

    Raises:
        ValueError: if the hypothesis has no weights.
    """
    weights = _weights(hypothesis)
    if not weights.shape[1]:
        return []
    steps = len(weights) if ends else len(hypothesis.tokens)
    columns = weights.shape[1] if ends else weights.shape[1] - 1
    value, source = weights[:steps].max(dim=-1)
    pairs = zip(source.tolist(), value.tolist(), strict=True)
    return [(j, i) for i, (j, weight) in enumerate(pairs) if j < columns and weight > 0 and weight >= threshold]


def word_links(
    hypothesis: Hypothesis, source: Sequence[int | None], target: Sequence[int | None]
) -> list[tuple[int, int]]:
    """For each target word the source word with the greatest weight, as (source, target) from 0.

    The weight of two words is the mean over the tokens of the target word of the sum over the tokens of the source
    word. As in `links`, a target word that looks at the source's END more than at any word has no link.

    Args:
        hypothesis: What was written.
        source: The number of the word of each source token but END; None for a token of white space.
        target: The same of each target token.

    Raises:
        ValueError: if the hypothesis has no weights, or not one number is given for each token.

    >>> import torch
    >>> looked = torch.tensor([[0.4, 0.3, 0.3, 0.0], [0.0, 0.2, 0.2, 0.6], [0.0, 0.1, 0.8, 0.1]])
    >>> seen = Hypothesis([7, 8, 9], False, -0.5, -0.5, [-0.25, -0.125, -0.125], looked)
    >>> word_links(seen, [0, 0, 1], [0, 0, 1])
    [(0, 0), (1, 1)]
    """
    weights = _weights(hypothesis)
    if weights.shape[1] != len(source) + 1 or len(hypothesis.tokens) != len(target):
        raise ValueError(
            f"word_links: expected a word for each of {weights.shape[1] - 1} source and {len(hypothesis.tokens)} "
            f"target tokens, got {len(source)} and {len(target)}"
        )
    end = 1 + max((word for word in source if word is not None), default=-1)
    columns, rows = _membership([*source, end]), _membership(target)
    looked = (rows / rows.sum(0)).T @ weights[: len(target)].double() @ columns
    if not len(looked):
        return []
    value, word = looked.max(dim=-1)
    pairs = zip(word.tolist(), value.tolist(), strict=True)
    return [(j, i) for i, (j, weight) in enumerate(pairs) if j != end and weight > 0]


def pharaoh(hypothesis: Hypothesis, *, threshold: float = 0.0, ends: bool = False) -> str:
    """The links of `links` as programs for alignments read them: `source-target`, from 0, a space between.

    >>> import torch
    >>> looked = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.5, 0.4], [0.0, 0.0, 1.0]])
    >>> seen = Hypothesis([7, 8], True, -0.5, -0.5, [-0.25, -0.125, -0.125], looked)
    >>> pharaoh(seen)
    '0-0 1-1'
    >>> pharaoh(seen, ends=True, threshold=0.6)
    '0-0 2-2'
    """
    return " ".join(f"{source}-{target}" for source, target in links(hypothesis, threshold=threshold, ends=ends))


def as_json(
    hypothesis: Hypothesis, *, source: list[str] | None = None, target: list[str] | None = None, ends: bool = True
) -> str:
    """One line of JSON: the tokens, their log-probabilities, and the weights or null.

    Args:
        hypothesis: What was written.
        source: The source tokens in words, a name for each column that is shown.
        target: The target tokens in words, a name for each row that is shown; token ids if not given.
        ends: Whether END's row and column are shown, as in `matrix`.

    Raises:
        ValueError: if there is not one name for each row or column.
    """
    rows = None if hypothesis.weights is None else matrix(hypothesis, ends=ends)
    steps = len(hypothesis.token_log_probabilities) if ends else len(hypothesis.tokens)
    if target is not None and len(target) != steps:
        raise ValueError(f"as_json: target must name {steps} rows, got {len(target)} names: {target}")
    if source is not None and rows and len(source) != len(rows[0]):
        raise ValueError(f"as_json: source must name {len(rows[0])} columns, got {len(source)} names: {source}")
    content: dict[str, Any] = {
        "source": source,
        "target": hypothesis.tokens if target is None else target,
        "finished": hypothesis.finished,
        "log_probability": hypothesis.log_probability,
        "score": hypothesis.score,
        "token_log_probabilities": hypothesis.token_log_probabilities,
        "weights": rows,
    }
    return json.dumps(content, ensure_ascii=False, allow_nan=False)


def _membership(words: Sequence[int | None]) -> Float[Tensor, "tokens words"]:
    """1 where a token stands in a word."""
    count = 1 + max((word for word in words if word is not None), default=-1)
    return torch.tensor(
        [[float(word == each) for each in range(count)] for word in words], dtype=torch.float64
    ).reshape(len(words), count)


def _weights(hypothesis: Hypothesis) -> Float[Tensor, "steps n"]:
    if hypothesis.weights is None:
        raise ValueError("the hypothesis has no weights: its model does not look at the source, or no step was made")
    return hypothesis.weights


def _shown(hypothesis: Hypothesis, ends: bool) -> Float[Tensor, "rows columns"]:
    weights = _weights(hypothesis)
    return weights if ends else weights[: len(hypothesis.tokens), : max(weights.shape[1] - 1, 0)]
