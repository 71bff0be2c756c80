"""The matrix in the terminal."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from regard.view.terminal import SHADES, draw, matrix, shade


def test_darker_is_more():
    assert [shade(weight) for weight in (0.0, 0.04, 0.1, 0.4, 0.6, 0.9, 1.0)] == list("  ░▒▓██")
    assert SHADES[0] == " "


def test_a_row_for_each_that_was_written_and_a_column_for_each_that_was_read():
    text = matrix([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]], ["a", "b", " "], ["x", "yz"]).plain
    assert text.splitlines() == ["   ab␣", " x █  ", "yz  ▒▒"]


def test_long_tokens_are_written_downwards():
    assert matrix([[0.0, 1.0]], ["ab", "cde"], ["x"]).plain.splitlines() == ["  ac", "  bd", "   e", "x  █"]


def test_what_does_not_fit_is_said():
    text = matrix([[0.1] * 50], ["a"] * 50, ["x"], width=20).plain
    assert max(map(len, text.splitlines()[:-1])) <= 20
    assert text.splitlines()[-1] == "33 of 50 columns do not fit a width of 20"


def test_nothing_moves_the_cursor():
    out = io.StringIO()
    console = Console(file=out, width=80)
    draw([[0.5, 0.5]], ["\x1b[31m", "\r"], ["\n"], console=console)
    assert "\x1b" not in out.getvalue()
    assert "\r" not in out.getvalue()


@pytest.mark.parametrize(("columns", "rows"), [([], []), (["a"], []), ([], ["x"])])
def test_nothing_to_draw(columns, rows):
    matrix([[0.0] * len(columns) for _ in rows], columns, rows)


def test_a_wide_character_has_a_wide_column():
    drawn = matrix([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]], ["2", "年", "1"], ["月", "x"]).plain.splitlines()
    assert drawn == ["   2年1", "月  ██ ", " x █  █"]
    assert {cell_len(line) for line in drawn} == {7}


def test_wide_columns_fit_the_width():
    drawn = matrix([[1.0] * 30], ["年"] * 30, ["x"], width=21).plain.splitlines()
    assert max(map(cell_len, drawn[:-1])) <= 21
    assert drawn[-1] == "21 of 30 columns do not fit a width of 21"
