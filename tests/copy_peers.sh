#!/usr/bin/env bash
# Copies tables from and to azurite, the current emulator, and compares them. Needs node with npm, which fetches the emulator.
# Not a part of `make test`.
#
#   copy_peers.sh      with the extension and the gateway that `make copy-peers` has built
set -euo pipefail

cd "$(dirname "$0")/.."
azurite_version=3.37.0
# shellcheck source=pgrx-config/env.sh
. pgrx-config/env.sh ''

azurite=$cache/azurite-$azurite_version
if [[ ! -x $azurite/node_modules/.bin/azurite-table ]]; then
  mkdir -p "$azurite"
  npm install --silent --no-audit --no-fund --prefix "$azurite" "azurite@$azurite_version"
fi
work=$(mktemp -d /tmp/table_service_peers.XXXXXX)
trap '[[ -z ${emulator:-} ]] || kill "$emulator"; rm -rf "$work"' EXIT
port=$((20000 + RANDOM % 12000))
while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 1)); done
"$azurite/node_modules/.bin/azurite-table" --silent --skipApiVersionCheck --location "$work" --tableHost 127.0.0.1 --tablePort "$port" >"$work/log" &
emulator=$!
for ((i = 0; i < 300; i++)); do
  if grep -q "successfully started" "$work/log"; then break; fi
  sleep 0.1
done
AZURITE=127.0.0.1:$port cargo test -p table_service_copy --test copy -- peers::
