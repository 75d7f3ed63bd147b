#!/bin/sh
# sbom.sh FILE: writes the CycloneDX SBOM of the npm package: its dependencies as in the lock file, without those for development.
set -eu
cd "$(dirname "$0")/.."
version=6.0.1
tool=.cache/cyclonedx-$version
[ -e "$tool/node_modules/@cyclonedx/cyclonedx-npm/package.json" ] ||
  npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$tool" "@cyclonedx/cyclonedx-npm@$version"
"$tool/node_modules/.bin/cyclonedx-npm" --package-lock-only --omit dev --output-reproducible --output-format JSON --spec-version 1.6 \
  --output-file "$1"
