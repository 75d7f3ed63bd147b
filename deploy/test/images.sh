#!/bin/sh
# images.sh [NAME…]: builds the images of Tollgate on the stand-ins of base-images.sh: tollgate, tollgate-alpine, tollgate-nginx and
# tollgate-envoy, by default all, as localhost/NAME:$TAG (default: test). Layers are cached, so that only changed steps are repeated; OPTIONS=--no-cache
# repeats all.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/deploy/test/engine.sh"
cd "$root"

node_version=$(sed -n 's/^ARG NODE_IMAGE=node:\([0-9.]*\)-.*/\1/p' deploy/docker/Dockerfile)
version=$(node -p 'require("./package.json").version')

# build NAME TARGET DOCKERFILE NODE_IMAGE
build() {
  # shellcheck disable=SC2086 # one word per option
  buildah bud --quiet --format docker --pull-never --layers ${OPTIONS:-} --timestamp 1700000000 --target "$2" -t "localhost/$1:${TAG:-test}" \
    --build-arg "NODE_IMAGE=$4" --build-arg ENVOY_IMAGE=localhost/base/envoy \
    --build-arg "VERSION=$version" --build-arg "REVISION=$(git rev-parse HEAD)" \
    -f "deploy/docker/$3" . >"$cache/build-$1.log" 2>&1 || {
    tail -40 "$cache/build-$1.log" >&2
    exit 1
  }
}

node=localhost/base/node:$node_version
for name in ${*:-tollgate tollgate-alpine tollgate-nginx tollgate-envoy}; do
  case "$name" in
    tollgate) build "$name" service Dockerfile "$node" ;;
    tollgate-alpine) build "$name" service Dockerfile.alpine localhost/base/alpine ;;
    tollgate-nginx) build "$name" nginx Dockerfile "$node" ;;
    tollgate-envoy) ! podman image exists localhost/base/envoy || build "$name" envoy Dockerfile "$node" ;;
  esac
done
podman images --filter "reference=localhost/tollgate*:${TAG:-test}" --format '{{.Repository}} {{.Size}}'
