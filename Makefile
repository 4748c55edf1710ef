# Everything runs from .venv, which is made when it is missing or older than what it is made from.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo dev test chaos scale check bench requirements

BIN := .venv/bin
READY := .venv/ready
UV := $(shell command -v uv)
NEW_ENOUGH := sys.version_info >= (3, 11)
PYTHONS := python3.13 python3.12 python3.11 python3

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(READY) ## an incident, three agents, three kills; INTERACTIVE=1 waits for you; OPENAI_API_KEY=… MODEL=… take a real model
	@$(BIN)/roundturn demo

dev: $(READY) ## Temporal, store and worker on this machine, until Ctrl-C
	@$(if $(MODEL),ROUNDTURN_MODEL='$(MODEL)') $(BIN)/roundturn dev

test: $(READY) ## the whole test-suite; ARGS='-k approval' narrows it
	$(BIN)/python -m pytest -n 4 --dist worksteal $(ARGS)

chaos: $(READY) ## the demo's incident 20 times, each with its own random kills of worker and Temporal; some minutes
	TEST_CHAOS=all $(BIN)/python -m pytest tests/chaos/test_incident.py -n 3 $(ARGS)

scale: $(READY) ## tests/scale in full size, with its figures, about half an hour; ARGS='-k pending' narrows it
	TEST_SCALE=full $(BIN)/python -m pytest -s tests/scale $(ARGS)

check: $(READY) ## lint, format, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY) ## our steps beside a hand-written Temporal workflow's, a few minutes
	$(BIN)/python -m benchmarks.report

requirements: $(READY) ## which items of the catalogue have a test, which are deferred, which are open
	$(BIN)/python -m tests.requirements_report

ifdef UV

$(READY): pyproject.toml constraints.txt
	uv venv --quiet --allow-existing --python '>=3.11' .venv
	VIRTUAL_ENV=.venv uv pip install --quiet -c constraints.txt --build-constraints constraints.txt -e . --group dev
	@touch $@

else

PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

$(READY): pyproject.toml constraints.txt
	@$(BIN)/python -c 'import pip, sys; sys.exit(not $(NEW_ENOUGH))' 2>/dev/null || { \
		for name in $(PYTHONS); do \
			if $$name -c 'import ensurepip, sys, venv; sys.exit(not $(NEW_ENOUGH))' 2>/dev/null; then found=$$name; break; fi; \
		done; \
		if [[ -z $${found:-} ]]; then \
			echo "no Python 3.11 or newer with venv among $(PYTHONS): install one, or uv" >&2; exit 1; \
		fi; \
		echo "making .venv with $$($$found --version)"; \
		rm -rf .venv; \
		$$found -m venv .venv; \
	}
	$(PIP) pip
	$(PIP) --build-constraint constraints.txt -e . --group dev
	@touch $@

endif
