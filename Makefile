PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CODE := src tests benchmarks examples docs/conf.py docs/check_links.py
# One thread per process: small Adam steps are tens of times slower on oversubscribed cores.
export OMP_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export NUMBA_NUM_THREADS ?= 2

.PHONY: install demo test test-slow test-lowest fuzz lint format docs dist bench results browser clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

# The main job on the embedded dataset, and the report about it.
demo: install
	$(BIN)/isocapsnet benchmark --out isocapsnet-results
	$(BIN)/isocapsnet report isocapsnet-results

# The report's tests drive a real browser; where none can be installed they skip and say so.
browser:
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do \
	  command -v $$name >/dev/null && exit 0; done; { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium \
	  >/dev/null; } || echo "no chromium: the browser tests will skip"

# Each worker takes one half of the files and steals from the other at the end, so that fixtures are made once.
test: install browser
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-slow: install
	$(BIN)/python -m pytest -m slow

# Damaged inputs for every reader: make fuzz FUZZ_CASES=500 FORMATS=npz,mat5 ISOCAPSNET_CORPUS=FOLDER
FUZZ_CASES ?= 10000
fuzz: install
	$(BIN)/python -m tests.fuzz --cases $(FUZZ_CASES) $(if $(FORMATS),--formats $(FORMATS)) \
	  $(if $(ISOCAPSNET_CORPUS),--corpus $(ISOCAPSNET_CORPUS))

lint: install
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

# The figures of docs/performance.md. The nested run needs the data in the folder ISOCAPSNET_DATA; FOLDS=1 runs one of
# its 15 folds and scales the times up.
bench: install
	$(BIN)/python benchmarks/cpu.py --output docs/performance/cpu.json
	$(if $(ISOCAPSNET_DATA),$(BIN)/python benchmarks/nested.py --jobs 2 $(if $(FOLDS),--folds-only $(FOLDS)) --output docs/performance/nested.json)
	$(BIN)/python benchmarks/scaling.py --output docs/performance/scaling.json
	$(BIN)/python benchmarks/report.py

# The suite with the lowest versions of all dependencies that pyproject.toml allows. With UV_TORCH_BACKEND=cpu, torch
# comes without its GPU packages. make test-lowest TESTS=tests/test_package.py runs a part of it.
LOWEST := build/lowest
test-lowest: $(LOWEST)/.installed
	$(LOWEST)/bin/python -m pytest -n 2 $(TESTS)

$(LOWEST)/.installed: pyproject.toml
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet uv
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct -e '.[dev]'
	touch $@

# The source distribution and the wheel in dist; the wheel has to work in an empty environment, without extras and with
# each of them. make dist EXTRAS=plots tries that one.
dist: install
	rm -rf dist build/empty
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python tests/packaging/wheel.py dist/*.whl build/empty $(EXTRAS)

# The documentation site in docs/_build/html. Its packages are installed by this target alone.
docs: $(VENV)/.docs-installed
	$(BIN)/python -m sphinx -b html -W --keep-going -n -j 2 docs docs/_build/html
	$(BIN)/python docs/check_links.py docs/_build/html

$(VENV)/.docs-installed: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[docs]'
	touch $@

# The tables of docs/results.md and docs/published.md, for the datasets in the folder ISOCAPSNET_DATA. Hours on two
# cores; an interrupted run continues, and sections whose data and methods did not change are left as they are.
results: install
	$(BIN)/python benchmarks/results.py $(if $(ONLY),--only $(ONLY))

clean:
	rm -rf $(VENV) dist build docs/_build docs/gallery docs/reference/generated docs/reference/backreferences docs/sg_execution_times.rst .pytest_cache .mypy_cache .ruff_cache isocapsnet-results fuzz-failures
