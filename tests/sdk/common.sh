# shellcheck shell=bash disable=SC2154
# What the runs of SDKs and clients share: the environment, packages in the cache, a throwaway server, gateways. Sourced from the
# root of the project. The caller sets `work`, a directory that the server's user can reach, and calls `stop` in the end.

pg_config=${PG_CONFIG:-}
# shellcheck source=pgrx-config/env.sh
. pgrx-config/env.sh ''
if [[ -n $pg_config ]]; then
  export PG_CONFIG=$pg_config
  PGBIN=$("$PG_CONFIG" --bindir)
fi

# --- Packages, at their pinned versions ---------------------------------------------------------------------------------------

# A directory in the cache for what this file of versions says: another version is another directory.
packages_directory() { echo "$cache/sdk/$1-$(sha256sum "$2" | cut -c1-12)"; }

# install_python NAME REQUIREMENTS: sets `venv`.
install_python() {
  venv=$(packages_directory "$1" "$2")
  [[ ! -e $venv/.complete ]] || return 0
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$2"
  touch "$venv/.complete"
}

# install_javascript NAME DIRECTORY: what DIRECTORY/package-lock.json says; sets `modules`, whose bin has the right Node.js if the
# machine's own is too old.
install_javascript() {
  modules=$(packages_directory "$1" "$2/package-lock.json")
  [[ ! -e $modules/.complete ]] || return 0
  rm -rf "$modules"
  mkdir -p "$modules"
  cp "$2"/package{,-lock}.json "$modules/"
  npm ci --prefix "$modules" --no-audit --no-fund --loglevel=error
  local have
  have=$(node --version)
  have=${have#v}
  ((${have%%.*} >= minimum_node)) || npm install --prefix "$modules" --no-save --no-audit --no-fund --loglevel=error "node@$node_version"
  touch "$modules/.complete"
}

# run_node ARGUMENT...: Node.js, which finds the installed packages.
run_node() { NODE_PATH=$modules/node_modules PATH=$modules/node_modules/node/bin:$PATH node "$@"; }

# --- A server and gateways, which are an ordinary role ------------------------------------------------------------------------

gateway_pids=()

# Afterwards psql is the gateways' role in their database.
start_server() {
  pgrx-config/cluster.sh start "$work/cluster" >"$work/connection"
  local host
  host=$(sed -n 's/^PGHOST=//p' "$work/connection")
  "$PGBIN/psql" -XqAt -h "$host" -U postgres -d postgres -v ON_ERROR_STOP=1 <<'SQL'
CREATE ROLE gateway LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE;
CREATE DATABASE tables OWNER gateway ENCODING 'UTF8' TEMPLATE template0;
SQL
  "$PGBIN/psql" -XqAt -h "$host" -U gateway -d tables -c 'CREATE EXTENSION table_service'
  export PATH=$PGBIN:$PATH PGHOST=$host PGUSER=gateway PGDATABASE=tables
}

# start_gateway NAME OPTION...: sets `address`. Its log is $work/NAME.log.
start_gateway() {
  local name=$1 program=${GATEWAY:-${CARGO_TARGET_DIR:-$PWD/target}/debug/table-service-gateway} i
  shift
  touch "$work/$name.listening" # or sed might come first and fail
  "$program" --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 --database-url "postgresql://gateway@${PGHOST//\//%2F}/tables" "$@" \
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
  local pid i
  for pid in "${gateway_pids[@]}"; do
    for ((i = 0; i < 100; i++)); do
      # Again and again: one that comes before the gateway has started is lost.
      kill "$pid" 2>/dev/null || break
      sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null || true
  done
  [[ ! -e $work/cluster ]] || pgrx-config/cluster.sh stop "$work/cluster"
  rm -rf "$work"
}

# healthy SECRET...: a panic, an internal error, a secret in the log: none of that is seen from outside.
healthy() {
  local secret found=no
  if grep -nE 'panicked|InternalError|XX000' "$work"/*.log || grep -nE ' XX000 |terminated by signal|PANIC:' "$work/cluster/log"; then found=yes; fi
  for secret in "$@"; do
    if grep -nF -e "$secret" "$work"/*.log; then found=yes; fi
  done
  [[ $found == no ]]
}

# keep_logs DIRECTORY
keep_logs() {
  mkdir -p "$1"
  cp "$work"/*.log "$1/"
  cp "$work/cluster/log" "$1/server.log"
  echo "The logs: $1"
}
