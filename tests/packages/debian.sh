#!/usr/bin/env bash
# Installs, uses, upgrades and purges the packages of target/packages in a bare Debian system. Needs root.
#
#   debian.sh [RELEASE]    Debian's release (default: the one of this machine); its PostgreSQL is used
set -euo pipefail

cd "$(dirname "$0")/../.."
project=$PWD
# shellcheck source=pgrx-config/env.sh
. pgrx-config/env.sh ''
# shellcheck source=tests/testing.sh
. tests/testing.sh
# shellcheck source=tests/chroot.sh
. tests/chroot.sh
release=${1:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
declare -A major=([bookworm]=15 [trixie]=17 [sid]=18)
PG=${major[$release]:-}
[[ -n $PG ]] || die "which PostgreSQL does $release have?"
packages=$project/target/packages
extension=$(compgen -G "$packages/postgresql-$PG-table-service_*.deb") || die "there is no package for PostgreSQL $PG: make packages"
version=$(dpkg-deb --field "$extension" Version)
pgrx-config/setup.sh sdks
venv=$(tests/sdk/packages.sh python python tests/sdk/requirements.txt)

sql() { inside "runuser -u postgres -- psql -XAtq -v ON_ERROR_STOP=1 $*"; }
installs() { inside "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $*" >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; die "cannot install $*"; }; }

# A program that runs in the system while the next commands do. It ends with `ends`.
begins() {
  inside "$@" >"$work/program" 2>&1 &
  program=$!
}
program=
# Also when a check fails.
trap '[[ -z $program ]] || ends 2>/dev/null || true; cleanup' EXIT
child_of() { awk '{print $1}' "/proc/$1/task/$1/children"; }
# The first process in the name space of the program takes all others along: they are killed.
ends() {
  local child
  child=$(child_of "$(child_of "$program")")
  kill -KILL "$child"
  wait "$program" || true
  program=
}
# The number of the emulator, below those that have begun it.
emulator() {
  local pid=$program
  while [[ $(<"/proc/$pid/comm") != table-service-e* ]]; do pid=$(child_of "$pid"); done
  echo "$pid"
}
waits() {
  local i
  for ((i = 0; i < 1200; i++)); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.1
  done
  cat "$work/program" >&2
  die "does not happen: $*"
}

# The files that the packages must not have left.
leftovers() {
  inside "find / -xdev \( -path /project -o -path /packages -o -path /proc -o -path /opt -o -path /var/cache/apt -o -path /dev \) -prune -o \
    \( -name '*table[-_]service*' -o -name 'postgresql-*-table*' \) -print"
}

# The package of a version before, made of the package of this one: the objects and the library of the release.
package_of_release() {
  local old=$1 built tree=$work/old-package
  built=$(pgrx-config/release.sh "$old" "$PG")
  dpkg-deb --raw-extract "$extension" "$tree"
  sed -i "s/^Version: .*/Version: $old/" "$tree/DEBIAN/control"
  rm "$tree/usr/share/postgresql/$PG/extension"/table_service--*
  cp "$built/table_service--$old.sql" "$tree/usr/share/postgresql/$PG/extension/"
  sed -i "s/^default_version = .*/default_version = '$old'/" "$tree/usr/share/postgresql/$PG/extension/table_service.control"
  cp "$built/table_service.so" "$tree/usr/lib/postgresql/$PG/lib/"
  rm "$tree/DEBIAN/md5sums"
  dpkg-deb --root-owner-group --build "$tree" "$system/packages/old.deb" >/dev/null
}

# repacked PACKAGE VERSION: the package with another version.
repacked() {
  rm -rf "$work/repacked"
  dpkg-deb --raw-extract "$packages/$1"_*.deb "$work/repacked"
  sed -i "s/^Version: .*/Version: $2/" "$work/repacked/DEBIAN/control"
  dpkg-deb --root-owner-group --build "$work/repacked" "$system/packages/old-$1.deb" >/dev/null
}

