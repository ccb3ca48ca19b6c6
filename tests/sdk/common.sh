# shellcheck shell=bash disable=SC2154
# What the runs of SDKs and clients share: the environment, their packages, a throwaway server, gateways. Sourced from the
# root of the project. The caller sets `work`, a directory that the server's user can reach, and calls `stop` in the end.

pg_config=${PG_CONFIG:-}
# shellcheck source=pgrx-config/env.sh
. pgrx-config/env.sh ''
if [[ -n $pg_config ]]; then
  export PG_CONFIG=$pg_config
  PGBIN=$("$PG_CONFIG" --bindir)
fi

# shellcheck source=tests/sdk/packages.sh
. tests/sdk/packages.sh

# --- A server and gateways, which are an ordinary role ------------------------------------------------------------------------

gateway_pids=()
servers=(cluster) # directories in $work
database_urls=()

# Afterwards psql is the gateways' role in their database. With CITUS=1 there are three servers, and psql connects to the
# coordinator.
start_server() {
  if [[ ${CITUS:-} == 1 ]]; then start_three_servers; else start_one_server; fi
  local host port
  host=$(sed -n 's/^PGHOST=//p' "$work/cluster/env")
  port=$(sed -n 's/^PGPORT=//p' "$work/cluster/env")
  export PATH=$PGBIN:$PATH PGHOST=$host PGPORT=$port PGUSER=gateway PGDATABASE=tables
}

start_one_server() {
  pgrx-config/cluster.sh start "$work/cluster" >"$work/connection"
  local host
  host=$(sed -n 's/^PGHOST=//p' "$work/connection")
  "$PGBIN/psql" -XqAt -h "$host" -U postgres -d postgres -v ON_ERROR_STOP=1 <<'SQL'
CREATE ROLE gateway LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE;
CREATE DATABASE tables OWNER gateway ENCODING 'UTF8' TEMPLATE template0;
SQL
  "$PGBIN/psql" -XqAt -h "$host" -U gateway -d tables -c 'CREATE EXTENSION table_service'
  database_urls=(--database-url "postgresql://gateway@${host//\//%2F}/tables")
  if [[ -n ${BOUNCER:-} ]]; then
    # shellcheck source=tests/pgbouncer.sh
    . tests/pgbouncer.sh
    start_pgbouncer "$work/pgbouncer" "$host" "$(sed -n 's/^PGPORT=//p' "$work/connection")"
    gateway_pids+=("$bouncer_pid")
    database_urls=(--database-url "postgresql://gateway@127.0.0.1:$bouncer_port/tables")
  fi
}

start_three_servers() {
  # shellcheck source=tests/citus/cluster.sh
  . tests/citus/cluster.sh
  local server
  servers=(cluster worker1 worker2)
  start_citus "$work" tables gateway
  for server in "${servers[@]}"; do
    database_urls+=(--database-url "postgresql://gateway@127.0.0.1:$(port_of "$work/$server")/tables")
  done
}

# start_gateway NAME OPTION...: sets `address`. Its log is $work/NAME.log.
start_gateway() {
  local name=$1 program=${GATEWAY:-${CARGO_TARGET_DIR:-$PWD/target}/debug/table-service-gateway} i
  shift
  touch "$work/$name.listening" # or sed might come first and fail
  "$program" --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 "${database_urls[@]}" "$@" \
    >"$work/$name.listening" 2>"$work/$name.log" &
  gateway_pids+=($!)
  for ((i = 0; i < 300; i++)); do
    address=$(sed -n 's/^listening on https\{0,1\}:\/\/\([^ ,]*\).*/\1/p' "$work/$name.listening")
    [[ -z $address ]] || return 0
    kill -0 "${gateway_pids[-1]}" 2>/dev/null || break
    sleep 0.1
  done
  cat "$work/$name.log" >&2
  echo "The gateway does not start." >&2
  exit 1
}

stop() {
  local pid i server
  for pid in "${gateway_pids[@]}"; do
    for ((i = 0; i < 100; i++)); do
      # Again and again: one that comes before the gateway has started is lost.
      kill "$pid" 2>/dev/null || break
      sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null || true
  done
  for server in "${servers[@]}"; do
    [[ ! -e $work/$server ]] || pgrx-config/cluster.sh stop "$work/$server"
  done
  rm -rf "$work"
}

# healthy SECRET...: a panic, an internal error, a secret in the log: none of that is seen from outside.
healthy() {
  local secret found=no server
  if grep -nE 'panicked|InternalError|XX000' "$work"/*.log; then found=yes; fi
  for server in "${servers[@]}"; do
    if grep -nE ' XX000 |terminated by signal|PANIC:' "$work/$server/log"; then found=yes; fi
  done
  for secret in "$@"; do
    if grep -nF -e "$secret" "$work"/*.log; then found=yes; fi
  done
  [[ $found == no ]]
}

# all_used: the gateways have sent statements on entities to every server. Those on tables go to the first one anyway.
all_used() {
  local server host port statements
  for server in "${servers[@]:1}"; do
    host=$(sed -n 's/^PGHOST=//p' "$work/$server/env")
    port=$(sed -n 's/^PGPORT=//p' "$work/$server/env")
    statements=$(psql -XqAt -h "$host" -p "$port" -c "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'table-service-gateway' AND query ~ '_entit|execute_batch'")
    ((statements)) || {
      echo "No gateway has sent a statement on entities to $server"
      return 1
    }
  done
}

# keep_logs DIRECTORY
keep_logs() {
  mkdir -p "$1"
  cp "$work"/*.log "$1/"
  local server
  for server in "${servers[@]}"; do cp "$work/$server/log" "$1/$server.server.log"; done
  echo "The logs: $1"
}
