PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One thread per process: small Adam steps are tens of times slower on oversubscribed cores.
export OMP_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1
export NUMBA_NUM_THREADS ?= 2

.PHONY: install demo test test-slow lint format bench clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

demo: install
	$(BIN)/isocapsnet demo

test: install
	$(BIN)/python -m pytest -n 2

test-slow: install
	$(BIN)/python -m pytest -n 2 -m slow

lint: install
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install
	$(BIN)/ruff format src tests benchmarks examples
	$(BIN)/ruff check --fix src tests benchmarks examples

clean:
	rm -rf $(VENV) dist build docs/_build .pytest_cache .mypy_cache .ruff_cache
