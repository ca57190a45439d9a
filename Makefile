# Every target sets itself up: a virtual environment in .venv, made once and reused.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test test-slow test-gpu lowest check lint types docs results gallery notebooks wheel smoke clean

demo: .venv/core
	$(BIN)/hopfed demo --figure demo.png --overwrite

# Everything a change must pass: style, types, and the fast tests on all cores.
test: check
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not slow and not gpu and not alone"
	$(BIN)/python -m pytest -m alone tests/fuzz

test-slow: .venv/dev
	$(BIN)/python -m pytest -o faulthandler_timeout=7200 -m "slow and not gpu"

# The numerical tests as other processors would round, each way alone as `make test-haswell`. What
# OpenBLAS, NumPy and Numba take of the processor is said before they are loaded.
NUMERICAL := archetypes hopfield kernels memory privacy recovery spectral theory
ROUNDINGS := prescott haswell numpy numba one-thread \
	$(if $(shell grep -m 1 avx512 /proc/cpuinfo),skylakex) # its loops end a program elsewhere
.PHONY: test-processors $(ROUNDINGS:%=test-%)
test-processors: $(ROUNDINGS:%=test-%)
test-prescott: export OPENBLAS_CORETYPE = Prescott
test-haswell: export OPENBLAS_CORETYPE = Haswell
test-skylakex: export OPENBLAS_CORETYPE = SkylakeX
test-numpy: export NPY_DISABLE_CPU_FEATURES = X86_V3,X86_V4,AVX512_ICL
test-numba: export NUMBA_CPU_NAME = generic
test-numba: export NUMBA_CACHE_DIR = $(CURDIR)/build/numba
test-one-thread: export OMP_NUM_THREADS = 1
test-one-thread: export OPENBLAS_NUM_THREADS = 1
test-one-thread: export NUMBA_NUM_THREADS = 1
$(ROUNDINGS:%=test-%): .venv/dev
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not slow and not gpu and not alone" \
		$(addprefix tests/,$(NUMERICAL))

# All that wants a GPU, the tests marked gpu among it, each part in a process with a time limit.
# With HOPFED_REQUIRE=cupy a machine without CuPy or a device fails instead of skipping.
test-gpu: .venv/dev
	$(BIN)/python tests/gpu/day.py --out build/gpu

# The fast tests with the lowest versions that pyproject.toml allows, without PyTorch and Flower.
# What those versions' own dependencies deprecate is no error there.
lowest: .venv/dev
	@rm -rf build/lowest && $(BIN)/uv venv --quiet build/lowest
	$(BIN)/uv pip install --quiet --python build/lowest/bin/python --resolution lowest-direct \
		--only-binary :all: --no-binary hopfed --no-binary odfpy -e '.[test,files,machines]'
	build/lowest/bin/python -m pytest -n 2 --dist worksteal -W default::DeprecationWarning \
		-m "not slow and not gpu and not alone" --ignore=tests/federation --ignore=tests/test_doctests.py

check: lint types

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# mypy follows folders, not the package-dir mapping: give it the tree as it is installed.
types: .venv/dev
	@rm -rf build/types && mkdir -p build/types
	@cp -r hopfed build/types/hopfed
	@for part in kernels theory experiments figures; do cp -r $$part build/types/hopfed/; done
	cd build/types && ../../$(BIN)/mypy --config-file ../../pyproject.toml -p hopfed

# The reference, a page for each public module. A warning, or a name without its place, is an error.
docs: .venv/dev
	@rm -rf build/docs && mkdir -p build/docs
	$(BIN)/python -W error tests/pages.py build/docs

# The tables of README.md and experiments/README.md, from kept summaries of runs.
results: .venv/core
	$(BIN)/python -m hopfed.experiments.publish.results

# The pictures of figures/gallery that are missing or out of date, and their index.
gallery: .venv/dev
	$(BIN)/python -m hopfed.experiments.publish.gallery

.venv/core: requirements/core.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) -r requirements/core.txt
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

.venv/dev: .venv/core requirements/dev.txt requirements/neural.txt requirements/flower.txt requirements/dask.txt \
		requirements/files.txt requirements/table.txt
	$(PIP) -r requirements/dev.txt
	@touch $@

# Worked examples as notebooks, in build/notebooks.
notebooks: .venv/core
	$(BIN)/python -m hopfed.experiments.publish.notebooks build/notebooks

# A source archive, and the wheel that is built from it.
wheel: .venv/dev
	@rm -rf dist build/lib build/bdist*
	$(BIN)/python -c "from setuptools import build_meta; build_meta.build_sdist('dist')" > /dev/null
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation -w dist dist/*.tar.gz

# The wheel in an empty environment, used from another folder, without the tools of development.
smoke: wheel
	@rm -rf build/smoke && $(PYTHON) -m venv --without-pip build/smoke
	$(BIN)/python -m pip --python build/smoke/bin/python install --quiet --no-compile \
		--disable-pip-version-check -r requirements/core.txt dist/*.whl
	cd build/smoke && bin/hopfed demo --figure demo.png
	cd build/smoke && bin/hopfed run bbp --preset quick --set N=60 --set M=100,200 --out bbp.h5
	cd build/smoke && bin/hopfed report bbp.h5 --out bbp.html
	cd build/smoke && bin/python -m hopfed.experiments.worked.spreadsheet

clean:
	rm -rf .venv build dist *.egg-info
