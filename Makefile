# Everything a fresh machine needs is Python 3.11 and make; the rest comes from PyPI into .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: install demo test check format lint types layers test-fast test-s3 test-slow test-crash bench docs clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(STAMP)

# Two processes: a suite that starts servers and processes of its own gains nothing from more. A test that hangs where no
# signal reaches it ends its process, which says where it stood; it is run once more.
HANGS := -o faulthandler_timeout=330 -o faulthandler_exit_on_timeout=true --max-worker-restart 2
test: install
	$(BIN)/python -m pytest -m 'not slow' -n 2 --dist loadscope $(HANGS) --hypothesis-profile repeatable

test-fast: install
	$(BIN)/python -m pytest -m 'not slow and not s3 and not spark'

test-slow: install
	$(BIN)/python -m pytest -m slow --timeout 3600

test-crash: install
	$(BIN)/python -m pytest -m crash --timeout 3600

check: format-check lint types layers test

format: install
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

format-check: install
	$(BIN)/ruff format --check .

lint: install
	$(BIN)/ruff check .

types: install
	$(BIN)/mypy

layers: install
	$(BIN)/lint-imports --no-cache

demo: install
	$(BIN)/python examples/demo.py

docs: install
	$(BIN)/python docs/api.py

# The peers come with the extra `bench`; `make bench BENCH=load` runs one of them alone.
BENCH ?= publish mutate versions language cli spark_start
bench: install
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,bench]'
	for each in $(BENCH); do $(BIN)/python benchmarks/$$each.py || exit 1; done

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis .demo
