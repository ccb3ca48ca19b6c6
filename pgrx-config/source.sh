# shellcheck shell=bash disable=SC2154
# The source of PostgreSQL. To be sourced after env.sh, with functions `die` and `say`.

keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# die_with LOG MESSAGE...: prints the end of the log first.
die_with() {
  tail -n 20 "$1" >&2
  die "${@:2}"
}

# fetch_source MAJOR: the source of PostgreSQL, in the directory `work`. Goes into it.
fetch_source() {
  local want=$1
  rm -rf "$work"
  mkdir -p "$work/source"
  if [[ -n ${POSTGRES_SOURCE:-} ]]; then
    tar xf "$POSTGRES_SOURCE" -C "$work/source" || die "POSTGRES_SOURCE is no archive that tar can read: $POSTGRES_SOURCE"
  else
    fetch_debian_source "$want"
  fi
  cd "$work/source"
  cd "postgresql-$want"*/ 2>/dev/null || die "this is not the source of PostgreSQL $want: ${POSTGRES_SOURCE:-$(ls)}"
  # PostgreSQL's makefiles leave out their first steps when another make has called them.
  unset MAKELEVEL MAKEFLAGS MFLAGS MAKEOVERRIDES
}

# Debian's source package.
fetch_debian_source() {
  local want=$1 suite=${source_suite[$want]:-}
  local instead=("Install it from apt.postgresql.org, or get its source from postgresql.org and give that:"
    "    make setup PG=$want POSTGRES_SOURCE=/path/to/postgresql-$want.N.tar.bz2")
  [[ -n $suite ]] || die "no release of Debian has PostgreSQL $want." "${instead[@]}"
  cd "$work/source"
  say "Fetching the source of PostgreSQL $want from Debian $suite"
  know_suites "$suite"
  {
    APT_CONFIG=$work/apt.conf apt-get source --download-only "postgresql-$want" &&
      tar xf "postgresql-${want}"_*.orig.tar.*
  } >>"$work/log" 2>&1 || die_with "$work/log" "Debian's mirror does not give the source of PostgreSQL $want." "${instead[@]}"
}

# know_suites SUITE...: with APT_CONFIG=$work/apt.conf, apt knows these suites of Debian, from the mirror that this
# machine uses already, and nothing else. Uses `instead`, the advice if there is no mirror.
know_suites() {
  local mirror suite
  # shellcheck disable=SC2016 # apt-get expands it
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' | grep -v -- -security | head -n 1)
  [[ -n $mirror ]] || die "this machine's apt knows no mirror of Debian, so there is no PostgreSQL $want." "${instead[@]}"

  mkdir -p "$work"/{lists,cache}
  for suite in "$@"; do
    printf '%s [signed-by=%s] %s %s main\n' deb "$keyring" "$mirror" "$suite" deb-src "$keyring" "$mirror" "$suite"
  done >"$work/sources.list"
  cat >"$work/apt.conf" <<EOF
Dir::Etc::SourceList "$work/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State::Lists "$work/lists";
Dir::Cache "$work/cache";
APT::Sandbox::User "$(id -un)";
EOF
  APT_CONFIG=$work/apt.conf apt-get update >"$work/log" 2>&1 || true # the machine's own hooks may fail; what is fetched tells
}
