#!/usr/bin/env bash
# Loads the images of target/packages into a Docker engine of its own, and uses them: as their users, with their entry points, health
# checks and volumes. Needs root, and Debian's docker.io and iproute2. Its engine, processes and network are not those of the machine.
set -euo pipefail

cd "$(dirname "$0")/../.."
# shellcheck source=pgrx-config/env.sh
. pgrx-config/env.sh ''
# shellcheck source=tests/testing.sh
. tests/testing.sh
if [[ ${1:-} != apart ]]; then
  ((EUID == 0)) || die "only root can start a Docker engine"
  for program in dockerd docker ip; do
    command -v "$program" >/dev/null || die "$program is missing: apt-get install docker.io iproute2"
  done
  pgrx-config/setup.sh sdks
  tests/sdk/packages.sh python python tests/sdk/requirements.txt >/dev/null
  # Its processes end with it.
  exec unshare --net --pid --fork --kill-child --mount-proc "$0" apart
fi
venv=$(tests/sdk/packages.sh python python tests/sdk/requirements.txt)
packages=$PWD/target/packages
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)

work=$(mktemp -d "$packages/engine.XXXXXX")
cleanup() {
  if kill "$engine" 2>/dev/null; then wait "$engine" || true; fi
  umount --lazy "$work"/exec/netns/* 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
ip link set lo up
export DOCKER_HOST=unix://$work/socket
dockerd --data-root "$work/data" --exec-root "$work/exec" --pidfile "$work/pid" --host "$DOCKER_HOST" --storage-driver vfs \
  --bridge none --iptables=false --ip6tables=false >"$work/log" 2>&1 &
engine=$!

# waits COMMAND EXPECTED: until the command prints it
waits() {
  local i got
  for ((i = 0; i < 600; i++)); do
    got=$(eval "$1" 2>&1 || true)
    if [[ $got == "$2" ]]; then return; fi
    sleep 0.1
  done
  docker logs server >&2 || tail -n 20 "$work/log" >&2
  die "$1 does not print $2, but $got"
}
health="docker inspect --format '{{.State.Health.Status}}' server"
waits "docker info --format '{{.Driver}}'" vfs

# by_sdk ACCOUNT KEY [again]
by_sdk() {
  "$venv/bin/python" tests/session.py \
    "DefaultEndpointsProtocol=http;AccountName=$1;AccountKey=$2;TableEndpoint=http://127.0.0.1:10002/$1;" "${@:3}"
}
# loads IMAGE
loads() {
  same "docker load takes $1.tar" "Loaded image: $1:$version" "$(docker load --quiet --input "$packages/$1.tar")"
  same "its user" postgres "$(docker image inspect --format '{{.Config.User}}' "$1:$version")"
}
starts() { docker run --detach --network host --name server "$@" >/dev/null; }

# --- The emulator -------------------------------------------------------------------------------------------------------------

loads table-service-emulator
starts "table-service-emulator:$version"
waits "$health" healthy
ok "it is healthy"
same "its processes are its user's" postgres "$(docker exec server id -un)"
key='Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=='
same "a session of the SDK" "[7, 8, 9]" "$(by_sdk devstoreaccount1 "$key")"
docker kill server >/dev/null
docker start server >/dev/null
waits "$health" healthy
same "a session after it was killed and started again" "[7, 8, 9]" "$(by_sdk devstoreaccount1 "$key")"
docker stop --time 60 server >/dev/null
same "its exit status when it is stopped" 0 "$(docker inspect --format '{{.State.ExitCode}}' server)"
docker rm server >/dev/null

# As set-ups for azurite's image start it: a command, a line in the log that is waited for, a volume, and the health check of a compose file.
in_place() { starts --volume emulated:/data --health-cmd 'nc 127.0.0.1 10002 -z' --health-interval 1s "table-service-emulator:$version" azurite-table "$@"; }
in_place --tableHost 0.0.0.0 --tablePort 10002 --loose --location /data
waits "docker logs server 2>&1 | grep -c '^Azurite Table service is successfully listening at http://0.0.0.0:10002$'" 1
waits "$health" healthy
same "a session in the place of azurite-table" "[7, 8, 9]" "$(by_sdk devstoreaccount1 "$key")"
docker stop --time 60 server >/dev/null
same "its last line" "Azurite Table service successfully closed" "$(docker logs server | tail -n 1)"
docker rm server >/dev/null
in_place --tableHost 0.0.0.0
waits "$health" healthy
same "the volume has kept the entities; the current directory is the place" "[7, 8, 9]" "$(by_sdk devstoreaccount1 "$key" again)"
docker rm --force server >/dev/null

# --- Instead of azurite's image -----------------------------------------------------------------------------------------------------

loads table-service-azurite
# A line of each service for a program that waits for it, and an answer to a list of containers, as a check of health asks.
as_azurite() {
  local service
  for service in Blob:10000 Queue:10001 Table:10002; do
    waits "docker logs server 2>&1 | grep -c '^Azurite ${service%:*} service is successfully listening at http://0.0.0.0:${service#*:}$'" 1
  done
  same "no containers, $1" 1 "$(curl -sf 'http://127.0.0.1:10000/devstoreaccount1?comp=list' | grep -c '<Containers />')"
  same "a session of the SDK, $1" "[7, 8, 9]" "$(by_sdk devstoreaccount1 "$key")"
  docker rm --force server >/dev/null
}
hosts=(--blobHost 0.0.0.0 --queueHost 0.0.0.0 --tableHost 0.0.0.0)
starts "table-service-azurite:$version"
waits "$health" healthy
as_azurite "without a command"
starts "table-service-azurite:$version" azurite -l /data "${hosts[@]}" --skipApiVersionCheck
as_azurite "as Aspire starts it"
starts --entrypoint azurite "table-service-azurite:$version" "${hosts[@]}" --inMemoryPersistence
as_azurite "as Testcontainers starts it"

# --- PostgreSQL with the gateway ------------------------------------------------------------------------------------------------

loads table-service
starts "table-service:$version"
waits "docker inspect --format '{{.State.Running}}' server" false
same "its exit status without an account" 2 "$(docker inspect --format '{{.State.ExitCode}}' server)"
ok "what it says: $(docker logs server 2>&1 | grep '^table-service-gateway: ')"
docker rm server >/dev/null
key=$(head -c 64 /dev/urandom | base64 -w 0)
account=(--env TABLE_SERVICE_ACCOUNT=images --env "TABLE_SERVICE_KEY=$key" --volume tables:/var/lib/postgresql)
starts "${account[@]}" "table-service:$version"
waits "$health" healthy
same "a session of the SDK" "[7, 8, 9]" "$(by_sdk images "$key")"
# It has the network of the machine here, as the next container has: nothing of PostgreSQL is there.
same "what another container reaches of PostgreSQL" "no response" "$(docker run --rm --network host --entrypoint sh "table-service:$version" -c \
  '/usr/lib/postgresql/*/bin/pg_isready --host=127.0.0.1' | sed 's/.* - //' || true)"
same "the gateway's role" "tables|f" "$(docker exec server psql -XAtq -h /run/postgresql -d postgres -c \
  "SELECT DISTINCT usename, rolsuper FROM pg_stat_activity JOIN pg_roles ON rolname = usename WHERE usename <> 'postgres'")"
docker rm --force server >/dev/null
starts "${account[@]}" "table-service:$version"
waits "$health" healthy
same "the volume has kept the entities, though its server was killed" "[7, 8, 9]" "$(by_sdk images "$key" again)"
docker stop --time 60 server >/dev/null
same "its exit status when it is stopped" 0 "$(docker inspect --format '{{.State.ExitCode}}' server)"
echo "Passed: table-service-emulator:$version table-service-azurite:$version table-service:$version"
