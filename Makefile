# Each target makes the environment it needs; a second call starts at once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Processes that run tests: make test WORKERS=8
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --durations=10
# Where nobody may write bytecode, each worker and each process that a test starts compiles all of Instep again.
unexport PYTHONDONTWRITEBYTECODE
# The long sweeps: make test-slow SEED=123 for an order that was, MINUTES=25 for an end
SEED ?= any
MINUTES ?=

.PHONY: setup demo test test-slow test-extras lint format docs spelling command-reference bench bench-peers bench-promises pictures clean

setup: $(READY)

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Instep needs Python 3.11 or newer; say which with make PYTHON=…"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(READY)
	@$(BIN)/instep train --fresh
	@echo; echo "  To type these commands, first: source $(BIN)/activate"

test: $(READY)
	$(PYTEST)

test-slow: $(READY)
	$(PYTEST) -m slow --no-loadscope-reorder --shuffle $(SEED) $(if $(MINUTES),--minutes $(MINUTES))

# With the outside packages that Instep works with, in an environment of its own
EXTRAS := .venv-extras

test-extras: $(EXTRAS)/.ready
	$(EXTRAS)/bin/python -m pytest -n $(WORKERS) --durations=10 -m extras

$(EXTRAS)/.ready: requirements-extras.lock pyproject.toml
	$(PYTHON) -m venv $(EXTRAS)
	$(EXTRAS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement requirements-extras.lock
	$(EXTRAS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The site, into site/, in an environment of its own: nothing of Instep is imported
DOCS := .venv-docs
WORDS := README.md CHANGELOG.md CONTRIBUTING.md docs src examples tools

docs: $(DOCS)/.ready spelling
	$(DOCS)/bin/python tools/site_pages.py build/pages
	rm -rf site
	$(DOCS)/bin/zensical build --clean --strict
	$(DOCS)/bin/python tools/check_site.py site

spelling: $(DOCS)/.ready
	$(DOCS)/bin/codespell $(WORDS)

$(DOCS)/.ready: requirements-docs.lock
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement requirements-docs.lock
	@touch $@

# docs/reference/command.md, from what the command says of itself
command-reference: $(READY)
	$(BIN)/python tools/command_reference.py

bench: $(READY)
	$(BIN)/python benchmarks/order.py
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python -m benchmarks.observe
	$(BIN)/python benchmarks/checkpoint.py
	$(BIN)/python benchmarks/one_cycle.py
	$(BIN)/torchrun --nproc-per-node 2 benchmarks/processes.py
	$(BIN)/python benchmarks/doctor.py
	$(BIN)/python benchmarks/serve.py
	$(BIN)/python benchmarks/growth.py

# The pictures of the README, from real runs; needs Chromium
pictures: $(READY)
	$(BIN)/python tools/pictures.py

# Instep beside other libraries, in an environment of its own: make bench-peers ARGS="--rounds 5 --write"
PEERS := .venv-peers
ARGS ?=

bench-peers: $(PEERS)/.ready
	$(PEERS)/bin/python -m benchmarks.peers $(ARGS)

# The promises on Instep and on other libraries: make bench-promises ARGS=--write
bench-promises: $(PEERS)/.ready
	$(PEERS)/bin/python -m benchmarks.promises $(ARGS)

$(PEERS)/.ready: benchmarks/peers.lock pyproject.toml
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement benchmarks/peers.lock
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

clean:
	rm -rf $(VENV) $(EXTRAS) $(PEERS) $(DOCS) site build .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
