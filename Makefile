# Two commands: `make run` answers the holiday peak, `make test` proves the model.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: run test fuzz mutants lint bench tutorial pages docs docs-test validate-real clean

run: .venv/run
	$(BIN)/voicesim run scenarios/holiday_peak.yaml

test: .venv/dev
	$(BIN)/python -m pytest

# thousands of broken files, and of random worlds for the properties; then docs/trust.md anew
fuzz: .venv/dev
	$(BIN)/python benchmarks/trust.py

# small changes of the model at random: which of them does no test notice? (hours on two cores)
mutants: .venv/dev
	$(BIN)/python benchmarks/mutation.py

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/run
	$(BIN)/python benchmarks/speed.py

tutorial: .venv/dev
	$(BIN)/jupyter nbconvert --to notebook --execute --inplace \
		--ExecutePreprocessor.record_timing=False docs/tutorial.ipynb

# docs/reference/cli.md and the table of metrics, from the program
pages: .venv/dev
	$(BIN)/python benchmarks/pages.py

# docs/ as a site in site/; a warning is an error
docs: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# every command and snippet of README.md and docs/ as it stands, nothing shortened (minutes)
docs-test: .venv/dev
	VOICESIM_DOCS=1 $(BIN)/python -m pytest tests/docs

# opt-in: installs a real engine into .venv-vllm and measures it for some minutes
validate-real: .venv/dev
	$(BIN)/python benchmarks/validate_real.py

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/run: .venv/bin/python pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	touch $@

.venv/dev: .venv/bin/python pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@ .venv/run

.venv/docs: .venv/bin/python pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@ .venv/run

clean:
	rm -rf .venv .venv-vllm runs site
