"""What `translate` measures: while it trains, and when it is evaluated.

Loss and perplexity are of the given targets, teacher forced; the rest is of what the model writes itself.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from regard.data.pairs import Pair, Splits
from regard.decode.alignment import word_links
from regard.decode.forced import forced
from regard.errors import BadData, RegardError
from regard.measure.alignment import AlignmentError, Gold, alignment_error
from regard.measure.likelihood import Likelihood, likelihood
from regard.measure.report import Report, report

if TYPE_CHECKING:
    from regard.tasks.translate import Translate

References = Mapping[str, list[str]]
"""Every target that counts as right, for the sources that have several."""


def validated(task: "Translate", model: nn.Module, splits: Splits, *, tokens: int) -> dict[str, float]:
    """Loss and perplexity over the validation pairs, and how the first of them come out when they are decoded."""
    some = [splits.valid[place] for place in range(min(len(splits.valid), task.options.decoded))]
    found = likelihood_of(task, model, splits.valid, tokens=tokens)
    scored = 0 if task.options.metric == "bleu" else None
    judged = _judged(task, model, some, splits.references, found, resamples=scored).as_json()
    measures = {name: judged[name] for name in ("loss", "perplexity", "exact", "token_errors")}
    return measures | ({"bleu": judged["BLEU"]["score"]} if "BLEU" in judged else {})


def evaluated(
    task: "Translate",
    model: nn.Module,
    pairs: Sequence[Pair],
    references: References,
    *,
    tokens: int,
    resamples: int | None = 1000,
    edges: Sequence[int] = (),
    gold: Sequence[Gold] | None = None,
) -> Report:
    """All measures of all pairs.

    Args:
        task: With its tokenisers.
        model: In evaluation mode.
        pairs: What to measure on.
        references: Other right answers.
        tokens: Of a batch.
        resamples: For the intervals of BLEU and chrF; None to leave out both.
        edges: Where a new range of source lengths begins.
        gold: An alignment for each pair.
    """
    found = likelihood_of(task, model, pairs, tokens=tokens)
    drawn = None if gold is None else alignment_of(task, model, pairs, gold)
    return _judged(task, model, pairs, references, found, resamples=resamples, edges=edges, alignment=drawn)


def _judged(
    task: "Translate",
    model: nn.Module,
    pairs: Sequence[Pair],
    references: References,
    found: Likelihood,
    **how: Any,
) -> Report:
    """Decodes all sources and compares with every target that counts as right."""
    sources = [pair.source for pair in pairs]
    answers = task.answers(model, sources)
    return report(
        [task.text(answer) for answer in answers],
        [references.get(pair.source, [pair.target]) for pair in pairs],
        [len(task.source.encode(line)) - 1 for line in sources],
        found,
        unit=task.unit,
        unfinished=sum(not answer.finished for answer in answers),
        **how,
    )


@torch.no_grad()
def likelihood_of(task: "Translate", model: nn.Module, pairs: Sequence[Pair], *, tokens: int) -> Likelihood:
    """Of every target token of all pairs, teacher forced; a pair that is too long has no part, and is counted.

    Raises:
        BadData: if no pair is left.
    """
    examples, total = task.examples(pairs), Likelihood()
    plan = task.plan(examples, tokens=tokens, seed=0)
    for places in plan.batches(0):
        batch = task.batch(examples, places)
        logits = model(batch.source, batch.source_length, batch.target)
        total += likelihood(logits, batch.target, batch.target_length)
    if not total.tokens:
        raise BadData(task.none_left(len(pairs)))
    return total + Likelihood(skipped=len(plan.too_long))


@torch.no_grad()
def alignment_of(task: "Translate", model: Any, pairs: Sequence[Pair], gold: Sequence[Gold]) -> AlignmentError:
    """Where the model looks while it writes the given targets, against gold alignments, which count words.

    Words are what white space parts, whatever the tokens are; see `regard.decode.alignment.word_links`.

    Raises:
        RegardError: if the model does not look.
        BadData: if there is not one alignment for each pair.
    """
    examples = task.examples(pairs)
    drawn: list[list[tuple[int, int]]] = []
    for start in range(0, len(pairs), 64):
        some = range(start, min(start + 64, len(pairs)))
        batch = task.batch(examples, some)
        told = forced(model, batch.source, batch.source_length, batch.target, batch.target_length)
        if any(answer.weights is None for answer in told):
            raise RegardError("the model has no attention: there are no alignments to compare")
        for place, answer in zip(some, told, strict=True):
            pair = pairs[place]
            drawn.append(word_links(answer, task.source.words(pair.source), task.target.words(pair.target)))
    return alignment_error(drawn, gold)
