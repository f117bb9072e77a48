.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: help reproduce test check format bench docs clean

help:  ## Say what each target does
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

# A virtual environment that was moved or whose Python is gone no longer runs: make it anew.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; name one with: make PYTHON=/path/to/python3" >&2; exit 2; }
	$(BIN)/python -c '' 2>/dev/null || $(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,docs]'
	@touch $@

reproduce: $(READY)  ## Compute what is built so far of the paper, beside its printed numbers: build/reproduce
	$(BIN)/python scripts/reproduce.py --to build/reproduce

test: $(READY)  ## Run the tests
	$(BIN)/python -m pytest --numprocesses auto

check: $(READY)  ## Check format, style, types and layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(READY)  ## Mend format and style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)  ## Measure speed, as ratios against named peers
	$(BIN)/python benchmarks/heads.py
	$(BIN)/python benchmarks/projection.py
	$(BIN)/python benchmarks/training.py

docs: $(READY)  ## Build the documentation: build/docs
	$(BIN)/mkdocs build --strict

clean:  ## Remove everything that was made, the virtual environment included
	rm -rf .venv build dist .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
