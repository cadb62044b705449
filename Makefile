# `make help` lists what there is. Two commands do all the set-up: `make sweep` and `make test`.
PYTHON ?= python3
MODEL  ?= resnet50
ARGS   ?=
JOBS   ?= 2

VENV := .venv
BIN  := $(VENV)/bin
PIP  := @echo "installing into $(VENV), as pyproject.toml and constraints.txt say"; $(BIN)/python -m opscope.base.live.pip_install -c constraints.txt
# Whose ops docs/tt_mlir.md compares.
TT_MLIR_MODELS := resnet50 bert_base gpt2_small diffusion_unet gpt2_decode hybrid_prefill moe_decoder dlrm_reduced suite:ops
# A stamp is younger than the files it was made from: nothing is installed again until one of them changes.
BASE := $(VENV)/.stamp-base
TEST := $(VENV)/.stamp-test
DEV  := $(VENV)/.stamp-dev
FROM := pyproject.toml constraints.txt build_backend.py setup.py opscope/base/passes/_passes.c

# Sweeps and tests start hundreds of processes, each of which would compile our sources again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv sweep test slow lint contracts measure measurements conformance commands python tables ops tt-mlir-page zoo newest wheelhouse release docs clean metrics migration dashboard terminal

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile
	@echo "  Variables: MODEL=$(MODEL) ARGS='more pytest options' JOBS=$(JOBS) PYTHON=$(PYTHON)"

venv: $(BASE) ## .venv with what a run needs

sweep: $(BASE) ## install, then run MODEL (default resnet50) op by op
	$(BIN)/python -m pytest -p no:benchmark -p no:randomly --model $(MODEL) --op-by-op $(ARGS)

test: $(TEST) ## install what tests need, then run the quick ones
	$(BIN)/python -m pytest -p no:benchmark -p no:logging -p no:anyio -m "not slow" -n $(JOBS) --dist worksteal $(ARGS)

slow: $(TEST) ## every slow test (tens of minutes)
	$(BIN)/python -m pytest -p no:benchmark -m slow -n $(JOBS) $(ARGS)

lint: $(DEV) ## ruff, pyright, import contracts, file sizes, migrations, workflows
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(MAKE) --no-print-directory contracts
	$(BIN)/pyright --threads $(JOBS)
	$(BIN)/python ci/check_sizes.py
	$(BIN)/python ci/check_migrations.py
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/*.yml

contracts: $(DEV) ## who may import whom
	$(BIN)/lint-imports
	$(BIN)/python ci/check_cycles.py

measure: $(DEV) ## take the figures of docs/measurements.yaml again
	$(BIN)/python ci/measure.py $(ARGS)

measurements: $(BASE) ## write docs/measurements.md again, after a new row of docs/measurements.yaml
	$(BIN)/python ci/measurements_page.py > docs/measurements.md.new && mv docs/measurements.md.new docs/measurements.md

conformance: $(TEST) ## write docs/conformance.md again: every stored case of the specification, ONNX's node tests
	$(BIN)/python -m opscope.compiler.tests.conformance > docs/conformance.md.new
	echo >> docs/conformance.md.new; $(BIN)/opscope score suite:onnx --markdown >> docs/conformance.md.new
	echo >> docs/conformance.md.new; $(BIN)/python -m opscope.simulator.real_kernels >> docs/conformance.md.new
	mv docs/conformance.md.new docs/conformance.md

terminal: $(TEST) ## write what commands print at 80, 120 and 200 columns again, after a change of a page
	WRITE_SNAPSHOTS=1 $(BIN)/python -m pytest -q -p no:randomly reports/tests/test_terminal_snapshots.py reports/tests/test_compile_only_pages.py $(ARGS)

commands: $(BASE) ## write docs/commands.md again, after a change of a help text
	$(BIN)/python -m opscope.harness.cli.command_reference docs/commands.md

python: $(BASE) ## write the reference of docs/python.md again, after a change of a docstring
	$(BIN)/python -m ci.python_reference

tables: $(BASE) ## write the tables of docs/ that stand in the code again
	$(BIN)/python -m ci.doc_tables

ops: $(BASE) ## write docs/ops.md again, after a change of the op table
	$(BIN)/opscope ops --markdown > docs/ops.md.new && mv docs/ops.md.new docs/ops.md

build/drawn_ops.mlir: $(BASE) ci/drawn_ops.py
	mkdir -p build && $(BIN)/python -m ci.drawn_ops > $@.new && mv $@.new $@

tt-mlir-page: $(if $(RUN),$(BASE),build/drawn_ops.mlir) ## write docs/tt_mlir.md again, with the plugin of extra tt (minutes; RUN=runs of it with --keep-ir)
	$(BIN)/opscope ops --against-backend tt $(if $(RUN),$(addprefix --against-run ,$(RUN)),$(addprefix --model ,$(TT_MLIR_MODELS) build/drawn_ops.mlir)) --markdown > docs/tt_mlir.md.new && mv docs/tt_mlir.md.new docs/tt_mlir.md

migration: $(BASE) ## write the migration for what the records or tables have anew (NAME='The wheels of a car')
	$(BIN)/python -m opscope.reports.tests.new_migration "$(NAME)"

metrics: $(BASE) ## write docs/metrics.md again, after a change of a view
	$(BIN)/python -m ci.metrics_page > docs/metrics.md.new && mv docs/metrics.md.new docs/metrics.md

zoo: $(BASE) ## count every model's parameters and ops again, after a change of models (minutes; needs the frameworks)
	$(BIN)/opscope models --count > /dev/null

docs: $(DEV) ## the site of docs/, into site/; a link that leads nowhere fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --site-dir site

newest: $(BASE) ## run a model of each framework and compiler with the newest packages there are, above our bounds too (ARGS='torch tt')
	$(BIN)/python -m ci.newest $(ARGS)

wheelhouse: $(BASE) ## fetch what an installation needs into wheelhouse/, for a machine without a network (EXTRAS=tt,torch)
	$(BIN)/python -m pip wheel --disable-pip-version-check -c constraints.txt --wheel-dir wheelhouse '.$(if $(EXTRAS),[$(EXTRAS)])'
	@echo "there: pip install --no-index --find-links wheelhouse 'opscope$(if $(EXTRAS),[$(EXTRAS)])'"

release: $(DEV) ## make version VERSION of what changelog.d says, and build it
	$(BIN)/python -m ci.release $(VERSION)

dashboard: $(BASE) ## serve the results database in Apache Superset, which it installs first (ARGS='--port 8088')
	$(BIN)/opscope dashboard up $(ARGS)

clean: ## remove .venv, caches and build output; runs in .opscope stay
	rm -rf $(VENV) build dist site wheelhouse *.egg-info opscope/base/passes/_passes.*.so reports/pages/assets/vega-lite-* .pytest_cache .ruff_cache .import_linter_cache .benchmarks .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "make: expected Python 3.11 or newer, got $$($(PYTHON) --version 2>&1); try PYTHON=/path/to/python3.11" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip' || \
	  { echo "make: expected Python's venv module, got none; try apt-get install python3-venv" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(BASE): $(FROM) | $(VENV)/bin/python
	$(PIP) -e .
	@touch $@

$(TEST): $(FROM) | $(VENV)/bin/python
	$(PIP) -e '.[test]'
	@touch $(BASE) $@

$(DEV): $(FROM) | $(VENV)/bin/python
	$(PIP) -e '.[dev]'
	@touch $(BASE) $(TEST) $@
