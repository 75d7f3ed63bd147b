#!/bin/sh
# Makes sure that the container tools from Debian are installed: buildah, podman with runc, debootstrap, and etcd for a
# Kubernetes API server.
# Installs with apt-get when run as root, otherwise prints the command to run and fails.
set -eu

missing=""
for pair in buildah:buildah podman:podman runc:runc debootstrap:debootstrap etcd-server:etcd iptables:iptables \
  netavark:/usr/lib/podman/netavark aardvark-dns:/usr/lib/podman/aardvark-dns; do
  command -v "${pair#*:}" >/dev/null 2>&1 || missing="$missing ${pair%%:*}"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "Container tools are missing. Install them with:" >&2
  echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends$missing" >&2
  exit 1
fi
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
