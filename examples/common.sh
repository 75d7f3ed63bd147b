# Sourced by the run.sh of each example: starts programs in the background and ends them together.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ -e dist/cli/main.js ] || make build
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
trap 'exit 0' INT TERM

# start COMMAND…: in the background; what it prints goes to the terminal.
start() { "$@" & }

# ready URL…: waits until each service has reached its store.
ready() {
  for url in "$@"; do
    until curl --silent --fail --output /dev/null "$url/health/ready"; do
      sleep 0.1
      [ -n "$(jobs -pr)" ] || exit 1
    done
  done
}

# running TEXT: shown at the end of the start. Then waits for Ctrl-C, or until a program ends.
running() {
  printf '%s\nPress Ctrl-C to stop.\n' "$1"
  wait -n
  echo "a program has ended; stopping the others" >&2
  exit 1
}
