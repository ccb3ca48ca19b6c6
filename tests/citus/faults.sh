# shellcheck shell=bash disable=SC2154
# Writers and readers on a cluster, while a server joins and shards move, and while workers are killed. Sourced by run.sh.
#
# What was acknowledged must be stored, a batch must be whole or absent, and nothing may be stored that nobody wrote. Of what failed
# while it was being committed, nobody knows whether it is stored: it may be, as a whole.

# writer DIR NAME: writes through the server in DIR, single entities and batches of five, until the file `stop` exists. It prints
# the PartitionKey of each transaction that was acknowledged, and goes on after errors. It reads each batch, and says so if it
# finds a part of it.
writer() {
  local dir=$1 name=$2 round=0
  while [[ ! -e $work/stop ]]; do
    round=$((round + 1))
    # In one session, which has to survive.
    for i in {1..200}; do
      echo "SELECT '$name-$round-$i' FROM table_service.insert_entity('Faults', '$name-$round-$i', 'single', '{\"N\": 1}');"
      echo "SELECT DISTINCT '$name-$round-b$i' FROM table_service.execute_batch('Faults', '$name-$round-b$i', VARIADIC ARRAY(SELECT table_service.batch_insert(n::text, '{\"N\": 1}') FROM generate_series(1, 5) AS n));"
      echo "SELECT 'a part of $name-$round-b$i' FROM table_service.query_entities('Faults', 'PartitionKey eq ''$name-$round-b$i''') HAVING count(*) NOT IN (0, 5);"
    done | on "$dir" "$PGBIN/psql" -XqAt 2>>"$work/$name.errors" || sleep 0.2
  done
}

# start_writers NAME
start_writers() {
  rm -f "$work/stop"
  writers=()
  local server
  for server in cluster worker1 worker2; do
    writer "$work/$server" "$1-$server" >"$work/$1-$server.acknowledged" &
    writers+=($!)
  done
}

# stop_writers NAME: ends them and compares.
stop_writers() {
  local parts lost torn strange acknowledged stored
  touch "$work/stop"
  wait "${writers[@]}"
  parts=$(cat "$work/$1"-*.acknowledged | grep -c '^a part of' || true)
  cat "$work/$1"-*.acknowledged | { grep -v '^a part of' || true; } | LC_ALL=C sort >"$work/$1.acknowledged"
  sql "$work/cluster" "SELECT DISTINCT partition_key FROM table_service_data.\"Faults\" WHERE partition_key LIKE '$1-%'" | LC_ALL=C sort >"$work/$1.stored"
  lost=$(LC_ALL=C comm -23 "$work/$1.acknowledged" "$work/$1.stored" | wc -l)
  torn=$(sql "$work/cluster" "SELECT count(*) FROM (SELECT partition_key FROM table_service_data.\"Faults\" WHERE partition_key LIKE '$1-%' GROUP BY partition_key HAVING count(*) <> CASE WHEN partition_key LIKE '%-b%' THEN 5 ELSE 1 END) AS t")
  acknowledged=$(wc -l <"$work/$1.acknowledged")
  stored=$(wc -l <"$work/$1.stored")
  strange=$((stored - acknowledged + lost))
  echo "$1: $acknowledged transactions acknowledged, $stored stored, $lost lost, $torn torn, $parts read in part, $strange stored without an answer, $(cat "$work/$1"-*.errors | grep -c ERROR || true) errors"
  ((acknowledged > 0 && lost == 0 && torn == 0 && parts == 0))
}

# The caller's errexit does not reach in here.
faults() {
  local coordinator=$work/cluster status=0 kill worker
  sql "$coordinator" "SELECT table_service.create_table('Faults')" >/dev/null || return

  echo "A server joins, and shards move to it"
  start_writers moves
  {
    citus_node "$work/spare" owner && add_node "$coordinator" "$work/spare" &&
      sql "$coordinator" "SELECT citus_rebalance_start()" "SELECT citus_rebalance_wait()" >/dev/null
  } || status=1
  stop_writers moves || status=1
  # Moves do not block writers for long, and interrupt none.
  if grep -h ERROR "$work"/moves-*.errors; then status=1; fi
  [[ $(shards_on "$work/spare") -gt 0 ]] || {
    echo "No shard has moved to the server that joined"
    status=1
  }

  echo "Workers are killed"
  start_writers kills
  for ((kill = 1; kill <= ${KILLS:-3}; kill++)); do
    worker=worker$((1 + kill % 2))
    sleep 2
    { pgrx-config/cluster.sh crash "$work/$worker" && sleep 1 && citus_server "$work/$worker"; } || status=1
  done
  sleep 2
  stop_writers kills || status=1
  # Citus finishes the transactions that it had prepared on a worker.
  nothing_is_prepared || status=1
  return "$status"
}

shards_on() {
  sql "$work/cluster" "SELECT count(*) FROM citus_shards WHERE table_name = 'table_service_data.\"Faults\"'::regclass AND nodeport = $(port_of "$1")"
}

nothing_is_prepared() {
  local i server prepared
  for ((i = 0; i < 30; i++)); do
    prepared=0
    for server in cluster worker1 worker2 spare; do
      prepared=$((prepared + $(sql "$work/$server" "SELECT count(*) FROM pg_prepared_xacts")))
    done
    ((prepared)) || return 0
    sleep 1
  done
  echo "$prepared transactions are still prepared"
  return 1
}
