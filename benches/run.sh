#!/usr/bin/env bash
# Builds in release mode, starts a throwaway PostgreSQL with the extension, and runs one of the measuring programs on it.
#
#   run.sh compare [ARGUMENT...]   beside hand-written SQL (make bench)
#   run.sh growth [ARGUMENT...]    small tables and large ones (cargo xtask bench growth)
#   run.sh bulk [ARGUMENT...]      work by filter beside batches and hand-written SQL (cargo xtask bench bulk)
#   run.sh expiry [ARGUMENT...]    a table with an expiry beside one without (cargo xtask bench expiry)
#   run.sh feeds [ARGUMENT...]     what a change feed costs (cargo xtask bench feeds)
#   run.sh indexes [ARGUMENT...]   what property indexes cost queries that gain nothing from them (cargo xtask bench indexes)
#   run.sh stress [ARGUMENT...]    one partition under load (cargo xtask bench stress); with --database-url on a database of yours
#   run.sh model                   the model alone
#
# Environment:
#   PG          the PostgreSQL major, as for the other scripts
#   COUNTED=1   indexes: instructions instead of time, which are the same on a busy machine; it needs valgrind, and an hour
set -euo pipefail

cd "$(dirname "$0")/.."
# shellcheck source=pgrx-config/env.sh
. pgrx-config/env.sh ''
program=${1:?compare, growth, bulk, expiry, feeds, indexes, stress or model}
shift

if [[ $program == model ]]; then exec cargo bench -p table_service_model "$@"; fi
pgrx-config/setup.sh "$PG"
cargo build --release -p table_service_benches --quiet
run=target/release/table-service-$program
for argument; do
  if [[ $argument == --database-url* || $argument == --help ]]; then exec "$run" "$@"; fi
done

# shellcheck source=benches/server.sh
. benches/server.sh
stay_awake
settings=(max_wal_size=8GB checkpoint_timeout=30min)

case $program in
compare)
  # Autovacuum would slow down whichever side is measured while it runs.
  comparing=("${settings[@]}" autovacuum=off)
  # The cost in CPU: nothing waits for the disk, and the table is in memory.
  start "${comparing[@]}" shared_buffers=1GB
  "$run" --json target/bench.json "$@"
  # The cost of reading: a table that is larger than shared_buffers.
  if (($# == 0)); then
    start "${comparing[@]}" shared_buffers=64MB
    "$run" --only get,insert,merge,page --clients 4 --rounds 40 --json target/bench-small-buffers.json
    # Against the service's published targets: every commit is on the disk.
    FSYNC=on start "${settings[@]}" shared_buffers=1GB synchronous_commit=on full_page_writes=on
    "$run" --service-targets --json target/bench-service.json
  fi
  ;;
growth)
  # Every table is in memory, so that growth is not hidden by waits for the disk.
  memory=$(awk '/^MemTotal/ { print int($2 / 2048) }' /proc/meminfo)
  start "${settings[@]}" shared_buffers=$((memory < 6144 ? memory : 6144))MB
  "$run" "$@"
  ;;
bulk)
  start "${settings[@]}" shared_buffers=1GB autovacuum=off
  "$run" "$@"
  ;;
expiry)
  start "${settings[@]}" shared_buffers=1GB autovacuum=off
  "$run" "$@"
  ;;
feeds)
  cargo build --release -p table_service_copy --quiet
  start "${settings[@]}" shared_buffers=1GB autovacuum=off wal_level=logical
  "$run" --copy target/release/table-service-copy "$@"
  ;;
indexes)
  # What else writes at times would count for one of the sides.
  indexes=("${settings[@]}" shared_buffers=1GB autovacuum=off)
  if [[ ${COUNTED:-} != 1 ]]; then
    start "${indexes[@]}"
    "$run" --json target/bench-indexes.json "$@"
  else
    command -v valgrind >/dev/null || {
      echo "COUNTED=1 needs valgrind: install the package valgrind" >&2
      exit 1
    }
    for order in of-keys random; do
      for statistics in fresh stale none; do
        tables=(--order "$order" --statistics "$statistics" --entities 50000 "$@")
        start "${indexes[@]}"
        "$run" --make "${tables[@]}"
        KEEP=1 pgrx-config/cluster.sh stop "$work/cluster"
        VALGRIND=callgrind pgrx-config/cluster.sh again "$work/cluster" >/dev/null
        "$run" --callgrind "$work/cluster" "${tables[@]}"
      done
    done
  fi
  ;;
stress)
  FSYNC=on start "${settings[@]}" shared_buffers=1GB synchronous_commit=on full_page_writes=on
  "$run" "$@"
  ;;
esac
