#!/bin/sh
# Builds Envoy's dynamic module, libtollgate.so, and prints its folder. LuaJIT is part of it; its sources come from the PyPI
# source package lupa, whose hash must be listed in wheels.txt. Needs gcc, make and python3. Builds only what changed.
# Builds of the same sources with the same compiler have the same bytes, wherever they run.
#   build/envoy-module.sh             .cache/envoy-module/release/libtollgate.so: optimised and stripped
#   build/envoy-module.sh amd64       .cache/envoy-module/amd64/libtollgate.so: the same for x86-64; on another machine by a
#   build/envoy-module.sh arm64       cross compiler, which build/ensure-tools.sh installs (gcc-aarch64-linux-gnu)
#   build/envoy-module.sh checked     .cache/envoy-module/checked/libtollgate.so: ends Envoy at undefined behaviour, and at an access outside
#                                     of a block of memory or to one that was released. The address sanitizer is not possible: a
#                                     released Envoy crashes when libasan is preloaded
# TOLLGATE_MODULE_CACHE=FOLDER builds everything in FOLDER instead of .cache.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
variant=${1:-release}
lupa=2.8
source=$root/src/planes/envoy/module
cache=${TOLLGATE_MODULE_CACHE:-$root/.cache}
folder=$cache/envoy-module/$variant

case "$(uname -m)" in
  x86_64) machine=amd64 ;;
  aarch64) machine=arm64 ;;
  *) machine=$(uname -m) ;;
esac
target=$machine
flags="-O2"
guard="" # the allocator of "checked"
case "$variant" in
  release) ;;
  amd64 | arm64) target=$variant ;;
  checked)
    flags="-O1 -g -fsanitize=undefined -fno-sanitize-recover=undefined -static-libubsan"
    for function in malloc calloc realloc free strndup; do flags="$flags -D$function=guarded_$function"; done
    guard=$root/test/support/module/guarded-allocation.c
    ;;
  *)
    echo "build/envoy-module.sh: unknown variant \"$variant\"" >&2
    exit 2
    ;;
esac

cross=""
luajit=$cache/luajit/$lupa
if [ "$target" != "$machine" ]; then
  case "$target" in
    arm64) cross=aarch64-linux-gnu- compiler=gcc-aarch64-linux-gnu ;;
    *) cross=x86_64-linux-gnu- compiler=gcc-x86-64-linux-gnu ;;
  esac
  luajit=$luajit-$target
  command -v "${cross}gcc" >/dev/null 2>&1 || build/ensure-tools.sh "$compiler" >&2
fi

# LuaJIT: position-independent, and with hidden symbols, because Envoy exports a Lua of its own.
if [ ! -e "$luajit/src/libluajit.a" ]; then
  new=$(mktemp -d "${TMPDIR:-/tmp}/tollgate-luajit.XXXXXX")
  trap 'rm -rf "$new"' EXIT
  # Not by pip: it would first build what lupa itself needs.
  python3 - "${PIP_INDEX_URL:-https://pypi.org/simple}/lupa/" "lupa-$lupa.tar.gz" "$new" <<'END'
import re, sys, urllib.parse, urllib.request
index, name, folder = sys.argv[1:]
page = urllib.request.urlopen(index, timeout=60).read().decode()
link = re.search('href="([^"#]*/' + re.escape(name) + ')[#"]', page)
if link is None: sys.exit(index + " has no " + name)
urllib.request.urlretrieve(urllib.parse.urljoin(index, link[1]), folder + "/" + name)
END
  expected=$(sed -n "/^lupa==$lupa /,/[^\\\\]\$/s/.*--hash=sha256:\([0-9a-f]*\).*/\1/p" build/wheels.txt)
  echo "$expected  $new/lupa-$lupa.tar.gz" | sha256sum --check --quiet >&2
  tar -xzf "$new/lupa-$lupa.tar.gz" -C "$new"
  # Programs of the build run on this machine, so the host compiler is named, too. -g0: no paths.
  make --silent -C "$new/lupa-$lupa/third-party/luajit21/src" libluajit.a BUILDMODE=static HOST_CC=gcc CROSS="$cross" \
    TARGET_SYS=Linux CFLAGS="-g0 -fPIC -fvisibility=hidden -ffile-prefix-map=$new=." >&2
  mkdir -p "$(dirname "$luajit")"
  rm -rf "$luajit"
  mv "$new/lupa-$lupa/third-party/luajit21" "$luajit"
fi

# shellcheck disable=SC2086 # empty or one word
newest() { find "$source" $guard "$root/build/envoy-module.sh" "$luajit/src/libluajit.a" -type f -newer "$1" | head -n 1; }
if [ ! -e "$folder/libtollgate.so" ] || [ -n "$(newest "$folder/libtollgate.so")" ]; then
  mkdir -p "$folder"
  [ -z "$guard" ] || gcc -std=c11 -O1 -g -Wall -Wextra -Werror -fPIC -fvisibility=hidden -c -o "$folder/guard.o" "$guard"
  # shellcheck disable=SC2086 # one word per flag
  (cd "$source" && "${cross}gcc" -std=c11 $flags -Wall -Wextra -Werror -fPIC -fvisibility=hidden -ffile-prefix-map="$source"=. \
    -I"$luajit/src" -shared -o "$folder/libtollgate.so.$$" *.c ${guard:+"$folder/guard.o"} \
    "$luajit/src/libluajit.a" -Wl,--exclude-libs,ALL -Wl,-Bsymbolic -Wl,--build-id=none -static-libgcc -lm -ldl -pthread)
  case "$variant" in release | amd64 | arm64) "${cross}strip" "$folder/libtollgate.so.$$" ;; esac
  mv "$folder/libtollgate.so.$$" "$folder/libtollgate.so"
fi
echo "$folder"
