#!/usr/bin/env bash
# Tests the tests: breaks one rule of filters at a time, and fails if the model's tests stay green.
#
#   filter_mutations.sh [NAME ...]     these of tests/mutations/filters/*.patch (default: all)
#
# Each patch says in its first line what it breaks. They are all in the model, so no server is needed. Everything happens in a
# copy of the project, so nothing is left behind but the build in target/mutations, which makes the next run faster.
set -euo pipefail

cd "$(dirname "$0")/.."
patches=tests/mutations/filters
if (($#)); then mutants=("$@"); else mapfile -t mutants < <(basename -s .patch "$patches"/*.patch); fi
for mutant in "${mutants[@]}"; do
  [[ -e $patches/$mutant.patch ]] || {
    echo "There is no $patches/$mutant.patch" >&2
    exit 1
  }
done

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/mutations
mkdir -p "$CARGO_TARGET_DIR"
exec 7>"$CARGO_TARGET_DIR/.filters-one-run-at-a-time"
flock 7
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The copies have new times, so that cargo takes nothing of them for built.
git ls-files -z --cached --others --exclude-standard --deduplicate | while IFS= read -r -d '' file; do
  if [[ -e $file ]]; then printf '%s\0' "$file"; fi
done | xargs -0 cp --parents --no-preserve=timestamps -t "$work"
cd "$work"

build() {
  cargo test -p table_service_model "$@" --no-run >"$work/build.log" 2>&1 7>&- || {
    cat "$work/build.log" >&2
    return 1
  }
}

# run ARGUMENT...: prints the tests that fail. A mutant may also never end.
run() {
  timeout 300 cargo test -p table_service_model "$@" >"$work/test.log" 2>&1 7>&- ||
    { sed -nE 's/^test ([A-Za-z0-9_:]+) \.\.\. FAILED/\1/p' "$work/test.log" | grep . || echo "they do not end"; }
}

# Most are caught by the fast tests.
caught_by() {
  local failed
  failed=$(run --lib -- filter::tests --skip hostile)
  [[ -n $failed ]] || failed=$(run)
  paste -sd' ' <<<"$failed"
}

build --lib
failed=$(caught_by)
[[ -z $failed ]] || {
  echo "Without any change, these fail: $failed" >&2
  exit 1
}

survivors=0
for mutant in "${mutants[@]}"; do
  patch=$patches/$mutant.patch
  git apply "$patch" || {
    echo "$mutant: the patch does not apply any more; make it anew" >&2
    exit 1
  }
  build --lib || {
    echo "$mutant does not compile" >&2
    exit 1
  }
  failed=$(caught_by)
  printf '%-26s %s\n' "$mutant" "${failed:-SURVIVES: $(head -n 1 "$patch")}"
  [[ -n $failed ]] || survivors=$((survivors + 1))
  git apply -R "$patch"
done
echo "${#mutants[@]} mutants, $survivors survive"
((survivors == 0))
