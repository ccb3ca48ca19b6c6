#!/usr/bin/env bash
# control.sh WHAT: what happens to the servers of the tests: crash and again for the primary; pause, resume, stop and start for the
# standby. Environment: SDK_WORK, the directory of run.sh; PGBIN.
set -euo pipefail

standby=$SDK_WORK/standby

as_server() {
  if ((EUID == 0)); then runuser -u postgres -- "$@"; else "$@"; fi
}

sql() { "$PGBIN/psql" -XqAt -h "$standby" -p "$SDK_STANDBY_PORT" -U postgres -d postgres -v ON_ERROR_STOP=1 -c "$1"; }

cd /
case $1 in
crash | again) "$SDK_ROOT/pgrx-config/cluster.sh" "$1" "$SDK_WORK/cluster" >/dev/null ;;
pause)
  sql 'SELECT pg_wal_replay_pause()' >/dev/null
  # The request takes effect a little later.
  until [[ $(sql 'SELECT pg_get_wal_replay_pause_state()') == paused ]]; do sleep 0.1; done
  ;;
resume) sql 'SELECT pg_wal_replay_resume()' >/dev/null ;;
stop) as_server "$PGBIN/pg_ctl" stop -s -w -m immediate -D "$standby" ;;
start) as_server "$PGBIN/pg_ctl" start -s -w -D "$standby" -l "$standby/log" >/dev/null ;;
*)
  echo "control.sh: no such thing: $1" >&2
  exit 1
  ;;
esac
