#!/bin/sh
# `make test-deploy`: builds the images, runs them, and checks the deployment files. Arguments are passed to vitest.
# Where a tool is unavailable it says so, and what needs it is skipped.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"

unavailable() {
  echo "*** $1 NOT AVAILABLE: $2" >&2
  echo "*** $3 is not tested." >&2
}

# step NAME COMMAND…: prints how long the command took, because some take minutes in the first run.
exec 3>&2
step() {
  name=$1 start=$(date +%s)
  shift
  "$@" || return 1
  echo "$name: $(($(date +%s) - start)) s" >&3
}

# Prints why containers cannot run here; nothing if they can.
why_no_containers() {
  if ! step "container tools" deploy/test/ensure-packages.sh >"$cache/packages.log" 2>&1; then
    tail -3 "$cache/packages.log"
  elif [ "$(id -u)" -ne 0 ]; then
    echo "buildah with chroot isolation and podman networks need root"
  elif ! step "base images" deploy/test/base-images.sh >"$cache/base-images.log" 2>&1; then
    tail -3 "$cache/base-images.log"
  else
    podman run --rm --pull=never localhost/base/debian true >"$cache/podman.log" 2>&1 || tail -3 "$cache/podman.log"
  fi
}

. "$root/deploy/test/engine.sh"
build/ensure-envoy.sh
if ! step "Helm and linters" deploy/test/ensure-tools.sh; then
  unavailable "HELM OR THE LINTERS ARE" "they could not be installed" "What they check"
  export TOLLGATE_NO_TOOLS=1
fi
TOLLGATE_NO_CONTAINERS=$(why_no_containers | tr '\n' ' ')
export TOLLGATE_NO_CONTAINERS
if [ -n "$TOLLGATE_NO_CONTAINERS" ]; then
  unavailable "CONTAINERS ARE" "$TOLLGATE_NO_CONTAINERS" "Running the images and the Compose files"
else
  step "images" deploy/test/images.sh
fi
step "arm64" build/ensure-arm64.sh || unavailable "AN EMULATOR FOR ARM64 IS" "see above" "Envoy's module for arm64"
missing=$(deploy/test/ensure-go-tool.sh --missing | tr '\n' ' ')
[ -z "$missing" ] || unavailable "TOOLS WRITTEN IN GO ARE" "run \`make deploy-tools\` once (half an hour); missing: $missing" "What needs them"
command -v terraform >/dev/null 2>&1 || unavailable "terraform IS" "install 1.9 or later" "What needs it"
exec node_modules/.bin/vitest run --config test/deploy/vitest.config.ts "$@"
