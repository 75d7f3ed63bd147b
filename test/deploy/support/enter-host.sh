#!/bin/sh
# enter-host.sh FOLDER … /bin/sh ARGUMENT…: runs the shell on the host of the tests whose /etc, /opt and /run are in the folder. Ansible
# calls it instead of sudo, with options before the shell. $ENVOY is installed there.
set -eu
host=$1
while [ "$1" != /bin/sh ]; do shift; done
export UNITS_STATE="$host/state" PATH="/opt/bin:$PATH"
# shellcheck disable=SC2016 # expanded by the shell in the namespace
exec unshare --mount sh -euc '
  for folder in etc opt run; do mount --bind "$0/$folder" "/$folder"; done
  mount --bind "$ENVOY" /opt/bin/envoy
  exec "$@"
' "$host" "$@"
