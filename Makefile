# Every target sets up what it needs in .venv; the second time that is a matter of a second.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help demo test lint bench scoreboard clean

help:
	@echo "make demo        pictures to classifier to report; trains for 5 minutes"
	@echo "make test        lint, types, layers and the whole test suite"
	@echo "make lint        ruff, mypy, import-linter"
	@echo "make bench       speed and memory beside timm, transformers and vit-pytorch (an hour or two)"
	@echo "make scoreboard  every promise in its full form"
	@echo "make clean       remove .venv and caches"

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) -e .
	@touch $@

.venv/ready-dev: .venv/ready
	$(PIP) -e ".[dev,hub,oracle,data,sklearn,tensorboard,export,openvino,serve,slurm]"
	@touch $@

demo: .venv/ready
	$(BIN)/vitrail demo --minutes 5

lint: .venv/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# Two workers on two cores: with more than one thread each, they would wait for each other.
test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadgroup

scoreboard: .venv/ready-dev
	$(BIN)/python benchmarks/scoreboard.py $(FAMILIES)

bench: .venv/ready-dev
	$(BIN)/vitrail bench model --out benchmarks

clean:
	rm -rf .venv runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
