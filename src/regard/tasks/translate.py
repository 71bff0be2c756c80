"""The task `translate`: any line of text to any other.

It knows no model: it asks for logits of a target, and for steps when it decodes (`regard.nn.stepwise`).

Axes: `batch`, `n` source positions, `m` target positions.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.data.batches import Batch, Examples
from regard.data.pairs import Pair, Splits
from regard.data.plan import Plan
from regard.data.tokens import PAD, Tokeniser
from regard.decode.beam import beam
from regard.decode.hypothesis import Hypothesis
from regard.errors import RegardError
from regard.tasks.loss import Loss

Kind = Literal["characters", "words", "subwords"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """How text becomes tokens, and how it is decoded."""

    tokens: Kind = "characters"
    """What a token is."""
    vocabulary: int = 8000
    """The most tokens of each side."""
    longest: int = 200
    """The most tokens of a line; a longer training line is left out, and counted."""
    beam: int = 1
    """Hypotheses kept while decoding; 1 is greedy."""
    length_penalty: float = 0.0
    """Exponent of the length penalty of a beam."""


@dataclasses.dataclass(frozen=True)
class Translate:
    """The task on one data set, with its tokenisers.

    Attributes:
        options: How text becomes tokens, and how it is decoded.
        source: The tokeniser of what is read.
        target: The tokeniser of what is written.
    """

    options: Options
    source: Tokeniser
    target: Tokeniser

    name = "translate"
    metric = "exact"
    """What the best model has the most of."""

    @classmethod
    def of(cls, splits: Splits, options: Options) -> "Translate":
        """Trains the tokenisers on the training pairs, at most the first 20,000 of them."""
        some = [splits.train[place] for place in range(min(len(splits.train), 20_000))]
        return cls(
            options,
            Tokeniser.train((pair.source for pair in some), options.tokens, options.vocabulary),
            Tokeniser.train((pair.target for pair in some), options.tokens, options.vocabulary),
        )

    @classmethod
    def load(cls, options: dict[str, Any], files: dict[str, bytes]) -> "Translate":
        """From the files of a published run."""
        names = ("tokenizer.json", "tokenizer.target.json")
        return cls(Options(**options), *(Tokeniser.from_json(files[name].decode()) for name in names))

    def files(self) -> dict[str, bytes]:
        """What a published run holds of the task."""
        return {
            "tokenizer.json": self.source.to_json().encode(),
            "tokenizer.target.json": self.target.to_json().encode(),
        }

    def configured(self, config: Any) -> Any:
        """A model's configuration with the vocabularies of this data.

        Raises:
            RegardError: if it names others.
        """
        for side, size in (("source", self.source.size), ("target", self.target.size)):
            given = getattr(config, f"{side}_vocabulary")
            if given not in (0, size):
                raise RegardError(f"model.{side}_vocabulary is {size}, from the data, and cannot be set to {given}")
        return dataclasses.replace(config, source_vocabulary=self.source.size, target_vocabulary=self.target.size)

    def examples(self, pairs: Sequence[Pair]) -> Examples:
        """Pairs with their tokens."""
        return Examples(pairs, self.source, self.target)

    def plan(self, examples: Examples, *, tokens: int, seed: int) -> Plan:
        """Which examples stand in which batch."""
        return Plan(examples.lengths, tokens, seed=seed, longest=self.options.longest, too_long="skip")

    def batch(self, examples: Examples, places: Sequence[int]) -> Batch:
        """The batch of those examples."""
        return examples.batch(places)

    def loss(self, model: nn.Module, batch: Batch, smoothing: float = 0.0) -> Loss:
        """Sums of the negative log-likelihood over the real target tokens, END among them; padding has no part.

        Smoothing spreads its share over every token but PAD, which is never an answer.
        """
        logits = model(batch.source, batch.source_length, batch.target).float()
        flat, wanted = logits.flatten(0, 1), batch.target.flatten()
        likelihood = functional.cross_entropy(flat, wanted, ignore_index=PAD, reduction="sum")
        objective = (1 - smoothing) * likelihood + smoothing * _evenly(flat[wanted != PAD]) if smoothing else likelihood
        return Loss(objective, likelihood.detach(), (wanted != PAD).sum())

    @torch.no_grad()
    def answers(self, model: Any, lines: Sequence[str], *, size: int = 64) -> list[Hypothesis]:
        """The best hypothesis for each line, in the order of the lines. A line that is too long is cut at its end."""
        encoded = [self.encoded(line) for line in lines]
        order = sorted(range(len(lines)), key=lambda place: len(encoded[place]))
        found: dict[int, Hypothesis] = {}
        for start in range(0, len(order), size):
            places = order[start : start + size]
            length = torch.tensor([len(encoded[place]) for place in places])
            source = torch.full((len(places), int(length.max())), PAD)
            for row, place in enumerate(places):
                source[row, : len(encoded[place])] = torch.tensor(encoded[place])
            results = beam(
                model,
                source,
                length,
                size=self.options.beam,
                longest=2 * length + 20,
                length_penalty=self.options.length_penalty,
            )
            found.update(zip(places, (best[0] for best in results), strict=True))
        return [found[place] for place in range(len(lines))]

    def encoded(self, line: str) -> list[int]:
        """The tokens of a source line, END last; no more than the longest line has."""
        ids = self.source.encode(line)
        return ids if len(ids) <= self.options.longest else [*ids[: self.options.longest - 1], ids[-1]]

    def text(self, hypothesis: Hypothesis) -> str:
        """What a hypothesis says."""
        return self.target.decode(hypothesis.tokens)

    @torch.no_grad()
    def validated_likelihood(self, model: nn.Module, pairs: Sequence[Pair], *, tokens: int) -> dict[str, float]:
        """The mean negative log-likelihood of a target token, in nats, and the perplexity, its exponential."""
        examples = self.examples(pairs)
        likelihood, count = 0.0, 0
        for places in self.plan(examples, tokens=tokens, seed=0).batches(0):
            loss = self.loss(model, self.batch(examples, places))
            likelihood, count = likelihood + float(loss.likelihood), count + int(loss.tokens)
        mean = likelihood / max(count, 1)
        return {"likelihood": mean, "perplexity": math.exp(min(mean, 700.0))}

    @torch.no_grad()
    def validated(
        self, model: nn.Module, pairs: Sequence[Pair], *, tokens: int, decoded: int = 500
    ) -> dict[str, float]:
        """Likelihood and perplexity over all pairs, and the share of the first `decoded` that come out right."""
        some = [pairs[place] for place in range(min(len(pairs), decoded))]
        said = [self.text(answer) for answer in self.answers(model, [pair.source for pair in some])]
        right = sum(answer == pair.target for answer, pair in zip(said, some, strict=True))
        return {**self.validated_likelihood(model, pairs, tokens=tokens), "exact": right / max(len(some), 1)}


def _evenly(logits: Tensor) -> Tensor:
    """The sum over rows of the mean negative log-likelihood of every token but PAD."""
    logarithm = logits.log_softmax(-1)
    return -(logarithm.sum(-1) - logarithm[:, PAD]).sum() / (logits.shape[-1] - 1)
