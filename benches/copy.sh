#!/usr/bin/env bash
# Copies of a million entities: from a file into a database beside \copy of the same lines into a jsonb table, in turn; and out of
# the gateway over REST. Prints entities a second, the ratio to \copy, and the program's largest resident memory.
#
# Environment:
#   ENTITIES, ROUNDS          how many entities, how many rounds (1000000 and 3)
#   PG                        the PostgreSQL major, as for the other scripts
set -euo pipefail

cd "$(dirname "$0")/.."
: "${ENTITIES:=1000000}" "${ROUNDS:=3}"
# shellcheck source=pgrx-config/env.sh
. pgrx-config/env.sh ''
pgrx-config/setup.sh "$PG"
# shellcheck source=benches/server.sh
. benches/server.sh
stay_awake
cargo build --release --quiet -p table_service_gateway -p table_service_copy
start shared_buffers=1GB max_wal_size=8GB checkpoint_timeout=30min autovacuum=off

sql() { "$PGBIN/psql" -qAtX -v ON_ERROR_STOP=1 "$DATABASE_URL" "$@"; }
now() { date +%s.%N; }

# program ARGUMENT...: runs the copy; sets `seconds`, and `memory` in MB.
program() {
  local begin status=0 pid kilobytes
  begin=$(now)
  target/release/table-service-copy "$@" --quiet >/dev/null 2>"$work/copy.log" &
  pid=$!
  memory=0
  while kilobytes=$(awk '/^VmHWM/ { print $2 }' "/proc/$pid/status" 2>/dev/null) && [[ -n $kilobytes ]]; do
    memory=$((kilobytes / 1024))
    sleep 0.05
  done
  wait "$pid" || status=$?
  seconds=$(awk -v begin="$begin" -v end="$(now)" 'BEGIN { print end - begin }')
  ((status == 0)) || {
    cat "$work/copy.log" >&2
    exit 1
  }
}

rate() { awk -v entities="$ENTITIES" -v seconds="$1" 'BEGIN { printf "%d", entities / seconds }'; }

# Lines that PostgreSQL's CSV reads as one column each.
sql -c "COPY (SELECT json_build_object('PartitionKey', 'customer-' || n % 1000, 'RowKey', lpad(n::text, 9, '0'), 'Name', 'Name ' || n,
  'Age', n % 90, 'Email', 'user' || n || '@example.com', 'Active', n % 2 = 0, 'Score', n * 1.25)
  FROM generate_series(1, $ENTITIES) AS n) TO STDOUT" >"$work/Orders.jsonl"

for ((round = 1; round <= ROUNDS; round++)); do
  sql -c "DROP TABLE IF EXISTS lines; CREATE TABLE lines (entity jsonb); SELECT table_service.delete_table('Orders', if_exists => true)" >/dev/null
  begin=$(now)
  sql -c "\\copy lines FROM '$work/Orders.jsonl' WITH (FORMAT csv, QUOTE E'\\x01', DELIMITER E'\\x02')"
  hand=$(awk -v begin="$begin" -v end="$(now)" 'BEGIN { print end - begin }')
  program --from "$work/Orders.jsonl" --to "$DATABASE_URL"
  printf 'into a database: %s entities/s, \\copy %s, ratio %s, %s MB\n' "$(rate "$seconds")" "$(rate "$hand")" \
    "$(awk -v ours="$seconds" -v hand="$hand" 'BEGIN { printf "%.2f", hand / ours }')" "$memory"
done

program --from "$DATABASE_URL" --to "$work/out"
printf 'out of a database, to a file: %s entities/s, %s MB\n' "$(rate "$seconds")" "$memory"
target/release/table-service-gateway --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 --log warn \
  --database-url "$DATABASE_URL" >"$work/gateway" &
processes+=($!)
wait_for "$work/gateway" "listening on"
address=$(sed -n 's|^listening on http://\([^,]*\),.*|\1|p' "$work/gateway")
emulator="UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://$address"
for ((round = 1; round <= ROUNDS; round++)); do
  program --from "$emulator" --to - --table Orders
  printf 'over REST, to standard output: %s entities/s, %s MB\n' "$(rate "$seconds")" "$memory"
done
