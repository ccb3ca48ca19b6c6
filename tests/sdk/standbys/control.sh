#!/usr/bin/env bash
# control.sh COMMAND: changes the servers of the tests: crash and again for the primary; pause, resume, stop and start
# for the standby. Environment: SDK_PRIMARY and SDK_STANDBY, their directories; psql on the path.
set -euo pipefail

cluster() { "$(dirname "$0")/../../../pgrx-config/cluster.sh" "$@" >/dev/null; }

sql() { psql -XqAt -h "$SDK_STANDBY" -U postgres -d postgres -v ON_ERROR_STOP=1 -c "$1"; }

case $1 in
crash | again) cluster "$1" "$SDK_PRIMARY" ;;
pause)
  sql 'SELECT pg_wal_replay_pause()' >/dev/null
  # The request takes effect a little later.
  until [[ $(sql 'SELECT pg_get_wal_replay_pause_state()') == paused ]]; do sleep 0.1; done
  ;;
resume) sql 'SELECT pg_wal_replay_resume()' >/dev/null ;;
stop) cluster crash "$SDK_STANDBY" ;;
start) cluster again "$SDK_STANDBY" ;;
*)
  echo "control.sh: no such thing: $1" >&2
  exit 1
  ;;
esac
