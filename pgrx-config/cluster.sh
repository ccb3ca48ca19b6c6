#!/usr/bin/env bash
# Throwaway PostgreSQL clusters, for tests and for the tour.
#
#   cluster.sh start DIR [NAME=VALUE ...]  makes a cluster in DIR if it is new, starts it, writes how to connect to DIR/env
#                                          and to standard output; NAME=VALUE are server settings for this run. With
#                                          listen_addresses=127.0.0.1 it also listens there (free PGPORT in DIR/env)
#   cluster.sh again DIR                   starts it once more with the settings of its last run, as after a crash
#   cluster.sh stop DIR                    stops the server and removes DIR
#   cluster.sh crash DIR                   kills the server and its processes as a power cut would; the next start recovers. A line
#                                          FROM TO of DIR/killed says which bytes of DIR/log came from processes that were killed
#
# Environment:
#   PG or PG_CONFIG               which PostgreSQL (default: the project's default major)
#   VALGRIND=memcheck             start, again: under valgrind, which reports to DIR/valgrind.PID
#   VALGRIND=callgrind            start, again: the instructions of each statement are counted in a file DIR/callgrind.PID.NUMBER
#   FSYNC=on                      start: write durably (off by default: faster, and nobody keeps these clusters)
#   KEEP=1                        stop: leave DIR
#
# Servers listen on a Unix socket that only their owner (and root) can reach. As root, they run as the user postgres.
set -euo pipefail

die() {
  echo "cluster.sh: $*" >&2
  exit 1
}

pg_config=${PG_CONFIG:-}
# shellcheck source=pgrx-config/env.sh
. "$(dirname "$0")/env.sh" ''
settings=$(realpath "$(dirname "$0")/server.conf")
if [[ -n $pg_config ]]; then
  PGBIN=$("$pg_config" --bindir)
fi

as_server() {
  if ((EUID == 0)); then runuser -u postgres -- "$@"; else "$@"; fi
}

# DIR belongs to the server's user, who may put any name there. So root reads, writes and removes nothing in it, and ends no process
# of anybody else: this user does. Root only makes DIR and removes it.
write() { as_server tee "$1" >/dev/null; }

# A number in a pid file may belong to another process by now: only a process that runs in the data directory is ours.
postmaster() {
  local pid
  pid=$(as_server head -n 1 "$data/postmaster.pid" 2>/dev/null) || return 1
  [[ $pid =~ ^[0-9]+$ && $(readlink "/proc/$pid/cwd") == "$data" ]] || return 1
  echo "$pid"
}

children() {
  local stat pid parent
  for stat in /proc/[0-9]*/stat; do
    read -r pid _ _ parent _ 2>/dev/null <"$stat" || continue
    if [[ $parent == "$1" ]]; then echo "$pid"; fi
  done
}

alive() { # zombies are not: in a container nobody may ever collect them
  local state
  read -r _ _ state _ 2>/dev/null <"/proc/$1/stat" && [[ $state != Z ]]
}

ended() { # within ten seconds
  local i
  for ((i = 0; i < 100; i++)); do
    alive "$1" || return 0
    sleep 0.1
  done
  return 1
}

free_port() {
  local port
  while :; do
    port=$((20000 + RANDOM % 12000)) # below the range that the kernel hands out
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
  done
  echo "$port"
}

remembered() { # the value of a name in DIR/env
  as_server sed -n "s/^$1=//p" "$dir/env" 2>/dev/null || true
}

init() {
  [[ -x $PGBIN/postgres ]] || die "no PostgreSQL in $PGBIN: run 'make setup PG=$PG' first"
  mkdir -p "$dir"
  [[ -O $dir ]] || die "$dir belongs to another user"
  [[ -z $(ls -A "$dir") ]] || die "$dir is neither empty nor a cluster"
  chmod 700 "$dir"
  if ((EUID == 0)); then
    chown postgres: "$dir"
    as_server test -w "$dir" -a -x "$dir" || die "the user postgres cannot reach $dir"
    as_server test -x "$PGBIN/postgres" || die "the user postgres cannot reach $PGBIN"
  fi
  as_server "$PGBIN/initdb" -D "$data" -U postgres -A trust -E UTF8 --locale=C.UTF-8 --no-sync 2>&1 | write "$dir/initdb.log" || {
    as_server cat "$dir/initdb.log" >&2
    die "initdb failed"
  }
  { cat "$settings" && echo "include_if_exists = 'run.conf'"; } | as_server tee -a "$data/postgresql.conf" >/dev/null
}

# Starts the server with the settings in run.conf. It outlives us, so it must not keep the caller's locks and pipes.
launch() {
  local program=() options
  if [[ -n ${VALGRIND:-} ]]; then
    case $VALGRIND in
    memcheck) options="--leak-check=no --num-callers=40 --suppressions=$PGBIN/../share/valgrind.supp --log-file=$dir/valgrind.%p" ;;
    callgrind) options="--dump-before=ReadyForQuery --callgrind-out-file=$dir/callgrind.%p" ;;
    *) die "VALGRIND is memcheck or callgrind, not $VALGRIND" ;;
    esac
    write "$dir/postgres" <<EOF
