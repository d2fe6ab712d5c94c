# Perdure. `make demo` shows it at work, `make test` proves it; both install what they need into .venv first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed

# What people write goes to the program as it is, through the environment: neither make nor a shell reads its $ and `.
ifdef FILE
override FILE := $(value FILE)
export FILE
endif
ifdef TASK
override TASK := $(value TASK)
export TASK
endif

.DEFAULT_GOAL := help
.PHONY: help demo up test check format lock histories diagram bench soak chaos clean

help:  ## list what there is
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-12s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(INSTALLED)  ## an agent at work on real data, with a killed worker and an approval: FILE=my.csv TASK="..." for your own
	@$(BIN)/python -m infra.demo $(if $(FILE),--file="$$FILE") $(if $(TASK),--task="$$TASK")

up: $(INSTALLED)  ## the local servers and a worker, in the foreground, until Ctrl-C
	@$(BIN)/python -m infra.local

test: $(INSTALLED)  ## all tests, on real servers
	@$(BIN)/python -m pytest $(ARGS)

check: $(INSTALLED)  ## format, lint, types, import rules, sizes
	@$(BIN)/ruff format --check --quiet . || { echo 'not formatted: make format'; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tests.house

format: $(INSTALLED)  ## format, and mend what ruff can mend
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

histories: $(INSTALLED)  ## record the histories that later versions must replay: into tests/histories
	@$(BIN)/python -m tests.record_histories

diagram: $(INSTALLED)  ## draw the way of a call into the README, from the rules themselves
	@$(BIN)/python -m tests.core.request_machine

bench: $(INSTALLED)  ## what a turn costs, against a bare workflow: into .local/bench.json; ARGS="--artifact-gb 1" for one large artifact
	@$(BIN)/python -m tests.benchmarks $(ARGS)

soak: $(INSTALLED)  ## the long forms of the durability tests: 10,000 model calls, outages of minutes
	@SOAK=1 $(BIN)/python -m pytest tests/durability/test_linear.py tests/durability/test_broken_store.py $(ARGS)

chaos: $(INSTALLED)  ## a hundred kills of a write: what became of each, counted outside; into .local/chaos.json
	@CHAOS=1 $(BIN)/python -m pytest -s tests/durability/test_writes.py tests/durability/test_lost_workers.py \
		tests/durability/test_decisions.py $(ARGS)

lock: $(INSTALLED)  ## take the newest versions that pyproject.toml allows into the lock
	@$(BIN)/python -m pip install -qq --disable-pip-version-check uv
	@$(BIN)/uv pip compile --quiet pyproject.toml --all-extras --group dev --universal --generate-hashes \
		--no-emit-index-url --python-version 3.11 --upgrade --custom-compile-command "make lock" \
		--output-file infra/requirements.lock

clean:  ## remove what was installed and the caches; .local, with the data of your runs, stays
	@rm -rf $(VENV) .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Exactly the locked versions, each checked by its hash.
$(INSTALLED): infra/requirements.lock
	@command -v $(PYTHON) >/dev/null || { echo 'no $(PYTHON) here: install Python 3.11 or newer, or name it: make PYTHON=python3.12 ...'; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo '$(PYTHON) is older than 3.11: name a newer one: make PYTHON=python3.12 ...'; exit 1; }
	@echo 'installing into $(VENV) (about a minute, once)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
		{ echo 'no venv module: install it (Debian and Ubuntu: apt install python3-venv)'; exit 1; }
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes -r infra/requirements.lock
	@touch $(INSTALLED)
