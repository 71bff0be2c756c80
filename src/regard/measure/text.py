"""BLEU and chrF, by sacreBLEU, with the signature that makes them comparable and a confidence interval.

Text goes in as a reader sees it, detokenised: sacreBLEU tokenises by itself. A score without its signature says
nothing to others (Post 2018, "A call for clarity in reporting BLEU scores").
"""

import dataclasses
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from regard.errors import BadData, RegardError

References = Sequence[str | Sequence[str]]
"""For each hypothesis its reference, or its references."""


@dataclasses.dataclass(frozen=True)
class TextScore:
    """A score of a whole set of outputs, from 0 to 100.

    Attributes:
        name: BLEU, chrF2 or the like.
        score: The score.
        signature: sacreBLEU's: what was computed, how, and by which version.
        mean: The mean over the resampled sets, or None.
        interval: Half the width of the 95 % confidence interval, by resampling the outputs with replacement; or None.
            It says how much another test set might change, not another training run.
        count: How many outputs were compared.
    """

    name: str
    score: float
    signature: str
    mean: float | None
    interval: float | None
    count: int

    def __str__(self) -> str:
        """One line, as sacreBLEU writes it."""
        spread = "" if self.interval is None else f" (μ = {self.mean:.2f} ± {self.interval:.2f})"
        return f"{self.name}|{self.signature} = {self.score:.2f}{spread}"


def bleu(
    hypotheses: Sequence[str],
    references: References,
    *,
    resamples: int = 1000,
    tokenize: str = "13a",
    lowercase: bool = False,
) -> TextScore:
    """Corpus BLEU (Papineni et al. 2002).

    Args:
        hypotheses: The outputs, detokenised.
        references: For each output its reference or a list of them; their number may differ.
        resamples: How many sets to draw for the confidence interval; 0 for none.
        tokenize: sacreBLEU's tokeniser: 13a, intl, char, zh, ja-mecab, none, …
        lowercase: Whether to compare without case.

    Raises:
        BadData: if there are no outputs, or not as many references, or an output has none.
        ValueError: if `resamples` is below 0.
        RegardError: if sacreBLEU is not installed.
    """
    return _scored("BLEU", {"tokenize": tokenize, "lowercase": lowercase}, hypotheses, references, resamples)


def chrf(
    hypotheses: Sequence[str],
    references: References,
    *,
    resamples: int = 1000,
    word_order: int = 0,
    lowercase: bool = False,
) -> TextScore:
    """chrF2, the F-score of character n-grams (Popović 2015); chrF2++ with `word_order` 2.

    Args:
        hypotheses: The outputs, detokenised.
        references: For each output its reference or a list of them; their number may differ.
        resamples: How many sets to draw for the confidence interval; 0 for none.
        word_order: The longest n-grams of words that are counted beside those of characters.
        lowercase: Whether to compare without case.

    Raises:
        BadData: if there are no outputs, or not as many references, or an output has none.
        ValueError: if `resamples` is below 0.
        RegardError: if sacreBLEU is not installed.
    """
    return _scored("CHRF", {"word_order": word_order, "lowercase": lowercase}, hypotheses, references, resamples)


def _scored(
    metric: str, options: dict[str, Any], hypotheses: Sequence[str], references: References, resamples: int
) -> TextScore:
    if resamples < 0:
        raise ValueError(f"resamples must be at least 0, got {resamples}: 0 gives no interval")
    streams = _streams(hypotheses, references)
    measure = _in_floats(getattr(_sacrebleu().metrics, metric)(**options))
    result = measure.corpus_score(list(hypotheses), streams, n_bootstrap=max(resamples, 1))
    drawn = resamples > 1
    return TextScore(
        name=str(result.name),
        score=float(result.score),
        signature=str(measure.get_signature()),
        mean=float(result._mean) if drawn else None,
        interval=float(result._ci) if drawn else None,
        count=len(hypotheses),
    )


def _in_floats(measure: Any) -> Any:
    """The same metric with scores that are floats.

    Without a single match its chrF is a float, and one of NumPy's otherwise: its mean over the resampled sets
    refuses to add the two.
    """
    compute = measure._compute_score_from_stats

    def computed(stats: Any) -> Any:
        found = compute(stats)
        found.score = float(found.score)
        return found

    measure._compute_score_from_stats = computed
    return measure


def _streams(hypotheses: Sequence[str], references: References) -> list[list[str | None]]:
    """The references as sacreBLEU takes them: all first ones, all second ones and so on."""
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise BadData("hypotheses and references must be lists of texts, got one text: put it into a list")
    if len(hypotheses) != len(references):
        raise BadData(
            f"{len(hypotheses)} hypotheses but {len(references)} references: each output needs its reference, "
            "on the same line"
        )
    if not hypotheses:
        raise BadData("no hypotheses: a score needs one output at least")
    several = [[given] if isinstance(given, str) else list(given) for given in references]
    for number, given in enumerate(several):
        if not given:
            raise BadData(f"hypothesis {number} has no reference: give one, which may be the empty text")
    most = max(len(given) for given in several)
    return [[given[place] if place < len(given) else None for given in several] for place in range(most)]


def _sacrebleu() -> ModuleType:
    try:
        import sacrebleu
        import sacrebleu.metrics
    except ImportError:
        raise RegardError('BLEU and chrF are computed by sacreBLEU: pip install "regard[metrics]"') from None
    return sacrebleu
