# make demo, make test: all a fresh machine with Python 3.11 or newer needs.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/uv pip install --quiet --python $(BIN)/python --constraints constraints.txt
# Files are dealt to as many processes as there are cores, in the order of tests/dealing.py: a
# thread of OpenMP for each is enough.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses logical --maxprocesses 4 --dist loadfile \
    --no-loadscope-reorder --max-worker-restart 0
CONFIG := pyproject.toml constraints.txt
# All extras but gpu-cu12, whose packages exclude those of CUDA 13.
PINNED := nn images tpe onnx mlflow wandb tensorboard gpu hpc intel notebooks docs dev

# Searches use more of these than is promised to stay.
VARIED := scikit-learn|joblib|dask|distributed|torch|torchvision
# Their lowest versions, as equalities: else uv would quietly take higher ones where other pins need
# them. Not so torchvision, whose lowest may be for an older torch.
LOWEST = $(shell sed -nE 's/^ *"(scikit-learn|joblib|dask|distributed|torch)(\[.*\])?[>=]=([0-9.]+).*/\1==\3/p' pyproject.toml)
# Tests of searches and of estimators, by the environment in $(1). scikit-learn's own of its searches
# are marked slow.
SEARCHES = $(subst $(BIN),$(1)/bin,$(PYTEST)) -m 'not slow' tests/test_sklearn_private.py tests/search tests/svm \
    tests/bagging tests/svm_grid tests/cross_validate && \
    $(subst $(BIN),$(1)/bin,$(PYTEST)) tests/cross_validate/test_as_scikit_learn.py

# Words of an earlier language of the project's own, which the field's have replaced.
FORMER_WORDS := Ledger|Teller|muster|strangers|referral|class_sets|gangs?|GangBroken|Judgement|Diary|aloud|would_use|asks_again|give_back_memory|judge_unit|LeftOut|let_go|hand_over|queue_of|settle_rare|gone_of

.PHONY: demo test test-all test-versions lint docs notebooks bench claims chaos chaos-ranks gpu-check test-gpu-install test-release constraints clean

demo: .venv/.base  ## run the main job on the handwritten digits
	$(BIN)/python -m pipelines.svm_grid

test: .venv/.dev  ## what every change runs: minutes; the rest is marked slow
	$(BIN)/python -m compileall -q pipelines cluster_setup
	$(PYTEST) -m 'not slow' tests

test-all: .venv/.dev  ## all tests and notebooks; the CUDA kernels in numba's simulator, by themselves
	$(BIN)/python -m compileall -q pipelines cluster_setup
	NUMBA_ENABLE_CUDASIM=1 $(PYTEST) --dist worksteal tests/simulator
	$(PYTEST) tests

