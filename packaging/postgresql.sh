#!/usr/bin/env bash
# Builds the PostgreSQL that the emulator brings along in its packages for Python and Node.js, and prints where it is.
# It needs only the C library of the system that it runs on, and finds its files in any directory.
#
#   postgresql.sh [-O1]   into a directory of the cache, once; -O1 takes less time to build, and is not for releases
#
# The source is Debian's, as for `make setup`. packaging/build.sh calls this when the build tools are installed.
set -euo pipefail

cd "$(dirname "$0")/.."
# shellcheck source=pgrx-config/env.sh
. pgrx-config/env.sh ''
major=18
tree=$cache/emulator-pg$major${1:-}
work=$cache/build-emulator-pg$major${1:-}
log=$work.log
say() { echo "$*" >&2; }
die() {
  printf 'postgresql.sh: %s\n' "$1" >&2
  if (($# > 1)); then printf '%s\n' "${@:2}" >&2; fi
  exit 1
}
# shellcheck source=pgrx-config/source.sh
. pgrx-config/source.sh

# Parts for the packages, and for the compilation of the extension. The others would take two fifths of the time.
parts=(src/backend src/backend/snowball src/backend/replication/pgoutput src/pl/plpgsql/src src/interfaces/libpq src/bin/initdb src/bin/pg_config
  src/timezone src/include)
# Another set of options is another build.
options=(--prefix="$tree" --without-icu --without-readline --without-zlib --without-llvm --disable-rpath CFLAGS="${1:--O2}"
  "LDFLAGS_EX=-Wl,-rpath,'\$\$ORIGIN/../lib'")
stamp=$(printf '%s\n' "${options[@]}" "${parts[@]}" | sha256sum | cut -c1-16)
mkdir -p "$cache"
exec 9>"$tree.lock"
flock 9
if [[ $(cat "$tree/.complete" 2>/dev/null) == "$stamp" ]]; then
  echo "$tree"
  exit
fi
fetch_source "$major"
say "Building the emulator's PostgreSQL $major (3 minutes or so; its output is in $log)"
build() {
  local part
  ./configure "${options[@]}" && make -C src/backend generated-headers || return
  for part in "${parts[@]}"; do
    make -j"$(nproc)" -C "$part" && make -C "$part" install DESTDIR="$work/installed" || return
  done
  install -m 644 COPYRIGHT "$work/installed$tree/COPYRIGHT"
}
build >"$log" 2>&1 || {
  tail -n 20 "$log" >&2
  die "PostgreSQL $major could not be built."
}
# The stamp comes last: an interrupted build is none.
rm -rf "$tree"
mv "$work/installed$tree" "$tree"
echo "$stamp" >"$tree/.complete"
rm -rf "$work" "$log"
echo "$tree"
