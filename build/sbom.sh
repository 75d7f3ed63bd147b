#!/bin/sh
# sbom.sh FILE [LIBRARY_FILE]: writes the CycloneDX SBOMs of the npm packages: dependencies as in the lock file, without those for development.
set -eu
cd "$(dirname "$0")/.."
version=6.0.1
tool=$PWD/.cache/cyclonedx-$version
[ -e "$tool/node_modules/@cyclonedx/cyclonedx-npm/package.json" ] ||
  npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$tool" "@cyclonedx/cyclonedx-npm@$version"

sbom() {
  "$tool/node_modules/.bin/cyclonedx-npm" --package-lock-only --omit dev --output-reproducible --output-format JSON --spec-version 1.6 \
    --output-file "$1" "$2"
}

sbom "$1" package.json
[ $# -gt 1 ] || exit 0
node_modules/.bin/tsx build/library/lock.ts .cache/library-lock
sbom "$2" .cache/library-lock/package.json
