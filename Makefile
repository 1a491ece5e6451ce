# Needs: Python >= 3.11, git, make. Everything else goes into .venv and .tools.
# PYTHON=/path/to/python3 chooses the interpreter.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo test chaos bench lint matrix docs clean setup

SUITABLE = import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for each in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$each -c '$(SUITABLE)' 2>/dev/null && { echo $$each; break; }; done)
RUN := .venv/bin/python
STAMP := .venv/webhooks-setup

help: ## Show the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

demo: $(STAMP) ## The whole product on one screen (ONCE=1: run through and exit)
	@$(RUN) manage.py webhooks_demo $(if $(ONCE),--once)

test: $(STAMP) ## Every test, with private servers (ARGS="tests/core -k retry": one pytest run)
	@$(RUN) -m scripts.test $(ARGS)

chaos: $(STAMP) ## Kill, freeze, flush and restart everything under load (minutes)
	@$(RUN) -m scripts.test -m chaos $(ARGS)

bench: $(STAMP) ## Measurements, one JSON line each (QUICK=1: under a minute)
	@$(RUN) -m bench $(if $(QUICK),--quick) $(ARGS)

lint: $(STAMP) ## Static checks: style, types, import contracts, migrations, deployment, schema
	@$(RUN) -m scripts.lint

matrix: $(STAMP) ## The tests on every Python that runs here
	@$(RUN) -m scripts.matrix $(ARGS)

docs: $(STAMP) ## Check the links of the documentation
	@$(RUN) -m scripts.docs

clean: ## Remove environments, caches and build products
	rm -rf .venv .venv-matrix-* .tools build dist *.egg-info tests/node/node_modules
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

setup: $(STAMP) ## Make .venv and .tools

$(STAMP): pyproject.toml requirements.txt constraints.txt tests/node/package-lock.json scripts/setup.py
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: apt-get install python3"; exit 1; }
	@$(PYTHON) -m scripts.setup
