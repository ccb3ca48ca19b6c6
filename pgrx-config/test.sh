#!/usr/bin/env bash
# Every test of the project, against one PostgreSQL major; stops at the first step that fails.
#
#   test.sh [PG]
#
# Environment:
#   ONLY="step ..."   only these steps; `postgres` stands for those that depend on the PostgreSQL major
#   TEST="name ..."   golden, isolation: only these files; extension: only tests whose name contains it
#   SOAK=N            soak, copy_soak, fuzz_sql: how many seeds; SEED=N takes only this one; allocations: how many points
#   HISTORIES=N       histories: how many seeds; SEED=N takes only this one
#   ACCEPT=1          golden, isolation, schema, docs, clients: take the results as the expected ones
#   CLIENT="NAME ..." clients: only these programs of tests/clients
#   CITUS_SOURCE=PATH citus: a tar or a directory with the source of Citus; SUITES="name ..." only these of tests/citus/run.sh
#   PAGE=TEXT         docs: only the pages whose path contains it
#   CHECKED=1         with a PostgreSQL that looks for faults (see env.sh); asan needs it
set -euo pipefail

cd "$(dirname "$0")/.."
# shellcheck source=pgrx-config/env.sh
. pgrx-config/env.sh "$@"
export PG

all=(format architecture lints model extension golden isolation statements system gateway emulator copy sdk docs)
postgres=(extension golden isolation statements system gateway emulator copy sdk docs)
read -ra steps <<<"${ONLY:-${all[*]}}"
[[ ${steps[*]} != postgres ]] || steps=("${postgres[@]}")

without_postgres=" format architecture model licences pgspot quick "
on_request=" citus containers pgbouncer quick schema drivers clients licences pgspot soak upgrades histories copy_soak fuzz_sql allocations asan copy_peers "
needs_postgres=no
for name in "${steps[@]}"; do
  [[ " ${all[*]} $on_request " == *" $name "* ]] || {
    echo "No such step: $name (there are: ${all[*]}$on_request)" >&2
    exit 1
  }
  [[ $without_postgres == *" $name "* ]] || needs_postgres=yes
done

[[ " ${steps[*]} " != *" citus "* || -n ${CITUS_SOURCE:-} ]] || {
  echo "citus needs CITUS_SOURCE=/path/to/the/source/of/Citus" >&2
  exit 77
}

prepare_servers() {
  pgrx-config/setup.sh "$PG"
  exec 8>"$cache/test-$PG$checked.lock"
  flock -n 8 || {
    echo "Another test run uses this PostgreSQL $PG; waiting for it to end."
    flock 8
  }

  # Servers run in here. As root it must be a place that the user postgres can reach, and paths of sockets must be short.
  work=$(mktemp -d /tmp/table_service.XXXXXX)
  trap cleanup EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  chmod 755 "$work"
  mkdir "$work/clusters"
  export TABLE_SERVICE_CLUSTERS=$work/clusters
  export TABLE_SERVICE_CLUSTER_SCRIPT=$PWD/pgrx-config/cluster.sh
  pgrx_runas=()
  pgrx_data=$work/pgrx
  mkdir "$pgrx_data"
  if ((EUID == 0)); then
    pgrx_runas=(--runas postgres)
    chown postgres: "$pgrx_data"
  fi
}

