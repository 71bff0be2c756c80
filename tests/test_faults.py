"""The seeded faults of `make faults` still fit the code: each names a text that stands there once."""

import pytest

from tests.faults.__main__ import FAULTS, ROOT
from tests.faults.seeded import Fault


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_text_to_replace_stands_once(fault: Fault):
    assert fault.old != fault.new
    assert (ROOT / "src" / "regard" / fault.file).read_text().count(fault.old) == 1
    for name in fault.tests:
        assert (ROOT / name.split("::")[0]).exists()


def test_there_are_enough_of_them():
    assert len(FAULTS) >= 60
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
