#!/usr/bin/env bash
# The unmodified SDKs for Python and JavaScript, with a primary, a standby that follows it by streaming replication, and a gateway
# in front of both. The environment is that of tests/sdk/run.sh.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../../.."
# shellcheck source=tests/sdk/common.sh
. tests/sdk/common.sh
work=$(mktemp -d /tmp/table_service_sdk.XXXXXX)
chmod 755 "$work"
export SDK_WORK=$work SDK_ROOT=$PWD PGBIN

finish() {
  [[ ! -e $work/standby/postmaster.pid ]] || "$here/control.sh" stop || true
  stop
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

as_server() {
  if ((EUID == 0)); then runuser -u postgres -- "$@"; else "$@"; fi
}

# start_standby: a copy of the server in $work/cluster, in $work/standby, which has its socket too.
start_standby() {
  local directory=$work/standby
  mkdir -m 700 "$directory"
  ((EUID)) || chown postgres "$directory"
  (cd / && as_server "$PGBIN/pg_basebackup" -h "$PGHOST" -p "$PGPORT" -U postgres -D "$directory" --checkpoint=fast \
    --write-recovery-conf --no-sync)
  as_server tee -a "$directory/postgresql.auto.conf" >/dev/null <<<"unix_socket_directories = '$directory'"
  "$here/control.sh" start
}

install_python python tests/sdk/requirements.txt
install_javascript javascript tests/sdk/javascript
start_server
export SDK_STANDBY_PORT=$PGPORT
psql -XqAt -U postgres -c 'GRANT pg_read_all_stats TO gateway'
start_standby
"$here/control.sh" pause
# What the standby does not replay yet. So it is behind all that the gateway notes.
psql -XqAt -c "SELECT table_service.create_table('Early')" >/dev/null
export SDK_ACCOUNT=sdktests1 SDK_KEY SDK_PORT
SDK_KEY=$(head -c 64 /dev/urandom | base64 -w 0)
standby_url=postgresql://gateway@${work//\//%2F}%2Fstandby:$SDK_STANDBY_PORT/tables
start_gateway gateway --account "$SDK_ACCOUNT" --key "$SDK_KEY" --secondary-url "$standby_url"
SDK_PORT=${address##*:}
status=0
printf '\n-- javascript\n'
run_node --test-reporter=spec "$here/run.js" || status=1
"$here/control.sh" resume
printf '\n-- python\n'
"$venv/bin/python" -B "$here/run.py" || status=1
healthy "$SDK_KEY" || status=1
((status == 0)) || keep_logs target/sdk-standbys
exit "$status"
