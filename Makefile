# make demo | test | check | bench | soak; each sets up what it needs in .venv first. Only test, soak and screenshots, which run
# real machines with their servers or Chromium, bring programs of the system's as well, and say which before they do.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup programs newest demo test ci check format documents bench bench-peers screenshots soak clean

PYTHON ?=
export PYTHON
# Of the thousands of processes that tests start each would compile all its modules anew, which no user's does.
unexport PYTHONDONTWRITEBYTECODE
BIN := .venv/bin
RUNNER := sh tests/as_root.sh $(BIN)/python -m tests.runner
# CI checks a fresh clone once: writing mypy's cache would take a sixth of its time, and nobody would read it.
NO_CACHE := $(if $(filter true,$(CI)),$(if $(wildcard .mypy_cache),,--cache-dir=/dev/null))
NODE_FILES := monitor/agent wire/account.py wire/framing.py wire/agent.py wire/pinning.py

help: ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 10

setup: ## make .venv with Muster and all that is needed to work on it
	@.ci/setup

programs: setup ## install the servers and tools that tests of real machines start (Debian, Ubuntu; root)
	@.ci/setup programs

newest: setup ## upgrade what .venv holds; CI takes these versions (.ci/versions.txt) once you commit them
	@$(BIN)/python -m pip install --quiet --upgrade --upgrade-strategy eager --editable '.[dev,demo]'
	@$(BIN)/python -m pip freeze --quiet --exclude-editable >.ci/versions.txt

demo: setup ## train a small model through the queue, in front of your eyes (ARGS=--web: and let the console stay)
	@$(BIN)/python -m demo $(ARGS)

test: $(if $(filter unit,$(LAYER)),setup,programs) ## run every test (LAYER=unit: one layer; ARGS="-k store": plain pytest for some)
ifdef ARGS
	$(if $(LAYER),$(error make test takes LAYER or ARGS, not both))
	@sh tests/as_root.sh $(BIN)/python -m pytest $(ARGS)
else
	@$(RUNNER) $(addprefix --layer ,$(LAYER))
endif

ci: setup ## what CI runs: every test; beside the first stage, the installation of the tests' programs, then check
	@$(RUNNER) --beside "$(MAKE) --no-print-directory programs check"

check: setup ## lint, format, types, plain English, what the nodes may have
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy $(NO_CACHE)
	@$(BIN)/python -m tests.language
	@$(BIN)/vermin --quiet --no-tips --target=3.8- --violations $(NODE_FILES)
	@if command -v tsc >/dev/null; then tsc --project .ci/pages; \
	else echo "check: the types of the console's pages (web/static) need tsc (Debian and Ubuntu: sudo apt install node-typescript)" >&2; [ "$${CI:-}" != true ]; fi

format: setup ## let ruff lay out the code
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

documents: setup ## write anew what is made from the table of verbs: docs/wire.md, wire/openapi.json
	@$(BIN)/python -m master.verbs.documents

bench: setup ## measure, beside the targets
	@$(BIN)/python -m bench $(ARGS)

bench-peers: setup ## measure beside HyperQueue, task-spooler and Slurm, which it gets from PyPI and the distribution
	@$(BIN)/python -m bench.peers $(ARGS)

screenshots: programs ## make the pictures of docs/web.md anew (docs/web)
	@sh tests/as_root.sh $(BIN)/python -m tests.web.pictures $(ARGS)

soak: setup ## the chaos run: kills everywhere, then checks the books
	@.ci/setup programs soak
	@$(BIN)/python -m bench.soak $(ARGS)

clean: ## remove .venv and caches; never a queue
	@rm -rf .venv build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