test-versions: .venv-lowest/.dev  ## searches with the lowest and newest scikit-learn, Dask and torch that pyproject.toml allows
	$(call SEARCHES,.venv-lowest)
	@newest=$$($(BIN)/uv pip compile pyproject.toml --quiet --extra dev --extra nn --python $(BIN)/python \
	    --no-annotate --no-header | grep -E '^($(VARIED))==') || exit 1; \
	if echo "$$newest" | grep -vxFf constraints.txt; then \
	    $(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-newest && \
	    $(BIN)/uv pip install --quiet --python .venv-newest/bin/python --editable '.[dev,nn]' && \
	    $(call SEARCHES,.venv-newest); \
	else echo "The newest are those of constraints.txt, with which make test-all runs:" $$newest; fi

lint: .venv/.dev  ## style, types, and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	! grep -rnE --include=*.py '$(FORMER_WORDS)' pipelines cluster_setup benchmarks tests
	! grep -rnE --include=*.py '#.*fmt: *(skip|off)' pipelines cluster_setup benchmarks tests docs

docs: .venv/.docs  ## the pages and the reference, in site/; warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo 'site/index.html: open it in a browser; its search works without a server, too'

notebooks: .venv/.notebooks  ## JupyterLab with the Dask panel
	$(BIN)/python notebooks/settings/start.py

bench: .venv/.dev  ## time the grid search against its peers, keep the result
	$(BIN)/python -m benchmarks.svm_grid

claims: .venv/.peers  ## measure again what README and docs claim, half an hour; ONLY=NAME some, DATA=DIR has mnist
	$(BIN)/python -m benchmarks.claims $(ONLY) --data-dir $(DATA)

chaos: .venv/.dev  ## disturb runs in every known way, minutes to half an hour
	$(BIN)/python -m tests.chaos
	$(BIN)/python -m tests.chaos.malformed

chaos-ranks: .venv/.dev  ## kill ranks and launchers of one training at random, 20 times
	$(BIN)/python -m tests.chaos.ranks

gpu-check:  ## on a machine with a GPU, with the Python given: PYTHON=python3; installs nothing
	$(PYTHON) -m benchmarks.gpu_check

test-gpu-install:  ## the GPU packages resolve, install and have what we take from them; our kernels compile; no GPU needed
	$(BIN)/python -m venv --clear .venv-gpu
	.venv-gpu/bin/python -m pip install --quiet uv==$(UV_VERSION)
	for extras in '--extra gpu --extra nn --extra hpc' '--extra gpu-cu12 --extra hpc'; do \
	    .venv-gpu/bin/uv pip compile pyproject.toml --quiet $$extras --python .venv-gpu/bin/python \
	        --output-file .venv-gpu/resolved.txt >/dev/null || exit 1; done  # without constraints
	.venv-gpu/bin/uv pip install --quiet --python .venv-gpu/bin/python \
	    --constraints constraints.txt --editable '.[gpu,nn,hpc]'
	.venv-gpu/bin/python tests/gpu_install.py

test-release: .venv/.uv  ## sdist and wheel are built; the wheel runs where nothing else is installed
	$(BIN)/python tests/release.py

constraints: .venv/.base  ## choose the pinned versions anew
	$(BIN)/uv pip compile pyproject.toml --quiet --upgrade --universal \
	    $(foreach extra,$(PINNED),--extra $(extra)) \
	    --python-version 3.11 --no-annotate --no-header --output-file constraints.txt

clean:  ## remove what make made
	rm -rf .venv .venv-gpu .venv-lowest .venv-newest

UV_VERSION := 0.13.8
DATA := data

.venv/.uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "Python 3.11 or newer is needed, $(PYTHON) is older; use make PYTHON=python3.12"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@touch $@

# Compiled here once, in parallel: else the first run compiles what it imports, one by one.
.venv/.base: .venv/.uv $(CONFIG)
	$(INSTALL) --compile-bytecode --editable .
	@touch $@

# Compiled, too, since tests start hundreds of processes, and not all may write what they compile.
.venv/.dev: .venv/.uv $(CONFIG)
	$(INSTALL) --compile-bytecode --editable '.[dev,docs,intel,nn,hpc,notebooks]'
	@touch $@ .venv/.base

.venv/.peers: .venv/.dev benchmarks/peers.txt
	$(INSTALL) --requirement benchmarks/peers.txt
	@touch $@

.venv-lowest/.dev: .venv/.uv $(CONFIG)
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-lowest
	grep -vE '^($(VARIED))==' constraints.txt > .venv-lowest/constraints.txt
	$(BIN)/uv pip install --quiet --python .venv-lowest/bin/python --resolution lowest-direct \
	    --only-binary scikit-learn --constraints .venv-lowest/constraints.txt --editable '.[dev,nn]' $(LOWEST)
	@touch $@

.venv/.docs: .venv/.base
	$(INSTALL) --editable '.[docs]'
	@touch $@

.venv/.notebooks: .venv/.base
	$(INSTALL) --editable '.[nn,hpc,notebooks]'
	@touch $@
