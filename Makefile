# Commands for working on Tollgate. Each one first makes what it needs, so a fresh clone can start with any of them.
.DEFAULT_GOAL := help
.PHONY: help run quick test check scenarios bench bench-against compare docs screenshots fuzz soak soak-envoy build clean tools monitoring test-monitoring test-deploy test-deploy-files deploy-tools deploy-files sbom release release-files
.NOTPARALLEL:

INSTALLED := node_modules/.package-lock.json

# NODE=24 runs a command with the latest Node 24, from its npm package, instead of the installed one.
ifeq ($(origin NODE),command line)
NODE_PACKAGE := $(shell node -p "'node-' + (process.platform === 'darwin' ? 'bin-' : '') + process.platform + '-' + process.arch")
OTHER_NODE := .cache/node-$(NODE)/node_modules/$(NODE_PACKAGE)/bin/node
export PATH := $(CURDIR)/$(dir $(OTHER_NODE)):$(PATH)
$(INSTALLED): | $(OTHER_NODE)
endif

# Folders are listed with their files: a folder gets a new time when a file in it is removed.
JS_SOURCES := tsconfig.json tsconfig.dist.json build/remove-stale.sh $(shell find src)
# Besides these, the Lua bundles and the dashboard depend on what they import. Their builds write it to files that are included below.
DASHBOARD_SOURCES := $(shell find dashboard)
LUA := dist/.built/lua
JS := dist/.built/js
DASHBOARD := dist/.built/dashboard
LIBRARY := dist/.built/library

help: ## Show the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' Makefile

run: build ## Run a gateway on localhost:8080 with a demo backend
	@node dist/cli/main.js serve

quick: tools check build ## Check, then run the unit and contract tests: under two minutes
	@npm run --silent test:quick

test: tools check build ## Check, then run all tests with coverage; NODE=24 uses that Node
	@npm run --silent test

check: $(LUA) ## Check types, style, module structure and portable code
	@npm run --silent check

monitoring: $(INSTALLED) ## Write the rules, dashboards and Alertmanager configuration in monitoring/ from build/monitoring
	@node_modules/.bin/tsx build/monitoring.ts

deploy-files: $(INSTALLED) ## Write the deployment files that are derived from the values of the Helm chart
	@deploy/test/ensure-tools.sh helm
	@node_modules/.bin/tsx build/deploy-files.ts

test-monitoring: build ## Inject the fault of each alert and see it fire in a real Prometheus; ask every query of the dashboards; push to StatsD and Graphite. About 10 minutes
	@build/ensure-tools.sh
	@build/ensure-receivers.sh
	@node_modules/.bin/vitest run --config test/monitoring/vitest.config.ts

test-deploy: build ## Build the container images and test the deployment files
	@deploy/test/run.sh

test-deploy-files: build ## The part of test-deploy that runs nothing: stale files, linters, schemas, release. About 20 seconds
	@build/ensure-envoy.sh
	@deploy/test/ensure-tools.sh
	@TOLLGATE_DEPLOY_FILES_ONLY=1 node_modules/.bin/vitest run --config test/deploy/vitest.config.ts

deploy-tools: ## Build what test-deploy can also use: a Kubernetes API server, Terraform providers, linters. Takes long, once
	@deploy/test/ensure-go-tool.sh

sbom: $(INSTALLED) ## Write the CycloneDX SBOMs of the npm packages to .cache/sbom.cdx.json and .cache/sbom-limiter.cdx.json
	@build/sbom.sh .cache/sbom.cdx.json .cache/sbom-limiter.cdx.json

release: build ## Commit VERSION=1.2.3, run all checks on a clean clone of that commit, then tag it; nothing is published
	@deploy/test/ensure-tools.sh helm
	@node_modules/.bin/tsx build/release.ts prepare "$(VERSION)"

