#!/usr/bin/env bash
# The gateway over HTTP beside azurite, the current emulator: requests a second, median and 99th percentile, on one connection and
# on sixteen, in turn. The ratio is ours to azurite's. The gateway's writes are durable; azurite holds its data in memory.
#
# Environment:
#   ROUNDS, SECONDS_EACH      how many rounds of how many seconds for each measurement (3 and 5)
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
FSYNC=on start shared_buffers=1GB synchronous_commit=on

target/release/table-service-gateway --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 --log warn \
  --database-url "$DATABASE_URL" >"$work/gateway" &
processes+=($!)
wait_for "$work/gateway" "listening on"
servers=(--server "ours=$(sed -n 's|^listening on http://\([^,]*\),.*|\1|p' "$work/gateway")")

if command -v npm >/dev/null; then
  # shellcheck source=tests/azurite.sh
  . tests/azurite.sh
  start_azurite "$work"
  processes+=("$azurite_pid")
  servers+=(--server "azurite=$azurite_address")
else
  echo "There is no npm here, so no azurite to compare with."
fi

target/release/table-service-http "${servers[@]}" --database-url "$DATABASE_URL" --rounds "${ROUNDS:-3}" --seconds "${SECONDS_EACH:-5}" --json ${WORK:+--work "$WORK"}
