# shellcheck shell=bash disable=SC2154
# Throwaway Citus clusters. Sourced from the root of the project, with PG_CONFIG and PGBIN set and Citus built into that PostgreSQL
# (build.sh). Servers listen on a Unix socket and on 127.0.0.1, where Citus connects them.

# citus_server DIR: starts a server in DIR, which is no part of a cluster yet.
citus_server() {
  local settings=(
    shared_preload_libraries=citus
    wal_level=logical
    max_prepared_transactions=200
    max_replication_slots=20
    max_wal_senders=20
    max_worker_processes=32
    full_page_writes=on # a server may be killed in the middle of writing a page
    shared_buffers=64MB
    citus.node_conninfo=sslmode=disable
    citus.enable_statistics_collection=off
    citus.recover_2pc_interval=1s
  )
  # Citus splits shards with a plugin of its own, which newer minor versions of PostgreSQL have to be told.
  if "$PGBIN/postgres" --describe-config | cut -f1 | grep -qx output_plugin_libraries; then
    settings+=("output_plugin_libraries=pgoutput, test_decoding, citus")
  fi
  TCP=1 pgrx-config/cluster.sh start "$1" "${settings[@]}" >/dev/null
}

# on DIR COMMAND...: runs a client of the server in DIR, as its superuser.
on() {
  local dir=$1 host port
  shift
  host=$(sed -n 's/^PGHOST=//p' "$dir/env")
  port=$(port_of "$dir")
  PGHOST=$host PGPORT=$port PGUSER=${PGUSER:-postgres} PGDATABASE=${citus_database:-postgres} "$@"
}

port_of() { sed -n 's/^PGPORT=//p' "$1/env"; }

# sql DIR STATEMENT...: each statement is a transaction.
sql() {
  local dir=$1 statement
  shift
  for statement; do on "$dir" "$PGBIN/psql" -XqAt -v ON_ERROR_STOP=1 -c "$statement"; done
}

# citus_node DIR OWNER: starts a server with the database `citus_database`, which belongs to OWNER, an ordinary role.
citus_node() {
  local dir=$1 owner=$2 database=$citus_database
  citus_server "$dir"
  local citus_database=postgres
  [[ $owner == postgres ]] || sql "$dir" "CREATE ROLE $owner LOGIN"
  sql "$dir" "CREATE DATABASE $database OWNER $owner ENCODING 'UTF8' TEMPLATE template0"
  citus_database=$database
  sql "$dir" "CREATE EXTENSION citus"
}

# add_node COORDINATOR DIR
add_node() { sql "$1" "SELECT citus_add_node('127.0.0.1', $(port_of "$2"))" >/dev/null; }

# start_citus DIR DATABASE OWNER: a coordinator in DIR/cluster, workers in DIR/worker1 and DIR/worker2, the extension, and
# tables with 8 shards. OWNER creates the extension and its tables, as users may.
start_citus() {
  local dir=$1 worker
  citus_database=$2
  citus_node "$dir/cluster" "$3"
  sql "$dir/cluster" "SELECT citus_set_coordinator_host('127.0.0.1', $(port_of "$dir/cluster"))" >/dev/null
  for worker in worker1 worker2; do
    citus_node "$dir/$worker" "$3"
    add_node "$dir/cluster" "$dir/$worker"
  done
  PGUSER=$3 sql "$dir/cluster" "CREATE EXTENSION table_service" "SELECT table_service.enable_citus(8)" >/dev/null
}

# stop_citus DIR
stop_citus() {
  local server
  for server in "$1"/{cluster,worker1,worker2,spare}; do
    [[ ! -e $server ]] || pgrx-config/cluster.sh stop "$server"
  done
}
