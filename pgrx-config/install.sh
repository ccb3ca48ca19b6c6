#!/usr/bin/env bash
# Builds the extension and installs it into the PostgreSQL that PG_CONFIG belongs to. The install script is the committed one, so
# cargo-pgrx is not needed.
#
#   install.sh PG_CONFIG
#
# Environment: PROFILE, cargo's profile (default: release); ALSO, a package of the workspace to build in the same run of cargo, which
# takes less time than a second run.
set -euo pipefail

cd "$(dirname "$0")/.."
target=$(command -v "${1:-pg_config}") || {
  echo "There is no '${1:-pg_config}'. Say which server: make install PG_CONFIG=/path/to/pg_config" >&2
  exit 1
}
version=$("$target" --version)
[[ $version =~ ^PostgreSQL\ ([0-9]+) ]]
PG=${BASH_REMATCH[1]}
# shellcheck source=pgrx-config/env.sh
. pgrx-config/env.sh ''
pgrx-config/setup.sh tools

headers=$("$target" --includedir-server)
[[ -e $headers/postgres.h ]] || {
  echo "$version has no server headers in $headers; on Debian: apt-get install postgresql-server-dev-$PG" >&2
  exit 1
}

echo "Building the extension for $version"
profile=${PROFILE:-release}
PGRX_PG_CONFIG_PATH=$target cargo build --profile "$profile" --lib --bins -p table_service ${ALSO:+-p "$ALSO"} \
  --no-default-features --features "pg$PG,pgrx/no-schema-generation"

libraries=$("$target" --pkglibdir)
extensions=$("$target" --sharedir)/extension
as_root=()
for directory in "$libraries" "$extensions"; do
  [[ -w $directory || $EUID -eq 0 ]] || as_root=(sudo)
done
built=${CARGO_TARGET_DIR:-target}/${profile/#dev/debug}
"${as_root[@]}" packaging/extension.sh "$built/libtable_service.so" "$libraries" "$extensions"
echo "Installed. In a database of that server: CREATE EXTENSION table_service;"
