# Understudy: every target sets up what it needs. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DRAWING := build/drawing

.PHONY: help setup demo test check fix coverage parity fuzz complexity mutants bench bench-audit bench-peers bench-report compiled \
	dashboard-picture test-compiled soak wheel image \
	lock clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /\1\t/' | expand -t 16

# The lock pins every package by hash. It is complete, and so nothing is resolved anew: a pip that
# does takes a newer release for a package with an extra, which no hash vouches for. Our own package
# is installed in place, without fetching.
$(READY): requirements-dev.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(BIN)/python -m pip --disable-pip-version-check check
	@touch $@

setup: $(READY) ## Make the virtual environment from the lock file

demo: $(READY) ## Start a real control plane and the proxy, play the KEP's stories (ONCE=1: exit after the tour)
	$(BIN)/understudy dev $(if $(ONCE),--once)

# With workers, each has a control plane of its own, and a file is run by one of them: its tests share
# servers. Tests that measure CPU time want the machine for themselves, so there are none by default.
WORKERS ?= 0
test: $(READY) ## Run every test, those against the real control plane included (WORKERS, ARGS)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(ARGS)

check: $(READY) ## Format, lint, types, layers, contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/contracts

fix: $(READY) ## Format, and mend what the linter can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

coverage: $(READY) ## Branch coverage: 100 % of the core, 90 % of the whole
	$(BIN)/python -m pytest --cov --cov-report= $(ARGS)
	$(BIN)/coverage report --include 'proxy/core/*' --fail-under 100 --show-missing
	$(BIN)/coverage report --fail-under 90 --show-missing --skip-covered

# A cluster without the feature behind the proxy must answer as one with it, case by case.
# SELF=1: native against itself. MUTANTS=1: find each seeded mistake. GATE=off: the filter of old.
# UPSTREAM=on: the native filter behind the proxy, too. VERSION=1.34: an emulated upstream.
CASES ?= 10000
SEED ?= 1
parity: $(READY) ## Compare the proxy with the native server (CASES, SEED, SELF, MUTANTS, GATE, UPSTREAM, VERSION)
	$(BIN)/python -m tests.parity --cases $(CASES) --seed $(SEED) $(if $(SELF),--self) \
	  $(if $(MUTANTS),--mutants) $(if $(GATE),--gate $(GATE)) \
	  $(if $(UPSTREAM),--upstream $(UPSTREAM)) $(if $(VERSION),--upstream-version $(VERSION))

N ?= 1000000
fuzz: $(READY) ## Compare the decision core with the native server's own code (N, SEED)
	$(BIN)/python -m tests.fuzz --cases $(N) --seed $(SEED)

# CPU time and memory of every parser and of whole requests at n, 2n and 4n bytes. ARGS: --help.
complexity: $(READY) ## What hostile requests cost the event loop; 1 if one misses a bar (ARGS)
	$(BIN)/python -m tests.complexity $(ARGS)

mutants: $(READY) ## Take each security guard away in turn; its tests must notice (ARGS: numbers)
	$(BIN)/python -m tests.guards $(ARGS)

# Ratios inside one run only; 1 if a bar is missed. ONLY: rows by how their names start. CONTESTANTS:
# only these. BESIDE: another checkout of ours to compare with. ARGS: `python -m bench --help`.
bench: $(READY) $(DRAWING)/.ready ## What the proxy costs beside others (QUICK=1: 3 minutes; ONLY, CONTESTANTS, BESIDE, ARGS)
	$(BIN)/python -m bench --drawing $(DRAWING) $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY)) \
	  $(if $(CONTESTANTS),--contestants $(CONTESTANTS)) $(if $(BESIDE),--beside $(BESIDE)) $(ARGS)

CONNECTIONS ?= 64
SECONDS ?= 5
ROUNDS ?= 5
bench-audit: $(READY) ## CPU of an audit event, with and without in one run (CONNECTIONS, SECONDS, ROUNDS)
	$(BIN)/python -m bench.audit --connections $(CONNECTIONS) --seconds $(SECONDS) \
	  --rounds $(ROUNDS)

