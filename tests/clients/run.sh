#!/usr/bin/env bash
# Unmodified clients of the Table service from their registries against the gateway, and the table of docs/guide/gateway.md that
# says what they can do. Not a part of `make test`: it fetches the clients from PyPI, npm and crates.io.
#
#   run.sh [CLIENT ...]     all of them by default; CLIENT is one of the programs: python/azure-storage, for instance
#
# Environment:
#   PG_CONFIG               the PostgreSQL to use, with the extension installed (default: the private one)
#   GATEWAY                 the gateway to use (default: the one of the tests)
#   TABLE_SERVICE_CACHE     where the clients are kept (see pgrx-config/versions.sh)
#   ACCEPT=1                writes the table even if a client fails that has passed before
#   CLIENT_VERBOSE=1        programs print whole errors
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
# shellcheck source=tests/sdk/common.sh
. tests/sdk/common.sh

# In the order of the table: a file with the client's program, in the directory of its language.
all=(
  python/azure-data-tables
  javascript/azure-data-tables
  rust/azure_data_tables
  python/azure-cli
  python/azure-cosmosdb-table
  python/azure-storage
  javascript/azure-storage
  javascript/azure-table-node
  javascript/fast-azure-storage
  javascript/azure-entities
  javascript/connect-azuretables
  javascript/keyv-azuretable
  javascript/unstorage
  python/llama-index-storage-kvstore-azure
)
clients=("$@")
((${#clients[@]})) || clients=("${all[@]}")
for client in "${clients[@]}"; do
  [[ " ${all[*]} " == *" $client "* ]] || {
    echo "No such client: $client (there are: ${all[*]})" >&2
    exit 1
  }
done
command -v openssl >/dev/null || {
  echo "openssl is missing: some clients speak HTTPS only, and need a certificate." >&2
  exit 1
}

work=$(mktemp -d /tmp/table_service_clients.XXXXXX)
chmod 755 "$work"
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
mkdir "$work/results"

# Sets `version` and `program`, the command that runs it.
prepare() {
  local language=${1%/*} name=${1#*/} directory
  case $language in
  python)
    install_python "client-$name" "$here/python/$name.txt"
    version=$("$venv/bin/python" -c 'import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))' "$name")
    program=("$venv/bin/python" -B -W ignore "$here/python/$name.py")
    ;;
  javascript)
    install_javascript clients "$here/javascript"
    directory=$modules/node_modules/$name
    [[ $name != azure-data-tables ]] || directory=$modules/node_modules/@azure/data-tables
    version=$(sed -n 's/^ *"version": "\(.*\)".*/\1/p' "$directory/package.json")
    program=(run_node --no-deprecation "$here/javascript/$name.js")
    ;;
  rust)
    directory=$cache/sdk/clients-rust
    cargo build --quiet --locked --manifest-path "$here/rust/Cargo.toml" --target-dir "$directory"
    version=$(sed -n "/^name = \"$name\"/{n;s/version = \"\(.*\)\"/\1/p}" "$here/rust/Cargo.lock")
    program=("$directory/debug/client")
    ;;
  esac
}

# What takes long, before there is a server.
for client in "${clients[@]}"; do prepare "$client"; done

start_server
export CLIENT_ACCOUNT=clienttests CLIENT_KEY CLIENT_ENDPOINT CLIENT_TLS_PORT
CLIENT_KEY=$(head -c 64 /dev/urandom | base64 -w 0)
export NODE_EXTRA_CA_CERTS=$work/certificate.pem
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=gateway" \
  -addext "subjectAltName=DNS:localhost,IP:127.0.0.1,DNS:$CLIENT_ACCOUNT.table.core.windows.net" \
  -keyout "$work/key.pem" -out "$NODE_EXTRA_CA_CERTS" 2>"$work/openssl.txt"
start_gateway gateway --account "$CLIENT_ACCOUNT" --key "$CLIENT_KEY"
CLIENT_ENDPOINT=http://$address/$CLIENT_ACCOUNT
start_gateway https --account "$CLIENT_ACCOUNT" --key "$CLIENT_KEY" --tls-certificate "$NODE_EXTRA_CA_CERTS" --tls-key "$work/key.pem"
CLIENT_TLS_PORT=${address##*:}

for client in "${clients[@]}"; do
  prepare "$client"
  printf '\n-- %s %s\n' "$client" "$version"
  status=0
  # What a program prints besides its lines of JSON is the client's own.
  "${program[@]}" >"$work/output" || status=$?
  grep '^{"point":' "$work/output" | tee "$work/lines" || true
  {
    printf '{"client": "%s", "version": "%s", "status": %d}\n' "$client" "$version" "$status"
    cat "$work/lines"
  } >"$work/results/${client/\//.}"
done

printf '\n'
status=0
python3 "$here/table.py" docs/guide/gateway.md "$work/results" "${all[@]}" || status=1
healthy "$CLIENT_KEY" || status=1
((status == 0)) || keep_logs target/clients
exit "$status"
