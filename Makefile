# Every command of the house. `make help` lists them; set-up happens inside each target.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help calls demo test test-clusters every-op bench evictions model races lint docs suites mutated wheel try-wheel release test-gpu test-emulated bench-gpu cubins

PYTHON ?= python3
ARGS ?=
SOURCE ?=

help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo:  ## build, install into .venv, train a small GPT and print a sample (ARGS=--graph compiles it)
	@.ci/demo $(ARGS)

test:  ## build and run everything a change must pass; a part with ARGS="tests/graph -k name" or ARGS=crates/comm
	@.ci/run $(ARGS)

every-op:  ## each op under each layout, values and gradients on real processes (ARGS="--ranks 4 matmul")
	@.ci/build
	@cd tests && PYTHONPATH=../python:. "$$(../.ci/venv)/bin/python" -m distributed.every_op $(ARGS)

bench:  ## speed side by side with PyTorch, as ratios (ARGS selects rows)
	@.ci/build --release
	@PYTHONPATH=python "$$(.ci/venv)/bin/python" -m benches $(ARGS)

model:  ## try very many orders of the threads' steps on the actors' protocol (the tests try few)
	@ONEFLOW_MODEL_ORDERS=$${ORDERS:-5000} cargo test -p oneflow-runtime --lib model

evictions:  ## let ten million rows of a table leave memory in a row (the tests let a million)
	@ONEFLOW_EVICTIONS=$${COUNT:-10000000} cargo test -p oneflow-embedding --test faults many_evictions_in_a_row

suites:  ## other projects' tests on this build: SOURCE=a checkout of PyTorch or OneFlow, ARGS="test_torch.py -k name"
	@.ci/build
	@PYTHONPATH=python:tests "$$(.ci/venv)/bin/python" -m suites "$(SOURCE)" $(ARGS)

mutated:  ## damaged ONNX files, .pt2 archives and program directories, loaded and run (COUNT=100000 of each; ARGS="onnx")
	@.ci/build
	@PYTHONPATH=python "$$(.ci/venv)/bin/python" tests/mutated_files.py $(ARGS) --count $${COUNT:-10000}

calls:  ## calls generated from PyTorch's schemas, made in both packages (SECONDS=300, ARGS="--seed 3 --gradients --only std")
	@.ci/build
	@PYTHONPATH=python "$$(.ci/venv)/bin/python" tests/generated_calls.py --seconds $(or $(SECONDS),120) $(ARGS)

test-clusters:  ## launchers, MPI, Slurm, Ray, hosts as namespaces, 256 ranks: what needs root and packages (each skip says why)
	@.ci/build
	@ONEFLOW_TEST_RANKS=256 cargo test --package oneflow-comm --test large a_crowd -- --nocapture
	@ONEFLOW_TEST_CLUSTERS=1 PYTHONPATH=python "$$(.ci/venv)/bin/python" -m pytest tests/clusters -rs $(ARGS)

races:  ## resize and replace tensors under running ops, on threads, for minutes (ARGS=--seconds N for each pair)
	@.ci/build
	@PYTHONPATH=python "$$(.ci/venv)/bin/python" tests/races $(ARGS)

lint:  ## formats, lints, types, house rules
	@.ci/lint

docs:  ## write the generated files again (methods, stubs, API pages) and build the site in target/docs
	@cargo xtask codegen
	@.ci/docs

wheel:  ## one abi3 wheel for Python 3.10 and later in dist/, checked
	@.ci/wheel

try-wheel:  ## install the wheel of dist/ into a fresh environment of PYTHON and run every example there
	@.ci/try-wheel

release:  ## dry run of a release: checks, wheel, trial; prints the commands that publish (ARGS=--no-build)
	@.ci/release $(ARGS)

test-gpu:  ## the tests that need a GPU, with the wheel in dist/ (needs neither Rust nor a network; ARGS=--emulated no GPU)
	@.ci/on-gpu -m suites.gpu $(ARGS)

test-emulated:  ## the tests that need a GPU on an emulated one, which orders streams and threads by each seed (SEEDS="1 2", ARGS)
	@for seed in $(or $(SEEDS),1 2 3 4 5 6); do EMULATOR_SEED=$$seed .ci/on-gpu -m suites.gpu --emulated $(ARGS) || exit 1; done

bench-gpu:  ## speed on a GPU side by side with PyTorch, with the wheel in dist/
	@.ci/on-gpu -m benches.gpu $(ARGS)

cubins:  ## compile GPU kernels ahead into dist/cubin, without a GPU (ARGS="--arch sm_90a")
	@.ci/build
	@PYTHONPATH=python:tests "$$(.ci/venv)/bin/python" -m suites.cubins $(ARGS)