command -v lintian >/dev/null || die "lintian is missing: apt-get install lintian"
lintian --fail-on error --tag-display-limit 0 "$packages"/*.deb || die "lintian finds errors"
ok "lintian finds no errors"

make_base "$release"
enter "$release"
mkdir "$system/packages"
cp "$packages"/*.deb "$system/packages/"
package_of_release 0.1.0

# --- The extension: an earlier version, an upgrade, purge -------------------------------------------------------------------

installs /packages/old.deb
# A server that was killed has left its number, which may be another process's.
start_server="rm -f /var/lib/postgresql/$PG/main/postmaster.pid; pg_ctlcluster $PG main start"
begins "$start_server && sleep infinity"
waits sql "-c 'SELECT 1'"
sql "-c 'CREATE DATABASE tables TEMPLATE template0 ENCODING UTF8'"
sql "-d tables -c 'CREATE EXTENSION table_service'"
same "the earlier version" 0.1.0 "$(sql "-d tables -c \"SELECT extversion FROM pg_extension WHERE extname = 'table_service'\"")"
sql "-d tables -f /project/tests/upgrade/data.sql" >/dev/null
sql "-d tables -f /project/tests/upgrade/answers.sql" >"$work/before"
installs "/packages/$(basename "$extension")"
sql "-d tables -f /project/tests/upgrade/answers.sql" >"$work/after"
same "the same answers with the new package" "$(<"$work/before")" "$(<"$work/after")" >/dev/null
sql "-d tables -c 'ALTER EXTENSION table_service UPDATE'"
sql "-d tables -f /project/tests/upgrade/answers.sql" >"$work/after"
same "the same answers after ALTER EXTENSION" "$(<"$work/before")" "$(<"$work/after")" >/dev/null
same "the new version" "$version" "$(sql "-d tables -c \"SELECT extversion FROM pg_extension WHERE extname = 'table_service'\"")"

# --- The gateway --------------------------------------------------------------------------------------------------------------

repacked table-service-gateway 0.1.9
installs /packages/old-table-service-gateway.deb
inside "echo '# ours' >>/etc/table-service-gateway.toml"
installs "/packages/table-service-gateway_*.deb"
same "its settings survive an upgrade" "# ours" "$(inside "tail -n 1 /etc/table-service-gateway.toml")"
same "its settings are root's alone" "600 root" "$(inside "stat -c '%a %U' /etc/table-service-gateway.toml")"
same "its version" "table-service-gateway $version" "$(inside "table-service-gateway --version")"
inside "test -e /usr/lib/systemd/system/table-service-gateway.service || test -e /lib/systemd/system/table-service-gateway.service"
inside "zcat -f /usr/share/man/man1/table-service-gateway.1*" | grep 'database' >/dev/null || die "its man page lacks the options"
same "the version of the copy program" "table-service-copy $version" "$(inside "table-service-copy --version")"
inside "zcat -f /usr/share/man/man1/table-service-copy.1*" | grep -F 'on\-conflict' >/dev/null || die "the copy program's man page lacks the options"
same "without an account it does not start" 2 "$(inside "table-service-gateway --config /etc/table-service-gateway.toml 2>/dev/null || echo \$?")"
refused=$(inside "runuser -u postgres -- table-service-gateway --listen 0.0.0.0:10012 --admin-listen 127.0.0.1:10013 --database-url postgresql:///tables?host=/run/postgresql 2>&1 || true")
[[ $refused == *"is public"* ]] || die "it starts with the public key for everybody: $refused"
ok "it does not start with the public key for everybody"
ends
begins "$start_server && runuser -u postgres -- table-service-gateway --listen 127.0.0.1:10012 --admin-listen 127.0.0.1:10013 --database-url postgresql:///tables?host=/run/postgresql"
waits curl -sf http://127.0.0.1:10013/ready
ok "it is ready: $(curl -sf http://127.0.0.1:10013/ready)"
key='Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=='
by_sdk() {
  "$venv/bin/python" tests/session.py \
    "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=$key;TableEndpoint=http://127.0.0.1:$1/devstoreaccount1;"
}
same "a session of the SDK with the gateway" "[7, 8, 9]" "$(by_sdk 10012)"
ends

# --- The emulator -------------------------------------------------------------------------------------------------------------

repacked table-service-emulator 0.1.9
installs /packages/old-table-service-emulator.deb
installs "/packages/table-service-emulator_*.deb"
inside "zcat -f /usr/share/man/man1/table-service-emulator.1*" | grep 'healthcheck' >/dev/null || die "its man page lacks the commands"
inside "useradd --create-home somebody"
for user in somebody root; do
  begins "$user" "exec table-service-emulator --port 10022 --admin-port 10023"
  waits inside "table-service-emulator healthcheck --admin-port 10023"
  same "a session of the SDK with the emulator of $user" "[7, 8, 9]" "$(by_sdk 10022)"
  same "reset" empty "$(curl -sf -X POST http://127.0.0.1:10023/reset)"
  same "a session after the reset" "[7, 8, 9]" "$(by_sdk 10022)"
  ends
done
# They were killed, and so was the process that cleans up after them. The next one does it.
for user in somebody root; do
  begins "$user" "exec table-service-emulator --port 10022"
  waits inside "table-service-emulator healthcheck --port 10022"
  kill -TERM "$(emulator)"
  wait "$program" || die "the emulator of $user fails when it is told to end"
  program=
done
same "what emulators leave in /tmp" "" "$(inside "ls -d /tmp/table-service-emulator-* 2>/dev/null || true")"

# --- Their contents ---------------------------------------------------------------------------------------------------------

for file in "postgresql-$PG-table-service/licences" table-service-gateway/licences{,-copy} table-service-emulator/licences; do
  inside "zcat -f /usr/share/doc/$file*" | grep 'The Rust Standard Library' >/dev/null || die "/usr/share/doc/$file lacks the licences"
done
ok "the licences of what is in them"

for name in gateway copy emulator; do
  name=table-service-$name
  same "bash completes $name" "--version" "$(inside ". /usr/share/bash-completion/completions/$name; completer=\$(complete -p $name); completer=\${completer#*-F }
    COMP_WORDS=($name --versi) COMP_CWORD=1; \${completer%% *} $name --versi $name; echo \${COMPREPLY[@]}")"
  inside "test -s /usr/share/zsh/vendor-completions/_$name -a -s /usr/share/fish/vendor_completions.d/$name.fish" || die "zsh and fish do not complete $name"
done
inside "test -s /usr/share/table-service-gateway/grafana/dashboard.json" || die "there is no dashboard"
guide=$(dpkg-deb --fsys-tarfile "$packages"/table-service-doc_*.deb | tar t | grep -c '/docs/guide/.*\.md$')
same "the pages of the guide" "$(git ls-files docs/guide | grep -c '\.md$')" "$guide"
for deb in "$packages"/*.deb; do
  changelog=$(dpkg-deb --fsys-tarfile "$deb" | tar x --to-stdout --wildcards '*/changelog.gz' | zcat)
  [[ $changelog == "table-service ($version) "* && $changelog == *"table-service (0.1.0) "* ]] || die "$deb lacks a changelog"
done
ok "changelogs"

# --- Nothing is left ----------------------------------------------------------------------------------------------------------

inside "DEBIAN_FRONTEND=noninteractive apt-get purge -y -qq table-service-emulator table-service-gateway postgresql-$PG-table-service" >"$work/log" 2>&1 ||
  { tail -n 20 "$work/log" >&2; die "cannot purge"; }
same "what is left after purge" "" "$(leftovers)"
leave
echo "Passed: $(basename -a "$packages"/*.deb | paste -sd' ')"
