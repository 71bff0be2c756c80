"""BLEU and chrF are sacreBLEU's: stored cases, its own interface, its signature, its interval."""

import builtins
import itertools
import re
import subprocess
import sys

import pytest

from regard.errors import BadData, RegardError
from regard.measure.text import bleu, chrf
from tests.measure.cases import CASES

sacrebleu = pytest.importorskip("sacrebleu")

LINES = [
    f"{a} {b} {c}" for a, b, c in itertools.product(["A man", "The dog"], ["runs", "sleeps on"], ["a red mat.", "it"])
]
WANTED = [[line.replace("dog", "cat"), line.replace("red", "blue")] for line in LINES]


def streams(references: list) -> list:
    return list(itertools.zip_longest(*references))


def test_there_are_enough_cases():
    assert len(CASES) >= 20
    assert len({case[2] for case in CASES.values()}) >= 15


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_scores_are_sacrebleus(case):
    outputs, references, stored_bleu, stored_chrf = case
    for found, stored, own in (
        (bleu(outputs, references, resamples=0), stored_bleu, sacrebleu.corpus_bleu(outputs, streams(references))),
        (chrf(outputs, references, resamples=0), stored_chrf, sacrebleu.corpus_chrf(outputs, streams(references))),
    ):
        assert found.score == pytest.approx(own.score, abs=1e-9)
        assert found.score == pytest.approx(stored, abs=1e-9)
        assert (found.mean, found.interval, found.count) == (None, None, len(outputs))


def test_a_single_reference_needs_no_list():
    single = [line for line, _ in WANTED]
    assert bleu(LINES, single) == bleu(LINES, [[line] for line in single])


def test_options_reach_sacrebleu_and_its_signature():
    loud = [line.upper() for line in LINES]
    assert (
        bleu(loud, WANTED, lowercase=True).score == bleu(LINES, WANTED, lowercase=True).score > bleu(loud, WANTED).score
    )
    assert "|case:lc|eff:no|tok:char|" in bleu(LINES, WANTED, lowercase=True, tokenize="char").signature
    plus = chrf(LINES, WANTED, word_order=2, resamples=0)
    assert plus.name == "chrF2++"
    assert plus.score == sacrebleu.corpus_chrf(LINES, streams(WANTED), word_order=2).score


def test_answers_without_a_single_match_have_an_interval_too():
    """Some of the resampled sets hold no match at all."""
    found = chrf(["abc", *["zzz"] * 9], [["abd"], *[["uvw"]] * 9], resamples=50)
    assert found.interval > 0
    assert found.mean == pytest.approx(found.score, abs=5)


def test_the_interval_is_sacrebleus():
    own = sacrebleu.BLEU()
    result = own.corpus_score(LINES, streams(WANTED), n_bootstrap=300)
    found = bleu(LINES, WANTED, resamples=300)
    assert found == bleu(LINES, WANTED, resamples=300)
    version = sacrebleu.__version__
    assert found.signature == f"nrefs:2|bs:300|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}"
    assert found.signature == str(own.get_signature())
    assert str(found) == f"BLEU|{found.signature} = {result.format(score_only=True)}"
    assert 0 < found.interval < 50
    assert abs(found.mean - found.score) < 2 * found.interval
    assert str(bleu(LINES, WANTED, resamples=0)).endswith(f"= {found.score:.2f}")


WRONG = {
    "count": (
        lambda: bleu(["a", "b", "c"], ["a", "b"]),
        "3 hypotheses but 2 references: each output needs its reference",
    ),
    "none": (lambda: chrf([], []), "no hypotheses: a score needs one output at least"),
    "no reference": (lambda: bleu(["a", "b"], [["a"], []]), "hypothesis 1 has no reference"),
    "a text": (lambda: bleu("a b", "a b"), "hypotheses and references must be lists of texts, got one text"),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_what_does_not_fit_is_refused(case):
    call, message = case
    with pytest.raises(BadData, match=re.escape(message)):
        call()


def test_a_number_of_samples_cannot_be_negative():
    with pytest.raises(ValueError, match="resamples must be at least 0, got -2: 0 gives no interval"):
        bleu(["a"], ["a"], resamples=-2)


@pytest.mark.parametrize("name", ["text", "errors", "lengths", "alignment"])
def test_what_needs_no_tensors_does_not_import_torch(name):
    code = f"import regard.measure.{name}, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_sacrebleu_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def missing(name, *rest):
        if name.startswith("sacrebleu"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(RegardError, match=re.escape('pip install "regard[metrics]"')):
        bleu(["a"], ["a"])
