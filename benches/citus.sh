#!/usr/bin/env bash
# Distributed tables beside plain ones, in turn: a Citus cluster of three servers on this machine, and a plain server. Transactions a
# second of pgbench with durable commits: on the plain server, through the coordinator, and through the worker that has the shards.
#
#   citus.sh SOURCE     the source of Citus, see tests/citus/build.sh
#
# Environment:
#   ROUNDS, SECONDS_EACH      how many rounds of how many seconds for each measurement (5 and 3)
#   CLIENTS                   how many clients (8)
#   PG                        the PostgreSQL major, 16 to 18
set -euo pipefail

cd "$(dirname "$0")/.."
: "${ROUNDS:=5}" "${SECONDS_EACH:=3}" "${CLIENTS:=8}"
# shellcheck source=pgrx-config/env.sh
. pgrx-config/env.sh ''
pgrx-config/setup.sh "$PG"
PG_CONFIG=$cache/pg$PG/bin/pg_config tests/citus/build.sh "${1:?the source of Citus}"
# shellcheck source=benches/server.sh
. benches/server.sh
stay_awake
export FSYNC=on
start full_page_writes=on shared_buffers=64MB wal_level=logical
# shellcheck source=tests/citus/cluster.sh
. tests/citus/cluster.sh
PGBIN=$work/pg/bin
citus=$work/citus
mkdir -m 755 "$citus"
trap 'stop_citus "$citus"; cleanup' EXIT
start_citus "$citus" tables postgres

declare -A servers=([plain]=$work/cluster [coordinator]=$citus/cluster [worker]=$citus/worker1)

citus_database=postgres sql "${servers[plain]}" "CREATE DATABASE tables ENCODING 'UTF8' TEMPLATE template0"
sql "${servers[plain]}" "CREATE EXTENSION table_service"

# A hundred partitions of a thousand entities.
for server in plain coordinator; do
  sql "${servers[$server]}" "SELECT table_service.create_table('Bench')" \
    "SELECT count(*) FROM generate_series(0, 99) AS p, LATERAL (SELECT table_service.execute_batch('Bench', 'p' || p, VARIADIC
       (SELECT array_agg(table_service.batch_insert(lpad((b * 100 + r)::text, 6, '0'), jsonb_build_object('Name', 'Name ' || r, 'Age', r % 90,
       'Email', 'user' || r || '@example.com', 'Active', r % 2 = 0, 'Score', r * 1.25))) FROM generate_series(0, 99) AS r)) FROM generate_series(0, 9) AS b) AS t" \
    'VACUUM ANALYZE table_service_data."Bench"' >/dev/null
done
# All sides use the partitions of one worker.
partitions=$(sql "${servers[coordinator]}" "SELECT array_agg('p' || p) FROM generate_series(0, 99) AS p
  JOIN citus_shards ON shardid = get_shard_id_for_distribution_column('table_service_data.\"Bench\"', 'p' || p)
  WHERE table_name = 'table_service_data.\"Bench\"'::regclass AND nodeport = $(port_of "$citus/worker1")")
count=$(tr -cd , <<<"$partitions" | wc -c)

script() {
  {
    echo "\\set p random(1, $((count + 1)))"
    echo '\set r random(0, 999)'
    echo '\set new random(1000000, 9000000000000000)'
    cat
  } >"$work/$1.pgbench"
}
partition="('$partitions'::text[])[:p]"
script "read an entity" <<<"SELECT * FROM get_entity('Bench', $partition, lpad(:r::text, 6, '0'));"
script "insert an entity" <<<"SELECT insert_entity('Bench', $partition, :new::text, '{\"Name\": \"x\", \"Age\": 1}');"
script "merge an entity" <<<"SELECT merge_entity('Bench', $partition, lpad(:r::text, 6, '0'), '{\"Age\": 2}', '*');"
script "batch of 100" <<<"SELECT count(*) FROM execute_batch('Bench', $partition, VARIADIC ARRAY(SELECT batch_insert(:new::text || n, '{\"Name\": \"x\", \"Age\": 1}') FROM generate_series(1, 100) AS n));"
script "page of 1000 entities, one partition" <<<"SELECT length(query_page_json('Bench', format('PartitionKey eq %L', $partition))::text);"
script "page of 1000 entities, whole table" <<<"SELECT length(query_page_json('Bench')::text);"
script "query with a filter on the whole table" <<<"SELECT count(*) FROM query_entities('Bench', 'Age eq 17');"
works=("read an entity" "page of 1000 entities, one partition" "page of 1000 entities, whole table" "query with a filter on the whole table"
  "merge an entity" "insert an entity" "batch of 100")

# turn WORK SERVER: transactions a second
turn() {
  on "${servers[$2]}" "$PGBIN/pgbench" -n -M prepared -c "$CLIENTS" -j 2 -T "$SECONDS_EACH" -f "$work/$1.pgbench" 2>"$work/pgbench.log" |
    sed -nE 's/^tps = ([0-9.]+) .*/\1/p' | grep . || {
    tail -n 5 "$work/pgbench.log" >&2
    return 1
  }
}
export PGOPTIONS="-c search_path=table_service"

# column N: the smallest, the middle and the largest value of a column of the turns
column() {
  cut -d' ' -f"$1" "$work/turns" | sort -n | awk '{ value[NR] = $1 } END { print value[1], value[int((NR + 1) / 2)], value[NR] }'
}
printf '%-40s %10s %22s %22s\n' "$ROUNDS rounds, $CLIENTS clients" plain/s "coordinator / plain" "worker / plain"
for name in "${works[@]}"; do
  : >"$work/turns"
  for ((round = 0; round < ROUNDS; round++)); do
    plain=$(turn "$name" plain)
    coordinator=$(turn "$name" coordinator)
    worker=$(turn "$name" worker)
    awk -v plain="$plain" -v coordinator="$coordinator" -v worker="$worker" 'BEGIN { print plain, coordinator / plain, worker / plain }' >>"$work/turns"
  done
  printf '%-40s %10.0f %10.2f (%.2f..%.2f) %10.2f (%.2f..%.2f)\n' "$name" \
    "$(column 1 | cut -d' ' -f2)" $(column 2 | awk '{ print $2, $1, $3 }') $(column 3 | awk '{ print $2, $1, $3 }')
done