# The first time this takes minutes; `make bench` does the same when it first needs them.
bench-peers: $(READY) ## Build or fetch the benchmark's peers, and test that each does its work
	UNDERSTUDY_PEERS=1 $(BIN)/python -m pytest -m peers tests/bench $(ARGS)

bench-report: $(READY) ## A week of audit, a million events: seconds of CPU and memory of `understudy report`
	UNDERSTUDY_SOAK=1 $(BIN)/python -m pytest -m soak --log-cli-level=info tests/cli/test_report.py $(ARGS)

# matplotlib is for pictures alone, so it stays beside the environment of everything else.
$(DRAWING)/.ready: requirements-docs.lock | $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps \
	  --upgrade --target $(DRAWING) -r requirements-docs.lock
	@touch $@

dashboard-picture: $(READY) $(DRAWING)/.ready ## Play a drama before two proxies and draw the Grafana dashboard of it
	PYTHONPATH=$(DRAWING) $(BIN)/python -m bench.dashboard docs/images/dashboard.png

soak: $(READY) ## The same tests with full sizes; scenarios on asyncio's own loop, too
	UNDERSTUDY_SOAK=1 $(BIN)/python -m pytest -m soak $(ARGS)
	UNDERSTUDY_SOAK=1 $(BIN)/python -m pytest -m "not soak" -k asyncio tests/scenarios $(ARGS)

# A trial, not for use: the same source with its hot path compiled (docs/decisions/0009). Tests that
# put something in the place of a function of ours are marked `interpreted`: compiled callers would
# not see it.
COMPILED := build/compiled
compiled: $(READY) ## A trial: compile the hot path, into build/compiled
	rm -rf $(COMPILED) && mkdir -p $(COMPILED)
	code="$$($(BIN)/python -m bench.compiled)" && cp -R "$$code"/. $(COMPILED)

test-compiled: compiled ## The tests on that, and a parity run (CASES, SEED, ARGS)
	cp -R tests bench charts docs manifests pyproject.toml Makefile README.md LICENSE Dockerfile \
	  .dockerignore requirements*.lock config.example.yaml $(COMPILED)
	cd $(COMPILED) && $(abspath $(BIN))/python -m pytest -m "not interpreted and not soak" \
	  tests/core tests/wire tests/serving tests/upstream tests/authorization tests/scenarios \
	  tests/e2e $(ARGS)
	cd $(COMPILED) && $(abspath $(BIN))/python -m tests.parity --cases $(CASES) --seed $(SEED)

wheel: $(READY) ## Build the wheel into dist/
	$(BIN)/python -m build --wheel --no-isolation --outdir dist .

# Needs a container engine, which nothing else here does (docs/image.md).
ENGINE ?= docker
IMAGE ?= understudy:0.1.0
image: ## Build the container image (ENGINE, IMAGE, PYTHON_IMAGE)
	$(ENGINE) build $(if $(PYTHON_IMAGE),--build-arg PYTHON_IMAGE=$(PYTHON_IMAGE)) --tag $(IMAGE) .

LOCK := uv pip compile --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
	--no-annotate --quiet
lock: ## Resolve the newest versions anew into the lock files (needs uv on the PATH)
	$(LOCK) pyproject.toml -o requirements.lock
	$(LOCK) --extra otel -c requirements.lock pyproject.toml -o requirements-otel.lock
	$(LOCK) --group dev -c requirements.lock pyproject.toml -o requirements-dev.lock
	$(LOCK) --group docs -c requirements-dev.lock -o requirements-docs.lock
	$(LOCK) --group build -c requirements-dev.lock -o requirements-build.lock
	$(LOCK) --group bench -c requirements-dev.lock -o requirements-bench.lock

clean: ## Remove what the other targets made here (the built control plane stays in its cache)
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage*
