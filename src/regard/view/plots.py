"""A line chart as an SVG file: axes with round numbers, a line and its name for each series."""

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 130, 44, 56
COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#8a5a9e", "#c77d1e", "#4a4a4a")
DASHES = ("", "7 4", "2 3", "9 3 2 3", "4 2", "1 2")
"""Beside the colours, for whoever sees or prints none."""


def chart(across: str, up: str, lines: Sequence[tuple[str, Sequence[tuple[float, float]]]], *, title: str = "") -> str:
    """The picture.

    Args:
        across: What the horizontal axis is.
        up: What the vertical axis is.
        lines: Each line's name and points (x, y), in the order in which they are joined.
        title: Above it.

    >>> chart("length", "exact", [("with", [(1.0, 1.0), (20.0, 0.9)])]).startswith("<svg")
    True
    """
    points = [point for _, line in lines for point in line if all(map(math.isfinite, point))]
    x_marks = marks(min((x for x, _ in points), default=0), max((x for x, _ in points), default=1))
    y_marks = marks(min(0.0, *(y for _, y in points)) if points else 0.0, max((y for _, y in points), default=1.0))
    inner_width, inner_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def place(x: float, y: float) -> tuple[float, float]:
        right = (x - x_marks[0]) / (x_marks[-1] - x_marks[0])
        high = (y - y_marks[0]) / (y_marks[-1] - y_marks[0])
        return round(LEFT + right * inner_width, 1), round(TOP + (1 - high) * inner_height, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="13" role="img"><title>{escape(title or up)}</title>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        _text(LEFT, 24, title, size=14),
        _text(LEFT + inner_width / 2, HEIGHT - 14, across, anchor="middle"),
        f'<g transform="translate(18 {TOP + inner_height / 2}) rotate(-90)">{_text(0, 0, up, anchor="middle")}</g>',
    ]
    for mark in y_marks:
        _, y = place(x_marks[0], mark)
        parts.append(f'<path d="M{LEFT} {y}H{LEFT + inner_width}" stroke="#dddddd"/>')
        parts.append(_text(LEFT - 8, y + 4, f"{mark:g}", anchor="end"))
    for mark in x_marks:
        x, _ = place(mark, y_marks[0])
        parts.append(_text(x, TOP + inner_height + 20, f"{mark:g}", anchor="middle"))
    below = -math.inf
    for number, (name, line) in sorted(enumerate(lines), key=lambda each: -each[1][1][-1][1] if each[1][1] else 0):
        drawn = [place(x, y) for x, y in line if math.isfinite(x) and math.isfinite(y)]
        if not drawn:
            continue
        colour, dash = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
        path = "L".join(f"{x} {y}" for x, y in drawn)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>')
        parts += [f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in drawn]
        below = max(drawn[-1][1] + 4, below + 16)  # names that would touch move down
        parts.append(_text(drawn[-1][0] + 10, below, name, colour=colour))
    return "\n".join([*parts, "</svg>\n"])


def marks(least: float, most: float) -> list[float]:
    """Round numbers that span a range, four to eight of them.

    >>> marks(0, 0.93), marks(1, 20)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.0, 5.0, 10.0, 15.0, 20.0])
    """
    span = most - least or abs(most) or 1.0
    power = 10.0 ** math.floor(math.log10(span))
    step = next(digit * power for digit in (0.2, 0.25, 0.5, 1, 2, 2.5, 5) if span / (digit * power) <= 6)
    first, last = math.floor(least / step + 1e-9), math.ceil(most / step - 1e-9)
    last = max(last, first + 1)
    return [round(number * step, 12) for number in range(first, last + 1)]


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 13, colour: str = "#222222") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">{escape(text)}</text>'
