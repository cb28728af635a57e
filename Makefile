# Each target sets up what it needs in .venv, so each may be the first command after a clone.
PYTHON ?= python3
PORT   ?= 8000
PYTEST_ARGS ?=

VENV := .venv
PY   := $(VENV)/bin/python
PIP  := $(PY) -m pip install -qq
RUN_ENV := $(VENV)/run.stamp
DEV_ENV := $(VENV)/dev.stamp
TORCH_ENV := $(VENV)/torch.stamp
NODE_ENV := frontend/node_modules/.package-lock.json
NPM := npm --prefix frontend

.PHONY: help run test test-full check fmt gen page browser shots bench prove-all clean

help:
	@echo "make run        serve on http://127.0.0.1:$(PORT); with TORCH=1, plans can be proved there"
	@echo "make test       the quick tests"
	@echo "make test-full  all tests, twenty times as many examples"
	@echo "make check      format, lint, types, import contracts"
	@echo "make fmt        mend what can be mended"
	@echo "make gen        OpenAPI description and the page's types from it"
	@echo "make shots      pictures of every screen, in build/shots and docs/screenshots"
	@echo "make bench      benchmarks"
	@echo "make prove-all  prove hundreds of plans on ranks, in docs/reference/proofs.md"

run: $(RUN_ENV) $(if $(TORCH),$(TORCH_ENV)) page
	$(PY) -m backend --port $(PORT)

test: $(DEV_ENV) page $(NODE_ENV) browser
	$(NPM) run test
	$(PY) -m tests $(PYTEST_ARGS)

test-full: $(DEV_ENV) page $(NODE_ENV) browser
	$(NPM) run test
	HYPOTHESIS_PROFILE=full $(PY) -m pytest $(PYTEST_ARGS)

check: $(DEV_ENV) $(NODE_ENV)
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(PY) -m backend.openapi | cmp - frontend/openapi.json || { echo "run make gen"; exit 1; }
	$(NPM) run gen:check
	$(NPM) run check

fmt: $(DEV_ENV) $(NODE_ENV)
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	$(NPM) run fmt

gen: $(RUN_ENV) $(NODE_ENV)
	$(PY) -m backend.openapi > frontend/openapi.json
	$(NPM) run gen

# The hook compares sources by their hash, which make can't; it is quick when there is nothing to do.
page: | $(PY)
	$(PY) hatch_build.py

# The end-to-end tests run in a Chromium of this machine; as root, apt installs a missing one.
browser: $(DEV_ENV)
	$(PY) -m tests.e2e.chromium

shots: $(DEV_ENV) page browser
	$(PY) -m tests.e2e.shots

bench: $(DEV_ENV) page $(NODE_ENV) browser
	$(PY) benchmarks/run.py
	$(PY) -m benchmarks.edits
	$(PY) benchmarks/graph/measure.py
	$(PY) -m benchmarks.redistribution
	$(PY) -m benchmarks.forms

prove-all: $(DEV_ENV)
	$(PY) -m benchmarks.prove_all

clean:
	rm -rf $(VENV) backend/webui frontend/node_modules build dist

$(PY):
	$(PYTHON) -m venv $(VENV)

$(RUN_ENV): pyproject.toml | $(PY)
	$(PIP) -e .
	touch $@

$(TORCH_ENV): $(RUN_ENV)
	$(PIP) torch==2.13.0
	touch $@

# torch by itself and first: an exact version resolves to whatever build this machine is set up
# for, and the extras then find it in place instead of choosing another.
$(DEV_ENV): pyproject.toml | $(PY)
	$(PIP) torch==2.13.0
	$(PIP) -e '.[torch,test,dev]'
	touch $@ $(RUN_ENV)

$(NODE_ENV): frontend/package-lock.json
	$(NPM) ci --no-audit --no-fund
	touch $@
