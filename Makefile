# Each target makes .venv itself. A second call finds it ready and is quick.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
TOOLS := .venv/.tools

.PHONY: setup demo test check bench faults docs clean

setup: $(READY)

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "regard needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable .
	@touch $(READY)

$(TOOLS): $(READY)          # what only working on regard needs: tests, style, and the libraries it is compared with
	$(BIN)/python -m pip install --quiet --editable '.[test,peers,metrics,data,log]'
	@touch $(TOOLS)

demo: setup                 ## a small translator learns to read dates, and shows where it looks: minutes
	$(BIN)/regard demo

test: $(TOOLS)                ## every law, contract, conformance vector and example
	$(BIN)/python -m pytest $(ARGS)

check: $(TOOLS)             ## style, formatting, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

faults: $(TOOLS)            ## break the code on purpose, one fault at a time: each must turn some test red
	$(BIN)/python -m tests.faults $(ARGS)

bench: $(TOOLS)             ## the operation beside PyTorch's own and other peers, as ratios in one run
	$(BIN)/regard bench attention $(ARGS)

docs: $(TOOLS)              ## the generated pages
	$(BIN)/python -m docs.one_input
	$(BIN)/python -m docs.results

clean:
	rm -rf .venv
