# Azurite, the current emulator, as another implementation of the protocol. Sourced from the root of the project; needs `cache` of
# pgrx-config/env.sh.
# shellcheck shell=bash

# shellcheck source=tests/wait_for.sh
. tests/wait_for.sh

azurite_version=3.37.0

# start_azurite DIRECTORY: fetches it from its registry, starts it with its data there, and waits until it listens. Sets
# azurite_pid and azurite_address.
start_azurite() {
  local program=$cache/azurite-$azurite_version/node_modules/.bin/azurite-table port
  if [[ ! -x $program ]]; then
    mkdir -p "$cache/azurite-$azurite_version"
    npm install --silent --no-audit --no-fund --prefix "$cache/azurite-$azurite_version" "azurite@$azurite_version"
  fi
  port=$((20000 + RANDOM % 12000))
  while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 1)); done
  "$program" --silent --skipApiVersionCheck --location "$1" --tableHost 127.0.0.1 --tablePort "$port" >"$1/azurite.log" &
  azurite_pid=$!
  azurite_address=127.0.0.1:$port
  wait_for "$1/azurite.log" "successfully started"
}
