"""The task `translate`: any line of text to any other.

It knows no model: it asks for logits of a target, and for steps when it decodes (`regard.nn.stepwise`).

Axes: `batch`, `n` source positions, `m` target positions.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.data.batches import Batch, Examples
from regard.data.pairs import Pair, Splits
from regard.data.plan import Plan
from regard.data.tokens import PAD, Kind, Tokeniser
from regard.decode.beam import beam
from regard.decode.hypothesis import Hypothesis
from regard.decode.sampling import sample
from regard.errors import BadData, RegardError, nearest
from regard.measure.report import Report
from regard.tasks import judging
from regard.tasks.judging import References
from regard.tasks.loss import Loss


class Lines(NamedTuple):
    """Sources to decode together.

    Attributes:
        source: (batch, n), token ids.
        length: (batch,), the tokens of each.
        longest: (batch,), the most tokens to write.
        places: Which lines these are.
    """

    source: Tensor
    length: Tensor
    longest: Tensor
    places: list[int]


Search = Callable[[Any, Lines], list[list[Hypothesis]]]
"""(model, sources) -> the hypotheses of each source, best first."""

LEARNED_FROM = 50_000
"""Training pairs that the tokenisers are learned from, at most."""
BOUNDED_BY = 10_000
"""Of these, about so many say how much is written."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """How text becomes tokens, how it is decoded, and by what the best model is chosen."""

    tokens: Kind = "characters"
    """What a token is."""
    target_tokens: Literal["same", "characters", "words", "subwords"] = "same"
    """What a token of the target is, where it differs."""
    vocabulary: int = 8000
    """The most tokens of each side."""
    longest: int = 200
    """The most tokens of a line; a longer training line is left out, and counted."""
    longest_answer: int = 0
    """The most tokens of a training target, which bounds what is written; 0 to find it in the data."""
    ratio: float = 0.0
    """The most target tokens to a source token in training, which bounds it too; 0 to find it in the data."""
    beam: int = 1
    """Hypotheses kept while decoding; 1 is greedy."""
    length_penalty: float = 0.0
    """Exponent of the length penalty of a beam."""
    metric: Literal["exact", "bleu", "loss"] = "exact"
    """What the best model is chosen by."""
    decoded: int = 500
    """Validation examples that are decoded while training; the loss is over all."""

    def __post_init__(self) -> None:
        for name in ("longest", "beam", "decoded"):
            if getattr(self, name) < 1:
                raise RegardError(f"task.{name} must be at least 1, got {getattr(self, name)}")
        for name in ("longest_answer", "ratio"):
            if not 0 <= getattr(self, name) < math.inf:
                raise RegardError(f"task.{name} must be at least 0, got {getattr(self, name)}")
        if not math.isfinite(self.length_penalty):
            raise RegardError(f"task.length_penalty must be a finite number, got {self.length_penalty}")


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

    @classmethod
    def of(cls, splits: Splits, options: Options) -> "Translate":
        """Learns from at most the first 50,000 training pairs: the tokenisers, and how much is written for a line.

        Raises:
            BadData: as `check` does.
        """
        some = [splits.train[place] for place in range(min(len(splits.train), LEARNED_FROM))]
        target = options.tokens if options.target_tokens == "same" else options.target_tokens
        made = cls(
            options,
            Tokeniser.train((pair.source for pair in some), options.tokens, options.vocabulary),
            Tokeniser.train((pair.target for pair in some), target, options.vocabulary),
        )
        made.check(splits)
        return dataclasses.replace(made, options=made._bounded(some[:: 1 + len(some) // BOUNDED_BY]))

    def check(self, splits: Splits) -> None:
        """Refuses data of which nothing would be left to learn from, or to choose by.

        Raises:
            BadData: if no training pair, or no validation pair, is short enough.
        """
        for name, part in (("train", splits.train), ("valid", splits.valid)):
            if not any(max(lengths) <= self.options.longest for lengths in self.examples(part).lengths):
                raise BadData(self.none_left(len(part)), file=f"{splits.name}, its {name} part")

    def none_left(self, count: int) -> str:
        """What to say where every pair is left out."""
        return f"each of the {count:,} pairs is longer than --task.longest {self.options.longest} tokens: raise it"

    def _bounded(self, pairs: Sequence[Pair]) -> Options:
        """The options with the bounds of what is written, where they are not given."""
        sources = map(len, self.source.encode_all([pair.source for pair in pairs]))
        targets = map(len, self.target.encode_all([pair.target for pair in pairs]))
        kept = [sides for sides in zip(sources, targets, strict=True) if max(sides) <= self.options.longest]
        return dataclasses.replace(
            self.options,
            longest_answer=self.options.longest_answer or max((target for _, target in kept), default=0),
            ratio=self.options.ratio or max((target / source for source, target in kept), default=0.0),
        )

    def most_written(self, length: Tensor) -> Tensor:
        """The most tokens to write for sources of these lengths: what training showed, and a quarter and 20 more.

        That is the greatest ratio of training, as far as it does not lead beyond both the longest target and twice
        the source.
        """
        if not self.options.longest_answer:  # an older run, which does not know
            return 2 * length + 20
        shown = torch.minimum(self.options.ratio * length, (2.0 * length).clamp(min=self.options.longest_answer))
        return (1.25 * shown).ceil().long() + 20

    @classmethod
    def load(cls, options: dict[str, Any], files: dict[str, bytes]) -> "Translate":
        """From the files of a published run."""
        names = ("tokenizer.json", "tokenizer.target.json")
        settled = msgspec.convert(options, Options)
        return cls(settled, *(Tokeniser.from_json(files[name].decode()) for name in names))

    def with_options(self, **changed: Any) -> "Translate":
        """The same with other options, of decoding.

        Raises:
            RegardError: if there is no such option, or a value is out of range; the nearest name is suggested.
        """
        known = [field.name for field in dataclasses.fields(self.options)]
        for name in changed:
            if name not in known:
                raise RegardError(f"{self.name} has no option {name!r}: {nearest(name, known)}")
        return dataclasses.replace(self, options=dataclasses.replace(self.options, **changed))

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

    def answers(self, model: Any, lines: Sequence[str], *, size: int = 64) -> list[Hypothesis]:
        """The best hypothesis for each line, in the order of the lines. A line that is too long is cut at its end."""
        return [best[0] for best in self.searched(model, lines, self.beaming(), size=size)]

    def beaming(self, best: int = 1) -> Search:
        """A beam, by the options; the `best` hypotheses of each source."""
        size, penalty = self.options.beam, self.options.length_penalty

        def search(model: Any, lines: Lines) -> list[list[Hypothesis]]:
            return beam(
                model,
                lines.source,
                lines.length,
                size=size,
                longest=lines.longest,
                length_penalty=penalty,
                n_best=best,
            )

        return search

    def sampling(self, *, first: int = 0, **how: Any) -> Search:
        """One drawn hypothesis of each source. The line at place `i` draws from the stream `first + i` of a seed.

        Args:
            first: The number of the first line.
            how: `temperature`, `top_k`, `top_p` and `seed` of `regard.decode.sampling.sample`.
        """

        def search(model: Any, lines: Lines) -> list[list[Hypothesis]]:
            numbers = [first + place for place in lines.places]
            drawn = sample(model, lines.source, lines.length, longest=lines.longest, numbers=numbers, **how)
            return [[each] for each in drawn]

        return search

    @torch.no_grad()
    def searched(self, model: Any, lines: Sequence[str], search: Search, *, size: int = 64) -> list[list[Hypothesis]]:
        """The hypotheses of any search for each line, in the order of the lines.

        Lines of one length are searched together, `size` at a time.

        Raises:
            RegardError: if `lines` is one text, or `size` is below 1.
        """
        if isinstance(lines, str):
            raise RegardError(f"expected a list of lines, got one text: put it into a list, [{lines[:40]!r}]")
        if size < 1:
            raise RegardError(f"size={size}: expected at least 1, the lines that are searched together")
        encoded = [self.encoded(line) for line in lines]
        order = sorted(range(len(lines)), key=lambda place: len(encoded[place]))
        found: dict[int, list[Hypothesis]] = {}
        for start in range(0, len(order), size):
            places = order[start : start + size]
            length = torch.tensor([len(encoded[place]) for place in places])
            source = torch.full((len(places), int(length.max())), PAD)
            for row, place in enumerate(places):
                source[row, : len(encoded[place])] = torch.tensor(encoded[place])
            lines_read = Lines(source, length, self.most_written(length), places)
            found.update(zip(places, search(model, lines_read), strict=True))
        return [found[place] for place in range(len(lines))]

    def encoded(self, line: str) -> list[int]:
        """The tokens of a source line, END last; no more than the longest line has."""
        ids = self.source.encode(line)
        return ids if len(ids) <= self.options.longest else [*ids[: self.options.longest - 1], ids[-1]]

    def is_cut(self, line: str) -> bool:
        """Whether a line is longer than what is read of it."""
        return len(self.source.encode(line)) > self.options.longest

    def text(self, hypothesis: Hypothesis) -> str:
        """What a hypothesis says."""
        return self.target.decode(hypothesis.tokens)

    @property
    def unit(self) -> str:
        """What a token of an error rate is: a character, or a word with spaces around it."""
        return "characters" if self.target.kind == "characters" else "words"

    def validated(self, model: nn.Module, splits: Splits, *, tokens: int) -> dict[str, float]:
        """Loss and perplexity over the validation pairs, and how the first of them come out when they are decoded."""
        return judging.validated(self, model, splits, tokens=tokens)

    def evaluated(self, model: nn.Module, pairs: Sequence[Pair], references: References, **how: Any) -> Report:
        """All that `regard eval` prints; see `regard.tasks.judging.evaluated`."""
        return judging.evaluated(self, model, pairs, references, **how)

    def goodness(self, measures: Mapping[str, float]) -> tuple[float, float]:
        """What the best model has the most of: the metric, and where it is equal a lower loss."""
        value = measures[self.options.metric]
        return (-value if self.options.metric == "loss" else value, -measures["loss"])


def _evenly(logits: Tensor) -> Tensor:
    """The sum over rows of the mean negative log-likelihood of every token but PAD."""
    logarithm = logits.log_softmax(-1)
    return -(logarithm.sum(-1) - logarithm[:, PAD]).sum() / (logits.shape[-1] - 1)
