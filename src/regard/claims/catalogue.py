"""Every claim by its name. Imports nothing that measures."""

from regard.claims.claim import Claim, Goal
from regard.errors import RegardError, nearest

CLAIMS = (
    Claim(
        name="dates",
        says="an RNNsearch reads dates in 43 languages after a few minutes of training",
        source="ours: the embedded default, so that a first run can be judged",
        goals=(Goal("exact", ">=", 0.98), Goal("seconds of training", "<=", 300)),
        seeds=(0, 1, 2),
        minutes=15,
        place=("regard.claims.translation", "dates"),
    ),
    Claim(
        name="reversal",
        says="attention turns lines of 20 symbols round; a fixed vector forgets as lines grow",
        source="Bahdanau et al. 2015, figure 2: BLEU falls with length without attention, and is flat with it",
        goals=(
            Goal("rnnsearch exact", ">=", 0.99),
            Goal("rnnsearch exact at 17-20", ">=", 0.98),
            Goal("seq2seq fall from 1-8 to 17-20", ">=", 0.2),
        ),
        seeds=(0, 1, 2),
        minutes=40,
        place=("regard.claims.translation", "reversal"),
    ),
    Claim(
        name="pronunciation",
        says="spelling to phonemes, learned from the CMU dictionary",
        source="published neural systems: about 5.5 % phoneme and 23.5 % word errors, stress left out",
        goals=(Goal("phoneme errors", "<=", 0.055), Goal("word errors", "<=", 0.235)),
        seeds=(0,),
        minutes=60,
        place=("regard.claims.translation", "pronunciation"),
        data=("cmudict",),
    ),
)


def claim(name: str) -> Claim:
    """The claim of that name.

    Raises:
        RegardError: if there is none; the nearest is suggested.
    """
    known = {each.name: each for each in CLAIMS}
    if name in known:
        return known[name]
    raise RegardError(f"there is no claim {name!r}: {nearest(name, known)} (regard ls claims)")
