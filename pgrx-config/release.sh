#!/usr/bin/env bash
# Builds a released version of the extension and of the gateway, from the history of this repository, for the tests of upgrades.
#
#   release.sh VERSION [PG]   prints the directory that has table_service.so (for PostgreSQL PG), table-service-gateway and
#                             table_service--VERSION.sql
#
# The builds stay in the cache. sql/releases/commits says which commit a version is.
set -euo pipefail

cd "$(dirname "$0")/.."
version=${1:?usage: release.sh VERSION [PG]}
PG=${2:-${PG:-}}
# shellcheck source=pgrx-config/env.sh
. pgrx-config/env.sh ''

commit=$(sed -n "s/^$version \([0-9a-f]*\)\$/\1/p" sql/releases/commits)
[[ -n $commit ]] || {
  echo "release.sh: sql/releases/commits does not have version $version" >&2
  exit 1
}
git cat-file -e "$commit^{commit}" 2>/dev/null || {
  echo "release.sh: this clone has no commit $commit, which is version $version: git fetch --unshallow" >&2
  exit 1
}

releases=$cache/releases
built=$releases/$version-pg$PG
mkdir -p "$releases"
exec 7>"$releases/lock"
flock 7
if [[ ! -e $built/.complete ]]; then
  echo "Building version $version for PostgreSQL $PG" >&2
  rm -rf "$built" "$releases/source"
  mkdir -p "$built" "$releases/source"
  git archive "$commit" | tar x -C "$releases/source"
  # In the profile of the tests. All versions share their common parts.
  (
    cd "$releases/source"
    PGRX_PG_CONFIG_PATH=$PG_CONFIG CARGO_TARGET_DIR=$releases/target \
      cargo build --locked --quiet -p table_service --lib --no-default-features --features "pg$PG" 7>&- >&2
    CARGO_TARGET_DIR=$releases/target cargo build --locked --quiet -p table_service_gateway 7>&- >&2
  )
  cp "$releases/target/debug/libtable_service.so" "$built/table_service.so"
  cp "$releases/target/debug/table-service-gateway" sql/releases/table_service--"$version".sql "$built/"
  rm -rf "$releases/source"
  touch "$built/.complete"
fi
echo "$built"
