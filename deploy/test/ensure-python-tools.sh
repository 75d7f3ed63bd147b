#!/bin/sh
# ensure-python-tools.sh NAME [OPTION…]: installs the packages of requirements/NAME.txt into .cache/deploy/python-NAME, unless they are
# there. Run its programs with that folder as PYTHONPATH. The options are passed to pip.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
list=$root/deploy/test/requirements/$1.txt
folder=$root/.cache/deploy/python-$1
shift
stamp=$(cksum <"$list")
[ ! -e "$folder/.installed" ] || [ "$(cat "$folder/.installed")" != "$stamp" ] || exit 0
python=""
for candidate in python3 /usr/bin/python3; do
  if "$candidate" -m pip --version >/dev/null 2>&1; then
    python=$candidate
    break
  fi
done
if [ -z "$python" ]; then
  echo "python3 with pip is not installed (Debian: python3-pip)" >&2
  exit 1
fi
rm -rf "$folder"
PIP_ROOT_USER_ACTION=ignore "$python" -m pip install --quiet --disable-pip-version-check --only-binary :all: --no-compile --no-deps \
  --require-hashes --target "$folder" --requirement "$list" "$@"
printf '%s' "$stamp" >"$folder/.installed"
