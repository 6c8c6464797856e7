# SPDX-License-Identifier: Apache-2.0
# `make demo` and `make test` do all their own set-up in .venv; nothing else is needed but Python 3.11 or newer.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# One OpenMP thread: two of them spin against each other on small machines.
export OMP_NUM_THREADS := 1

.PHONY: demo test test-processes test-rest check format clean

demo: $(VENV)/core.stamp ## score the rollouts that ship with the repository
	$(BIN)/posttrain score examples/rollouts/word_problems.jsonl --reward gsm8k --group-size 8 --out out/scored.jsonl --restart

# Most tests wait for processes that they have started, so two halves run side by side.
PROCESSES := tests/execution tests/integrations tests/service tests/training

test: $(VENV)/dev.stamp ## run the tests
	@$(MAKE) --no-print-directory --jobs=2 test-processes test-rest

test-processes: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -q -o cache_dir=.pytest_cache/processes $(PROCESSES)

test-rest: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -q -o cache_dir=.pytest_cache/rest $(addprefix --ignore=,$(PROCESSES))

check: $(VENV)/dev.stamp ## the gate: lint, format, strict types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/rules

format: $(VENV)/dev.stamp ## put the code in shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove what the targets made
	rm -rf $(VENV) out .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; name one with: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/core.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e .
	@touch $@

$(VENV)/dev.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e ".[dev]"
	@touch $@ $(VENV)/core.stamp
