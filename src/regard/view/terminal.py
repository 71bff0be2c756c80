"""A matrix of weights as text: columns what was read, rows what was written, the darker the more.

It fits the width of the terminal, and says what it left out.
"""

from collections.abc import Sequence
from itertools import accumulate

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

SHADES = " ░▒▓█"
FORBIDDEN = "·"


def shade(weight: float) -> str:
    """One of five shades for a weight between 0 and 1; anything above 0.05 shows."""
    return SHADES[min(int(weight * 4 + 0.95), 4)] if weight > 0.05 else SHADES[0]


def matrix(weights: Sequence[Sequence[float]], columns: Sequence[str], rows: Sequence[str], *, width: int = 80) -> Text:
    """The picture. Tokens of one character stand above their column, longer ones are written downwards.

    Args:
        weights: A row for each of `rows`, a number for each of `columns`.
        columns: What was read.
        rows: What was written.
        width: Of the terminal, in characters.
    """
    labels = [_visible(token) for token in rows]
    margin = max(map(cell_len, labels), default=0) + 1
    heads = [_visible(token) for token in columns]
    widths = [max(map(cell_len, head), default=1) for head in heads]  # a Chinese character takes two places
    shown = sum(end < width - margin for end in accumulate(widths))
    text = Text()
    for line in range(max(map(len, heads[:shown]), default=0)):
        text.append(" " * margin)
        letters = [head[line] if line < len(head) else " " for head in heads[:shown]]
        text.append("".join(map(set_cell_size, letters, widths)) + "\n", style="bold")
    for label, row in zip(labels, weights, strict=True):
        text.append(" " * (margin - 1 - cell_len(label)) + label + " ", style="bold")
        for weight, wide in zip(row[:shown], widths, strict=False):
            level = int(min(max(weight, 0.0), 1.0) * 255)
            text.append(shade(weight) * wide, style=f"rgb({255 - level // 3},{200 - level // 2},{60 + level // 2})")
        text.append("\n")
    if shown < len(columns):
        text.append(f"{len(columns) - shown} of {len(columns)} columns do not fit a width of {width}\n", style="italic")
    return text


def draw(
    weights: Sequence[Sequence[float]], columns: Sequence[str], rows: Sequence[str], *, console: Console | None = None
) -> None:
    """Prints the picture, in colour where the terminal has it."""
    console = console or Console()
    console.print(matrix(weights, columns, rows, width=console.width), end="")


def _visible(token: str) -> str:
    """A token that takes one place a character: what would move the cursor is written as its escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in token.replace(" ", "␣"))
