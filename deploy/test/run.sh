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

# Prints why containers cannot run here; nothing if they can.
why_no_containers() {
  if ! deploy/test/ensure-packages.sh >"$cache/packages.log" 2>&1; then
    tail -3 "$cache/packages.log"
  elif [ "$(id -u)" -ne 0 ]; then
    echo "buildah with chroot isolation and podman networks need root"
  elif ! deploy/test/base-images.sh >"$cache/base-images.log" 2>&1; then
    tail -3 "$cache/base-images.log"
  else
    podman run --rm --pull=never localhost/base/debian true >"$cache/podman.log" 2>&1 || tail -3 "$cache/podman.log"
  fi
}

. "$root/deploy/test/engine.sh"
build/ensure-envoy.sh
if ! deploy/test/ensure-tools.sh; then
  unavailable "HELM OR THE LINTERS ARE" "they could not be installed" "What they check"
  export TOLLGATE_NO_TOOLS=1
fi
TOLLGATE_NO_CONTAINERS=$(why_no_containers | tr '\n' ' ')
export TOLLGATE_NO_CONTAINERS
if [ -n "$TOLLGATE_NO_CONTAINERS" ]; then
  unavailable "CONTAINERS ARE" "$TOLLGATE_NO_CONTAINERS" "Running the images and the Compose files"
else
  deploy/test/images.sh
fi
for tool in actionlint kube-score kubectl kube-apiserver; do
  [ -x "$cache/bin/$tool" ] || unavailable "$tool IS" "run \`make deploy-tools\` once (15 minutes and more)" "What needs it"
done
exec node_modules/.bin/vitest run --config test/deploy/vitest.config.ts "$@"
