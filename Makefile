# `make demo` and `make test` are all one needs; both build the environment first.

PYTHON ?= python3
VENV ?= .venv
PIP_FLAGS ?=
OUT ?= demo

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check install $(PIP_FLAGS) -c constraints.txt
SOURCES := pyproject.toml constraints.txt $(wildcard src/omegamax/kernels/cpp/* src/omegamax/kernels/*/cpp/*)

.PHONY: help install test test-torch demo bench docs lint types readme picture clean

help:
	@echo "make demo     train networks that answer questions about pictures, and see where they look: $(OUT)/report.html"
	@echo "make test     lint, types and the test suite; with CI=true, as CI runs it, slow tests too"
	@echo "make test-torch TORCH=2.5  the core tests on another version of torch, in an environment of its own"
	@echo "make bench    speed and accuracy against torch and scikit-learn, into benchmarks/results/ and the README"
	@echo "make docs     the site, to read without a network: site/index.html; the gallery is run once, then kept"
	@echo "make lint     ruff and its formatter"
	@echo "make types    mypy"
	@echo "make readme   the README's map table, from the registry"
	@echo "make picture  the README's picture"
	@echo "make clean    remove what was built and cached, not the environment or anything trained or drawn"

install: $(STAMP)

# torch goes in alone and first: with the pin satisfied, no later package can pull in another build of it.
$(STAMP): $(SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "[1/2] torch into $(VENV)"
	$(PIP) torch
	@echo "[2/2] omegamax with all it is tested with; its C++ is compiled, which takes a minute or two"
	$(PIP) --editable '.[dev]'
	@touch $@
	@echo "installed; \`. $(BIN)/activate\` lets the shell find omegamax and python here"

test: lint types
	$(BIN)/python -m pytest -n 2 --dist worksteal $(if $(CI),,-m "not slow")

# The oldest version that pyproject.toml declares, unless another one is given; its environment stays for the next time.
TORCH ?= $(shell sed -n 's/.*"torch>=\([0-9.]*\)".*/\1/p' pyproject.toml)
CORE := maps losses nn compat/test_adasplash_package.py kernels/test_backend.py kernels/test_dispatch.py \
	contracts/test_autograd.py contracts/test_forward_mode.py contracts/test_inputs.py contracts/test_tensors.py

test-torch:
	test -x .venv-torch-$(TORCH)/bin/python || $(PYTHON) -m venv .venv-torch-$(TORCH)
	.venv-torch-$(TORCH)/bin/python -m pip install --quiet $(PIP_FLAGS) 'torch==$(TORCH).*' numpy
	.venv-torch-$(TORCH)/bin/python -m pip install --quiet $(PIP_FLAGS) --editable . cvxpy hypothesis mpmath pytest scipy
	.venv-torch-$(TORCH)/bin/python -m pytest -q -m "not slow" $(addprefix tests/,$(CORE))

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(STAMP)
	$(BIN)/mypy

demo: $(STAMP)
	$(BIN)/omegamax demo --out $(OUT)

bench: $(STAMP)
	$(PIP) --editable '.[bench]'
	$(BIN)/python benchmarks/bench_transforms.py
	$(BIN)/python benchmarks/bench_continuous.py
	$(BIN)/python benchmarks/bench_mixtures.py
	$(BIN)/python benchmarks/bench_text.py
	-$(PIP) prox-tv
	$(BIN)/python benchmarks/bench_structured.py
	$(BIN)/python benchmarks/bench_sequences.py

# The extra `docs` is part of `dev`, which the environment has.
docs: $(STAMP)
	$(BIN)/python docs/build.py
	@echo "open site/index.html"

readme: $(STAMP)
	$(BIN)/omegamax maps --into README.md
	$(BIN)/omegamax kernels --into docs/kernels.md

picture: $(STAMP)
	$(BIN)/python docs/picture.py

clean:
	rm -rf build dist src/*.egg-info src/omegamax/kernels/*.so .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -f $(STAMP)