cleanup() {
  local pid pidfile
  [[ -z ${azurite_pid:-} ]] || kill "$azurite_pid"
  "$TABLE_SERVICE_CLUSTER_SCRIPT" sweep "$TABLE_SERVICE_CLUSTERS"
  # pgrx stops its server itself, unless it was interrupted.
  for pidfile in "$pgrx_data"/*/postmaster.pid; do
    read -r pid 2>/dev/null <"$pidfile" || continue
    [[ $(readlink "/proc/$pid/cwd") == "$(dirname "$pidfile")" ]] || continue
    kill -INT "$pid"
    for ((i = 0; i < 100; i++)); do
      [[ -e $pidfile ]] || break
      sleep 0.1
    done
  done
  rm -rf "$work"
}

step() { printf '\n\033[1m== %s\033[0m\n' "$*"; }

features=(--no-default-features --features "pg$PG")
# All packages but the extension, always together: for another selection of packages cargo builds many dependencies again, with
# the features that only this selection needs.
packages=(--workspace --exclude table_service)

# Into cargo's directory, where the tests look for it.
build_gateway() { cargo test "${packages[@]}" --test gateway --no-run; }

# Into the private PostgreSQL, for the steps that use a server of our own; once a run is enough.
installed=no
install_extension() {
  [[ $installed == no ]] || return 0
  step "Installing the extension into PostgreSQL $PG"
  cargo pgrx install --pg-config "$PG_CONFIG" "${features[@]}"
  # So that tests can upgrade from every release. Users get only the upgrade scripts.
  cp sql/releases/table_service--*.sql "$("$PG_CONFIG" --sharedir)/extension/"
  installed=yes
}

# regress NAME PROGRAM KIND: runs PROGRAM (pg_regress or pg_isolation_regress) over the files of tests/NAME/KIND.
regress() {
  local name=$1 program=$2 kind=$3 cluster=$work/$1 out=$PWD/target/$1 input=$PWD/tests/$1 tests test status=0 options
  mapfile -t tests < <(find "$input/$kind" -name "*.${kind%s}" -printf '%f\n' | sed 's/\.[a-z]*$//' | LC_ALL=C sort)
  if [[ -n ${TEST:-} ]]; then chosen; fi
  ((${#tests[@]})) || return 0
  rm -rf "$out"
  mkdir -p "$out" "$input/expected"
  if [[ ${ACCEPT:-} == 1 ]]; then
    # The drivers give up at a test without an expected result.
    for test in "${tests[@]}"; do touch "$input/expected/$test.out"; done
  fi
  # shellcheck disable=SC2086 # one word each
  pgrx-config/cluster.sh start "$cluster" ${REGRESS_SERVER:-} >"$work/connection"
  options=(--inputdir="$input" --outputdir="$out" --bindir="$PGBIN" --dbname=table_service_tests --load-extension=table_service
    --host="$(sed -n 's/^PGHOST=//p' "$work/connection")" --port="$(sed -n 's/^PGPORT=//p' "$work/connection")" --user=postgres)
  if [[ $("$program" --help) == *--expecteddir* ]]; then options+=(--expecteddir="$input"); fi
  # What the guide tells users to set for a database; a test may set another.
  PGOPTIONS="-c search_path=\"\$user\",public,table_service ${REGRESS_SETTINGS:-}" "$program" "${options[@]}" "${tests[@]}" || status=$?
  cp "$cluster/log" "$out/server.log"
  KEEP=1 pgrx-config/cluster.sh stop "$cluster"
  cat "$cluster"/valgrind.* >"$out/valgrind.log" 2>/dev/null || true
  pgrx-config/cluster.sh stop "$cluster"

  if [[ ${ACCEPT:-} == 1 ]]; then
    cp "$out"/results/*.out "$input/expected/"
    status=0
  elif ((status)); then
    cat "$out/regression.diffs" 2>/dev/null || true
  fi
  if grep -nE ' XX000 |terminated by signal| PANIC: |TRAP: ' "$out/server.log" || grep -rn 'XX000' "$out/results"; then
    echo "An internal error is always a bug (the log: $out/server.log)"
    status=1
  fi
  if [[ -s $out/valgrind.log ]]; then
    head -n 100 "$out/valgrind.log"
    echo "valgrind found something (all of it: $out/valgrind.log)"
    status=1
  fi
  return "$status"
}

# Takes the tests that are not in TEST off the list `tests`. Golden tests need the first one, which installs the extension.
chosen() {
  local test kept=()
  for test in "${tests[@]}"; do
    if [[ " $TEST " == *" $test "* ]]; then kept+=("$test"); fi
  done
  if [[ ${#kept[@]} -gt 0 && ${tests[0]} == 00_install && ${kept[0]} != 00_install ]]; then kept=(00_install "${kept[@]}"); fi
  tests=("${kept[@]}")
}

check_test_names() {
  local test
  for test in ${TEST:-}; do
    [[ -e tests/pg_regress/sql/$test.sql || -e tests/isolation/specs/$test.spec ]] || {
      echo "There is neither tests/pg_regress/sql/$test.sql nor tests/isolation/specs/$test.spec" >&2
      exit 1
    }
  done
}

run_format() {
  step "Formatting"
  cargo fmt --all --check
}

run_lints() {
  step "Lints"
  cargo clippy -p table_service --all-targets --no-default-features --features "pg$PG pg_test" -- -D warnings
  lint_all_but_the_extension
}

lint_all_but_the_extension() {
  cargo clippy "${packages[@]}" --all-targets -- -D warnings
}

# Only on request: what can be known without PostgreSQL, in less than a minute once it is built.
run_quick() {
  run_format
  run_architecture
  step "Lints of all but the extension"
  lint_all_but_the_extension
  step "Unit tests of all but the extension"
  cargo test "${packages[@]}" --lib
}

run_architecture() {
  step "The architecture: imports, and what documents and patches point to"
  cargo test "${packages[@]}" --test architecture
}

run_model() {
  step "The model, and unit tests of all but the extension"
  cargo test "${packages[@]}" --lib --bins --test access_corpus --test corpus --test entity --test filter_corpus --test formats --test laws
  cargo test "${packages[@]}" --doc
}

run_extension() {
  step "The extension inside PostgreSQL $PG"
  # pgrx writes over the library in place, which would crash a server that has it open.
  rm -f "$("$PG_CONFIG" --pkglibdir)/table_service.so"
  cargo pgrx test "pg$PG" ${TEST:+"$TEST"} "${features[@]}" "${pgrx_runas[@]}" --pgdata "$pgrx_data" 8>&- # the lock is not for its server
}

run_golden() {
  check_test_names
  install_extension
  step "Golden SQL"
  regress pg_regress "$(dirname "$("$PG_CONFIG" --pgxs)")/../test/regress/pg_regress" sql
}

run_isolation() {
  check_test_names
  install_extension
  step "Concurrent sessions"
  regress isolation "$(dirname "$("$PG_CONFIG" --pgxs)")/../test/isolation/pg_isolation_regress" specs
}

# What is read and written directly can also be done by statements, and must be the same.
run_statements() {
  export REGRESS_SETTINGS='-c table_service.enable_direct_access=off'
  run_golden
  run_isolation
  unset REGRESS_SETTINGS
}

run_system() {
  install_extension
  step "The whole system, over real connections"
  ACCEPT='' cargo test "${packages[@]}" --test system
}

run_gateway() {
  install_extension
  step "The gateway"
  cargo test "${packages[@]}" --test gateway
  run_histories
}

# Also by itself, with more seeds.
run_histories() {
  install_extension
  step "Histories: clients, while servers are killed (${HISTORIES:-few} seeds)"
  build_gateway
  cargo test "${packages[@]}" --test histories -- ${HISTORIES:+--nocapture}
}

run_emulator() {
  install_extension
  step "The emulator"
  cargo test "${packages[@]}" --test emulator
}

run_copy() {
  install_extension
  step "The program that copies tables"
  # Its tests copy to gateways.
  build_gateway
  cargo test "${packages[@]}" --test copy
}

run_sdk() {
  pgrx-config/setup.sh sdks
  install_extension
  step "Unmodified SDKs against the gateway"
  build_gateway
  tests/sdk/run.sh
}

run_docs() {
  install_extension
  step "The documentation: every SQL block, and its output"
  cargo test "${packages[@]}" --test docs
}

# Only on request: the steps `model` and `system` have it too.
run_schema() {
  step "What psql says of each object"
  cargo test "${packages[@]}" --lib -- reference::tests::psql_says_what_the_reference_says
  install_extension
  step "The install script"
  cargo test "${packages[@]}" --test system -- install_script::
}

# Only on request: it builds cargo-deny, if it is not there.
run_licences() {
  local deny=$cache/cargo-deny-$cargo_deny_version
  step "Licences and origins of the dependencies"
  if ! command -v cargo-deny >/dev/null && [[ ! -x $deny/bin/cargo-deny ]]; then
    cargo install --quiet --locked --root "$deny" "cargo-deny@$cargo_deny_version"
  fi
  PATH=$PATH:$deny/bin cargo deny --offline check licenses bans sources
}

# Only on request: it fetches pgspot from its registry.
run_pgspot() {
  local venv=$cache/pgspot-$pgspot_version script output
  pgrx-config/setup.sh sdks
  step "pgspot: what other roles could do to the install and upgrade scripts"
  if [[ ! -e $venv/.complete ]]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "pgspot==$pgspot_version"
    touch "$venv/.complete"
  fi
  for script in sql/install.sql sql/table_service--*--*.sql; do
    echo "$script"
    output=$("$venv/bin/pgspot" "$script") || true
    [[ $output == *"Errors: 0 Warnings: 0 Unknown: 0"* ]] || {
      echo "$output"
      return 1
    }
  done
}

# Only on request: it builds released versions from the history of this repository.
run_upgrades() {
  pgrx-config/setup.sh sdks
  install_extension
  step "Upgrades from released versions"
  build_gateway
  tests/upgrade/run.sh "$PG"
}

# Only on request: it fetches drivers from their registries.
run_drivers() {
  install_extension
  step "The programs of docs/guide/drivers.md"
  tests/docs/drivers.sh
}

# Only on request: it needs PgBouncer.
run_pgbouncer() {
  export PGBOUNCER=${PGBOUNCER:-pgbouncer}
  pgrx-config/setup.sh sdks
  install_extension
  build_gateway
  step "SDKs and drivers behind $("$PGBOUNCER" --version | head -n 1) in transaction mode"
  tests/sdk/run.sh
  tests/docs/drivers.sh
}

# Only on request: it fetches clients of the Table service from their registries.
run_clients() {
  local clients
  read -ra clients <<<"${CLIENT:-}"
  pgrx-config/setup.sh sdks
  install_extension
  step "Unmodified clients of the Table service against the gateway"
  build_gateway
  tests/clients/run.sh "${clients[@]}"
}

# Only on request: it needs root.
run_containers() {
  install_extension
  build_gateway
  step "What container images start, and what others can reach of it"
  GATEWAY=$PWD/target/debug/table-service-gateway packaging/test_start.sh
}

# Only on request: it builds Citus from the source that CITUS_SOURCE names.
run_citus() {
  local suites
  read -ra suites <<<"${SUITES:-}"
  if [[ -z ${SUITES:-} || " $SUITES " == *" sdk "* ]]; then pgrx-config/setup.sh sdks; fi
  if [[ -z ${SUITES:-} || " $SUITES " == *" sdk "* || " $SUITES " == *" histories "* ]]; then build_gateway; fi
  step "Citus"
  tests/citus/build.sh "$CITUS_SOURCE"
  install_extension
  step "Tables on a Citus cluster"
  tests/citus/run.sh "${suites[@]}"
}

# Only on request: many seeds of the random tests, many crashes.
run_soak() {
  install_extension
  step "Soak: ${SOAK:=200} seeds"
  export SOAK
  cargo test "${packages[@]}" --test system -- --nocapture --test-threads=1 batches:: crash::
}

# Only on request: many seeds of random statements.
run_fuzz_sql() {
  install_extension
  step "Random statements: ${SOAK:=200} seeds"
  export SOAK
  cargo test "${packages[@]}" --test system -- --nocapture fuzz::
}

# Only on request: every allocation of every function fails once, in the build that users get.
run_allocations() {
  step "The extension as users get it, in PostgreSQL $PG"
  cargo pgrx install --release --pg-config "$PG_CONFIG" "${features[@]}"
  installed=yes
  step "Failed allocations: ${SOAK:-all} points of each call"
  cargo test "${packages[@]}" --test system -- --ignored --nocapture out_of_memory::
}

# Only on request: faults in the use of memory and of caches, which no other test can see. A PostgreSQL with assertions
# overwrites what is freed, and its caches keep nothing that nobody holds. Then it runs some tests while every cache is
# emptied whenever that may happen, and some under valgrind, which knows what of PostgreSQL's memory is allocated.
run_asan() {
  [[ -n ${CHECKED:-} ]] || {
    echo "asan needs CHECKED=1" >&2
    exit 1
  }
  local files=${TEST:-}
  TEST='' run_extension
  run_golden
  run_isolation
  step "Concurrent sessions"
  cargo test "${packages[@]}" --test system -- concurrency:: encodings:: hostile_roles:: index_builds:: interrupts:: robustness:: timestamps::
  step "Random statements, with caches and without: ${SOAK:=10} seeds"
  SOAK=$SOAK cargo test "${packages[@]}" --test system -- --include-ignored --nocapture fuzz::
  TEST=${files:-batch delete direct_writes get insert matches merge parameters property_indexes shaped_tables tables upsert}
  step "The caches are emptied at every moment"
  REGRESS_SERVER=debug_discard_caches=1 run_golden
  TEST=${files:-batch batch_json direct_writes get insert json matches merge operators property_indexes query_tables shaped_tables to_properties types upsert}
  step "Under valgrind"
  VALGRIND=memcheck run_golden
  TEST=$files
}

# Only on request: many seeds of the copies that are killed, meet faults, or go through every kind of place.
run_copy_soak() {
  install_extension
  step "Copies: ${SOAK:=100} seeds"
  export SOAK
  build_gateway
  cargo test "${packages[@]}" --test copy -- --nocapture --test-threads=1 interrupted:: round_trips::
}

# Only on request: it fetches azurite from its registry.
run_copy_peers() {
  install_extension
  step "Copies to and from azurite: ${SOAK:=5} seeds"
  export SOAK
  # shellcheck source=tests/azurite.sh
  . tests/azurite.sh
  mkdir "$work/azurite"
  start_azurite "$work/azurite"
  build_gateway
  AZURITE=$azurite_address AZURITE_DIRECTORY=$work/azurite cargo test "${packages[@]}" --test copy -- --ignored --nocapture peers::
}

case $needs_postgres in
yes) prepare_servers ;;
no) pgrx-config/setup.sh rust ;;
esac
for name in "${steps[@]}"; do "run_$name"; done
if [[ $needs_postgres == yes ]]; then step "Passed: ${steps[*]} (PostgreSQL $PG)"; else step "Passed: ${steps[*]}"; fi
