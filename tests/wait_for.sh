# shellcheck shell=bash

# wait_for FILE TEXT: waits until a server has written there that it listens.
wait_for() {
  local i
  for ((i = 0; i < 300; i++)); do
    if grep -q "$2" "$1"; then return; fi
    sleep 0.1
  done
  cat "$1" >&2
  return 1
}