#!/bin/sh
exec valgrind --tool=$VALGRIND --quiet --trace-children=yes $options $PGBIN/postgres "\$@"
EOF
    as_server chmod 755 "$dir/postgres"
    program=(-p "$dir/postgres")
  fi
  # A backtrace of Rust must not reach users, whatever the environment has.
  RUST_BACKTRACE=1 as_server "$PGBIN/pg_ctl" start -s -w -t 120 -D "$data" -l "$dir/log" "${program[@]}" >/dev/null 2>&1 \
    3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
}

does_not_start() {
  as_server tail -n 20 "$dir/log" >&2 || true
  die "the server in $dir does not start"
}

refuse_if_running() { if postmaster >/dev/null; then die "a server runs in $dir already"; fi; }

start() {
  local socket port setting tries=1 on_tcp=
  if [[ " $* " == *" listen_addresses="* ]]; then on_tcp=yes; fi
  [[ -e $data/PG_VERSION ]] || init
  refuse_if_running

  socket=$(remembered PGHOST)
  if [[ -z $socket ]]; then
    socket=$dir
    # The kernel takes 107 bytes for "<directory>/.s.PGSQL.<port>".
    if ((${#socket} > 90)); then socket=$(as_server mktemp -d /tmp/pgsocket.XXXXXX); fi
  fi
  as_server mkdir -p "$socket"
  port=$(remembered PGPORT)
  if [[ -z $port ]]; then
    port=5432
    if [[ -n $on_tcp ]]; then
      port=$(free_port)
      tries=5
    fi
  fi

  while :; do
    {
      echo "unix_socket_directories = '$socket'"
      echo "port = $port"
      echo "listen_addresses = ''"
      echo "fsync = ${FSYNC:-off}"
      for setting; do
        [[ $setting == *=* ]] || die "not NAME=VALUE: $setting"
        echo "${setting%%=*} = '${setting#*=}'"
      done
    } | write "$data/run.conf"
    if launch; then break; fi
    ((--tries)) || does_not_start
    port=$(free_port) # somebody took it in between
  done

  printf 'PGHOST=%s\nPGPORT=%s\nPGUSER=postgres\nPGDATABASE=postgres\n' "$socket" "$port" | write "$dir/env"
  as_server cat "$dir/env"
}

again() {
  [[ -e $dir/env ]] || die "no server has run in $dir"
  refuse_if_running
  launch || does_not_start
  as_server cat "$dir/env"
}

stop() {
  [[ -e $dir ]] || return 0
  [[ -e $data/PG_VERSION || -e $dir/initdb.log ]] || die "$dir is not a cluster"
  local pid
  if pid=$(postmaster); then
    as_server "$PGBIN/pg_ctl" stop -s -D "$data" -m fast -t 60 ||
      as_server "$PGBIN/pg_ctl" stop -s -D "$data" -m immediate -t 60
    # valgrind writes its findings after that.
    ended "$pid" || true
  fi
  if [[ ${KEEP:-} != 1 ]]; then
    local socket
    socket=$(remembered PGHOST)
    if [[ $socket == /tmp/pgsocket.* ]]; then as_server rm -rf "$socket"; fi
    rm -rf "$dir"
  fi
}

# signal NAME PROCESS...: those that are still there get it.
signal() { as_server "$BASH" -c 'kill -s "$@" 2>/dev/null || true' - "$@"; }

log_bytes() { as_server stat --format=%s "$dir/log"; }

crash() {
  local pid victims victim from
  pid=$(postmaster) || die "no server runs in $dir"
  signal STOP "$pid" # so that it starts nobody else
  victims="$pid $(children "$pid")"
  from=$(log_bytes)
  # shellcheck disable=SC2086 # one word each
  signal KILL $victims
  for victim in $victims; do
    ended "$victim" || die "process $victim of the server in $dir does not end"
  done
  # Those that were not killed first may have seen the end of the others.
  echo "$from $(log_bytes)" | as_server tee -a "$dir/killed" >/dev/null
  # A zombie keeps its number; the next server would take it for a living one.
  as_server rm -f "$data/postmaster.pid" "$(remembered PGHOST)/.s.PGSQL.$(remembered PGPORT)"{,.lock}
}

[[ $# -ge 2 ]] || die "usage: cluster.sh start|again|stop|crash DIR"
command=$1
dir=$(realpath -m "$2")
data=$dir/data
shift 2
cd / # the caller's directory may be closed to postgres
case $command in
start) start "$@" ;;
again) again ;;
stop) stop ;;
crash) crash ;;
*) die "unknown command '$command'" ;;
esac
