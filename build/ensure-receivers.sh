#!/bin/sh
# Makes sure that there are receivers for pushed metrics, for `make test-monitoring`: Graphite's carbon from Debian, and StatsD from npm in
# .cache/statsd-<version>.
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
