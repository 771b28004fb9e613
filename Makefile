# Each target creates what it needs: `make test` works on its own in a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
SUDO ?= $(shell [ "$$(id -u)" = 0 ] || command -v sudo)

# The lowest versions that pyproject.toml allows, on the lowest Python, in an environment of their own.
LOWEST_PYTHON ?= python3.11
LOWEST := .venv-lowest

# Other private learners need an older scikit-learn; they have an environment of their own.
RIVALS := .venv-rivals
SURVIVAL := .venv-survival

# What `make dist` builds with, and the Pythons that it tries the wheel on.
DIST := .venv-dist
PYTHONS ?= python3.11 python3.12 python3.13 python3.14

# What `make test-torch` installs. One version, so that a package index with a build for the CPU beside the one of several
# gigabytes for GPUs gives the same on every machine; TORCH="torch --index-url ..." takes another.
TORCH ?= torch==2.13.0

# Without byte code on disk, each of the many processes of the tests would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test coverage test-lowest test-thorough test-slow test-browser test-torch test-ray test-spark test-postgres test-survival record-survival lint bench bench-private bench-survival mutants docs dist clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.run: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[plot]"
	touch $@

$(VENV)/.bench: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[benchmark]"
	touch $@

$(VENV)/.test: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	touch $@

$(VENV)/.docs: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	touch $@

# The story of the library in six chapters, on data that ship with scikit-learn.
demo: $(VENV)/.run
	$(BIN)/python examples/story.py --report report

# What many tests and the processes that they start need is compiled once, before two workers ask for it, and again when
# a source of machine code has changed.
$(VENV)/.warm: $(VENV)/.test $(shell find src/pairlearn/kernels src/pairlearn/losses src/pairlearn/domains -name "*.py")
	$(BIN)/python -m pairlearn.cli.warm_cache
	touch $@

test: lint $(VENV)/.warm
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal

