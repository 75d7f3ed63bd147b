# The commands of the house. Each one first makes what it needs, so a fresh clone can start with any of them.
.DEFAULT_GOAL := help
.PHONY: help run test check bench build clean tools
.NOTPARALLEL:

INSTALLED := node_modules/.package-lock.json

help: ## Show the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' Makefile

run: build ## Run a gateway on localhost:8080 with a demo backend
	@node dist/cli/main.js serve

test: $(INSTALLED) tools build check ## Install what is missing, build, check and run all tests with coverage
	@npm run --silent test

check: $(INSTALLED) ## Check types, style, and that core and scripts stay portable
	@npm run --silent check

bench: $(INSTALLED) build ## Measure; one part with ONLY=name
	@build/ensure-tools.sh wrk
	@node_modules/.bin/tsx bench/main.ts $(ONLY)

build: $(INSTALLED) ## Generate the Lua and compile the service to dist/
	@npm run --silent build

tools:
	@build/ensure-tools.sh

clean: ## Remove everything that was generated
	rm -rf dist coverage test-results.json bench/results.json

# Installing takes minutes, so it happens once per lock file.
$(INSTALLED): package-lock.json
	npm ci --no-audit --no-fund
	@touch $@
