# Every target does its own set-up; nothing is installed again while the lock files stand still.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
RUN_EXTRAS := server postgres duckdb
RUN_LOCKS := requirements/run.txt requirements/build.txt
DEV_LOCK := requirements/dev.txt
PAGE_LOCK := requirements/page.txt
IMAGE_EXTRAS := server postgres nats otel object duckdb

.PHONY: run dev page page-watch test sim setup check bench bench-page cost soak docs history lock clean bytecode

# Some environments forbid Python to keep what it has compiled: then every process would compile noetl anew, and every
# test process the tests.
test sim soak soak-%: export PYTHONDONTWRITEBYTECODE =

run: .venv/run.stamp bytecode
	@$(BIN)/noetl graph examples/hello.yaml
	@$(BIN)/noetl run examples/hello.yaml

# The server with a worker, the web page and the examples.
dev: page bytecode
	@$(BIN)/noetl register --output jsonl examples/*.yaml examples/patterns/*.yaml > /dev/null
	@$(BIN)/noetl dev

page: .venv/node.stamp
	@$(BIN)/python -m tools.page

page-watch: .venv/node.stamp
	@$(BIN)/python -m tools.page watch

test: .venv/dev.stamp page bytecode
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

# The simulation with 20,000 seeds; `make test` has a sample of them.
sim: .venv/dev.stamp bytecode
	$(BIN)/python -m tests.sim

setup: .venv/dev.stamp bytecode

check: .venv/dev.stamp .venv/node.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tools.page check

bench: .venv/dev.stamp bytecode
	$(BIN)/python -m bench

# The web page in Chromium; the figures are stored in bench/page.json.
bench-page: .venv/dev.stamp page bytecode
	$(BIN)/python -m bench.page

soak: .venv/dev.stamp bytecode
	$(BIN)/python -m tests.soak

# One part of it; tests/soak.py lists them.
soak-%: .venv/dev.stamp bytecode
	$(BIN)/python -m tests.soak $*

docs: .venv/dev.stamp page
	$(BIN)/python -m tools.docs
	$(BIN)/python -m tools.docs.screenshots

cost: .venv/dev.stamp
	$(BIN)/python -m bench.cost

history: .venv/dev.stamp
	$(BIN)/python -m tests.histories.make

lock: .venv/bin/python
	$(PIP) install uv
	for part in run build page dev; do \
	  $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	    --no-annotate --custom-compile-command "make lock" $(LOCK_FLAGS) \
	    $$([ $$part = run ] && echo pyproject.toml $(addprefix --extra ,$(RUN_EXTRAS)) || echo requirements/$$part.in) -o requirements/$$part.txt; \
	done
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-annotate --custom-compile-command "make lock" $(LOCK_FLAGS) -c requirements/dev.txt \
	  $(addprefix --extra ,$(IMAGE_EXTRAS)) pyproject.toml -o requirements/image.txt

# An editable install is not compiled by pip, and some environments forbid Python to do it on import: without
# this every start would compile the sources anew.
bytecode: .venv/run.stamp
	@$(BIN)/python -m compileall -q src/noetl

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis ui/node_modules src/noetl/page

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("noetl needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv .venv

# The stamps are newer than the locks they installed, so make knows when there is nothing to do.
.venv/run.stamp: .venv/bin/python $(RUN_LOCKS) pyproject.toml
	@echo "Installing noetl with the extras $(RUN_EXTRAS) into .venv, which takes about a minute"
	@$(PIP) install --require-hashes $(addprefix -r ,$(RUN_LOCKS))
	@$(PIP) install --no-build-isolation --no-deps --editable .
	@touch $@

.venv/dev.stamp: .venv/run.stamp $(DEV_LOCK)
	@echo "Installing the tools of developers into .venv, which takes some minutes"
	@$(PIP) install --require-hashes -r $(DEV_LOCK)
	@touch $@

# Nothing to install if the machine has a Node that is new enough.
.venv/node.stamp: .venv/run.stamp $(PAGE_LOCK)
	@$(BIN)/python -m tools.page find-node || $(PIP) install --require-hashes -r $(PAGE_LOCK)
	@touch $@