$(LOWEST)/.test: .ci/lowest.py pyproject.toml
	$(LOWEST_PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --upgrade pip
	$(LOWEST)/bin/python .ci/lowest.py > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/python -m pip install --quiet --constraint $(LOWEST)/constraints.txt --editable ".[test]"
	touch $@

# Another numba must not throw out the machine code of the usual environment: it has its own folder.
test-lowest: export NUMBA_CACHE_DIR := $(abspath $(LOWEST))/numba
test-lowest: $(LOWEST)/.test
	$(LOWEST)/bin/python -m pairlearn.cli.warm_cache
	$(LOWEST)/bin/python -m pytest -q -n $(WORKERS) --dist worksteal -m "not slow"

# What takes a second or more each: audits of privacy, simulated rates, runs that are killed, processes of their own.
test-thorough: $(VENV)/.warm
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m "thorough and not slow" tests

# The share of lines that the tests run; machine code is not traced, so kernels are left out.
coverage: $(VENV)/.warm
	$(BIN)/python -m pip install --quiet "pytest-cov>=5"
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --cov=pairlearn --cov-report=term:skip-covered --cov-fail-under=96

test-slow: $(VENV)/.test
	$(BIN)/python -m pytest -q -n $(WORKERS) -m slow

# A real browser looks at the report; where none can be installed, the tests say so and skip.
test-browser: $(VENV)/.test
	command -v chromium >/dev/null || { command -v apt-get >/dev/null && \
		$(SUDO) apt-get install --yes --no-install-recommends chromium; } || true
	$(BIN)/python -m pytest -q -rs tests/browser

# The extra torch, on the CPU, in the usual environment: `make test` leaves these tests out where torch is missing.
$(VENV)/.torch: $(VENV)/.test
	$(BIN)/python -m pip install --quiet $(TORCH) triton skorch lightning
	$(BIN)/python -m pip install --quiet --editable ".[test,torch]"
	touch $@

test-torch: $(VENV)/.torch
	$(BIN)/python -m pytest -q -rs tests/torch tests/benchmarks/table1_on_device src/pairlearn/torch docs/guide/torch.md

# Other engines, in the same environment; Spark needs a Java runtime.
test-ray: $(VENV)/.test
	$(BIN)/python -m pip install --quiet ray
	$(BIN)/python -m pytest -q -rs -m slow -k ray tests/cluster/test_recipes.py

test-spark: $(VENV)/.test
	command -v java >/dev/null || { echo "Spark needs a Java runtime: install one (JDK 17)"; exit 1; }
	$(BIN)/python -m pip install --quiet --editable ".[test,spark]"
	$(BIN)/python -m pytest -q -rs tests/cluster/spark src/pairlearn/cluster/spark
	$(BIN)/python -m pytest -q -rs -m slow tests/cluster/spark
	$(BIN)/python -m pytest -q -rs -m slow -k spark tests/cluster/test_recipes.py

# The generated SELECTs on a real PostgreSQL, whose server the tests start on loopback; where it cannot be installed,
# the tests say so and skip.
test-postgres: $(VENV)/.test
	test -n "$$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null)" || { command -v apt-get >/dev/null && \
		$(SUDO) apt-get install --yes --no-install-recommends postgresql; } || true
	$(BIN)/python -m pytest -q -rs -m slow tests/cluster/test_postgresql.py

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks $(ARGS)

$(RIVALS)/.rivals: pyproject.toml
	$(PYTHON) -m venv $(RIVALS)
	$(RIVALS)/bin/python -m pip install --quiet --upgrade pip
	$(RIVALS)/bin/python -m pip install --quiet $(TORCH)
	$(RIVALS)/bin/python -m pip install --quiet --editable ".[rivals]"
	touch $@

# Private AUC beside DP-EBM, diffprivlib and Opacus; ARGS="--data FOLDER --markdown FILE".
bench-private: $(RIVALS)/.rivals
	$(RIVALS)/bin/python -m benchmarks.private_rivals $(ARGS)

$(SURVIVAL)/.survival: pyproject.toml
	$(PYTHON) -m venv $(SURVIVAL)
	$(SURVIVAL)/bin/python -m pip install --quiet --upgrade pip
	$(SURVIVAL)/bin/python -m pip install --quiet --editable ".[survival]"
	touch $@

# Survival rankers beside Cox's regression and FastSurvivalSVM; ARGS="--splits 5 --sets gbsg2,lung".
bench-survival: $(SURVIVAL)/.survival
	$(SURVIVAL)/bin/python -m benchmarks.survival $(ARGS)

# The tests that ask scikit-survival, lifelines, choix and statsmodels.
test-survival: $(SURVIVAL)/.survival
	$(SURVIVAL)/bin/python -m pytest -q -rs tests/metrics/test_concordance.py tests/metrics/test_concordance_recorded.py \
		tests/estimators/test_survival.py tests/estimators/test_ratings.py

# Write down anew what scikit-survival and lifelines say, for the tests that run without them.
record-survival: $(SURVIVAL)/.survival
	$(SURVIVAL)/bin/python tests/metrics/record_concordance.py

# Small faults, one at a time, and the tests that notice them; ARGS="privacy 50".
mutants: $(VENV)/.test
	$(BIN)/python tools/mutants.py $(ARGS)

# The site; a warning or a broken reference is an error. GALLERY=0 leaves out the runs of the programs in examples, which
# take minutes and run in the tests, too (tests/docs/test_site.py).
GALLERY ?= 1
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -q -D plot_gallery=$(GALLERY) -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

# Wheel and source archive, what is in them, and a smoke test of the wheel in a clean environment of
# each Python that is installed.
$(DIST)/.tools:
	$(PYTHON) -m venv --clear $(DIST)
	$(DIST)/bin/python -m pip install --quiet --upgrade pip build
	touch $@

dist: $(DIST)/.tools
	rm -rf dist
	$(DIST)/bin/python -m build --outdir dist .
	$(DIST)/bin/python .ci/dist.py dist $(PYTHONS)

clean:
	rm -rf $(VENV) $(LOWEST) $(DIST) $(RIVALS) build dist report docs/_build docs/auto_examples docs/api/generated .pytest_cache .mypy_cache .ruff_cache .hypothesis
