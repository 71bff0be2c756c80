"""A report: what is counted, how it is written."""

import pytest

from regard.errors import BadData
from regard.measure.alignment import AlignmentError
from regard.measure.likelihood import Likelihood
from regard.measure.report import even_edges, report
from regard.measure.text import bleu

LIKELY = Likelihood(total=6.0, tokens=12)


def made(**how):
    given = {"unit": "characters", "resamples": None, **how}
    return report(["ab", "cd", "efghij"], [["ab"], ["xd", "cde"], ["efghij"]], [2, 3, 11], LIKELY, **given)


def test_json_and_text_say_the_same():
    found = made(edges=[3, 10], alignment=AlignmentError(4, 3, 2, 3))
    content = found.as_json()
    assert content["exact"] == pytest.approx(2 / 3)
    assert content["sequence_errors"] == pytest.approx(1 / 3)
    assert content["token_errors"] == pytest.approx(1 / (2 + 2 + 6))
    assert content["loss"] == 0.5
    assert [(each["length"], each["examples"]) for each in content["by_length"]] == [("0-2", 1), ("3-9", 1), ("10+", 1)]
    assert content["alignment"]["error_rate"] == pytest.approx(1 - 5 / 7)
    text = found.as_text()
    for piece in ("66.67%", "33.33%", "10.00%", "0.5000", "1.649", "28.57%", "3-9", "100.00%"):
        assert piece in text


def test_scores_come_with_their_signature():
    found = made(resamples=10)
    assert [score.name for score in found.scores] == ["BLEU", "chrF2"]
    assert found.as_json()["BLEU"]["signature"].startswith("nrefs:var|bs:10|")
    assert "BLEU|nrefs:var|bs:10|seed:12345" in found.as_text()


def test_bleu_in_each_range():
    """As figure 2 of Bahdanau et al. shows it: each range by itself, next to exact match and token errors."""
    answers = ["the cat sat on the mat", "a dog ran in a wide park today", "the cat sat on that mat"]
    references = [["the cat sat on the mat"], ["a dog ran into a wide park"], ["the cat sat on the mat"]]
    found = report(answers, references, [6, 12, 6], LIKELY, unit="words", resamples=0, edges=[5, 10, 20])
    expected = [bleu([answers[i] for i in some], [references[i] for i in some], resamples=0) for some in ([0, 2], [1])]
    by_length = found.as_json()["by_length"]
    assert [each["BLEU"] for each in by_length] == [None, expected[0].score, expected[1].score, None]
    assert expected[0].score > 60 > expected[1].score
    for score in expected:
        assert f"{score.score:.2f}\n" in found.as_text() + "\n"
    assert "BLEU" not in made().as_text()
    assert "BLEU" not in made().as_json()["by_length"][0]


def test_words_have_spaces_between():
    found = report(["a b c"], [["a x c"]], [3], LIKELY, unit="words", resamples=None)
    assert found.errors.token_rate == pytest.approx(1 / 3)


def test_counts_must_agree():
    with pytest.raises(BadData, match="1 outputs but 2 lists of references"):
        report(["a"], [["a"], ["b"]], [1], LIKELY, unit="words", resamples=None)


@pytest.mark.parametrize("greatest", [0, 1, 7, 8, 9, 40, 399, 5000])
def test_ranges_are_even_and_few(greatest):
    edges = even_edges([0, greatest])
    assert len(edges) <= 8
    assert not edges or edges[-1] <= greatest
    assert len({b - a for a, b in zip([0, *edges], edges, strict=False)}) <= 1
