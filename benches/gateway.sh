#!/usr/bin/env bash
# The gateway over HTTP beside azurite, the current emulator, which holds its data in memory: requests a second, median and 99th
# percentile, and the CPU time of the server's process for a request, in turn. Our server runs twice: with durable commits, and with
# synchronous_commit = off, which is the fair comparison with memory. The ratio is to azurite.
#
# Environment:
#   ROUNDS, SECONDS_EACH      how many rounds of how many seconds for each measurement (3 and 3)
#   CONNECTIONS               numbers of connections (1,16,64,256)
#   WORK                      only this: insert, get, find, replace, page or batch
#   PG                        the PostgreSQL major, as for the other scripts
set -euo pipefail

cd "$(dirname "$0")/.."
# shellcheck source=pgrx-config/env.sh
. pgrx-config/env.sh ''
pgrx-config/setup.sh "$PG"
# shellcheck source=benches/server.sh
. benches/server.sh
cargo build --release --quiet -p table_service_gateway -p table_service_benches --bin table-service-gateway --bin table-service-http
# Autovacuum would slow down whichever server is measured while it runs.
FSYNC=on start shared_buffers=1GB synchronous_commit=on autovacuum=off

# gateway NAME URL: our server under this name, for this database
gateway() {
  target/release/table-service-gateway --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 --log warn --database-url "$2" >"$work/$1" &
  processes+=($!)
  wait_for "$work/$1" "listening on"
  servers+=(--server "$1=$(sed -n 's|^listening on http://\([^,]*\),.*|\1|p' "$work/$1"),$!" --database-url "$2")
}
servers=()
"$work/pg/bin/psql" -q "$DATABASE_URL" -c 'CREATE DATABASE memory' -c '\connect memory' -c 'CREATE EXTENSION table_service'
gateway ours "$DATABASE_URL"
gateway no-sync "${DATABASE_URL%/*}/memory?options=-c%20synchronous_commit%3Doff"

if command -v npm >/dev/null; then
  # shellcheck source=tests/azurite.sh
  . tests/azurite.sh
  start_azurite "$work"
  processes+=("$azurite_pid")
  servers+=(--server "azurite=$azurite_address,$azurite_pid")
else
  echo "There is no npm here, so no azurite to compare with."
fi

target/release/table-service-http "${servers[@]}" --connections "${CONNECTIONS:-1,16,64,256}" --rounds "${ROUNDS:-3}" \
  --seconds "${SECONDS_EACH:-3}" --json ${WORK:+--work "$WORK"}
