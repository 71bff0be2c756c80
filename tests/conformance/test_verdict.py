"""Says how much has agreed, once the other files of this directory have run."""

import pytest

from tests.conformance.peers import AGREED, LIMITS, TRIED


def test_every_case_agreed(capsys):
    if not TRIED:
        pytest.skip("no case has run in this process: run the whole directory")
    assert not (failed := {f"{case} in {dtype}" for case, dtype in TRIED - AGREED}), failed
    cases = [case for case, _ in AGREED]
    layers = {case.layer for case in cases if all((case, dtype) in AGREED for dtype in LIMITS)}
    limits = ", ".join(
        f"{str(dtype).removeprefix('torch.')} {limit:.0e}".replace("e-0", "e-") for dtype, limit in LIMITS.items()
    )
    verdict = f"conformance: {len(layers)} peer layers agree in {len(set(cases))} ways of calling them"
    with capsys.disabled():
        print(f"\n{verdict} (outputs and input gradients, {limits})")  # noqa: T201
