#!/usr/bin/env bash
# The tests on a Citus cluster: a coordinator and two workers on this machine, and a spare server that joins them.
#
#   run.sh [golden] [same] [isolation] [faults] [histories] [sdk]     all of them by default
#
#   golden      tests/citus/sql, with what is particular to distributed tables
#   same        the files of tests/pg_regress that tests/citus/same lists: they give the same as without Citus
#   isolation   the files of tests/isolation that tests/citus/same_isolation lists
#   faults      writers, while a server joins and shards move, and while workers are killed
#   histories   what clients of all servers and of gateways saw, while servers are killed and shards move (tests/histories)
#   sdk         tests/sdk through a gateway that uses the coordinator and both workers, of a cluster of its own
#
# Environment: PG_CONFIG, a PostgreSQL 16 to 18 with the extension and Citus installed; TEST="name ..." only these files;
# ACCEPT=1 takes the results of golden as the expected ones; KILLS=N faults: how often a worker is killed (default: 3);
# HISTORIES=N histories: how many seeds (default: 4); SEED=7 runs one again.
set -euo pipefail

cd "$(dirname "$0")/../.."
pg_config=$PG_CONFIG
# shellcheck source=pgrx-config/env.sh
. pgrx-config/env.sh ''
export PG_CONFIG=$pg_config
PGBIN=$("$PG_CONFIG" --bindir)
# shellcheck source=tests/citus/cluster.sh
. tests/citus/cluster.sh
# shellcheck source=tests/citus/findings.sh
. tests/citus/findings.sh
suites=("$@")
((${#suites[@]})) || suites=(golden same isolation faults histories sdk)
out=$PWD/target/citus
mkdir -p "$out"
work=$(mktemp -d /tmp/table_service_citus.XXXXXX)
chmod 755 "$work"
cleanup() {
  local pid
  for pid in $(jobs -p); do kill "$pid" 2>/dev/null || true; done
  stop_citus "$work"
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
tools=$(dirname "$("$PG_CONFIG" --pgxs)")/../test

# listed FILE: the tests in a list that TEST does not leave out.
listed() {
  local name
  grep -v '^#' "$1" | while read -r name; do
    [[ -n ${TEST:-} && " $TEST " != *" $name "* ]] || echo "$name"
  done
}

# regress PROGRAM INPUT NAME TEST...: runs pg_regress or pg_isolation_regress on the coordinator.
regress() {
  local program=$1 input=$2 name=$3 options status=0
  shift 3
  (($#)) || return 0
  rm -rf "${out:?}/$name"
  mkdir -p "$out/$name"
  options=(--use-existing --inputdir="$input" --outputdir="$out/$name" --bindir="$PGBIN" --dbname="$citus_database"
    --host="$(sed -n 's/^PGHOST=//p' "$work/cluster/env")" --port="$(port_of "$work/cluster")" --user=postgres)
  if [[ $("$program" --help) == *--expecteddir* ]]; then options+=(--expecteddir="$input"); fi
  WORKER1_PORT=$(port_of "$work/worker1") PGOPTIONS="-c search_path=\"\$user\",public,table_service -c citus.enable_unsupported_feature_messages=off" \
    "$program" "${options[@]}" "$@" || status=$?
  if [[ ${ACCEPT:-} == 1 && $name == golden ]]; then
    mkdir -p "$input/expected"
    cp "$out/$name"/results/*.out "$input/expected/"
    status=0
  elif ((status)); then
    cat "$out/$name/regression.diffs" 2>/dev/null || true
  fi
  return "$status"
}

run_golden() {
  local tests test
  mapfile -t tests < <(find tests/citus/sql -name '*.sql' -printf '%f\n' | sed 's/\.sql$//' | LC_ALL=C sort)
  if [[ -n ${TEST:-} ]]; then mapfile -t tests < <(printf '%s\n' "${tests[@]}" | grep -xF "${TEST// /$'\n'}" || true); fi
  if [[ ${ACCEPT:-} == 1 ]]; then
    mkdir -p tests/citus/expected
    for test in "${tests[@]}"; do touch "tests/citus/expected/$test.out"; done
  fi
  regress "$tools/regress/pg_regress" "$PWD/tests/citus" golden "${tests[@]}" || return
  if grep -rn 'XX000' "$out/golden/results"; then
    echo "An internal error is always a bug"
    return 1
  fi
}

run_same() {
  local tests
  mapfile -t tests < <(listed tests/citus/same)
  regress "$tools/regress/pg_regress" "$PWD/tests/pg_regress" same "${tests[@]}"
}

run_isolation() {
  local tests status=0
  mapfile -t tests < <(listed tests/citus/same_isolation)
  # So that the tester sees who waits for whom over the servers.
  sql "$work/cluster" "SELECT citus_internal.replace_isolation_tester_func()" >/dev/null
  regress "$tools/isolation/pg_isolation_regress" "$PWD/tests/isolation" isolation "${tests[@]}" || status=$?
  sql "$work/cluster" "SELECT citus_internal.restore_isolation_tester_func()" >/dev/null
  return "$status"
}

run_faults() {
  # shellcheck source=tests/citus/faults.sh
  . tests/citus/faults.sh
  faults
}

# The server that joins in `faults` is not used: shards move between the two workers.
run_histories() {
  CITUS_SERVERS="$work/cluster $work/worker1 $work/worker2" TABLE_SERVICE_CLUSTER_SCRIPT=$PWD/pgrx-config/cluster.sh \
    cargo test --workspace --exclude table_service --test histories -- --ignored --nocapture
}

run_sdk() { CITUS=1 tests/sdk/run.sh; }

status=0
for suite in "${suites[@]}"; do
  printf '\n-- %s\n' "$suite"
  [[ $suite == sdk || -e $work/cluster ]] || start_citus "$work" tables owner
  "run_$suite" || status=1
done
for log in "$work"/{cluster,worker1,worker2,spare}/log; do
  [[ -e $log ]] || continue
  cp "$log" "$out/$(basename "$(dirname "$log")").log"
  # Citus refuses with XX000 what it does not do, so that is looked for in the results of the tests only.
  if findings "$log" "$(dirname "$log")/killed"; then status=1; fi
done
exit "$status"
