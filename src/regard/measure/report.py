"""All that is measured of a set of answers, as a table for people and as JSON for programs."""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from regard.measure.alignment import AlignmentError
from regard.measure.errors import ErrorRates, Tokens, error_rates
from regard.measure.lengths import Bucket, by_length
from regard.measure.likelihood import Likelihood
from regard.measure.text import TextScore, bleu, chrf

MOST_BUCKETS = 8


@dataclasses.dataclass(frozen=True)
class Report:
    """What was measured.

    Attributes:
        likelihood: Of the references, teacher forced.
        errors: Of the answers; `unit` says what a token is.
        unit: "characters" or "words".
        unfinished: How many answers were cut before their end.
        scores: BLEU and chrF; empty where sacreBLEU is not installed.
        lengths: The error rates by the length of the source.
        length_bleu: BLEU in each of these ranges, None in one without examples; empty as `scores` is.
        alignment: Against gold alignments, where they were given.
    """

    likelihood: Likelihood
    errors: ErrorRates
    unit: str
    unfinished: int = 0
    scores: tuple[TextScore, ...] = ()
    lengths: tuple[Bucket[ErrorRates], ...] = ()
    length_bleu: tuple[float | None, ...] = ()
    alignment: AlignmentError | None = None

    def as_json(self) -> dict[str, Any]:
        """Everything, in plain types; rates are shares of 1, BLEU and chrF are out of 100."""
        found: dict[str, Any] = {
            "examples": self.errors.sequences,
            "skipped": self.likelihood.skipped,
            "unfinished": self.unfinished,
            "loss": self.likelihood.loss,
            "perplexity": self.likelihood.perplexity,
            "exact": self.errors.exact_match,
            "sequence_errors": self.errors.sequence_rate,
            "token_errors": self.errors.token_rate,
            "token": self.unit,
        }
        found |= {score.name: dataclasses.asdict(score) for score in self.scores}
        found["by_length"] = [
            {"length": bucket.name, "examples": bucket.count, **_rates(bucket.result)} for bucket in self.lengths
        ]
        for bucket, score in zip(found["by_length"], self.length_bleu, strict=False):
            bucket["BLEU"] = score
        if self.alignment is not None:
            found["alignment"] = {
                "error_rate": self.alignment.rate,
                "precision": self.alignment.precision,
                "recall": self.alignment.recall,
                "links": self.alignment.links,
            }
        return found

    def as_text(self) -> str:
        """A table: a measure a line, then one line for each range of lengths."""
        lines = [
            f"{'examples':16} {self.errors.sequences:,}",
            *self._left_out(),
            f"{'loss':16} {self.likelihood.loss:.4f}  nats a target token, END included, nothing smoothed",
            f"{'perplexity':16} {self.likelihood.perplexity:.4g}",
            f"{'exact':16} {self.errors.exact_match:.2%}  of the answers are one of their references",
            f"{'sequence errors':16} {self.errors.sequence_rate:.2%}  the others",
            f"{'token errors':16} {self.errors.token_rate:.2%}  edits for each reference token; tokens are {self.unit}",
            *map(str, self.scores),
        ]
        if self.alignment is not None:
            lines.append(
                f"{'alignment errors':16} {self.alignment.rate:.2%}  precision {self.alignment.precision:.2%}, "
                f"recall {self.alignment.recall:.2%}, {self.alignment.links:,} links"
            )
        if self.lengths:
            last = f" {'BLEU':>7}" if self.length_bleu else ""
            lines.append(f"\n{'source tokens':16} {'examples':>8} {'exact':>8} {'token errors':>13}{last}")
        for bucket, score in itertools.zip_longest(self.lengths, self.length_bleu):
            if bucket.result is not None:
                exact, errors = bucket.result.exact_match, bucket.result.token_rate
                last = "" if score is None else f" {score:7.2f}"
                lines.append(f"{bucket.name:16} {bucket.count:8,} {exact:8.2%} {errors:13.2%}{last}")
        return "\n".join(lines)

    def _left_out(self) -> Iterator[str]:
        """What does not count in full, where there is any."""
        if self.likelihood.skipped:
            yield f"{'skipped':16} {self.likelihood.skipped:,}  too long: they have no part in loss and perplexity"
        if self.unfinished:
            yield f"{'unfinished':16} {self.unfinished:,}  answers were cut before their end"


def report(
    answers: Sequence[str],
    references: Sequence[Sequence[str]],
    source_lengths: Sequence[int],
    likelihood: Likelihood,
    *,
    unit: str,
    unfinished: int = 0,
    resamples: int | None,
    edges: Sequence[int] = (),
    alignment: AlignmentError | None = None,
) -> Report:
    """Compares answers with all of their references.

    Args:
        answers: The outputs.
        references: For each of them a list of one or more.
        source_lengths: Of each source, by which the answers are sorted into ranges.
        likelihood: Of the references.
        unit: What a token of the error rate is: "characters", or "words" with spaces between.
        unfinished: How many answers were cut before their end.
        resamples: Of the answers, for the intervals of BLEU and chrF; 0 for none; None to leave out both scores.
        edges: Where a new range of lengths begins; even ranges, at most eight, unless given.
        alignment: Against gold alignments.
    """
    cut = str.split if unit == "words" else str
    said: list[Tokens] = [cut(answer) for answer in answers]
    wanted: list[list[Tokens]] = [[cut(one) for one in several] for several in references]
    scores: tuple[TextScore, ...] = ()
    if resamples is not None:
        scores = (bleu(answers, references, resamples=resamples), chrf(answers, references, resamples=resamples))
    errors = error_rates(said, wanted)
    edges = edges or even_edges(source_lengths)
    ranges = by_length(error_rates, source_lengths, edges, said, wanted)
    scored = by_length(_bleu, source_lengths, edges, answers, references) if scores else []
    in_ranges = tuple(bucket.result for bucket in scored)
    return Report(likelihood, errors, unit, unfinished, scores, tuple(ranges), in_ranges, alignment)


def even_edges(lengths: Sequence[int]) -> list[int]:
    """Where ranges of one width begin, at most eight of them, so that the last holds the greatest length.

    >>> even_edges([3, 17, 38])
    [5, 10, 15, 20, 25, 30, 35]
    """
    greatest = max(lengths, default=0)
    steps = (digit * 10**power for power in range(10) for digit in (1, 2, 5))
    step = next(step for step in steps if greatest // step < MOST_BUCKETS)
    return list(range(step, greatest + 1, step))


def _bleu(answers: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    return bleu(answers, references, resamples=0).score


def _rates(rates: ErrorRates | None) -> dict[str, float | None]:
    if rates is None:
        return {"exact": None, "token_errors": None}
    return {"exact": rates.exact_match, "token_errors": rates.token_rate}
