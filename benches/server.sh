# shellcheck shell=bash
# What the measuring scripts share, to be sourced from the root of the project after pgrx-config/env.sh and setup.sh: a private
# PostgreSQL with the extension's release build in $work, which is gone when the script ends.
#
#   start [SETTING...]   a new server with these settings; DATABASE_URL is its connection string
#   stay_awake           processors do not sleep until the script ends

# shellcheck source=tests/wait_for.sh
. tests/wait_for.sh

echo "$(nproc) processors,$(uptime | sed 's/.*load average/ load average before/')"

# As root, the server needs a place that the user postgres can reach.
work=$(mktemp -d /tmp/table_service.XXXXXX)
chmod 755 "$work"
processes=()
cleanup() {
  local process
  for process in "${processes[@]}"; do kill "$process" 2>/dev/null || true; done
  pgrx-config/cluster.sh stop "$work/cluster"
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Into a copy: the tests use builds of another kind.
cp -a "$cache/pg$PG" "$work/pg"
export PG_CONFIG=$work/pg/bin/pg_config
pgrx-config/install.sh "$PG_CONFIG" >"$work/build.log" 2>&1 || {
  cat "$work/build.log" >&2
  exit 1
}

start() {
  pgrx-config/cluster.sh stop "$work/cluster" 2>/dev/null || true
  pgrx-config/cluster.sh start "$work/cluster" "$@" >"$work/env"
  local host port
  host=$(sed -n 's/^PGHOST=//p' "$work/env")
  port=$(sed -n 's/^PGPORT=//p' "$work/env")
  export DATABASE_URL="postgresql://postgres@${host//\//%2F}:$port/postgres"
  "$work/pg/bin/psql" -q "$DATABASE_URL" -c 'CREATE EXTENSION table_service'
}

# stay_awake: an idle processor sleeps, and in a virtual machine waking it takes longer than a statement. With one client that waits
# for one server, that is what would be measured. So a loop keeps each processor awake, at a priority below everything else. Where
# many threads wait for each other the loops are in the way.
stay_awake() {
  local i
  command -v chrt >/dev/null || return 0
  for ((i = 0; i < $(nproc); i++)); do
    chrt --idle 0 bash -c 'while :; do :; done' &
    processes+=($!)
  done
}
