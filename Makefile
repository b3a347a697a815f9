# make demo | test | check | bench | soak; each sets up what it needs in .venv first. Only test and soak, which run real
# machines with their servers, bring programs of the system's as well, and say which before they do.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup programs demo test check format documents bench soak clean

PYTHON ?=
export PYTHON
BIN := .venv/bin
NODE_FILES := monitor/agent wire/framing.py wire/agent.py wire/pinning.py

help: ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 10

setup: ## make .venv with Muster and all that is needed to work on it
	@.ci/setup

programs: setup ## install the servers and tools that tests of real machines start (Debian, Ubuntu; root)
	@.ci/setup programs

demo: setup ## train a small model through the queue, in front of your eyes
	@$(BIN)/python -m demo

# Most tests of real processes wait, and wait together side by side.
test: programs ## run every test (make test ARGS="-k store" for some)
ifdef ARGS
	@sh tests/as_root.sh $(BIN)/python -m pytest $(ARGS)
else
	@sh tests/as_root.sh $(BIN)/python -m pytest --numprocesses 3
endif

check: setup ## lint, format, types, what the nodes may have
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/vermin --quiet --no-tips --target=3.8- --violations $(NODE_FILES)

format: setup ## let ruff lay out the code
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

documents: setup ## write anew what is made from the table of verbs: docs/wire.md, wire/openapi.json
	@$(BIN)/python -m master.verbs.documents

bench: setup ## measure, beside the targets
	@$(BIN)/python -m bench $(ARGS)

soak: programs ## the chaos run: kills everywhere, then checks the books
	@$(BIN)/python -m bench.soak $(ARGS)

clean: ## remove .venv and caches; never a queue
	@rm -rf .venv build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
