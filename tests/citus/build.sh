#!/usr/bin/env bash
# Builds Citus into the private PostgreSQL, from a source that the user has: Citus has another licence, so it is neither in this
# repository nor fetched.
#
#   build.sh SOURCE     SOURCE is a directory or a tar of Citus 14, for example the tar that GitHub serves for v14.0.1
#
# Environment: PG_CONFIG
set -euo pipefail

cd "$(dirname "$0")/../.."
pg_config=$PG_CONFIG
# shellcheck source=pgrx-config/env.sh
. pgrx-config/env.sh ''
source=$(realpath "$1")
[[ -e $source ]] || {
  echo "There is no source of Citus in $source" >&2
  exit 1
}
stamp="$source $(stat -c '%s %Y' "$source") $("$pg_config" --version)"
library=$("$pg_config" --pkglibdir)/citus.so
built=$("$pg_config" --sharedir)/citus.built
if [[ -e $library && $(cat "$built" 2>/dev/null) == "$stamp" ]]; then exit; fi

work=$cache/build-citus
rm -rf "$work"
mkdir -p "$work/source"
if [[ -d $source ]]; then
  cp -r "$source/." "$work/source/"
else
  tar xf "$source" -C "$work/source"
  # The tar of a release has one directory.
  inner=("$work"/source/*)
  if ((${#inner[@]} == 1)); then
    mv "${inner[0]}" "$work/unpacked"
    rm -rf "$work/source"
    mv "$work/unpacked" "$work/source"
  fi
fi
echo "Building Citus (3 minutes; its output is in $work/log)"
# PostgreSQL's makefiles leave out their first steps when another make has called them.
unset MAKELEVEL MAKEFLAGS MFLAGS MAKEOVERRIDES
(
  cd "$work/source"
  # Or make might make it again, with autoconf: copies and clones have files of any age.
  touch configure
  ./configure PG_CONFIG="$pg_config" --without-libcurl --without-lz4 --without-zstd &&
    make -j"$(nproc)" extension &&
    make install-extension
) >"$work/log" 2>&1 || {
  tail -n 20 "$work/log" >&2
  echo "Citus could not be built." >&2
  exit 1
}
echo "$stamp" >"$built"
rm -rf "$work"
