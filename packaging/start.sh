#!/usr/bin/env bash
# Starts PostgreSQL and the gateway in a container. When one of them ends, the other one is stopped, and the container ends.
#
#   table-service-start [OPTION...]    options of the gateway
#   table-service-start healthcheck    succeeds if both are ready
#
# PostgreSQL listens on a socket only, which nobody outside of the container reaches, and takes only the server's user there. The gateway
# is an ordinary role, `tables`.
set -euo pipefail

if [[ ${1:-} == healthcheck ]]; then
  exec 3<>/dev/tcp/127.0.0.1/10003
  printf 'GET /ready HTTP/1.0\r\n\r\n' >&3
  read -r _ status _ <&3
  [[ $status == 200 ]]
  exit
fi

umask 077
programs=$(echo /usr/lib/postgresql/*/bin)
volume=/var/lib/postgresql
data=$volume/tables
socket=/run/postgresql
# Part of the image, not of the data.
settings=/usr/share/table-service

# An image before 0.3.0 has put the data here.
if [[ -e $volume/PG_VERSION ]]; then data=$volume; fi

# Only when the data are complete, they get their name.
if [[ ! -e $data ]]; then
  rm -rf "$data.unfinished"
  "$programs/initdb" --pgdata="$data.unfinished" --username=postgres --auth=peer --encoding=UTF8 --locale=C.UTF-8 >/dev/null
  mv "$data.unfinished" "$data"
fi
# A container that was killed leaves this file. In this one no server runs yet.
rm -f "$data/postmaster.pid"
"$programs/postgres" -D "$data" -c listen_addresses= -c port=5432 -c unix_socket_directories="$socket" -c unix_socket_permissions=0700 \
  -c hba_file="$settings/pg_hba.conf" -c ident_file="$settings/pg_ident.conf" &
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
# Tables that a gateway has made as a superuser, in images before 0.3, become those of the role.
"$programs/psql" --quiet --no-psqlrc --tuples-only --host="$socket" --username=postgres --dbname=postgres --set=ON_ERROR_STOP=1 >/dev/null <<'SQL'
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS table_service;
ALTER EXTENSION table_service UPDATE;
SELECT 'CREATE ROLE tables LOGIN' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'tables') \gexec
SELECT table_service.grant_gateway_access('tables');
SELECT format('ALTER TABLE %s OWNER TO tables', oid::regclass) FROM pg_class
WHERE relnamespace = 'table_service_data'::regnamespace AND relkind IN ('r', 'p') AND relowner = 'postgres'::regrole \gexec
SQL
table-service-gateway --database-url "host=$socket user=tables dbname=postgres" "$@" &
gateway=$!
status=0
wait -n "$database" "$gateway" || status=$?
stop
exit "$status"
