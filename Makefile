# Everything is made in .venv from PyPI: each target works first, in a fresh clone, with Python 3.11 or later alone.
PYTHON ?= python3
PYTEST_ARGS ?=
VERSIONS ?= $(shell $(PYTHON) python/saltwise/_spark_lines.py)

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
WHEEL := dist/saltwise-*.whl

.PHONY: demo test test-slow test-unit test-connect test-all test-matrix test-cluster bench bench-quick papers lint wheel maven docs clean

demo: .venv/demo
	$(BIN)/saltwise demo

# Two processes, each with a Spark of its own; the one that is done takes tests of the other. tests/README.md says what
# runs here, and what runs in test-slow and test-all.
TWO_AT_ONCE := -n 2 --dist worksteal

test: lint
	$(BIN)/pytest $(TWO_AT_ONCE) -m "not bench and not slow" $(PYTEST_ARGS)
	$(BIN)/pytest --connect $(TWO_AT_ONCE) -m smoke

# What starts an application of its own, or takes more than some seconds: executors that die, streams that restart.
test-slow: .venv/installed
	$(BIN)/pytest $(TWO_AT_ONCE) -m "slow and not bench" $(PYTEST_ARGS)

# All that starts no JVM.
test-unit: .venv/installed
	$(BIN)/pytest $(TWO_AT_ONCE) tests/unit $(PYTEST_ARGS)

# Every test that has a session, over Spark Connect: a process has one kind of session alone.
test-connect: .venv/installed
	$(BIN)/pytest --connect $(TWO_AT_ONCE) -m "not bench" $(PYTEST_ARGS)

# All there is, and properties on new examples: an hour and a half.
test-all: lint
	$(BIN)/pytest --full $(TWO_AT_ONCE) -m "not bench" $(PYTEST_ARGS)
	$(BIN)/pytest --full --connect $(TWO_AT_ONCE) -m "not bench" $(PYTEST_ARGS)
	$(MAKE) papers PAPERS="--quick --out build/papers"
	$(MAKE) test-matrix

lint: .venv/installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check --quiet
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	@! grep -rn --include='*.scala' -E '.{101}' plugin || \
		{ echo "These lines of Scala have more than 100 columns: shorten them."; exit 1; }

# The smoke tests on every supported Spark, from the wheel; make test-matrix VERSIONS="3.5.9 4.3.0" takes fewer Sparks,
# and SMOKE="smoke and not slow" fewer tests.
SMOKE ?= smoke
test-matrix: wheel
	$(BIN)/python tests/matrix.py $(WHEEL) $(VERSIONS) --select "$(SMOKE)"

# Jobs of every kind on Spark's own standalone cluster, with its servers, on every supported Spark.
test-cluster: wheel
	$(BIN)/python tests/matrix.py $(WHEEL) $(VERSIONS) --install
	failed=0; for version in $(VERSIONS); do \
		$(BIN)/python tests/fire/cluster.py --python .matrix/$$version/bin/python || failed=1; done; exit $$failed

# Every kind of aggregate on every kind of skew with every plan, and what else the docs quote: three quarters of an
# hour; bench-quick takes four minutes.
# An interrupted run goes on with: make bench FRESH=
FRESH ?= --fresh
bench: .venv/installed
	$(BIN)/python benchmarks/grid.py $(FRESH)
	$(BIN)/python benchmarks/waiting.py
	$(BIN)/python benchmarks/planning.py
	$(BIN)/python benchmarks/tables.py

bench-quick: .venv/installed
	$(BIN)/python benchmarks/grid.py --quick --fresh
	$(BIN)/python benchmarks/planning.py --queries 50 --out build/benchmarks/planning.csv

# The papers' experiments in full size: an hour and a half a seed on one core. An interrupted run continues where it
# stopped. make papers PAPERS="--quick --out build/papers" takes a minute.
PAPERS ?= --seeds 5
papers: .venv/installed
	$(BIN)/python -m benchmarks.papers $(PAPERS)

# The site, in build/site. The figures of the papers are drawn from committed results. A warning ends it.
docs: .venv/docs
	$(BIN)/python -m benchmarks.papers --draw docs/reference/claims
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

wheel: .venv/installed
	rm -rf build/lib build/bdist.* $(WHEEL)
	$(PIP) wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

# What Maven Central takes, but the signatures: make maven URL=<the address of the repository>
maven: .venv/installed
	$(BIN)/python plugin/maven.py --url $(URL)

clean:
	rm -rf .venv .matrix build dist python/saltwise.egg-info python/saltwise/jars
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis spark-warehouse metastore_db derby.log artifacts

# The newest pyspark is installed first, so that the build uses it as it stands and does not install it a second time.
.venv/pyspark:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "Saltwise needs Python 3.11 or later, and $(PYTHON) is `$(PYTHON) --version 2>&1`:" \
		"name another one with make PYTHON=python3.11."; exit 1; }
	@echo "Making .venv; the first time takes some minutes, most of it pyspark."
	$(PYTHON) -m venv --clear .venv
	$(PIP) install --quiet --upgrade pip "setuptools>=70.1,<80.9"
	$(PIP) install --quiet pyspark==$(lastword $(shell $(PYTHON) python/saltwise/_spark_lines.py))
	@touch $@

.venv/demo: .venv/pyspark setup.cfg setup.py pyproject.toml python/saltwise/_version.py sql/functions.json \
		$(shell find plugin)
	@set -e; java=`$(BIN)/python -c 'import setup; print(*setup.java_requirements())'`; \
	if [ -n "$$java" ]; then \
		echo "No Java 17 or later is here, so $$java from PyPI goes into .venv."; \
		$(PIP) install --quiet $$java; \
	fi
	@echo "Compiling the plugin, and installing what the demo needs."
	$(PIP) install --quiet --no-build-isolation --editable ".[spark,demo]"
	@touch $@

.venv/installed: .venv/demo
	@echo "Installing what the tests need."
	$(PIP) install --quiet --no-build-isolation --editable ".[test]"
	@touch $@

.venv/docs: .venv/installed
	$(PIP) install --quiet --no-build-isolation --editable ".[docs]"
	@touch $@
