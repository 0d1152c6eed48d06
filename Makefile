# Every command makes what it needs first: `make test` in a fresh clone works with Python 3.11 and make alone.

PYTHON ?= python3
JOBS ?= 2
VENV := .venv
OLDEST := .venv-oldest
JAVA := .venv-java
RUNTIME := $(JAVA)/iceberg-spark-runtime-4.1_2.13-1.12.0.jar
PYLANCES := .venv-pylance-1.0.4 .venv-pylance-7.1.0 .venv-pylance-13.0.0
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest

empty :=
space := $(empty) $(empty)

.DEFAULT_GOAL := help
.NOTPARALLEL:

.PHONY: help demo test test-spark test-oldest test-all soak lint format bench bench-java interop docs wasm lock clean distclean

help:  ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

demo: $(VENV)/.ready-demo  ## a tour on local Spark, in a temporary warehouse
	@$(BIN)/python -m examples.demo

test: lint  ## style, types, layers, then all tests but the slow ones and most of the conformance
	$(PYTEST) -n $(JOBS) --dist loadgroup -m "not slow and (smoke or not conformance)"

test-spark: $(VENV)/.ready-dev  ## only the tests of the Spark engine, with all of its conformance
	$(PYTEST) -n $(JOBS) --dist loadgroup tests/conformance tests/spark src/frazil/spark -m "not slow"

test-oldest: $(OLDEST)/.ready-dev  ## the tests of the engine, on the oldest Spark that it supports
	$(OLDEST)/bin/python -m pytest -n $(JOBS) --dist loadgroup tests/conformance tests/spark src/frazil/spark -m "not slow"

test-all: lint  ## everything, the slow tests and all conformance as well
	$(PYTEST) -n $(JOBS) --dist loadgroup

soak: $(VENV)/.ready-dev  ## two optimizers, a writer and a reader on one mixed table for five minutes (SOAK=--spark: on Spark)
	$(BIN)/python -m tests.optimize.soak --seconds 300 $(SOAK)

lint: $(VENV)/.ready-dev  ## style, types and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.ready-dev  ## put the code in order
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(VENV)/.ready-dev  ## measure against PyIceberg, as ratios in one run
	$(BIN)/python -m benchmarks

bench-java: $(RUNTIME)  ## measure against Iceberg's own Spark runtime (needs Maven)
	@missed=0; for part in spark_java spark_java_changes; do \
	    FRAZIL_ICEBERG_RUNTIME=$(RUNTIME) $(JAVA)/bin/python -m benchmarks.$$part || missed=1; \
	done; exit $$missed

interop: $(VENV)/.ready-dev $(RUNTIME) $(PYLANCES)  ## only the tests with other implementations, Iceberg's Spark runtime too (needs Maven)
	$(PYTEST) -n $(JOBS) -m interop
	FRAZIL_ICEBERG_RUNTIME=$(RUNTIME) $(JAVA)/bin/python -m pytest tests/interop/java
	FRAZIL_PYLANCE_PYTHONS=$(subst $(space),:,$(PYLANCES:%=$(CURDIR)/%/bin/python)) $(PYTEST) tests/interop/pylance

docs: $(VENV)/.ready-docs  ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html is ready"

wasm: $(VENV)/.ready-base  ## compile the kernel in C again (needs Debian's clang and lld)
	@command -v clang wasm-ld >/dev/null || { echo "make wasm needs Debian's packages clang and lld"; exit 1; }
	$(BIN)/python -m frazil.io.avro.build_wasm

lock: $(VENV)/.ready-lock  ## write tools/constraints.txt again, with the newest versions
	$(BIN)/uv pip compile --quiet --universal --upgrade --no-annotate --no-header --python-version 3.11 \
	    pyproject.toml --all-extras --group dev --group docs --output-file tools/constraints.txt

clean:  ## remove what the commands made, but not the environment
	rm -rf build dist site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests tools examples benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean  ## remove the environments as well
	rm -rf $(VENV) $(OLDEST) $(JAVA) $(PYLANCES)

# One stamp for each set of dependency groups; bootstrap.py touches it when all is in place.
$(VENV)/.ready-base: pyproject.toml tools/constraints.txt tools/bootstrap.py
	@$(PYTHON) tools/bootstrap.py

$(VENV)/.ready-%: pyproject.toml tools/constraints.txt tools/bootstrap.py
	@$(PYTHON) tools/bootstrap.py $*

$(OLDEST)/.ready-dev: pyproject.toml tools/constraints.txt tools/bootstrap.py
	@FRAZIL_VENV=$(OLDEST) $(PYTHON) tools/bootstrap.py dev 'pyspark==4.0.*'

# The newest Spark that Iceberg's runtime is made for.
$(JAVA)/.ready-dev: pyproject.toml tools/constraints.txt tools/bootstrap.py
	@FRAZIL_VENV=$(JAVA) $(PYTHON) tools/bootstrap.py dev 'pyspark==4.1.*'

$(RUNTIME): $(JAVA)/.ready-dev
	@command -v mvn >/dev/null || { echo "Iceberg's runtime comes by Maven (Debian's package maven)"; exit 1; }
	mvn --quiet dependency:copy -Dartifact=org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 -DoutputDirectory=$(JAVA)
	@touch $@

.venv-pylance-%:
	$(PYTHON) -m venv $@ && $@/bin/pip install --quiet pylance==$* || { rm -rf $@; exit 1; }
