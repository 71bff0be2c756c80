"""Line charts: valid SVG, every point where its numbers say, nothing of a name taken for markup."""

import itertools
import math
import re
import xml.etree.ElementTree as ElementTree

import pytest

from regard.view.plots import HEIGHT, LEFT, TOP, WIDTH, chart, marks


def circles(picture: str) -> list[tuple[float, float]]:
    root = ElementTree.fromstring(picture)
    found = [each for each in root.iter() if each.tag.endswith("circle")]
    return [(float(each.get("cx")), float(each.get("cy"))) for each in found]


def test_points_stand_where_their_numbers_say():
    found = circles(chart("x", "y", [("line", [(0.0, 0.0), (5.0, 0.5), (10.0, 1.0)])]))
    (x0, y0), (x1, y1), (x2, y2) = found
    assert (x0, y2) == (LEFT, TOP)
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.2)
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in found)


def test_what_is_not_a_number_is_left_out():
    assert len(circles(chart("x", "y", [("line", [(1.0, math.nan), (2.0, 0.3), (math.inf, 0.2)]), ("none", [])]))) == 1


def test_names_are_text():
    picture = chart("<x>", "a & b", [("<script>alert(1)</script>", [(1.0, 1.0)])], title='"t"</svg>')
    assert "<script" not in picture
    texts = [each.text for each in ElementTree.fromstring(picture).iter() if each.tag.endswith("text")]
    assert {"<x>", "a & b", "<script>alert(1)</script>", '"t"</svg>'} <= set(texts)


def test_names_that_end_at_one_height_do_not_touch():
    picture = chart("x", "y", [(f"line {n}", [(1.0, 0.5), (2.0, 0.5)]) for n in range(4)])
    heights = sorted(float(y) for y in re.findall(r'y="([\d.]+)"[^>]*>line \d', picture))
    assert all(b - a >= 15.9 for a, b in itertools.pairwise(heights))


@pytest.mark.parametrize(
    ("least", "most"), [(0, 1), (0.0, 0.93), (1, 20), (-3, 3), (5, 5), (0, 1e-6), (0, 123456), (0, 0)]
)
def test_marks_are_round_and_span_the_range(least, most):
    found = marks(least, most)
    assert found[0] <= least + 1e-12
    assert found[-1] >= most - 1e-12
    assert 2 <= len(found) <= 9
