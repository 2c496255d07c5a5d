# warmswap: `make help` lists what there is.

export PATH := $(PATH):$(HOME)/.cargo/bin
# What `scripts/bootstrap tools` installs comes first.
test book: export PATH := $(CURDIR)/target/tools/bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help setup build lab install uninstall deb tarball package-test crates test soak suites kernels cross traces bench demo book clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup: ## install what building and testing needs (Debian, Ubuntu)
	@scripts/bootstrap

build: setup ## build the command and the library that it preloads: target/release/
	cargo build --release --package warmswap --package warmswap-preload

lab: setup ## build the laboratory's command, which records, replays, compares and measures: target/release/warmswap-lab
	cargo build --release --package warmswap-lab

install: ## install what was built to PREFIX=/usr/local: commands, library, systemd unit, configuration, man pages, completions
	@scripts/install

uninstall: ## take that away again
	@scripts/install remove

deb: build lab ## Debian packages, one of the product and one of the laboratory: target/packages/
	@scripts/bootstrap packing
	@scripts/deb

tarball: build lab ## an archive of both for other distributions: target/packages/
	@scripts/bootstrap packing
	@scripts/tarball

package-test: build lab ## install the Debian package into a clean Debian, use it there, purge it; boot another with it (root)
	@scripts/bootstrap packing
	@scripts/package-test

crates: setup ## pack the libraries that others may use, and build each from its package alone
	@scripts/crates

test: ## all checks and tests; STEPS="fmt clippy" runs only some
	@scripts/bootstrap tools
	@scripts/test $(STEPS)

soak: setup ## live programs again and again, with faults injected, for MINUTES=10; SEED=… repeats one
	@scripts/soak $(or $(MINUTES),10)

suites: build ## other projects' test suites, natively and under either host; NAMES="redis sqlite" runs only some
	@scripts/suites $(NAMES)

kernels: setup ## the live tests on the kernels of Debian's releases, in virtual machines without KVM; ARCH=aarch64
	@WARMSWAP_KERNELS_ARCH=$(or $(ARCH),$(WARMSWAP_KERNELS_ARCH)) scripts/kernels

cross: setup ## build all for another processor: ARCH=aarch64
	@scripts/cross $(or $(ARCH),aarch64) build --locked --workspace --exclude warmswap-python --exclude warmswap-lab-python --all-targets

traces: lab ## record the programs of apps/ for studies, an hour at most, to target/traces; SEEDS, SIZES, RELAUNCHES, MINUTES
	@scripts/traces

bench: setup ## microbenchmarks of all crates
	cargo bench --workspace

demo: setup ## build, take memory from programs and return to them, page one, compare schemes on a recorded trace
	@scripts/demo

book: ## the book, with the reference of the command: target/book/index.html
	@scripts/bootstrap tools
	@scripts/book

clean: ## remove what was built
	cargo clean
	rm -rf fuzz/target fuzz/corpus fuzz/artifacts
