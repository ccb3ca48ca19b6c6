#!/usr/bin/env bash
# Runs PostgreSQL and the gateway in one container. When one of them ends, the other one is stopped.
set -uo pipefail

docker-entrypoint.sh postgres &
database=$!
gosu nobody table-service-gateway "$@" &
gateway=$!

# The gateway finishes the requests that it has accepted before its database stops.
stop() {
  kill -TERM "$gateway" 2>/dev/null
  wait "$gateway"
  kill -INT "$database" 2>/dev/null
  wait "$database"
}
trap 'stop; exit 0' TERM INT

wait -n "$database" "$gateway"
status=$?
stop
exit "$status"
