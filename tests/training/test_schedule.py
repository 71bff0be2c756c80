"""The rate of each step."""

import math

import pytest

from regard.errors import RegardError
from regard.training.schedule import rate
from regard.training.settings import Settings


@pytest.mark.parametrize("shape", ["constant", "linear", "cosine", "inverse_root"])
def test_it_rises_over_the_warm_up_and_never_starts_at_nothing(shape):
    settings = Settings(rate=3.0, warmup=10, shape=shape)
    assert [rate(step, 100, settings) for step in (1, 5, 10)] == pytest.approx([0.3, 1.5, 3.0])


def test_it_falls_as_it_is_told():
    at = {shape: Settings(rate=2.0, warmup=20, shape=shape) for shape in ("linear", "cosine", "inverse_root")}
    assert rate(60, 100, at["linear"]) == pytest.approx(1.0)
    assert rate(60, 100, at["cosine"]) == pytest.approx(1.0)
    assert rate(40, 100, at["cosine"]) == pytest.approx(1 + math.cos(math.pi / 4))
    assert rate(100, 100, at["linear"]) == 0
    assert rate(80, 100, at["inverse_root"]) == pytest.approx(1.0)


def test_without_a_warm_up_it_starts_in_full():
    assert rate(1, 10, Settings(rate=1.0, warmup=0, shape="constant")) == 1.0
    assert rate(4, 10, Settings(rate=1.0, warmup=0, shape="inverse_root")) == 0.5


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("rate", 0.0, "train.rate must be above 0, got 0.0"),
        ("tokens", 0, "train.tokens must be at least 1, got 0"),
        ("warmup", -1, "train.warmup must be at least 0, got -1"),
        ("smoothing", 1.0, "train.smoothing must be at least 0 and below 1, got 1.0"),
    ],
)
def test_settings_that_cannot_be(option, value, text):
    with pytest.raises(RegardError) as caught:
        Settings(**{option: value})
    assert text == str(caught.value)
