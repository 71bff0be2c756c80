"""Each example is run, and does what it says."""

import contextlib
import io
import runpy
import sys
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name: str) -> dict:
    return runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name=name)


def said(function, *arguments) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        function(*arguments)
    return out.getvalue()


def test_every_example_is_tested_here():
    text = Path(__file__).read_text()
    assert all(f'load("{path.stem}")' in text for path in EXAMPLES.glob("*.py"))


def test_reversal():
    example = load("reversal")
    model = example["train"](300)
    assert example["accuracy"](model, 300) >= 0.8
    drawn = said(example["show"], model).splitlines()
    assert drawn[2].count("  ") >= 1
    assert any(shade in "".join(drawn) for shade in "▒▓█")
    source, length, target = example["batch"](50, torch.Generator().manual_seed(2))
    for line, size, backwards in zip(source.tolist(), length.tolist(), target.tolist(), strict=True):
        assert line[:size] == backwards[:size][::-1]
        assert set(line[size:]) | set(backwards[size:]) <= {example["PAD"]}
    with torch.no_grad():
        _, queries = model(source, length)
        looked = model.looked(queries, source, length)
    beyond = torch.arange(source.shape[1]) >= length[:, None]
    assert (looked.mT[beyond] == 0).all()


def test_decoder():
    example = load("decoder")
    model = example["train"](20)
    assert example["compare"](model) < 1e-3
    assert example["compare"](model.double()) < 1e-11


def test_turing_step():
    example = load("turing_step")
    written = torch.randn(5, example["WIDTH"])
    recalled, looked = example["stored_and_recalled"](written)
    torch.testing.assert_close(recalled, written, atol=1e-4, rtol=0)
    assert looked.argmax(-1).tolist() == [0, 1, 2, 3, 4]


def test_local():
    example = load("local")
    learned, right, distance = example["train"](300)
    without, guessed, _ = example["train"](300, gaussian=False)
    assert right > guessed + 0.2
    assert distance < 1
    assert all(p.grad is not None for p in learned.local.parameters())
    assert all(p.grad is None for p in without.local.parameters())


def test_sampled():
    example = load("sampled")
    rows = example["table"](20_000)
    for unbiased in ("REINFORCE", "REINFORCE, baseline"):
        bias, error, _ = rows[unbiased]
        assert bias < 4 * error
    assert rows["REINFORCE, baseline"][2] < rows["REINFORCE"][2]
    for biased in ("straight through a sample", "Gumbel, temperature 1"):
        bias, error, _ = rows[biased]
        assert bias > 6 * error


@pytest.mark.parametrize("name", ["turing_step", "sampled"])
def test_as_a_script(name, monkeypatch):
    monkeypatch.setattr(sys, "argv", [name])
    text = said(lambda: runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__"))
    assert text.strip()
