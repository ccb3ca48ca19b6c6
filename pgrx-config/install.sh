#!/usr/bin/env bash
# Installs the extension, in release mode, into the PostgreSQL that PG_CONFIG belongs to.
#
#   install.sh PG_CONFIG
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

as_root=()
for place in "$("$target" --pkglibdir)" "$("$target" --sharedir)/extension"; do
  [[ -w $place ]] || as_root=(--sudo)
done

echo "Building the extension for $version"
# Against that server's own headers, whatever pgrx has been set up with.
PGRX_PG_CONFIG_PATH=$target cargo pgrx install --release --pg-config "$target" \
  --no-default-features --features "pg$PG" "${as_root[@]}"
echo "Installed. In a database of that server: CREATE EXTENSION table_service;"
