#!/bin/sh
# Builds the images of Tollgate on the stand-ins of base-images.sh: localhost/tollgate, -nginx and -envoy, with the tag "test".
# Layers are cached, so that only changed steps are repeated.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/deploy/test/engine.sh"
cd "$root"

node_version=$(sed -n 's/^ARG NODE_IMAGE=node:\([0-9.]*\)-.*/\1/p' deploy/docker/Dockerfile)
version=$(node -p 'require("./package.json").version')
targets="service nginx"
! podman image exists localhost/base/envoy || targets="$targets envoy"
for target in $targets; do
  name=localhost/tollgate-$target:test
  [ "$target" != service ] || name=localhost/tollgate:test
  buildah bud --quiet --format docker --pull-never --layers --timestamp 1700000000 --target "$target" -t "$name" \
    --build-arg "NODE_IMAGE=localhost/base/node:$node_version" --build-arg ENVOY_IMAGE=localhost/base/envoy \
    --build-arg "VERSION=$version" --build-arg "REVISION=$(git rev-parse HEAD)" \
    -f deploy/docker/Dockerfile . >"$cache/build-$target.log" 2>&1 || {
    tail -40 "$cache/build-$target.log" >&2
    exit 1
  }
done
podman images --filter reference=localhost/tollgate* --format '{{.Repository}} {{.Size}}'
