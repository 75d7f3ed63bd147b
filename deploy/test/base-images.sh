#!/bin/sh
# Makes stand-ins for the base images of the Dockerfile and for third-party images of the Compose files, because the tests have
# no registry:
#   localhost/base/debian   a minimal Debian
#   localhost/base/node     the same with npm and the Node version of the Dockerfile, laid out like node:…-slim
#   localhost/base/alpine   Node built for musl, with BusyBox
#   localhost/base/envoy    Envoy in /usr/local/bin
#   localhost/standin/…     Redis and others, see stand-ins.Dockerfile
# Everything is kept in .cache/deploy; a second run does nothing.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/deploy/test/engine.sh"

suite=bookworm
node_version=$(sed -n 's/^ARG NODE_IMAGE=node:\([0-9.]*\)-.*/\1/p' "$root/deploy/docker/Dockerfile")

make_debian() {
  folder=$cache/debian
  rm -rf "$folder"
  debootstrap --variant=minbase --include=ca-certificates "$suite" "$folder" http://deb.debian.org/debian \
    >"$cache/debootstrap.log" 2>&1 || {
    tail -5 "$cache/debootstrap.log" >&2
    exit 1
  }
  rm -rf "$folder/var/cache/apt" "$folder/var/lib/apt/lists" "$folder/var/log" "$folder/usr/share/doc" \
    "$folder/usr/share/man" "$folder/usr/share/locale"
  mkdir -p "$folder/var/cache/apt/archives/partial" "$folder/var/lib/apt/lists/partial" "$folder/var/log"
  # The certificates that this machine trusts: npm and apt may reach their servers through a proxy.
  cp /etc/ssl/certs/ca-certificates.crt "$folder/etc/ssl/certs/ca-certificates.crt"
  cat >"$folder/etc/apt/sources.list" <<EOF
deb http://deb.debian.org/debian $suite main
deb http://deb.debian.org/debian $suite-updates main
deb http://deb.debian.org/debian-security $suite-security main
EOF
  tar -cC "$folder" -f "$cache/debian.tar.new" .
  mv "$cache/debian.tar.new" "$cache/debian.tar"
  rm -rf "$folder"
}

make_node() {
  folder=$cache/node
  rm -rf "$folder"
  mkdir -p "$folder"
  tar -xC "$folder" -f "$cache/debian.tar"
  package=node-linux-$(node -p process.arch)
  npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$cache/node-$node_version" "$package@$node_version"
  mkdir -p "$folder/usr/local/lib/node_modules"
  cp "$cache/node-$node_version/node_modules/$package/bin/node" "$folder/usr/local/bin/node"
  cp -r "$(npm root --global)/npm" "$folder/usr/local/lib/node_modules/npm"
  ln -s ../lib/node_modules/npm/bin/npm-cli.js "$folder/usr/local/bin/npm"
  chroot "$folder" sh -c 'groupadd --gid 1000 node && useradd --uid 1000 --gid node --shell /bin/bash --create-home node'
  tar -cC "$folder" . | podman import -q --change ENV=NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt - \
    "localhost/base/node:$node_version" >/dev/null
  rm -rf "$folder"
}

# stand_in TARGET NAME FOLDER: builds a target of stand-ins.Dockerfile with the files of the folder.
stand_in() {
  podman image exists "$2" || buildah bud --quiet --format docker --pull-never --layers --target "$1" -t "$2" \
    -f "$root/deploy/test/stand-ins.Dockerfile" "$3" >/dev/null
}

[ -e "$cache/debian.tar" ] || make_debian
podman image exists localhost/base/debian || podman import -q "$cache/debian.tar" localhost/base/debian >/dev/null
podman image exists "localhost/base/node:$node_version" || make_node
mkdir -p "$cache/empty"
for name in redis prometheus alertmanager; do stand_in "$name" "localhost/standin/$name" "$cache/empty"; done
if ! podman image exists localhost/base/alpine; then
  "$root/deploy/test/ensure-python-tools.sh" alpine --platform "musllinux_1_2_$(uname -m)"
  stand_in node-alpine localhost/base/alpine "$cache/python-alpine"
fi
# The newest one.
envoy=${TOLLGATE_ENVOY:-$(ls "$root"/.cache/envoy/*/envoy/_bin/envoy 2>/dev/null | sort -V | tail -n 1 || true)}
if [ -n "$envoy" ] && ! podman image exists localhost/base/envoy; then
  mkdir -p "$cache/envoy"
  cp -L "$envoy" "$cache/envoy/envoy"
  stand_in envoy localhost/base/envoy "$cache/envoy"
  rm -f "$cache/envoy/envoy"
fi