release-files: build # Write what belongs to the release TAG=v1.2.3 to .cache/release
	@deploy/test/ensure-tools.sh helm
	@node_modules/.bin/tsx build/release.ts files "$(TAG)"

scenarios: tools build ## Run all scenarios with several shards on every kind of store: half an hour
	@SCENARIOS=all node_modules/.bin/vitest run test/e2e/planes-shards.test.ts

bench: build ## Run the benchmarks; writes their part of docs/reference/performance.md. ONLY="name name" runs some
	@node_modules/.bin/tsx bench/main.ts $(ONLY)

bench-against: build ## Compare this tree with the commit REV=… in alternating rounds, on a quiet machine; ONLY="nginx gateway leases grant" selects some
	@node_modules/.bin/tsx bench/against.ts "$(REV)" $(ONLY)

screenshots: tools build ## Take the screenshots of the dashboard in docs/images again, on a quiet machine; ONLY="overview flow" selects views
	@node_modules/.bin/tsx build/screenshots.ts $(ONLY)

compare: build ## Measure Tollgate and its peers in the same scenarios; writes docs/reference/performance.md. ONLY=name measures one
	@node_modules/.bin/tsx bench/compare/main.ts $(ONLY)

docs: tools ## Build the site from docs/ into .cache/site and check it in Chromium: links, images, search, no external requests
	@test -e site/node_modules/.bin/vitepress || npm install --no-save --prefix site --no-audit --no-fund --ignore-scripts --silent
	@site/node_modules/.bin/vitepress build site
	@node_modules/.bin/tsx site/check.ts

fuzz: $(INSTALLED) ## Run the fuzz targets; SECONDS=60 each, TARGET=name, SEED=number
	@node_modules/.bin/tsx fuzz/main.ts

soak: build ## Run all planes under load with random faults; MINUTES=10, SEED=number. Needs root
	@build/ensure-tools.sh gcc
	@node_modules/.bin/tsx soak/main.ts

soak-envoy: build ## Run Envoy with a checked build of its module under random requests, resets and changes; MINUTES=10, SEED=number, VARIANT=release
	@build/ensure-tools.sh
	@node_modules/.bin/tsx soak/envoy.ts

build: $(LUA) $(JS) $(LIBRARY) $(DASHBOARD) ## Build what changed: Lua bundles, JavaScript, the library package and the dashboard in dist/

tools: $(INSTALLED)
	@build/ensure-tools.sh

clean: ## Remove everything that was generated
	rm -rf dist coverage test-results.json .cache/*.tsbuildinfo

# A stamp gets the time at which the build started, so that a file saved during the build is built again.
$(LUA): $(INSTALLED) $(LUA).d
	@mkdir -p $(@D) && touch $@.started
	@npm run --silent build:lua
	@touch -r $@.started $@.d && mv $@.started $@

$(JS): $(INSTALLED) $(JS_SOURCES)
	@mkdir -p $(@D) && touch $@.started
	@npm run --silent build:js
	@mv $@.started $@

$(LIBRARY): $(LUA) $(JS) package.json $(wildcard build/library/*)
	@touch $@.started
	@npm run --silent build:library
	@mv $@.started $@

$(DASHBOARD): $(INSTALLED) $(DASHBOARD_SOURCES) $(DASHBOARD).d
	@mkdir -p $(@D) && touch $@.started
	@npm run --silent build:dashboard
	@touch -r $@.started $@.d && mv $@.started $@

# Written by the builds. If it is missing, make builds.
$(LUA).d $(DASHBOARD).d: ;
-include $(LUA).d $(DASHBOARD).d

# Installing takes minutes, so it happens once per lock file. No package needs its install script.
$(INSTALLED): package-lock.json
	npm ci --no-audit --no-fund --ignore-scripts
	@touch $@

.cache/node-%/node_modules/$(NODE_PACKAGE)/bin/node:
	npm install --no-audit --no-fund --no-save --ignore-scripts --prefix .cache/node-$* $(NODE_PACKAGE)@$*
