# Two commands: `make run` answers the holiday peak, `make test` proves the model.
PYTHON ?= python3
BIN := .venv/bin
# every dependency at the version and with the hash of locks/, built by nobody on the way; the
# package itself as it stands, by the locked build tool
PIP := pip install --quiet --disable-pip-version-check
LOCKED := $(PIP) --only-binary :all: --require-hashes -r
ITSELF := $(BIN)/$(PIP) --no-deps --no-build-isolation -e .

.PHONY: run test fuzz mutants lint bench tutorial pages docs docs-test validate-real lock audit \
	release clean

run: .venv/run
	$(BIN)/voicesim run scenarios/holiday_peak.yaml

# a file of tests on each core
test: .venv/dev
	$(BIN)/python -m pytest -n auto --dist loadfile

# thousands of broken files, and of random worlds for the properties; then docs/trust.md anew
fuzz: .venv/dev
	$(BIN)/python benchmarks/trust.py

# small changes of the model at random: which of them does no test notice? (hours on two cores)
mutants: .venv/dev
	$(BIN)/$(PIP) --no-build-isolation -e '.[mutants]'
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
docs: .venv/dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# every command and snippet of README.md and docs/ as it stands, nothing shortened (minutes)
docs-test: .venv/dev
	VOICESIM_DOCS=1 $(BIN)/python -m pytest tests/docs

# opt-in: installs a real engine into .venv-vllm and measures it for some minutes
validate-real: .venv/dev
	$(BIN)/python benchmarks/validate_real.py

# locks/ anew after a change to pyproject.toml; NEWEST=--newest takes the newest of everything
lock: .venv-release/done
	$(RELEASE) lock $(NEWEST)

# known vulnerabilities of what is locked
audit: .venv-release/done
	$(RELEASE) audit

# sdist and wheel in dist/, tried in empty environments on PYTHONS (default: python3.11 and later)
release: .venv-release/done
	$(RELEASE) build $(addprefix --python ,$(PYTHONS))

RELEASE := PATH="$(CURDIR)/.venv-release/bin:$$PATH" python benchmarks/release.py

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/run: .venv/bin/python pyproject.toml locks/run.txt
	$(BIN)/$(LOCKED) locks/run.txt
	$(ITSELF)
	touch $@

.venv/dev: .venv/bin/python pyproject.toml locks/dev.txt
	$(BIN)/$(LOCKED) locks/dev.txt
	$(ITSELF)
	touch $@ .venv/run

# apart from what they try
.venv-release/done: locks/release.txt
	$(PYTHON) -m venv .venv-release
	.venv-release/bin/$(LOCKED) locks/release.txt
	touch $@

clean:
	rm -rf .venv .venv-release .venv-vllm .mutation dist runs site
