"""Every Python block of the documentation runs, in the order of its page; every command of the README is one."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_python_blocks_run(page):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    names: dict = {}
    for block in blocks:
        exec(compile(block, page.name, "exec"), names)
    if page.name in ("README.md", "attention.md"):
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
