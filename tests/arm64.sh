#!/usr/bin/env bash
# Builds the extension, the gateway, the copy program and the emulator for arm64, and uses them under qemu with Debian
# 13's PostgreSQL for arm64. Makes the emulator's wheel and npm package for arm64, and uses the wheel. Needs root.
#
#   arm64.sh [FILE ...]    with these golden tests (default: some of each kind)
#
# The compilers are those of Debian 13, in a system of their own that also has the libraries for arm64. The kernel
# starts programs for arm64 with qemu (binfmt_misc), and qemu takes their libraries from there and everything else,
# such as users, from this machine. The tests themselves are this machine's.
set -euo pipefail

cd "$(dirname "$0")/.."
project=$PWD
# shellcheck source=pgrx-config/env.sh
. pgrx-config/env.sh 17
# shellcheck source=tests/testing.sh
. tests/testing.sh
((EUID == 0)) || die "only root can make a root file system"
golden=("$@")
if ((${#golden[@]} == 0)); then golden=(batch change_feeds filters insert json keys merge operators pages property_indexes text_and_binary types); fi
pgrx-config/setup.sh arm64
# PostgreSQL for its packages is built here.
pgrx-config/setup.sh emulator
venv=$(tests/sdk/packages.sh python python tests/sdk/requirements.txt)
own=$cache/arm64
system=$own/system
built=$own/target/aarch64-unknown-linux-gnu/tour
tree=$own/pg17
say() { printf '\033[1m==\033[0m %s\n' "$*"; }

cluster() { PG_CONFIG=$tree/bin/pg_config pgrx-config/cluster.sh "$1" "$work/cluster"; }
work=$(mktemp -d /tmp/table_service.arm64.XXXXXX)
programs=()
mounted=no registered=no linked=no
cleanup() {
  ((${#programs[@]} == 0)) || kill "${programs[@]}" 2>/dev/null || true
  wait
  [[ ! -e $work/cluster ]] || cluster stop || true
  [[ $registered == no ]] || echo -1 >"$binfmt/qemu-aarch64"
  [[ $mounted == no ]] || umount "$binfmt"
  [[ $linked == no ]] || rm /etc/qemu-binfmt/aarch64
  rm -rf "$work"
}
trap cleanup EXIT
chmod 755 "$work"

binfmt=/proc/sys/fs/binfmt_misc
if [[ ! -e $binfmt/register ]]; then
  mount -t binfmt_misc none "$binfmt"
  mounted=yes
fi
if [[ ! -e $binfmt/qemu-aarch64 ]]; then
  cat /usr/lib/binfmt.d/qemu-aarch64.conf >"$binfmt/register"
  registered=yes
fi

if [[ ! -e $system/.complete ]]; then
  say "A system with compilers for arm64, and with PostgreSQL for arm64"
  rm -rf "$system"
  mkdir -p "$own"
  # shellcheck disable=SC2016 # apt-get expands it
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' | grep -v -- -security | sed -n 1p)
  [[ -n $mirror ]] || die "this machine's apt knows no mirror of Debian"
  packages=(ca-certificates cargo clang gcc gcc-aarch64-linux-gnu libclang-dev libc6-dev libc6-dev:arm64 libicu-dev:arm64
    libstd-rust-dev:arm64 make postgresql-17:arm64 postgresql-client-17:arm64 rustc rustfmt)
  # Of the package with the headers only the files: it wants compilers that run on arm64.
  # shellcheck disable=SC2016 # mmdebstrap's shell expands it
  mmdebstrap --quiet --variant=minbase --architectures=amd64,arm64 --include="$(IFS=, && echo "${packages[*]}")" \
    --aptopt='Acquire::Check-Valid-Until "false"' \
    --setup-hook='printf "Package: rustc cargo rustfmt libstd-rust*:any\nPin: release n=trixie-backports\nPin-Priority: 900\n" >"$1/etc/apt/preferences.d/rust"' \
    --customize-hook='cd "$1/tmp" && APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get download postgresql-server-dev-17:arm64 && dpkg-deb -x postgresql-server-dev-17_*.deb "$1"' \
    trixie "$system" "deb $mirror trixie main" "deb $mirror trixie-backports main"
  touch "$system/.complete"
fi

say "The extension and the programs for arm64"
cargo fetch --locked --quiet
mkdir -p "$system"/{project,opt/cargo,opt/own,target} "$own/target"
# compile PG_CONFIG ARGUMENT...
compile() {
  # shellcheck disable=SC2016 # that shell expands it
  unshare --mount --pid --fork --kill-child bash -euc '
    system=$1
    mount --bind "$2" "$system/project"
    mount --bind "$3" "$system/opt/cargo"
    mount --bind "$4" "$system/target"
    mount --bind "$5" "$system/opt/own"
    mount --rbind /dev "$system/dev"
    mount -t proc proc "$system/proc"
    exec chroot "$system" env -i -C /project PATH=/usr/bin:/bin HOME=/root CARGO_HOME=/opt/cargo CARGO_TARGET_DIR=/target \
      CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc PGRX_PG_CONFIG_PATH="$6" \
      cargo build --offline --locked --profile tour --target aarch64-unknown-linux-gnu "${@:7}"' \
    - "$system" "$project" "${CARGO_HOME:-$HOME/.cargo}" "$own/target" "$own" "$@"
}
compile /usr/lib/postgresql/17/bin/pg_config -p table_service --lib --no-default-features --features pg17
compile "" -p table_service_gateway -p table_service_copy -p table_service_emulator

mkdir -p "$own/root/usr"
ln -sfn "$system/usr/lib" "$own/root/lib"
ln -sfn "$system/usr/lib" "$own/root/usr/lib"
export QEMU_LD_PREFIX=$own/root
# The emulator's PostgreSQL does not get this variable. Qemu looks here without it.
if [[ ! -e /etc/qemu-binfmt/aarch64 ]]; then
  mkdir -p /etc/qemu-binfmt
  ln -s "$own/root" /etc/qemu-binfmt/aarch64
  linked=yes
fi
# PostgreSQL finds its files from where its program is.
rm -rf "$tree"
mkdir -p "$tree"/{lib,share}/postgresql
cp -r "$system/usr/lib/postgresql/17" "$tree/lib/postgresql/"
cp -r "$system/usr/share/postgresql/17" "$tree/share/postgresql/"
ln -s lib/postgresql/17/bin "$tree/bin"
packaging/extension.sh "$built/libtable_service.so" "$tree/lib/postgresql/17/lib" "$tree/share/postgresql/17/extension"
echo "unpacked: $("$tree/bin/pg_config" --version)" >"$tree/.complete"
ln -sfn "$cache/cargo-pgrx-$cargo_pgrx_version" "$own/cargo-pgrx-$cargo_pgrx_version"

# --- The same tests as elsewhere, with a server for arm64 -----------------------------------------------------------

export TABLE_SERVICE_CACHE=$own TABLE_SERVICE_INSTALLED=1 CC_OF_SERVER=aarch64-linux-gnu-gcc
cargo xtask --pg 17 test golden "${golden[@]/#/--file=}"
cargo xtask --pg 17 allocations --points 1 insert_entity execute_batch query_page query_changes

# --- The programs ---------------------------------------------------------------------------------------------------

# session_of_emulator NAME ARGUMENT...
session_of_emulator() {
  begins emulator "$2" --port 0 --admin-port 0 "${@:3}"
  until grep -q '^Connection string: ' "$work/emulator.log"; do sleep 0.2; done
  same "$1" "[7, 8, 9]" "$(by_sdk "$(sed -n 's/^Connection string: //p' "$work/emulator.log")")"
}
all_end() {
  kill "${programs[@]}"
  local program
  for program in "${programs[@]}"; do wait "$program" || die "a program ends with an error: $(cat "$work"/*.log)"; done
  programs=()
}
say "The gateway, the copy program and the emulator"
# begins NAME PROGRAM ARGUMENT...: starts a program, and waits for its line with an address.
begins() {
  # Not the line of the program before: the next one empties its log some time after this.
  : >"$work/$1.log"
  "${@:2}" >"$work/$1.log" 2>&1 &
  programs+=($!)
  until grep -q 'http://' "$work/$1.log"; do
    kill -0 $! 2>/dev/null || die "it does not start: $(<"$work/$1.log")"
    sleep 0.2
  done
}
by_sdk() { "$venv/bin/python" tests/session.py "$@"; }
sql() { "$tree/bin/psql" -XAtq -v ON_ERROR_STOP=1 -h "$work/cluster" -U postgres -c "$1"; }
key='Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=='
printf '#include <stdio.h>\n#include <unistd.h>\nint main(void) { printf("%%ld", sysconf(_SC_PAGESIZE)); }\n' |
  aarch64-linux-gnu-gcc -static -x c -o "$work/pagesize" -
# Kernels for arm64 have pages of one of these sizes.
for QEMU_PAGESIZE in 4096 16384 65536; do
  export QEMU_PAGESIZE
  if [[ $("$work/pagesize") != "$QEMU_PAGESIZE" ]]; then
    echo "This qemu has no pages of $QEMU_PAGESIZE bytes: they are not tried."
    continue
  fi
  cluster start >/dev/null
  [[ $(sql "SELECT version()") == *" on aarch64-"* ]] || die "the server is not one for arm64"
  sql "CREATE EXTENSION table_service"
  begins gateway "$built/table-service-gateway" --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 --database-url "host=$work/cluster user=postgres dbname=postgres"
  endpoint=$(grep -o 'http://[0-9.:]*' "$work/gateway.log" | head -n 1)/devstoreaccount1
  connection="DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=$key;TableEndpoint=$endpoint;"
  same "pages of $QEMU_PAGESIZE bytes: a session of the SDK with the gateway" "[7, 8, 9]" "$(by_sdk "$connection")"
  FROM=$connection "$built/table-service-copy" --from env:FROM --to "$work/copy" --quiet
  same "pages of $QEMU_PAGESIZE bytes: a copy of the gateway's table" 11 "$(cat "$work"/copy/*.jsonl | wc -l)"
  session_of_emulator "pages of $QEMU_PAGESIZE bytes: a session of the SDK with the emulator" \
    "$built/table-service-emulator" --postgres "$tree/bin"
  all_end
  cluster stop
  rm -r "$work/copy"
done
unset QEMU_PAGESIZE

# --- The emulator's packages ----------------------------------------------------------------------------------------

say "The emulator's wheel and npm package"
# Programs of this PostgreSQL run while it is built, so for its configure this machine is one for arm64.
POSTGRESQL=$(CC=aarch64-linux-gnu-gcc AR=aarch64-linux-gnu-ar build_alias=aarch64-linux-gnu packaging/postgresql.sh -O1)
compile "/opt/own/${POSTGRESQL#"$own/"}/bin/pg_config" -p table_service --lib --no-default-features \
  --features pg18,pgrx/no-schema-generation
install -D -m 644 "$built/libtable_service.so" "$own/packages/build/bundle/table_service.so"
# The programs are compiled for Debian 13's C library.
PROGRAMS=$built BUILD=$own/packages/build POSTGRESQL=$POSTGRESQL SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) \
  packaging/bundle.sh aarch64 2.41
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary=:all: --platform manylinux_2_41_aarch64 \
  --target "$work/installed" "$own"/packages/table_service_emulator-*.whl
session_of_emulator "a session of the SDK with the emulator of the wheel" "$work/installed/bin/table-service-emulator"
all_end
tar xzf "$own"/packages/table-service-emulator-*.tgz -C "$work"
same "the npm package is for arm64" '"arm64"' "$(grep -A 1 '"cpu"' "$work/package/package.json" | tail -n 1 | tr -d ' ')"
cmp "$work/package/bin/table-service-emulator" "$work/installed/bin/table-service-emulator"
echo "Passed: arm64"
