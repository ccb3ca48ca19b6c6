#!/usr/bin/env bash
# Builds in release mode, starts a throwaway PostgreSQL with the extension, and runs one of the measuring programs on it.
#
#   run.sh compare [ARGUMENT...]   beside hand-written SQL (make bench)
#   run.sh growth [ARGUMENT...]    small tables and large ones (make bench-growth)
#   run.sh stress [ARGUMENT...]    one partition under load (make stress); with --database-url on a database of yours
#   run.sh model                   the model alone
#
# Environment: PG, the PostgreSQL major, as for the other scripts.
set -euo pipefail

cd "$(dirname "$0")/.."
# shellcheck source=pgrx-config/env.sh
. pgrx-config/env.sh ''
program=${1:?compare, growth, stress or model}
shift

if [[ $program == model ]]; then exec cargo bench -p table_service_model "$@"; fi
pgrx-config/setup.sh "$PG"
cargo build --release -p table_service_benches --quiet
run=target/release/table-service-$program
for argument; do
  if [[ $argument == --database-url* || $argument == --help ]]; then exec "$run" "$@"; fi
done

# As root, the server needs a place that the user postgres can reach.
work=$(mktemp -d /tmp/table_service.XXXXXX)
chmod 755 "$work"
cleanup() {
  pgrx-config/cluster.sh stop "$work/cluster"
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Into a copy: the tests use builds of another kind.
cp -a "$cache/pg$PG" "$work/pg"
export PG_CONFIG=$work/pg/bin/pg_config
cargo pgrx install --release --pg-config "$PG_CONFIG" --no-default-features --features "pg$PG" >"$work/build.log" 2>&1 || {
  cat "$work/build.log" >&2
  exit 1
}

settings=(max_wal_size=8GB checkpoint_timeout=30min)
start() { # [SETTING...]: a new server, whose connection string is in DATABASE_URL
  pgrx-config/cluster.sh stop "$work/cluster" 2>/dev/null || true
  pgrx-config/cluster.sh start "$work/cluster" "${settings[@]}" "$@" >"$work/env"
  local host port
  host=$(sed -n 's/^PGHOST=//p' "$work/env")
  port=$(sed -n 's/^PGPORT=//p' "$work/env")
  export DATABASE_URL="host=$host port=$port user=postgres dbname=postgres"
  "$work/pg/bin/psql" -q "$DATABASE_URL" -c 'CREATE EXTENSION table_service'
}

case $program in
compare)
  # The CPU's part: nothing waits for the disk, the table is in memory.
  start shared_buffers=1GB
  "$run" --json target/bench.json "$@"
  # What the disk and its cache add: a table that is larger than shared_buffers.
  if (($# == 0)); then
    start shared_buffers=64MB
    "$run" --only get,insert,merge,page --clients 4 --rounds 3 --json target/bench-small-buffers.json
    # Against the service's published targets: every commit is on the disk.
    FSYNC=on start shared_buffers=1GB synchronous_commit=on full_page_writes=on
    "$run" --service-targets --json target/bench-service.json
  fi
  ;;
growth)
  # Every table is in memory: what grows is the work, not the waiting for the disk.
  memory=$(awk '/^MemTotal/ { print int($2 / 2048) }' /proc/meminfo)
  start shared_buffers=$((memory < 6144 ? memory : 6144))MB
  "$run" "$@"
  ;;
stress)
  FSYNC=on start shared_buffers=1GB synchronous_commit=on full_page_writes=on
  "$run" "$@"
  ;;
esac
