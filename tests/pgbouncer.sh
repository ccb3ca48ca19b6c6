# shellcheck shell=bash
# A PgBouncer in transaction mode in front of a throwaway server, for the tests of clients behind one. Sourced.

# start_pgbouncer DIR HOST PORT: in front of the server whose socket is in HOST, with the settings of docs/guide/gateway.md. Sets
# `bouncer_port` (on 127.0.0.1) and `bouncer_pid`. BOUNCER is the program (default: the one on the path).
start_pgbouncer() {
  local dir=$1 program i as=()
  program=$(command -v "${BOUNCER:-pgbouncer}") || program=/usr/sbin/pgbouncer
  bouncer_port=$((20000 + RANDOM % 12000))
  mkdir "$dir"
  # It listens on 127.0.0.1 only, and takes everybody as the server there does.
  echo '"postgres" "" "gateway" ""' | tr ' ' '\n' | paste -d' ' - - >"$dir/users"
  cat >"$dir/ini" <<INI
[databases]
* = host=$2 port=$3
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $bouncer_port
unix_socket_dir =
auth_type = trust
auth_file = $dir/users
pool_mode = transaction
default_pool_size = 4
max_prepared_statements = ${MAX_PREPARED_STATEMENTS:-200}
ignore_startup_parameters = options, extra_float_digits
server_idle_timeout = 5
INI
  # Some versions do not know it.
  "$program" --version | grep -qE '^PgBouncer 1\.(1[0-9]|20)\.' && sed -i '/^max_prepared_statements/d' "$dir/ini"
  if ((EUID == 0)); then
    chmod 755 "$dir"
    as=(runuser -u postgres --)
  fi
  "${as[@]}" "$program" --quiet "$dir/ini" >"$dir.log" 2>&1 &
  bouncer_pid=$!
  for ((i = 0; i < 100; i++)); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$bouncer_port") 2>/dev/null; then return; fi
    kill -0 "$bouncer_pid" 2>/dev/null || break
    sleep 0.1
  done
  cat "$dir.log" >&2
  return 1
}
