#!/usr/bin/env bash
# The unmodified SDKs from the registries against the gateway, over loopback.
#
#   run.sh [python] [javascript] [replay]     all of them by default
#
# Environment:
#   PG_CONFIG               the PostgreSQL to use, with the extension installed (default: the private one)
#   GATEWAY                 the gateway to use (default: the one of the tests)
#   TABLE_SERVICE_CACHE     where the SDKs are kept (see pgrx-config/versions.sh)
#   CITUS=1                 a Citus cluster of three servers, which the gateway uses all (see tests/citus/run.sh)
#   BOUNCER=PROGRAM       this PgBouncer, in transaction mode, between gateway and server
#   PROGRAMS                the directory of the test programs, for those of an earlier release (default: this one)
#   TESTS="name ..."        only these tests, by the names that the test runner takes
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
# shellcheck source=tests/sdk/common.sh
. tests/sdk/common.sh
programs=${PROGRAMS:-$here}
suites=("$@")
((${#suites[@]})) || suites=(python javascript replay)
work=$(mktemp -d /tmp/table_service_sdk.XXXXXX)
chmod 755 "$work"
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

for suite in "${suites[@]}"; do
  case $suite in
  python | replay) install_python python "$here/requirements.txt" ;;
  javascript) install_javascript javascript "$here/javascript" ;;
  *)
    echo "No such suite: $suite (there are: python javascript replay)" >&2
    exit 1
    ;;
  esac
done
start_server
export SDK_ACCOUNT=sdktests1 SDK_KEY SDK_OTHER_KEY
SDK_KEY=$(head -c 64 /dev/urandom | base64 -w 0)
SDK_OTHER_KEY=$(head -c 64 /dev/urandom | base64 -w 0)
start_gateway gateway --account "$SDK_ACCOUNT" --key "$SDK_KEY" --key "$SDK_OTHER_KEY"
export SDK_ENDPOINT=http://$address/$SDK_ACCOUNT
read -ra tests <<<"${TESTS:-}"
status=0
for suite in "${suites[@]}"; do
  printf '\n-- %s\n' "$suite"
  case $suite in
  python) "$venv/bin/python" -B "$programs/python/run.py" "${tests[@]}" || status=1 ;;
  javascript) run_node --test-reporter=spec "$programs/javascript/run.js" "${tests[@]}" || status=1 ;;
  replay) "$venv/bin/python" -B "$programs/replay/run.py" "${tests[@]}" || status=1 ;;
  esac
done
healthy "$SDK_KEY" "$SDK_OTHER_KEY" || status=1
all_used || status=1
((status == 0)) || keep_logs target/sdk
exit "$status"
