# Everything a fresh machine needs is Python 3.11 and make; the rest comes from PyPI into .venv.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: install demo test check format format-check lint types layers dead test-fast test-pythons test-slow test-crash \
        bench docs clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade 'pip>=25.1' # the first that installs groups
	$(PIP) --group dev -e '.[spark]'
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

check: format-check lint types layers dead test

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

dead: install
	$(BIN)/vulture

# Each Python that the machine has, in a virtual environment of its own; `PYTHONS=/path/to/python3.14` names others. The
# tests that check types, layers and the wheel are about the source, not about the Python.
PYTHONS ?= $(shell for minor in 11 12 13 14; do \
  for each in python3.$$minor $$HOME/.pyenv/versions/3.$$minor.*/bin/python; do \
    if $$each -c '' 2>/dev/null; then echo $$each; break; fi; done; done)
SMOKE   ?= tests/query tests/transaction tests/storage
test-pythons:
	@test -n "$(PYTHONS)" || { echo "no python3.11 to python3.14 here"; exit 1; }
	for python in $(PYTHONS); do \
	  venv=$(VENV)-$$($$python -c 'import sys; print(f"{sys.version_info.major}.{sys.version_info.minor}")') && \
	  $(MAKE) --no-print-directory install VENV=$$venv PYTHON=$$python && \
	  $$venv/bin/python -m pytest -q -m 'not slow and not s3 and not spark and not crash' $(SMOKE) || exit 1; \
	done

demo: install
	$(BIN)/python examples/demo.py

docs: install
	$(BIN)/python docs/api.py

# The peers come with the group `bench`; `make bench BENCH=load` runs one of them alone.
BENCH ?= publish mutate versions language cli spark_start
bench: install
	$(PIP) --group dev --group bench -e '.[spark]'
	for each in $(BENCH); do $(BIN)/python benchmarks/$$each.py || exit 1; done

clean:
	rm -rf $(VENV) $(VENV)-3.* .mypy_cache .ruff_cache .hypothesis .demo
