# make app       set everything up and serve the page
# make test      set everything up, Chromium too where that is possible, and run the tests but
#                those marked slow (TESTS=tests/parts for some)
# make test-all  the same with the slow ones: what CI runs
# make test-oldest  run the tests of the page with the oldest Gradio that pyproject.toml allows
# make check     format, lint and types; prints the lines of each part beside its budget
# make docs      write what README.md and docs have of the code and of measured figures anew, and
#                build the docs as a site, build/docs; what is wrong with a page is an error
# make screenshots  take the pictures of docs/tour.md anew, in Chromium
# make bench     measure against floors and peers, whose environments it installs once
#                (BENCH=--quick: on few rows; BENCH=--help)
# make space     put together what is pushed to a Space, run it here as one, and print how long
#                it takes (SPACE=--only-files: no more than the files; SPACE=--help)
# make package   build wheel and source, and try the wheel in a fresh environment (PACKAGE=--help)
# make locks     write requirements.lock and requirements-cpu.lock anew (LOCKS=--upgrade)
# make prove     measure every promise and write the table of docs/PROMISES.md, failing rows
#                included; hours (PROVE='--only P1')
PYTHON ?= python3
BIN := .venv/bin

# The oldest Gradio that pyproject.toml allows, and the versions of its own requirements.
OLDEST_GRADIO := gradio==6.28.0 gradio-client==2.7.1 'huggingface-hub<2'

.PHONY: app test test-all test-oldest check docs screenshots bench prove space package locks clean

app: .venv/ready
	$(BIN)/heads app $(if $(PORT),--port $(PORT))

test: .venv/ready-dev
	@sh tests/install_chromium.sh
	$(BIN)/python -m pytest $(TESTS)

# The marker of pyproject.toml leaves slow tests out; an empty one leaves nothing out.
test-all: .venv/ready-dev
	@sh tests/install_chromium.sh
	$(BIN)/python -m pytest -m "" $(TESTS)

test-oldest: .venv/ready-dev
	@sh tests/install_chromium.sh
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade \
		--target build/oldest $(OLDEST_GRADIO)
	PYTHONPATH="$(CURDIR)/build/oldest" $(BIN)/python -m pytest -m "" \
		$(or $(TESTS),tests/interfaces/web tests/interfaces/test_reading.py)

check: .venv/ready-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports
	$(BIN)/python -m deploy.budget

docs: .venv/ready-dev
	$(BIN)/python docs/tables.py
	$(BIN)/python -m benchmarks.stored
	$(BIN)/python -m studies.promises.proofs
	$(BIN)/python docs/site/build.py

screenshots: .venv/ready-dev
	@sh tests/install_chromium.sh
	$(BIN)/python -m docs.screenshots $(SCREENSHOTS)

bench: .venv/ready-dev
	$(BIN)/python -m benchmarks $(BENCH)

space: .venv/ready-dev
	$(BIN)/python -m deploy.space $(SPACE)

package: .venv/bin/python
	$(BIN)/python -m deploy.package $(PACKAGE)

locks: .venv/ready-dev
	$(BIN)/python -m deploy.locks $(LOCKS)

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Head to Head needs Python 3.10 or newer; run: make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv

.venv/ready: .venv/bin/python requirements.txt pyproject.toml
	@echo "Installing packages; the first time this takes a few minutes."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

.venv/ready-dev: .venv/ready requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

prove: .venv/ready-dev
	@sh tests/install_chromium.sh
	$(BIN)/python -m studies.promises --write $(PROVE)

clean:
	rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis
