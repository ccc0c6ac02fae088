# make            this help
# make analyze    set up, then analyse data/samples (or LOGS="path ...")
# make test       set up, then every check and test
# make demo       a real Slurm on this machine: fault, diagnosis, restart without the node (root, Debian or Ubuntu)
# make bench      benchmarks, ratios in one run (minutes)
# make rules      lint the rules, run their inline tests, check that their pages are fresh
# make docs       write the generated pages
# make clean      remove what these made

LOGS ?= data/samples
STORE ?= recovery-store
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
export PYTHON VENV

.PHONY: help analyze test lint rules docs demo bench clean setup setup-dev

help:
	@sed -n 's/^# \{0,1\}//p' Makefile | head -9

setup:
	@tools/setup.sh

setup-dev:
	@tools/setup.sh dev

analyze: setup
	$(BIN)/recovery analyze --format rich --store $(STORE) $(LOGS)

test: setup-dev lint rules
	$(BIN)/python -m pytest

lint: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check attribution tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

rules: setup-dev
	$(BIN)/recovery rules check
	$(BIN)/recovery rules test
	$(BIN)/recovery rules docs --check

docs: setup-dev
	$(BIN)/recovery rules docs
	$(BIN)/python -m attribution.cli.reference docs/reference

demo: setup-dev
	$(BIN)/python -m demo

bench: setup-dev
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
