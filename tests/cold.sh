#!/usr/bin/env bash
# Tests the two commands of the README on machines that have less than this one: bare Debian systems, each in a chroot of its
# own, with this machine's Rust and its crates. Needs root.
#
#   cold.sh [STATE ...]         in each state (default: all): `make run` and a short `make test`. Only the first state of a release
#                               builds everything; the others get its builds of crates and of cargo-pgrx
#   cold.sh --check [STATE ...] only the packages that set-up misses there, and its messages; minutes instead of hours
#
# States of a system, each on Debian 12 and 13 (RELEASES="bookworm trixie"), with the PostgreSQL of that release:
#   bare         nothing but make
#   server       PostgreSQL without its headers
#   headers      PostgreSQL and its headers
#   cluster      PostgreSQL, and a cluster of it that runs on port 5432
#   user         an ordinary user without sudo, where one package is missing
#   interrupted  set-up is killed again and again (not with --check)
#
# Environment: RELEASES; CARGO_PGRX=1 takes this machine's cargo-pgrx instead of building it, for a release that has its libraries
set -euo pipefail

cd "$(dirname "$0")/.."
project=$PWD
# shellcheck source=pgrx-config/env.sh
. pgrx-config/env.sh ''

all=(bare server headers cluster user interrupted)
check=no
if [[ ${1:-} == --check ]]; then
  check=yes
  all=(bare server headers cluster user)
  shift
fi
states=("${@:-${all[@]}}")
declare -A major=([bookworm]=15 [trixie]=17)
read -ra releases <<<"${RELEASES:-bookworm trixie}"

die() {
  echo "cold.sh: $*" >&2
  exit 1
}
# shellcheck source=tests/chroot.sh
. tests/chroot.sh
for state in "${states[@]}"; do
  [[ " ${all[*]} " == *" $state "* ]] || die "no such state: $state (there are: ${all[*]})"
done

# --- The checks -----------------------------------------------------------------------------------------------------------

failures=0
# expect WHAT EXPECTED GOT
expect() {
  if [[ $2 == "$3" ]]; then
    printf 'ok       %-11s %-9s %s\n' "$state" "$release" "$1"
  else
    failures=$((failures + 1))
    printf 'FAILED   %-11s %-9s %s\n   expected: %s\n   got:      %s\n' "$state" "$release" "$1" "$2" "$3"
  fi
}

# missing [USER [FOR]]
missing() { { inside "${1:-root}" "CHECK=1 pgrx-config/setup.sh ${2:-$PG}" 2>&1 || true; } | sort | paste -sd' '; }

list() { printf '%s\n' "$@" | sort | paste -sd' '; }

# The tools that `make test` needs besides PostgreSQL; the last two to build cargo-pgrx.
needed_tools() {
  tools=(clang gcc git libc6-dev libclang-dev sudo)
  if [[ ! -e $system/var/cache/table_service/cargo-pgrx-$cargo_pgrx_version ]]; then tools+=(libssl-dev pkg-config); fi
}

# The command that starts a cluster, if one has to run beside the tests.
before=true

proves_itself() {
  local command status
  for command in "make run" "make test ONLY='architecture golden' TEST=merge"; do
    status=0
    inside "$before; PG=$PG $command" >"$work/log" 2>&1 || status=$?
    ((status == 0)) || tail -n 20 "$work/log" >&2
    expect "$command" 0 "$status"
  done
  expect "set-up has nothing left to do" "" "$(missing)"
  local cargo_pgrx=cargo-pgrx-$cargo_pgrx_version
  if [[ ! -e $builds/$release/$cargo_pgrx && -e $system/var/cache/table_service/$cargo_pgrx ]]; then
    cp -a "$system/var/cache/table_service/$cargo_pgrx" "$builds/$release/"
  fi
}

state_bare() {
  expect "missing" "$(list "${tools[@]}" "postgresql-$PG" "postgresql-client-$PG" "postgresql-server-dev-$PG" postgresql-common)" "$(missing)"
  local emulator=(binutils bison bzip2 clang dpkg-dev flex gcc git libc6-dev libclang-dev python3)
  expect "missing for make emulator" "$(list "${emulator[@]}")" "$(missing root emulator)"
  expect "missing for make packages" "$(list "${emulator[@]}" debhelper help2man "postgresql-server-dev-$PG")" "$(missing root packages)"
}

state_server() {
  apt_install "postgresql-$PG"
  expect "missing" "$(list "${tools[@]}" "postgresql-server-dev-$PG")" "$(missing)"
}

state_headers() {
  apt_install "postgresql-$PG" "postgresql-server-dev-$PG"
  expect "packages of PostgreSQL that are missing" "" "$(missing | grep -o 'postgresql[^ ]*' || true)"
}

state_cluster() {
  apt_install postgresql
  before="pg_ctlcluster $PG main start"
  expect "a cluster runs" "$PG main 5432 online" "$(inside "$before; pg_lsclusters -h" 2>&1 | tail -n 1 | cut -d' ' -f 1-4 | tr -s ' ')"
  expect "missing" "$(list "${tools[@]}" "postgresql-server-dev-$PG")" "$(missing)"
}

state_user() {
  local package all_packages
  inside "useradd --create-home somebody"
  # The user does not have root's cache.
  all_packages=$(missing somebody)
  # Not libclang-dev: Debian 12's clang brings a libclang, with which nothing is missing.
  for package in clang "postgresql-server-dev-$PG"; do
    # shellcheck disable=SC2046 # a list
    apt_install $(tr ' ' '\n' <<<"$all_packages" | grep -vx "$package")
    expect "what it says without $package" "    apt-get install $package" "$(inside somebody "pgrx-config/setup.sh $PG" 2>&1 | grep 'apt-get install')"
    expect "its exit status" 1 "$(inside somebody "pgrx-config/setup.sh $PG" >/dev/null 2>&1 || echo $?)"
    expect "what it leaves behind" "lock" "$(inside somebody 'ls ~/.cache/table_service')"
    leave
    enter "$release"
    inside "useradd --create-home somebody"
  done
}

state_interrupted() {
  local seconds
  # The longer a machine takes, the more steps these hit.
  for seconds in 1 3 5 10 15 20 30 40 60 80 120 160 320; do
    if inside "timeout -s KILL $seconds pgrx-config/setup.sh $PG" >"$work/log" 2>&1; then break; fi
    echo "         $state $release killed after $seconds s: $(grep '^.*==' "$work/log" | tail -n 1)"
  done
  inside "pgrx-config/setup.sh $PG" >"$work/log" 2>&1 || true
  expect "set-up has nothing left to do" "" "$(missing)"
  expect "the private PostgreSQL is whole" "postgres (PostgreSQL) $PG" "$(inside "/var/cache/table_service/pg$PG/bin/postgres --version" | grep -o "postgres (PostgreSQL) $PG")"
  expect "new clusters are allowed again" "" "$(inside "grep -s '^create_main_cluster *= *false' /etc/postgresql-common/createcluster.conf || true")"
}

builds=$work/builds
for release in "${releases[@]}"; do
  PG=${major[$release]:-}
  [[ -n $PG ]] || die "which PostgreSQL does $release have? Add it to cold.sh"
  make_base "$release"
  for state in "${states[@]}"; do
    enter "$release"
    needed_tools
    before=true
    "state_$state"
    if [[ $check == no && $state != user && $state != interrupted ]]; then proves_itself; fi
    leave
  done
done
echo "$failures failed"
((failures == 0))
