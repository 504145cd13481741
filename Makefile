# Understudy. Every target installs what it needs. `make help` lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DRAWING := build/drawing

.PHONY: help setup demo programs test check fix coverage parity fuzz algebra cel-fuzz complexity mutants bench bench-peers \
	dashboard-picture soak wheel image \
	lock clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /\1\t/' | expand -t 16

# The lock file pins every package by hash and is complete, so --no-deps disables resolution: pip would
# choose a newer release for a package with an extra, which has no hash in the file. The project itself
# is installed in editable mode, without a download.
$(READY): requirements-dev.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(BIN)/python -m pip --disable-pip-version-check check
	@touch $@

setup: $(READY) ## Create the virtual environment from the lock file

demo: $(READY) ## Start a real control plane and the proxy, run the KEP's stories (ONCE=1: exit afterwards)
	$(BIN)/understudy dev $(if $(ONCE),--once)

programs: $(READY) ## Build the programs that tests need, which otherwise the first tests do
	$(BIN)/python -m tests.programs

# Each worker has its own control plane and runs whole files or packages, whose tests share servers.
# Files that measure CPU time or latency run at the end, in one worker (tests/support/two_phases.py).
WORKERS ?= 2
test: $(READY) ## Run all tests, including those against the real control plane (WORKERS, ARGS)
	$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

check: $(READY) ## Check format, lint, types, layers and contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/contracts

fix: $(READY) ## Format and apply the linter's fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

coverage: $(READY) ## Measure branch coverage: 100 % of the core, 90 % in total
	$(BIN)/python -m pytest --cov --cov-report= $(ARGS)
	$(BIN)/coverage report --include 'proxy/core/*' --fail-under 100 --show-missing
	$(BIN)/coverage report --fail-under 90 --show-missing --skip-covered

# The proxy in front of a cluster without the feature must return the same as kube-apiserver with it.
# SELF=1: kube-apiserver against itself. MUTANTS=1: find each seeded fault. GATE=off: the pre-1.35
# filter. UPSTREAM=on: the feature is also on behind the proxy. VERSION=1.34: an emulated upstream.
CASES ?= 10000
SEED ?= 1
parity: $(READY) ## Compare the proxy with kube-apiserver (CASES, SEED, SELF, MUTANTS, GATE, UPSTREAM, VERSION)
	$(BIN)/python -m tests.parity --cases $(CASES) --seed $(SEED) $(if $(SELF),--self) \
	  $(if $(MUTANTS),--mutants) $(if $(GATE),--gate $(GATE)) \
	  $(if $(UPSTREAM),--upstream $(UPSTREAM)) $(if $(VERSION),--upstream-version $(VERSION))

N ?= 1000000
fuzz: $(READY) ## Compare the decision core with kube-apiserver's code (N, SEED)
	$(BIN)/python -m tests.fuzz --cases $(N) --seed $(SEED)

TREES ?= 200000
algebra: $(READY) ## Compare conditional decisions with kube-apiserver's code (TREES, SEED)
	$(BIN)/python -m tests.algebra --cases $(TREES) --seed $(SEED)

CEL_CASES ?= 300000
cel-fuzz: $(READY) ## Compare the CEL engine with the Kubernetes environment (CEL_CASES, SEED, LAWS)
	$(BIN)/python -m tests.cel_fuzz --cases $(CEL_CASES) --seed $(SEED) $(if $(LAWS),--laws)

# CPU time and memory of every parser and of whole requests at n, 2n and 4n bytes. ARGS: --help.
complexity: $(READY) ## Measure the event-loop cost of hostile requests; exit 1 if a limit is exceeded (ARGS)
	$(BIN)/python -m tests.complexity $(ARGS)

mutants: $(READY) ## Remove each security guard and expect its tests to fail (ARGS: numbers)
	$(BIN)/python -m tests.mutation $(ARGS)

# Compare only ratios within one run. Exit 1 if a limit is exceeded. ONLY: prefixes of row names.
# CONTESTANTS: a subset. BESIDE: another checkout to compare with. ARGS: `python -m bench --help`.
bench: $(READY) $(DRAWING)/.ready ## Compare the proxy's cost with others (QUICK=1: 3 minutes; ONLY, CONTESTANTS, BESIDE, ARGS)
	$(BIN)/python -m bench --drawing $(DRAWING) $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY)) \
	  $(if $(CONTESTANTS),--contestants $(CONTESTANTS)) $(if $(BESIDE),--beside $(BESIDE)) $(ARGS)

# The first run takes minutes. `make bench` also builds or fetches peers that are missing.
bench-peers: $(READY) ## Build or fetch the benchmark's peers and test each
	UNDERSTUDY_PEERS=1 $(BIN)/python -m pytest -m peers tests/bench $(ARGS)

# matplotlib only draws images, so it is installed outside the virtual environment.
$(DRAWING)/.ready: requirements-docs.lock | $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps \
	  --upgrade --target $(DRAWING) -r requirements-docs.lock
	@touch $@

dashboard-picture: $(READY) $(DRAWING)/.ready ## Run a scenario on two proxies and draw the Grafana dashboard
	PYTHONPATH=$(DRAWING) $(BIN)/python -m bench.dashboard docs/images/dashboard.png

# ONLY: files. They log what they measured, such as CPU time and memory of `understudy report` for a
# million events: tests/cli/test_report.py.
soak: $(READY) ## Run tests in full size, and scenarios on asyncio's own event loop (ONLY, ARGS)
	UNDERSTUDY_SOAK=1 $(BIN)/python -m pytest -m soak $(if $(ONLY),--log-cli-level=info $(ONLY)) $(ARGS)
	$(if $(ONLY),,UNDERSTUDY_SOAK=1 $(BIN)/python -m pytest -m "not soak" -k asyncio tests/scenarios $(ARGS))

wheel: $(READY) ## Build the wheel into dist/
	$(BIN)/python -m build --wheel --no-isolation --outdir dist .

# The only target that needs a container engine (docs/image.md).
ENGINE ?= docker
IMAGE ?= understudy:0.1.0
image: ## Build the container image (ENGINE, IMAGE, PYTHON_IMAGE)
	$(ENGINE) build $(if $(PYTHON_IMAGE),--build-arg PYTHON_IMAGE=$(PYTHON_IMAGE)) --tag $(IMAGE) .

LOCK := uv pip compile --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
	--no-annotate --quiet
lock: ## Resolve the newest versions into the lock files (needs uv on the PATH)
	$(LOCK) pyproject.toml -o requirements.lock
	$(LOCK) --extra otel -c requirements.lock pyproject.toml -o requirements-otel.lock
	$(LOCK) --group dev -c requirements.lock pyproject.toml -o requirements-dev.lock
	$(LOCK) --group docs -c requirements-dev.lock -o requirements-docs.lock
	$(LOCK) --group build -c requirements-dev.lock -o requirements-build.lock
	$(LOCK) --group bench -c requirements-dev.lock -o requirements-bench.lock

clean: ## Remove the output of the other targets (the control plane stays in its cache)
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage*
