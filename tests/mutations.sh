#!/usr/bin/env bash
# Tests the tests: takes out one safeguard at a time, and fails if the tests still pass.
#
#   mutations.sh [NAME ...]     these of tests/mutations/, such as no-lock or filters/key-order (default: all)
#
# Each patch says in its first line what it breaks. Those of filters/ are caught by the model's tests, those of gateway/ by the
# gateway's; the others by tests on a server. Everything happens in a copy of the project and of PostgreSQL, so nothing is left behind but the build in
# target/mutations, which makes the next run faster.
#
# Environment: PG, the PostgreSQL major, as for the other scripts.
set -euo pipefail

cd "$(dirname "$0")/.."
# shellcheck source=pgrx-config/env.sh
. pgrx-config/env.sh ''

golden_tests=(00_install access bulk batch batch_errors batch_json batch_transactions change_feeds delete etags expiry insert merge pages patch privileges property_index_pages property_indexes rename replace table_features upsert)
system_tests=(batches:: bulk:: change_feeds:: concurrency::concurrent_definitions expiry:: index_entities:: patch:: property_indexes:: privileges::the_owner_of_the_database queries::a_partitioned queries::plans upgrade::)
gateway_tests=(faults::whoever_leads memory:: hostile::a_page_whose)

if (($#)); then mutants=("$@"); else mapfile -t mutants < <(cd tests/mutations && find . -name '*.patch' -printf '%P\n' | sed 's/\.patch$//' | LC_ALL=C sort); fi
on_a_server=() of_filters=() of_gateway=()
for mutant in "${mutants[@]}"; do
  [[ -e tests/mutations/$mutant.patch ]] || {
    echo "There is no tests/mutations/$mutant.patch" >&2
    exit 1
  }
  case $mutant in
  filters/*) of_filters+=("$mutant") ;;
  gateway/*) of_gateway+=("$mutant") ;;
  *) on_a_server+=("$mutant") ;;
  esac
done
if ((${#on_a_server[@]} + ${#of_gateway[@]})); then pgrx-config/setup.sh "$PG" run; fi

export CARGO_TARGET_DIR=$PWD/target/mutations CARGO_PROFILE_DEV_DEBUG=0
mkdir -p "$CARGO_TARGET_DIR"
exec 7>"$CARGO_TARGET_DIR/.one-run-at-a-time"
flock 7

# As root, servers need a place that the user postgres can reach, and paths of sockets must be short.
work=$(mktemp -d /tmp/table_service.XXXXXX)
chmod 755 "$work"
mkdir "$work/clusters" "$work/source"
export TABLE_SERVICE_CLUSTERS=$work/clusters
export TABLE_SERVICE_CLUSTER_SCRIPT=$PWD/pgrx-config/cluster.sh
cleanup() {
  "$TABLE_SERVICE_CLUSTER_SCRIPT" sweep "$TABLE_SERVICE_CLUSTERS"
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# The copies have new times, so that cargo takes nothing of them for built.
git ls-files -z --cached --others --exclude-standard --deduplicate | while IFS= read -r -d '' file; do
  if [[ -e $file ]]; then printf '%s\0' "$file"; fi
done | xargs -0 cp --parents --no-preserve=timestamps -t "$work/source"
if ((${#on_a_server[@]} + ${#of_gateway[@]})); then
  cp -a "$cache/pg$PG" "$work/pg"
  PGBIN=$work/pg/bin
  export PG_CONFIG=$PGBIN/pg_config
fi
cd "$work/source"

# quietly COMMAND...: its output is shown only if it fails.
quietly() {
  "$@" >"$work/build.log" 2>&1 7>&- || {
    cat "$work/build.log" >&2
    return 1
  }
}

failed_tests() { sed -nE 's/^test ([A-Za-z0-9_:]+) \.\.\. FAILED/\1/p'; }

# --- Filters: tests of the model ------------------------------------------------------------------------------------------

build_model() { quietly cargo test -p table_service_model --lib --no-run; }

# model_tests ARGUMENT...: prints the tests that fail. A mutant may also never end.
model_tests() {
  timeout 300 cargo test -p table_service_model "$@" >"$work/model.log" 2>&1 7>&- ||
    { failed_tests <"$work/model.log" | grep . || echo "the tests do not end"; }
}

# Most are caught by the fast tests.
caught_by_model() {
  local failed
  failed=$(model_tests --lib -- filter::tests --skip hostile)
  [[ -n $failed ]] || failed=$(model_tests)
  paste -sd' ' <<<"$failed"
}

# --- The gateway: its unit tests, then its tests with a server -------------------------------------------------------------

build_gateway() { quietly cargo test -p table_service_gateway --lib --test gateway --no-run; }

# run_gateway_tests ARGUMENT...: prints the tests that fail. A mutant may also never end.
run_gateway_tests() {
  timeout 600 cargo test -p table_service_gateway "$@" >"$work/gateway.log" 2>&1 7>&- ||
    { failed_tests <"$work/gateway.log" | grep . || echo "the tests do not end"; }
}

caught_by_gateway() {
  local failed
  failed=$(run_gateway_tests --lib)
  [[ -n $failed ]] || failed=$(run_gateway_tests --test gateway -- "${gateway_tests[@]}")
  paste -sd' ' <<<"$failed"
}

# --- The others: tests on a server ----------------------------------------------------------------------------------------

# The committed install script serves all mutants, because they do not change SQL objects.
build_extension() { PROFILE=dev quietly pgrx-config/install.sh "$PG_CONFIG"; }

build_system_tests() {
  system=$(cargo test -p system-tests --test system --no-run --message-format=json 2>"$work/build.log" 7>&- |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
  [[ -x $system ]] || {
    cat "$work/build.log" >&2
    return 1
  }
}

# Every suite gets a new cluster, because a mutant may leave anything behind. A copy is faster than initdb.
make_template() {
  "$TABLE_SERVICE_CLUSTER_SCRIPT" start "$work/template" >/dev/null 7>&-
  KEEP=1 "$TABLE_SERVICE_CLUSTER_SCRIPT" stop "$work/template"
  rm "$work/template/env"
}

# regress NAME PROGRAM TEST...: prints the tests that fail.
regress() {
  local name=$1 program=$2 cluster=$work/cluster out=$work/out input=$PWD/tests/$1 options
  shift 2
  rm -rf "$out"
  mkdir -p "$out"
  cp -a "$work/template" "$cluster"
  "$TABLE_SERVICE_CLUSTER_SCRIPT" start "$cluster" statement_timeout=20s >"$work/connection" 7>&-
  options=(--inputdir="$input" --outputdir="$out" --bindir="$PGBIN" --dbname=table_service_tests --load-extension=table_service
    --host="$(sed -n 's/^PGHOST=//p' "$work/connection")" --port="$(sed -n 's/^PGPORT=//p' "$work/connection")" --user=postgres)
  if [[ $("$program" --help) == *--expecteddir* ]]; then options+=(--expecteddir="$input"); fi
  PGISOLATIONTIMEOUT=20 PGOPTIONS="-c search_path=\"\$user\",public,table_service ${settings:-}" \
    timeout 300 "$program" "${options[@]}" "$@" >"$work/$name.log" 2>&1 7>&- || true
  "$TABLE_SERVICE_CLUSTER_SCRIPT" stop "$cluster"
  # In the words of PostgreSQL 15, and of 16 and later.
  sed -nE 's/^test ([a-z0-9_]+) .*FAILED.*/\1/p; s/^not ok +[0-9]+ +[-+] +([a-z0-9_]+).*/\1/p' "$work/$name.log"
  grep -qE 'All [0-9]+ tests passed' "$work/$name.log" || [[ -s $out/regression.diffs ]] || echo "$name does not run"
}

golden() {
  regress pg_regress "$(dirname "$("$PG_CONFIG" --pgxs)")/../test/regress/pg_regress" "${golden_tests[@]}"
}

isolation() {
  local tests
  mapfile -t tests < <(basename -s .spec tests/isolation/specs/*.spec)
  regress isolation "$(dirname "$("$PG_CONFIG" --pgxs)")/../test/isolation/pg_isolation_regress" "${tests[@]}"
}

# The same tests with statements in place of direct access.
statements() {
  local settings='-c table_service.enable_direct_access=off'
  golden
  isolation
}

system() {
  # A panic in one of many sessions is enough.
  timeout 300 "$system" --test-threads=1 "${system_tests[@]}" >"$work/system.log" 2>&1 7>&- ||
    { failed_tests <"$work/system.log" | grep . || echo "system hangs"; }
}

# The tests of the first suite that fails; the fast suites run first.
caught_on_a_server() {
  local suite failed
  for suite in golden isolation statements system; do
    failed=$("$suite")
    if [[ -n $failed ]]; then
      echo "$suite: $(paste -sd' ' <<<"$failed")"
      return
    fi
  done
}

# --- The run --------------------------------------------------------------------------------------------------------------

survivors=0

# try BUILD CAUGHT_BY MUTANT...: CAUGHT_BY prints the tests that fail on what BUILD has built.
try() {
  local build=$1 caught_by=$2 mutant patch failed
  shift 2
  "$build"
  failed=$("$caught_by")
  [[ -z $failed ]] || {
    echo "Without any change, these fail: $failed" >&2
    cat "$work"/*.log >&2
    exit 1
  }
  for mutant; do
    patch=tests/mutations/$mutant.patch
    git apply "$patch" || {
      echo "$mutant: the patch does not apply any more; make it anew" >&2
      exit 1
    }
    if ! "$build"; then
      printf '%-34s %s\n' "$mutant" "DOES NOT COMPILE"
      survivors=$((survivors + 1))
      git apply -R "$patch"
      continue
    fi
    failed=$("$caught_by")
    printf '%-34s %s\n' "$mutant" "${failed:-SURVIVES: $(head -n 1 "$patch")}"
    [[ -n $failed ]] || survivors=$((survivors + 1))
    git apply -R "$patch"
  done
}

if ((${#of_filters[@]})); then try build_model caught_by_model "${of_filters[@]}"; fi
if ((${#of_gateway[@]})); then
  build_extension
  try build_gateway caught_by_gateway "${of_gateway[@]}"
fi
if ((${#on_a_server[@]})); then
  make_template
  build_system_tests
  try build_extension caught_on_a_server "${on_a_server[@]}"
fi
echo "${#mutants[@]} mutants, $survivors survive or do not compile"
((survivors == 0))
