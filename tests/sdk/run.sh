#!/usr/bin/env bash
# The unmodified SDKs from the registries against the gateway, over loopback.
#
#   run.sh [python] [javascript] [replay]     all of them by default
#
# Environment:
#   PG_CONFIG               the PostgreSQL to use, with the extension installed (default: the private one)
#   GATEWAY                 the gateway to use (default: the one of the tests)
#   TABLE_SERVICE_CACHE     where the SDKs are kept (see pgrx-config/versions.sh)
#   TESTS="name ..."        only these tests, by the names that the test runner takes
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
pg_config=${PG_CONFIG:-}
# shellcheck source=pgrx-config/env.sh
. pgrx-config/env.sh ''
if [[ -n $pg_config ]]; then
  export PG_CONFIG=$pg_config
  PGBIN=$("$PG_CONFIG" --bindir)
fi
suites=("$@")
((${#suites[@]})) || suites=(python javascript replay)
gateway=${GATEWAY:-${CARGO_TARGET_DIR:-$PWD/target}/debug/table-service-gateway}
work=$(mktemp -d /tmp/table_service_sdk.XXXXXX)
chmod 755 "$work"
pid=

cleanup() {
  if [[ -n $pid ]]; then
    local i
    for ((i = 0; i < 100; i++)); do
      # Again and again: one that comes before the gateway has started is lost.
      kill "$pid" 2>/dev/null || break
      sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null || true
  fi
  [[ ! -e $work/cluster ]] || pgrx-config/cluster.sh stop "$work/cluster"
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# --- The SDKs, at their pinned versions ---------------------------------------------------------------------------------------

# A directory in the cache for what this file of versions says: another version is another directory.
sdk_directory() { echo "$cache/sdk/$1-$(sha256sum "$2" | cut -c1-12)"; }

install_python() {
  venv=$(sdk_directory python "$here/requirements.txt")
  [[ ! -e $venv/.complete ]] || return 0
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
  touch "$venv/.complete"
}

install_javascript() {
  modules=$(sdk_directory javascript "$here/javascript/package-lock.json")
  [[ ! -e $modules/.complete ]] || return 0
  rm -rf "$modules"
  mkdir -p "$modules"
  cp "$here"/javascript/package{,-lock}.json "$modules/"
  npm ci --prefix "$modules" --no-audit --no-fund --loglevel=error
  local have
  have=$(node --version)
  have=${have#v}
  ((${have%%.*} >= minimum_node)) || npm install --prefix "$modules" --no-save --no-audit --no-fund --loglevel=error "node@$node_version"
  touch "$modules/.complete"
}

# --- A server and the gateway, which is an ordinary role ----------------------------------------------------------------------

start() {
  pgrx-config/cluster.sh start "$work/cluster" >"$work/connection"
  local host
  host=$(sed -n 's/^PGHOST=//p' "$work/connection")
  "$PGBIN/psql" -XqAt -h "$host" -U postgres -d postgres -v ON_ERROR_STOP=1 <<'SQL'
CREATE ROLE gateway LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE;
CREATE DATABASE tables OWNER gateway ENCODING 'UTF8' TEMPLATE template0;
SQL
  "$PGBIN/psql" -XqAt -h "$host" -U gateway -d tables -c 'CREATE EXTENSION table_service'

  export SDK_ACCOUNT=sdktests1 SDK_KEY SDK_OTHER_KEY
  SDK_KEY=$(head -c 64 /dev/urandom | base64 -w 0)
  SDK_OTHER_KEY=$(head -c 64 /dev/urandom | base64 -w 0)
  touch "$work/listening"
  "$gateway" --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 --account "$SDK_ACCOUNT" --key "$SDK_KEY" --key "$SDK_OTHER_KEY" \
    --database-url "postgresql://gateway@${host//\//%2F}/tables" >"$work/listening" 2>"$work/log" &
  pid=$!
  local address i
  for ((i = 0; i < 300; i++)); do
    address=$(sed -n 's/^listening on http:\/\/\([^ ,]*\).*/\1/p' "$work/listening")
    [[ -z $address ]] || break
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  [[ -n $address ]] || {
    cat "$work/log" >&2
    echo "The gateway does not start." >&2
    exit 1
  }
  export SDK_ENDPOINT=http://$address/$SDK_ACCOUNT
  # psql in the tests is the gateway's role in the gateway's database.
  export PATH=$PGBIN:$PATH PGHOST=$host PGUSER=gateway PGDATABASE=tables
}

for suite in "${suites[@]}"; do
  case $suite in
  python | replay) install_python ;;
  javascript) install_javascript ;;
  *)
    echo "No such suite: $suite (there are: python javascript replay)" >&2
    exit 1
    ;;
  esac
done
start
read -ra tests <<<"${TESTS:-}"
status=0
for suite in "${suites[@]}"; do
  printf '\n-- %s\n' "$suite"
  case $suite in
  python) "$venv/bin/python" -B "$here/python/run.py" "${tests[@]}" || status=1 ;;
  javascript) NODE_PATH=$modules/node_modules PATH=$modules/node_modules/node/bin:$PATH node --test-reporter=spec "$here/javascript/run.js" "${tests[@]}" || status=1 ;;
  replay) "$venv/bin/python" -B "$here/replay/run.py" "${tests[@]}" || status=1 ;;
  esac
done
# A panic, an internal error, a secret in the log: none of that is seen from outside.
if grep -nE 'panicked|InternalError|XX000' "$work/log" || grep -nF -e "$SDK_KEY" -e "$SDK_OTHER_KEY" "$work/log" ||
  grep -nE ' XX000 |terminated by signal|PANIC:' "$work/cluster/log"; then
  status=1
fi
if ((status)); then
  mkdir -p target/sdk
  cp "$work/log" target/sdk/gateway.log
  cp "$work/cluster/log" target/sdk/server.log
  echo "The logs: target/sdk/gateway.log, target/sdk/server.log"
fi
exit "$status"
