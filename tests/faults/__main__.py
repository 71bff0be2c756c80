"""Breaks the code on purpose, one fault at a time, and sees whether some test turns red: `make faults`.

Each fault of the modules beside this one is put into a copy of the package, and the tests named beside it
run on that copy.
A fault that no test notices is a hole in the tests; the run then fails and names it. Before the faults the
same tests run on an untouched copy, which must be green.

    python -m tests.faults [WORD …]      only the faults whose name holds one of the words
"""

import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.faults import kernels, seeded, trust
from tests.faults.seeded import Fault

FAULTS = (*seeded.FAULTS, *kernels.FAULTS, *trust.FAULTS)
ROOT = Path(__file__).parents[2]
FAILED, PASSED = 1, 0  # pytest's exit codes; any other is an accident, not a verdict


def run(folder: Path, tests: tuple[str, ...]) -> tuple[int, str]:
    """Runs tests on the package copied to a folder."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "REGARD_EXPECTED_AT": str(folder),
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def try_fault(fault: Fault | None, tests: tuple[str, ...]) -> tuple[int, str]:
    """Runs the tests with a fault in place, or with none."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(ROOT / "src" / "regard", folder / "regard", ignore=shutil.ignore_patterns("__pycache__"))
        if fault is not None:
            path = folder / "regard" / fault.file
            text = path.read_text()
            if text.count(fault.old) != 1:
                return (
                    4,
                    f"{fault.file} holds the text to replace {text.count(fault.old)} times, not once:\n{fault.old}",
                )
            path.write_text(text.replace(fault.old, fault.new))
        return run(folder, tests)


def main(words: list[str]) -> int:
    """Tries every fault, prints a line each, and returns 0 if all were noticed."""
    chosen = [f for f in FAULTS if not words or any(word in f.name for word in words)]
    everything = tuple(sorted({test for fault in chosen for test in fault.tests}))
    begin = time.monotonic()
    code, output = try_fault(None, everything)
    if code != PASSED:
        print(output[-3000:])
        print("the tests fail without any fault: mend them first")
        return 2
    print(f"untouched: green ({output.strip().splitlines()[-1].strip()})", flush=True)
    missed = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for fault, (code, output) in zip(chosen, pool.map(lambda f: try_fault(f, f.tests), chosen), strict=True):
            if code == FAILED:
                line = next(x for x in output.splitlines() if x.startswith(("FAILED", "ERROR")))
                print(f"noticed  {fault.name}: {line.split(' - ')[0].split('::', 1)[-1][:80]}", flush=True)
            else:
                missed.append(fault)
                print(
                    f"MISSED   {fault.name} (exit code {code})\n{output[-1500:] if code != PASSED else ''}", flush=True
                )
    print(f"{len(chosen) - len(missed)} of {len(chosen)} faults noticed in {time.monotonic() - begin:.0f} s")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
