# Each target makes .venv itself. A second call finds it ready and is quick.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: setup demo test check bench faults docs clean

setup: $(READY)

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "regard needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[test,peers]'
	@touch $(READY)

demo: setup                 ## a small translator learns to reverse, and shows where it looked
	$(BIN)/python examples/reversal.py

test: setup                 ## every law, contract, conformance vector and example
	$(BIN)/python -m pytest $(ARGS)

check: setup                ## style, formatting, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

faults: setup               ## break the code on purpose, one fault at a time: each must turn some test red
	$(BIN)/python -m tests.faults $(ARGS)

bench: setup                ## the operation beside PyTorch's own, as ratios in one run
	$(BIN)/python -m benchmarks.attention

docs: setup                 ## the generated pages
	$(BIN)/python -m docs.one_input

clean:
	rm -rf .venv
