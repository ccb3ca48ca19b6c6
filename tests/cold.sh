#!/usr/bin/env bash
# Tests the two commands of the README on machines that have less than this one: bare Debian systems, each in a chroot of its
# own, with this machine's Rust and its crates. Needs root.
#
#   cold.sh [STATE ...]         in each state (default: all): `make run` and a short `make test`
#   cold.sh --check [STATE ...] only what set-up finds missing there, and what it says; minutes instead of hours
#
# States of a system, each on Debian 12 and 13 (RELEASES="bookworm trixie"), with the PostgreSQL of that release:
#   bare         nothing but make
#   server       PostgreSQL without its headers
#   headers      PostgreSQL and its headers
#   cluster      PostgreSQL, and a cluster of it that runs on port 5432
#   user         an ordinary user without sudo, where one package is missing
#   interrupted  set-up is killed again and again (not with --check)
#
# Environment: RELEASES; CARGO_PGRX=1 takes this machine's cargo-pgrx instead of building it, for a release whose libraries it runs with
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
((EUID == 0)) || die "only root can make a chroot"
command -v mmdebstrap >/dev/null || apt-get install -y -qq --no-install-recommends mmdebstrap >/dev/null ||
  die "mmdebstrap is missing, and apt-get cannot install it"
for state in "${states[@]}"; do
  [[ " ${all[*]} " == *" $state "* ]] || die "no such state: $state (there are: ${all[*]})"
done

# shellcheck disable=SC2016 # apt-get expands it
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' | grep -v -- -security | head -n 1)
bases=$cache/cold
mkdir -p "$bases"
work=$(mktemp -d "$bases/work.XXXXXX")
system=$work/system
cleanup() {
  leave
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# --- Systems --------------------------------------------------------------------------------------------------------------

make_base() {
  local release=$1
  [[ ! -e $bases/$release/.complete ]] || return 0
  echo "Making a bare system of $release"
  rm -rf "${bases:?}/$release"
  mmdebstrap --quiet --variant=minbase --include=make,ca-certificates "$release" "$bases/$release" "$mirror"
  # The mirror may be behind a proxy with a certificate of its own.
  cp -L /etc/ssl/certs/ca-certificates.crt "$bases/$release/etc/ssl/certs/ca-certificates.crt"
  touch "$bases/$release/.complete"
}

# A fresh copy of a base, with the project in /project.
enter() {
  local release=$1
  mkdir -p "$work"/{upper,overlay,cargo-upper,cargo-overlay} "$system"
  mount -t overlay overlay -o "lowerdir=$bases/$release,upperdir=$work/upper,workdir=$work/overlay" "$system"
  mkdir -p "$system"/{project,opt/rust,opt/cargo} "$bases/$release-archives/partial"
  mount --bind "$bases/$release-archives" "$system/var/cache/apt/archives"
  mount --rbind /dev "$system/dev"
  mount --make-rslave "$system/dev"
  mount --bind "$(rustc --print sysroot)" "$system/opt/rust"
  mount -t overlay overlay -o "lowerdir=${CARGO_HOME:-$HOME/.cargo},upperdir=$work/cargo-upper,workdir=$work/cargo-overlay" "$system/opt/cargo"
  cp -L /etc/resolv.conf "$system/etc/resolv.conf"
  if [[ ${CARGO_PGRX:-} == 1 ]]; then
    mkdir -p "$system/var/cache/table_service"
    cp -rL "$cache/cargo-pgrx-$cargo_pgrx_version" "$system/var/cache/table_service/"
  fi
  git -C "$project" ls-files -z --cached --others --exclude-standard --deduplicate | while IFS= read -r -d '' file; do
    if [[ -e $project/$file ]]; then printf '%s\0' "$file"; fi
  done | (cd "$project" && xargs -0 cp --parents -t "$system/project")
}

leave() {
  local mounted
  for mounted in var/cache/apt/archives opt/cargo opt/rust dev ''; do
    if mountpoint -q "$system/$mounted"; then umount -R -l "$system/$mounted"; fi
  done
  rm -rf "$work"/{upper,overlay,cargo-upper,cargo-overlay}
}

# inside [USER] COMMAND: in the system, with processes of its own, none of which outlives the command.
inside() {
  local user=root
  if (($# > 1)); then
    user=$1
    shift
  fi
  unshare --mount --pid --fork --kill-child bash -c "mount -t proc proc '$system/proc' && exec chroot '$system' \"\$@\"" - \
    runuser -u "$user" -- env -i PATH=/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME="$(if [[ $user == root ]]; then echo /root; else echo "/home/$user"; fi)" CARGO_HOME=/opt/cargo LANG=C.UTF-8 \
    bash -c "cd /project && $1"
}

apt_install() {
  inside "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $*" >"$work/log" 2>&1 || {
    tail -n 20 "$work/log" >&2
    die "apt-get install $* fails in $release"
  }
}

# --- What must be true ----------------------------------------------------------------------------------------------------

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

missing() { { inside "CHECK=1 pgrx-config/setup.sh $PG" 2>&1 || true; } | sort | paste -sd' '; }

list() { printf '%s\n' "$@" | sort | paste -sd' '; }

# What `make test` needs besides PostgreSQL.
tools=(clang gcc git libc6-dev libclang-dev sudo)
if [[ ${CARGO_PGRX:-} != 1 ]]; then tools+=(libssl-dev pkg-config); fi

# What has to run beside everything else.
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
}

state_bare() {
  expect "missing" "$(list "${tools[@]}" "postgresql-$PG" "postgresql-client-$PG" "postgresql-server-dev-$PG" postgresql-common)" "$(missing)"
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
  all_packages=$(missing)
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

for release in "${releases[@]}"; do
  PG=${major[$release]:-}
  [[ -n $PG ]] || die "which PostgreSQL does $release have? Add it to cold.sh"
  make_base "$release"
  for state in "${states[@]}"; do
    enter "$release"
    before=true
    "state_$state"
    if [[ $check == no && $state != user && $state != interrupted ]]; then proves_itself; fi
    leave
  done
done
echo "$failures failed"
((failures == 0))
