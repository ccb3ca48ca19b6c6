#!/usr/bin/env bash
# Runs packaging/start.sh, which the container images start, without an engine, as the images do: as the user postgres, with a
# file system and a network of its own. Then it tries the access of clients, other users and containers. Needs root.
#
# Environment: PGBIN, a PostgreSQL with the extension; GATEWAY, the program
set -euo pipefail

cd "$(dirname "$0")/../.."
# shellcheck source=tests/testing.sh
. tests/testing.sh
if [[ ${1:-} != apart ]]; then
  ((EUID == 0)) || die "only root can start a container"
  for program in ip unshare curl ss pgrep; do command -v "$program" >/dev/null || die "$program is missing"; done
  # Its processes end with it, and nobody outside sees its mounts.
  exec unshare --mount --net --pid --fork --kill-child --mount-proc "$0" apart
fi

# The file system of an image, as far as it matters.
mount -t tmpfs tmpfs /usr/lib/postgresql 2>/dev/null || { mkdir -p /usr/lib/postgresql && mount -t tmpfs tmpfs /usr/lib/postgresql; }
mkdir /usr/lib/postgresql/container
ln -s "$PGBIN" /usr/lib/postgresql/container/bin
mkdir -p /var/lib/postgresql /run/postgresql
mount -t tmpfs -o mode=755,uid="$(id -u postgres)" tmpfs /var/lib/postgresql
mount -t tmpfs -o mode=2775,uid="$(id -u postgres)" tmpfs /run/postgresql
mount -t tmpfs tmpfs /mnt
mkdir /mnt/{settings,bin,work}
chmod 777 /mnt/work
install -m 644 packaging/pg_hba.conf packaging/pg_ident.conf /mnt/settings/
install -m 755 packaging/start.sh /mnt/bin/table-service-start
install -m 755 "$GATEWAY" /mnt/bin/table-service-gateway
mkdir -p /usr/share/table-service 2>/dev/null || true
mount --bind /mnt/settings /usr/share/table-service
ip link set lo up
# The address that other containers reach.
ip address add 10.99.0.2/24 dev lo
export PATH=/mnt/bin:$PATH

key=$(head -c 64 /dev/urandom | base64 -w 0)
start() {
  runuser -u postgres -- env PATH="$PATH" TABLE_SERVICE_ACCOUNT=containers TABLE_SERVICE_KEY="$key" TABLE_SERVICE_LISTEN=0.0.0.0:10002 \
    table-service-start >>/mnt/work/log 2>&1 &
  container=$!
  local i
  for ((i = 0; i < 1200; i++)); do
    if runuser -u postgres -- env PATH="$PATH" table-service-start healthcheck 2>/dev/null; then return; fi
    kill -0 "$container" 2>/dev/null || break
    sleep 0.1
  done
  cat /mnt/work/log >&2
  die "it is not ready"
}
# stops: its exit status must be 0
stops() {
  # Not runuser's, which says that a signal came.
  local status=0
  kill -TERM "$(pgrep -P "$container" | head -n 1)"
  wait "$container" || status=$?
  same "its exit status when it is stopped" 0 "$status"
}
# as USER ROLE STATEMENT: through the socket
as() { runuser -u "$1" -- "$PGBIN/psql" -XAtq -h /run/postgresql -U "$2" -d postgres -c "$3" 2>&1; }
refused() {
  local got
  if got=$("${@:2}" 2>&1); then die "$1: $got"; fi
  ok "$1"
}

start
ok "it is healthy"
same "what listens" "0.0.0.0:10002 127.0.0.1:10003" "$(ss -Hltn | awk '{print $4}' | LC_ALL=C sort | paste -sd' ')"
for address in 127.0.0.1 10.99.0.2; do
  refused "nobody reaches PostgreSQL on $address" "$PGBIN/psql" -XAtq -h "$address" -U postgres -c 'SELECT 1'
done
refused "nobody outside reaches the admin port" curl -s --max-time 5 http://10.99.0.2:10003/ready
same "others get in by the gateway's port, and only with a key" 403 "$(curl -s -o /dev/null -w '%{http_code}' "http://10.99.0.2:10002/containers/Tables")"
for role in postgres tables; do refused "another user is not $role" as nobody "$role" 'SELECT 1'; done
refused "another user has no role of its own" as nobody nobody 'SELECT 1'
same "the gateway is an ordinary role" "tables|f|f|f|f" \
  "$(as postgres postgres "SELECT DISTINCT usename, rolsuper, rolcreaterole, rolcreatedb, rolbypassrls FROM pg_stat_activity JOIN pg_roles ON rolname = usename WHERE application_name LIKE 'table-service-gateway%' OR usename = 'tables'")"
refused "its role reads no file of the server" as postgres tables "SELECT pg_read_file('PG_VERSION')"
refused "its role runs no program" as postgres tables "COPY (SELECT 1) TO PROGRAM 'true'"
same "nobody else reads the data" "700 postgres" "$(stat -c '%a %U' /var/lib/postgresql/tables)"

# The work of a gateway, signed by the database for the account.
signature=$(as postgres tables "SELECT table_service.generate_sas('containers', '$key', 'Things', 'raud', now() + interval '1 hour')")
entities() { curl -s -o /dev/null -w '%{http_code}' -H 'Accept: application/json' -H 'Content-Type: application/json' "$@" "http://10.99.0.2:10002/containers/Things?$signature"; }
as postgres tables "SELECT table_service.create_table('Things')" >/dev/null
same "an insert over HTTP" 201 "$(entities -d '{"PartitionKey": "p", "RowKey": "r"}')"
same "the same once more" 409 "$(entities -d '{"PartitionKey": "p", "RowKey": "r"}')"
same "its role sets the properties of the service" "" "$(as postgres tables "SELECT table_service.set_service_properties('{\"Cors\": []}')")"
same "its role deletes its table" t "$(as postgres tables "SELECT table_service.create_table('Gone')" >/dev/null && as postgres tables "SELECT table_service.delete_table('Gone')")"

# A volume of earlier images, where the gateway was the superuser.
as postgres postgres "ALTER TABLE table_service_data.\"Things\" OWNER TO postgres" >/dev/null
stops
# The file that a killed server leaves: its number is another process's.
echo 1 >/var/lib/postgresql/tables/postmaster.pid
start
same "the volume has kept the entities" 409 "$(entities -d '{"PartitionKey": "p", "RowKey": "r"}')"
same "tables of earlier images are the gateway's" tables "$(as postgres postgres "SELECT tableowner FROM pg_tables WHERE tablename = 'Things'")"
stops
# A volume that is itself the data of a server, from an image before it had this start.
mv /var/lib/postgresql/tables/* /var/lib/postgresql/
rmdir /var/lib/postgresql/tables
chmod 700 /var/lib/postgresql
start
same "a volume of the former layout is used" 409 "$(entities -d '{"PartitionKey": "p", "RowKey": "r"}')"
stops
