#!/usr/bin/env bash
# Uses the image of the extension as CloudNativePG does: unpacked in a directory of its own, beside an installation of
# PostgreSQL 18 that has nothing of it; with the role, the statements and the probes of deploy/kubernetes. It needs the
# packages of `make packages`.
set -euo pipefail

cd "$(dirname "$0")/.."
project=$PWD
# shellcheck source=pgrx-config/env.sh
. pgrx-config/env.sh ''
# shellcheck source=tests/testing.sh
. tests/testing.sh
packages=$project/target/packages
image=$packages/table-service-extension-18.tar
[[ -e $image ]] || die "there is no image of the extension for PostgreSQL 18: make setup PG=18 && make packages"
gateway=$(compgen -G "$packages/table-service-gateway_*.deb") || die "there is no package of the gateway: make packages"
venv=$(tests/sdk/packages.sh python python tests/sdk/requirements.txt)
postgresql=$(packaging/postgresql.sh)/bin
for psql in "$PGBIN/psql" /usr/lib/postgresql/*/bin/psql; do if [[ -x $psql ]]; then break; fi; done
[[ -x $psql ]] || die "there is no psql: make setup"

work=$(mktemp -d /tmp/table_service.kubernetes.XXXXXX)
processes=()
cleanup() {
  ((${#processes[@]} == 0)) || kill "${processes[@]}" 2>/dev/null || true
  wait
  rm -rf "$work"
}
trap cleanup EXIT
chmod 755 "$work"
as_server=()
if ((EUID == 0)); then as_server=(runuser -u postgres --); fi
waits() {
  local i
  for ((i = 0; i < 600; i++)); do
    if "${@:2}" >/dev/null 2>&1; then return; fi
    sleep 0.1
  done
  cat "$work"/*.log >&2
  die "does not happen: $1"
}

mkdir -p "$work"/{image,extensions/table-service,data,socket,gateway}
tar xf "$image" -C "$work/image"
tar xf "$work/image/$(sed 's/.*"Layers": \["\([^"]*\)".*/\1/' "$work/image/manifest.json")" -C "$work/extensions/table-service"
same "what the image has" "lib licenses share" "$(cd "$work/extensions/table-service" && echo *)"
name=$(sed 's/.*"RepoTags": \["\([^"]*\)".*/\1/' "$work/image/manifest.json")
same "its name is that of the manifest" "registry.example.com/$name" "$(sed -n 's/^ *reference: //p' deploy/kubernetes/database.yaml)"

chmod 700 "$work/data"
((EUID != 0)) || chown postgres: "$work"/{data,socket}
cd "$work"
"${as_server[@]}" "$postgresql/initdb" --pgdata="$work/data" --username=postgres --auth=trust --encoding=UTF8 --locale=C.UTF-8 --no-sync >"$work/initdb.log"
# shellcheck disable=SC2016 # PostgreSQL's words
"${as_server[@]}" "$postgresql/postgres" -D "$work/data" -c listen_addresses= -c unix_socket_directories="$work/socket" \
  -c extension_control_path='$system:'"$work/extensions/table-service/share" \
  -c dynamic_library_path='$libdir:'"$work/extensions/table-service/lib" >"$work/server.log" 2>&1 &
processes+=($!)
sql() { "$psql" -XAtq -v ON_ERROR_STOP=1 -h "$work/socket" -U "$1" -d "$2" -c "$3"; }
waits "the server starts" sql postgres postgres "SELECT 1"
cd "$project"

# The operator's work for Cluster and Database.
sql postgres postgres "CREATE ROLE tables LOGIN"
sql postgres postgres "CREATE DATABASE tables OWNER tables ENCODING 'UTF8' TEMPLATE template0"
sql postgres postgres "$(sed -n 's/^ *- \(GRANT .*\)/\1/p' deploy/kubernetes/database.yaml)"
sql postgres tables "CREATE EXTENSION table_service"
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
same "the extension of the image is in the database" "$version" "$(sql postgres tables "SELECT extversion FROM pg_extension WHERE extname = 'table_service'")"
# The work of the gateway's pods.
sql tables tables "$(sed -n 's/.*--command=\(SELECT [^"]*\)".*/\1/p' deploy/kubernetes/gateway.yaml)" >/dev/null
dpkg-deb -x "$gateway" "$work/gateway"
key=$(head -c 64 /dev/urandom | base64 -w 0)
TABLE_SERVICE_KEY=$key "$work/gateway/usr/bin/table-service-gateway" --account kubernetes --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 \
  --database-url "host=$work/socket user=tables dbname=tables" >"$work/gateway.log" 2>&1 &
processes+=($!)
waits "the gateway listens" grep "listening on " "$work/gateway.log"
read -r clients admin < <(grep -o 'http://[0-9.:]*' "$work/gateway.log" | paste -sd' ')
for path in $(sed -n 's/^ *path: \(\/.*\)/\1/p' deploy/kubernetes/gateway.yaml); do waits "$path" curl -sf "$admin$path"; done
ok "its probes"
same "a session of the SDK" "[7, 8, 9]" "$("$venv/bin/python" tests/session.py \
  "DefaultEndpointsProtocol=http;AccountName=kubernetes;AccountKey=$key;TableEndpoint=$clients/kubernetes;")"
same "its tables are of the owner of the database" "tables" "$(sql postgres tables "SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'table_service_data'")"
echo "Passed: $name"
