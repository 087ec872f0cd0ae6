# Pure make and sh. `make help` prints the lines below that carry a double hash.
.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON ?= python3
UV_VERSION := 0.13.9
UV := .tools/bin/uv
BIN := .venv/bin
CODE := plugins testbed dags docs/examples dev tests include
# Folders that exist: a checkout without one of them is still checked.
PRESENT = $(wildcard $(CODE))

.PHONY: help demo up down venv check format test test-api test-local test-ray test-kube test-kueue test-full demo-kube drills bench-lifecycle bench-verify bench-import bench-diagnose docs dist lock clean

help: ## print this list
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{printf "%-24s %s\n", $$1, $$2}'

demo: ## fly one training on this machine alone: installs, starts Airflow, shows it, stops (no Kubernetes, no root)
	@MAKE="$(MAKE)" PYTHON="$(PYTHON)" sh dev/quickstart.sh demo $(if $(PORT),--port $(PORT)) $(ARGS)

up: ## start Airflow with the local backend and leave it running (PORT=...)
	@MAKE="$(MAKE)" PYTHON="$(PYTHON)" sh dev/quickstart.sh up $(if $(PORT),--port $(PORT)) $(ARGS)

down: ## stop what `make up` started, and every local cluster of it
	@test ! -x $(BIN)/python || $(BIN)/python -m dev.quickstart down $(ARGS)

venv: .venv/.made ## make .venv from the hashed lock (pinned uv in .tools)

.tools/.made-$(UV_VERSION):
	$(PYTHON) -m venv .tools
	.tools/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	touch $@

.venv/.made: requirements.lock pyproject.toml .tools/.made-$(UV_VERSION)
	test -x $(BIN)/python || $(UV) venv --quiet --python $(PYTHON) .venv
	$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $@

check: venv ## format, lint, types, contracts, unit tests: the truth in under a minute, without a cluster
	$(BIN)/ruff format --check --quiet $(PRESENT)
	$(BIN)/ruff check --quiet $(PRESENT)
	$(BIN)/lint-imports --no-logo
	$(BIN)/mypy --no-error-summary
	$(BIN)/pytest --quiet tests/unit

format: venv ## format and repair what ruff can repair
	$(BIN)/ruff format $(PRESENT)
	$(BIN)/ruff check --fix-only $(PRESENT)

test: venv ## unit and Airflow tests, no cluster
	$(BIN)/pytest tests/unit tests/airflow

test-api: venv ## tests against a real etcd and API server (seconds to start, Go needed for the first build)
	$(PYTHON) -m testbed build --api-only
	$(BIN)/pytest tests/api

test-local: venv ## the local backend: real Ray clusters and a whole flight on this machine, no root
	$(BIN)/pytest -m "not full" tests/local

test-ray: venv ## the Ray Jobs client and the probe against a real Ray on this machine (Linux, root)
	$(BIN)/pytest tests/ray

test-kube: venv ## quick tests on a whole testbed: kubelets, KubeRay, Ray (Linux, root, Go)
	$(PYTHON) -m testbed build
	$(BIN)/pytest -m "not full" tests/api tests/airflow_real tests/kube
	$(BIN)/pytest -m "not full" tests/drills

test-kueue: venv ## queues, quotas and preemption on a testbed with the real Kueue (Linux, root, Go)
	$(PYTHON) -m testbed build --kueue
	$(BIN)/pytest tests/kueue

test-full: venv ## everything, also what is slow
	$(PYTHON) -m testbed build
	$(BIN)/pytest tests/unit tests/airflow tests/api tests/airflow_real tests/kube
	$(BIN)/pytest tests/ray
	$(BIN)/pytest tests/local
	$(BIN)/pytest tests/drills
	$(BIN)/pytest tests/compose
	$(PYTHON) -m testbed build --kueue
	$(BIN)/pytest tests/kueue
	$(PYTHON) -m testbed down
	RAYFLIGHT_TEST_KUBERAY=1.5.0 $(BIN)/pytest -m "not full" tests/kube
	$(PYTHON) -m testbed down

demo-kube: venv ## fly one training on the testbed, or on KUBECONFIG=... with IMAGE=... (more: ARGS=--help)
	$(BIN)/python -m dev.demo_kube $(if $(filter command line,$(origin KUBECONFIG)),--kubeconfig "$(KUBECONFIG)") $(if $(IMAGE),--image "$(IMAGE)") $(ARGS)

drills: venv ## provoke every failure path for real and check the answer, on the testbed or with KUBECONFIG=... (docs/drills.md)
	$(BIN)/python -m dev.drills $(if $(filter command line,$(origin KUBECONFIG)),--kubeconfig "$(KUBECONFIG)") \
	  $(if $(IMAGE),--image "$(IMAGE)") $(if $(NAMESPACE),--namespace "$(NAMESPACE)") \
	  $(if $(CONFIRM),--confirm "$(CONFIRM)") $(ARGS)

bench-lifecycle: venv ## the same training as a plain RayJob and by Rayflight, three times each, alternating
	$(BIN)/python -m dev.bench_lifecycle

bench-verify: venv ## what the verification costs a run on the testbed, three runs (at most 25 s)
	$(BIN)/python -m dev.bench_verify

bench-import: venv ## what importing Rayflight in a DAG file costs over airflow.sdk (median of 10)
	$(BIN)/python -m dev.bench_import

bench-diagnose: venv ## `rayflight diagnose` on a folder with 500 pods and 20,000 events: seconds and memory
	$(BIN)/python -m dev.bench_diagnose

docs: venv ## write the pages of docs/diagnosis from the code
	$(BIN)/python -m dev.diagnosis_pages

dist: venv ## build dist/rayflight-*.whl and its source archive
	$(UV) build --quiet --no-build-isolation --python $(BIN)/python --out-dir dist

lock: .tools/.made-$(UV_VERSION) ## resolve pyproject.toml into requirements.lock again (UPGRADE=--upgrade for newer versions)
	$(UV) pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-header --no-annotate \
	  --no-emit-index-url $(UPGRADE) --extra local --group dev --output-file requirements.lock pyproject.toml

clean: down ## remove what was built here (.venv, .tools, caches); the testbed is removed by `python -m testbed purge`
	rm -rf .venv .tools .demo .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build dist plugins/*.egg-info
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
