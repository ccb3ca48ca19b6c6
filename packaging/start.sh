#!/usr/bin/env bash
# Starts PostgreSQL and the gateway in a container. When one of them ends, the other one is stopped, and the container ends.
#
#   table-service-start [OPTION...]    options of the gateway
#   table-service-start healthcheck    succeeds if both are ready
set -euo pipefail

if [[ ${1:-} == healthcheck ]]; then
  exec 3<>/dev/tcp/127.0.0.1/10003
  printf 'GET /ready HTTP/1.0\r\n\r\n' >&3
  read -r _ status _ <&3
  [[ $status == 200 ]]
  exit
fi

programs=$(echo /usr/lib/postgresql/*/bin)
data=/var/lib/postgresql/tables
socket=/run/postgresql

# Only when the data are complete, they get their name.
if [[ ! -e $data ]]; then
  rm -rf "$data.unfinished"
  "$programs/initdb" --pgdata="$data.unfinished" --username=postgres --auth=peer --encoding=UTF8 --locale=C.UTF-8 >/dev/null
  mv "$data.unfinished" "$data"
fi
# What a container that was killed has left. In this one no server runs yet.
rm -f "$data/postmaster.pid"
"$programs/postgres" -D "$data" -c listen_addresses= -c unix_socket_directories="$socket" &
database=$!
gateway=
stop() {
  # The gateway finishes the requests that it has accepted before its database stops.
  if [[ -n $gateway ]]; then
    kill -TERM "$gateway" 2>/dev/null || true
    wait "$gateway" || true
  fi
  kill -INT "$database" 2>/dev/null || true
  wait "$database" || true
}
trap 'stop; exit 0' TERM INT

until "$programs/pg_isready" --quiet --host="$socket"; do
  kill -0 "$database" 2>/dev/null || exit 1
  sleep 0.1
done
"$programs/psql" --quiet --no-psqlrc --host="$socket" --command='SET client_min_messages = warning' \
  --command='CREATE EXTENSION IF NOT EXISTS table_service' --command='ALTER EXTENSION table_service UPDATE'
table-service-gateway --database-url "host=$socket user=postgres dbname=postgres" "$@" &
gateway=$!
status=0
wait -n "$database" "$gateway" || status=$?
stop
exit "$status"
