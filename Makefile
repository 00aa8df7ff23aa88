# Everything runs in .venv, which is made on first use. Another Python: make test PYTHON=python3.12
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# What the engines' tests start is installed here once, and kept.
ENGINES ?= $(HOME)/.cache/evalbeam
# Which of the engines' tests are run, and how: make test-engines ONLY="engines and not faults" WITH="-x"
ONLY ?= engines
WITH ?=
RUN := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
DOCS := $(VENV)/.installed-docs

.PHONY: demo docs test test-engines test-deploy lint format bench parity stress release clean flink-jar flink-up flink-down
.DEFAULT_GOAL := test

demo: $(RUN)
	@$(BIN)/python -m evalbeam.pipelines.demo

# The site is written to site/; the variable silences an advertisement of the theme's authors.
docs: $(DOCS)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "site/index.html"

test: $(DEV)
	@$(BIN)/python -m pytest -n auto

test-engines: $(DEV)
	@printf '%s\n' tests/engines/*/install | xargs -P 3 -I % bash % "$(ENGINES)"
	@EVALBEAM_ENGINES="$(ENGINES)" $(BIN)/python -m pytest -m "$(ONLY)" $(WITH) tests/engines

test-deploy: $(DEV)
	@set -e; for install in tests/engines/gcp/install tests/engines/prism/install tests/deploy/*/install; do $$install "$(ENGINES)"; done
	@EVALBEAM_ENGINES="$(ENGINES)" $(BIN)/python -m pytest -m deploy -o faulthandler_timeout=900

lint: $(DEV)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/basedpyright

format: $(DEV)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(DEV)
	@set -e; for file in tests/benchmarks/bench_*.py; do echo "== $$file"; $(BIN)/python "$$file"; done

parity: $(DEV)
	@$(BIN)/python -m pytest -m parity

# Random runs for some MINUTES, or the one of a SEED that failed; WITH="-k kills" kills KILLS runs and WORKER_KILLS workers.
MINUTES ?= 10
stress: $(DEV)
	@MINUTES=$(MINUTES) SEED=$(SEED) $(BIN)/python -m pytest -m stress -s -o faulthandler_timeout=0 $(or $(WITH),-k random) tests/stress

# A Flink cluster on this machine, all of it on loopback; needs Java and Maven.
FLINK := $(ENGINES)/flink
CLUSTER := $(BIN)/python deploy/flink/cluster.py --folder .cache/flink
flink-jar:
	@deploy/flink/install "$(ENGINES)"
	@echo "$(FLINK)/job-server.jar"

flink-up: $(RUN) flink-jar
	@$(CLUSTER) up --lib $(FLINK)/lib
	@echo "evalbeam run eval.yaml --runner=FlinkRunner --flink_master=localhost:8081 --flink_job_server_jar=$(FLINK)/job-server.jar"

flink-down:
	@$(CLUSTER) down

release: $(DEV)
	@.ci/release $(BIN)/python

clean:
	rm -rf $(VENV) build dist site evalbeam.egg-info evalbeam-out

# A pip of some years ago, as a Python brings it along, takes minutes to choose versions instead of seconds.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("evalbeam needs Python 3.11 or later, found %d.%d; choose another: make PYTHON=python3.12" % v[:2])'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --upgrade pip

# The demo needs no more than the project; the tests need the development tools too, which bring the project along.
# Only what a run imports is compiled; compiling all that is installed takes a minute, and little of it is ever imported.
# It is compiled here, since many container images forbid Python to keep bytecode: every start would take 8 s then.
COMPILE = env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -c "from evalbeam.pipelines.run.evaluate import evaluate; \
	from apache_beam.runners.portability.fn_api_runner import fn_runner; \
	from apache_beam.typehints import intrinsic_one_ops, opcodes; \
	from evalbeam.pipelines.cli import main; \
	from evalbeam.pipelines.config import settings; \
	from evalbeam.pipelines.display import exports, progress, remote_progress, run_text; \
	from evalbeam.pipelines.drawing.templates import fill; \
	from evalbeam.pipelines.report import page; \
	from evalbeam.pipelines.runners import beam_import, workers; \
	import jinja2.bccache, jinja2.compiler, pydantic.type_adapter; \
	from evalbeam.transforms import registry; [registry.names(kind) for kind in registry.FOLDERS]"
$(RUN): pyproject.toml | $(BIN)/python
	@$(BIN)/python -m pip install -qq --no-compile --editable .
	@$(COMPILE)
	@touch $@

$(DOCS): pyproject.toml | $(BIN)/python
	@$(BIN)/python -m pip install -qq --no-compile --editable '.[docs]'
	@touch $(RUN) $@

$(DEV): pyproject.toml | $(BIN)/python
	@$(BIN)/python -m pip install -qq --no-compile --editable '.[dev,text]'
	@$(COMPILE)
	@touch $(RUN) $(DOCS) $@
