#!/bin/sh
# Removes JavaScript and type declarations from dist/ whose source file no longer exists. tsc never deletes its output.
set -eu
cd "$(dirname "$0")/.."

find dist -path dist/lua -prune -o -path dist/dashboard -prune -o -path dist/library -prune -o \( -name '*.js' -o -name '*.d.ts' \) -print | while read -r file; do
  source="src/${file#dist/}"
  source="${source%.js}"
  source="${source%.d.ts}.ts"
  [ -e "$source" ] || rm "$file"
done
# BusyBox has no -delete.
find dist -depth -type d -empty -exec rmdir {} \;
