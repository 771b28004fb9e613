# Each target creates what it needs: `make test` works on its own in a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2

.PHONY: demo test test-slow lint bench clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.run: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[plot]"
	touch $@

$(VENV)/.test: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	touch $@

demo: $(VENV)/.run
	$(BIN)/python examples/demo.py --report report

test: $(VENV)/.test lint
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal

test-slow: $(VENV)/.test
	$(BIN)/python -m pytest -q -n $(WORKERS) -m slow

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks $(ARGS)

clean:
	rm -rf $(VENV) build dist report .pytest_cache .mypy_cache .ruff_cache .hypothesis
