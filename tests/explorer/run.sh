#!/usr/bin/env bash
# The explorer: its scripts under a linter and a checker of types, then a browser that drives it.
#
#   run.sh [NAME]     only the tests whose names contain NAME
#
# Environment:
#   PG_CONFIG               the PostgreSQL to use, with the extension installed (default: the private one)
#   GATEWAY                 the gateway to use (default: the one of the tests)
#   CHROMIUM                the browser (default: chromium)
#   BOUNCER=PROGRAM         this PgBouncer, in transaction mode, between gateway and server
#   PATIENCE=MILLISECONDS   how long something may take that has to come (default: 30000)
#   SCREENSHOTS=DIRECTORY   write the pictures of the documentation
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
# shellcheck source=tests/sdk/common.sh
. tests/sdk/common.sh
work=$(mktemp -d /tmp/table_service_explorer.XXXXXX)
chmod 755 "$work"
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

install_javascript explorer "$here"
export NODE_PATH=$modules/node_modules PATH=$modules/node_modules/node/bin:$PATH

printf '\n-- linter and types\n'
# They look for their packages beside the files.
checked=$work/checked
cp -r crates/gateway/src/explorer/page "$checked"
cp "$here/eslint.config.js" "$here/tsconfig.json" "$here/package.json" "$checked/"
ln -s "$modules/node_modules" "$checked/node_modules"
(cd "$checked" && node node_modules/eslint/bin/eslint.js --max-warnings 0 . && node node_modules/typescript/bin/tsc --project .)

printf '\n-- in a browser\n'
start_server
admin=$(sed -n 's/^PGHOST=//p' "$work/connection")
psql -XqAt -U postgres -d postgres -c 'ALTER ROLE gateway REPLICATION' -c 'CREATE DATABASE second OWNER gateway TEMPLATE template0'
psql -XqAt -d second -c 'CREATE EXTENSION table_service' -c "SELECT table_service.create_table('Elsewhere')" >/dev/null
program=${GATEWAY:-${CARGO_TARGET_DIR:-$PWD/target}/debug/table-service-gateway}
key=$(head -c 64 /dev/urandom | base64 -w 0)
cat >"$work/accounts.toml" <<TOML
[[accounts]]
name = "second"
keys = ["$key"]
database_url = "postgresql://gateway@${admin//\//%2F}/second"

[[accounts]]
name = "gone"
keys = ["$key"]
database_url = "postgresql://gateway@${work//\//%2F}%2Fnowhere/tables"
TOML
start_gateway writing --config "$work/accounts.toml" --explorer write --explorer-address-file "$work/writing.address"
export GATEWAY_CLIENTS=http://$address EXPLORER_CLUSTER=$work/cluster EXPLORER_COPY=${program%/*}/table-service-copy EXPLORER_WRITING EXPLORER_READING
start_gateway reading --explorer read --explorer-address-file "$work/reading.address"
EXPLORER_WRITING=$(<"$work/writing.address")
EXPLORER_READING=$(<"$work/reading.address")
[[ $(stat -c %a "$work/writing.address") == 600 ]] || {
  echo "Others can read the file with the address." >&2
  exit 1
}
# A terminal shows the address.
script -qfec "$program --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 ${database_urls[*]} --explorer read" "$work/terminal" >"$work/terminal.out" 2>&1 </dev/null &
gateway_pids+=($!)
for ((i = 0; i < 300; i++)); do
  ! grep -q '^explorer on http://127.0.0.1:[0-9]*/explorer#token=' "$work/terminal" 2>/dev/null || break
  sleep 0.1
done
((i < 300)) || {
  echo "A terminal does not show the address of the explorer." >&2
  exit 1
}

status=0
node --test --test-reporter=spec --test-concurrency=1 ${1:+--test-name-pattern="$1"} "$here/explorer.test.js" || status=1
healthy "${EXPLORER_WRITING#*token=}" "${EXPLORER_READING#*token=}" || status=1
((status == 0)) || keep_logs target/explorer
exit "$status"
