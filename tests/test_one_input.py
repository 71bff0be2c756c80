"""`docs/one-input.md` says what its script finds, and `regard` has one answer to each input."""

import pytest

from docs import one_input


@pytest.fixture(scope="module")
def masked():
    return one_input.every_key_masked()


def test_regard_answers_a_row_with_every_key_masked_with_zeros(masked):
    assert len(masked.rows) >= 11, "PyTorch alone has eleven paths"
    assert set(masked.column("`regard`: that row")) == {"zeros"}
    assert set(masked.column("`regard`: gradients")) == {"finite"}


def test_the_table_tells_other_answers_apart(masked):
    """Were every answer called zeros, the column of regard would show nothing."""
    assert {"zeros", "NaN", "the mean of the values"} <= set(masked.column("that row"))


def test_regard_is_unaffected_by_nan_that_is_masked():
    table = one_input.hidden_nan()
    assert set(table.column("`regard`: in its key")) == {"unaffected"}
    assert set(table.column("`regard`: in its value")) == {"unaffected"}
    assert "NaN" in table.column("NaN in its value")


def test_regard_places_a_query_where_it_is_told():
    rows = {path: seen for path, seen in one_input.one_query().rows if "regard" in path}
    assert sorted(rows.values()) == ["key 0 only", "keys 0, 1, 2, 3", "keys 0, 1, 2, 3"]


def test_asking_regard_for_weights_changes_nothing():
    (row,) = (row for row in one_input.asking_for_weights().rows if "regard" in row[0])
    assert row[1:] == ("those of each head", "the same", "the same", "0", "1")


def test_the_page_is_what_the_script_writes():
    page = one_input.PAGE.read_text(encoding="utf-8")
    if one_input.versions() not in page:
        pytest.skip(f"the page was made with other peers: here it would say {one_input.versions()!r}")
    assert page == one_input.page(), "run python -m docs.one_input"
