"""Every Python block of the documentation runs, in the order of its page; every command and option in it is one."""

import contextlib
import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

from regard.cli import COMMANDS, command
from regard.training.settings import Duration

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    """Where there is a small file of pairs, and minutes are one step."""
    (tmp_path / "pairs.tsv").write_text("".join(f"line {n:02}\t{n:02}\n" for n in range(60)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("regard.job.Duration", lambda **_: Duration(steps=1))
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    names: dict = {}
    for block in blocks:
        exec(compile(block, page.name, "exec"), names)
    if page.name in ("README.md", "attention.md", "train.md"):
        assert blocks


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert "://" in target or (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_results_page_is_what_the_results_say():
    from docs.results import PAGE, page

    assert PAGE.read_text() == page(), "make docs writes it anew"


def test_make_knows_the_targets_that_are_named():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in (*PAGES, ROOT / "CONTRIBUTING.md", ROOT / ".ci" / "run"):
        for target in re.findall(r"(?:^|`)make (\w+)", page.read_text(), re.MULTILINE):
            assert target in targets, f"{page.name} names make {target}"


class Reached(Exception):  # noqa: N818
    """A command line was understood, and would now begin its work."""


def refuse(*_, **__):
    raise Reached


@pytest.fixture
def dry(monkeypatch):
    """Commands that are parsed and then do nothing."""
    begun = SimpleNamespace(record={"options": {"task_name": "translate", "model_name": "rnnsearch"}})
    monkeypatch.setattr("regard.job.newest", lambda store: begun)
    for place in ("regard.cli.train.trained", "regard.run.load", "regard.claims.reproduce.reproduce"):
        monkeypatch.setattr(place, refuse)


def understood(line: str) -> None:
    """Parses a command line as the command would; any mistake in it is an error. A name alone is only looked up."""
    name, *words = shlex.split(re.split(r" [<>|#] ", line)[0])[1:]
    run = command(name)
    with contextlib.suppress(Reached, SystemExit):  # --help ends so; a mistake is a RegardError
        assert not words or run(words) == 0


def written(page: Path) -> list[str]:
    """The command lines of a page: in its blocks, two spaces apart, and in its sentences."""
    text = re.sub(r"```python\n.*?```", "", page.read_text(), flags=re.DOTALL)
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    pieces = [piece for block in blocks for line in block.splitlines() for piece in re.split(r" {2,}", line)]
    sentences = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    pieces += re.findall(r"`(regard [^`]*)`", sentences)
    pieces = [piece.replace("reproduce NAME", "reproduce reversal") for piece in pieces]
    return [piece for piece in pieces if piece.startswith("regard ")]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_are_understood(page, dry):
    lines = written(page)
    for line in lines:
        understood(line)
    if page.name in ("README.md", "train.md"):
        assert len(lines) >= 4


def test_a_control_that_is_not_understood(dry):
    from regard.errors import RegardError

    for line in ("regard train translate --minutse 3", "regard predict runs/mine x --bem 3", "regard trian"):
        with pytest.raises(RegardError):
            understood(line)


def test_options_that_are_named_are_options(capsys):
    for name in COMMANDS:
        command(name)(["--help"])
    with pytest.raises(SystemExit):
        command("train")(["translate", "--help"])
    option = re.compile(r"--[a-z][a-z._-]*[a-z]")
    known = {found.replace("_", "-") for found in option.findall(capsys.readouterr().out)}
    spans = re.findall(r"`([^`\n]*)`", (ROOT / "docs" / "train.md").read_text())
    named = {found.replace("_", "-") for span in spans for found in option.findall(span)}
    assert len(named) > 20
    assert named <= known, named - known
