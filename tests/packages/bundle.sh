#!/usr/bin/env bash
# Installs, uses, upgrades and removes the emulator's wheel and npm package of target/packages in bare Debian systems that have only
# Python and pip, or Node.js and npm, and no network while it is used. Needs root.
#
#   bundle.sh [RELEASE]    Debian's release (default: trixie, the first with a Node.js that the SDK takes)
set -euo pipefail

cd "$(dirname "$0")/../.."
project=$PWD
# shellcheck source=pgrx-config/env.sh
. pgrx-config/env.sh ''
# shellcheck source=tests/testing.sh
. tests/testing.sh
# shellcheck source=tests/chroot.sh
. tests/chroot.sh
release=${1:-trixie}
machine=$(uname -m)
packages=$project/target/packages
wheel=$(compgen -G "$packages/table_service_emulator-*.whl") || die "there is no wheel: make packages"
npm=$(compgen -G "$packages/table-service-emulator-*.tgz") || die "there is no npm package: make packages"
pgrx-config/setup.sh sdks
venv=$(tests/sdk/packages.sh python python tests/sdk/requirements.txt)
sdk=$(tests/sdk/packages.sh javascript javascript tests/sdk/javascript)
setups=$(tests/sdk/packages.sh javascript setups packaging/emulator/tests/setups)

# offline USER COMMAND: as `inside`, but without a network. The names of processes that outlive the command are in $work/left.
offline() {
  unshare --net --mount --pid --fork --kill-child --mount-proc bash -c "ip link set lo up && mount -t proc proc '$system/proc' && chroot '$system' \"\$@\"
    result=\$?; cat /proc/[0-9]*/comm 2>/dev/null | grep -E '^(table-service|postgres|initdb)' >'$work/left'; exit \$result" - \
    runuser -u "$1" -- env -i PATH=/usr/local/bin:/usr/bin:/bin HOME="$(if [[ $1 == root ]]; then echo /root; else echo "/home/$1"; fi)" \
    LANG=C.UTF-8 bash -euc "cd /tests; $2"
}
nothing_is_left() {
  same "no process is left: $1" "" "$(<"$work/left")"
  same "no file is left: $1" "" "$(inside "find / -xdev \( -path /proc -o -path /dev -o -path /opt -o -path /project -o -path /packages -o -path /tests -o -path /home/somebody/installed \
    -o -path /root/installed -o -path /var -o -path /usr \) -prune -o -newer /started -type f -print | grep -Ev '__pycache__|/\.npm/|/\.cache/|^/etc/|^/sys/' || true")"
}
# A session of the SDK with the emulator that a command starts. It is told to end, and must.
session='session() {
  "$1" --port 0 --admin-port 0 >/tmp/said & emulator=$!
  until [[ -s /tmp/said ]]; do sleep 0.02; kill -0 $emulator; done
  connection=$(sed -n "s/^Connection string: //p" /tmp/said)
  while [[ -z $connection ]]; do sleep 0.02; connection=$(sed -n "s/^Connection string: //p" /tmp/said); done
  shift
  "$@" "$connection"
  kill -TERM $emulator; wait $emulator; rm -f /tmp/said
}; '

make_base "$release"

# --- Python -------------------------------------------------------------------------------------------------------------------

enter "$release"
apt_install python3 python3-pip python3-venv
inside "useradd --create-home somebody"
mkdir -p "$system"/{packages,tests}
cp "$wheel" "$system/packages/"
cp tests/session.py packaging/emulator/tests/test_service.py "$system/tests/"
python=$(inside "python3 -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])'")
"$venv/bin/pip" download --quiet --disable-pip-version-check --only-binary=:all: --python-version "$python" \
  --platform "manylinux_2_28_$machine" --platform "manylinux_2_17_$machine" --platform "manylinux2014_$machine" \
  -d "$system/packages" "$(grep azure-data-tables tests/sdk/requirements.txt)" pytest pytest-xdist
for program in gcc cargo psql postgres; do
  ! chroot "$system" sh -c "command -v $program" >/dev/null || die "the system has $program"
done
touch "$system/started"
installed='/home/somebody/installed/my tests'
offline somebody "python3 -m venv '$installed' && '$installed/bin/pip' install -q --no-index --find-links /packages table-service-emulator azure-data-tables pytest pytest-xdist"
ok "installed by an ordinary user without a network, in a path with a blank"
echo "         wheel: $(du -k "$wheel" | cut -f1) kB, installed: $(chroot "$system" du -sk "$installed/share" | cut -f1) kB and the program $(chroot "$system" du -k "$installed/bin/table-service-emulator" | cut -f1) kB"
for round in first second; do
  same "a session of the SDK, the $round time" "[7, 8, 9]" \
    "$(offline somebody "$session session '$installed/bin/table-service-emulator' '$installed/bin/python' session.py")"
  nothing_is_left "the $round time"
done
same "installed into a directory of an application" "[7, 8, 9]" "$(offline somebody "cd /home/somebody && python3 -m pip install -q --no-index --find-links /packages --target installed/application \
  table-service-emulator azure-data-tables && cp /tests/session.py installed/application && cd installed/application && python3 -c '
import subprocess, sys, table_service_emulator
with table_service_emulator.start() as emulator:
    subprocess.run([sys.executable, \"session.py\", emulator.connection_string], check=True)'")"
nothing_is_left "installed into a directory of an application"
rm -r "$system/home/somebody/installed/application"
same "in a directory whose name a shell would change" "[7, 8, 9]" "$(offline somebody "there=~/installed/'\$there'; mkdir \"\$there\"
  cp -r '$installed'/{bin,share} \"\$there\"; $session session \"\$there/bin/table-service-emulator\" '$installed/bin/python' session.py; rm -r \"\$there\"")"
chmod a-w "$system/home/somebody"
same "two at a time, with a home that cannot be written" "[7, 8, 9] [7, 8, 9]" "$(offline somebody "
  e='$installed/bin/table-service-emulator'; p='$installed/bin/python'
  \"\$p\" - <<'PROGRAM'
import subprocess, sys
import table_service_emulator
with table_service_emulator.start() as one, table_service_emulator.start() as two:
    both = [subprocess.run([sys.executable, 'session.py', each.connection_string], capture_output=True, text=True, check=True) for each in (one, two)]
    print(*(each.stdout.strip() for each in both))
PROGRAM")"
nothing_is_left "two at a time"
pytest="'$installed/bin/python' -m pytest -q -p no:cacheprovider test_service.py"
passes() { # passes NAME OPTION ...
  offline somebody "$pytest ${*:2}" >"$work/log" 2>&1 || true
  tail -n 1 "$work/log" | grep -E '^13 passed, 1 skipped' >/dev/null || die "$1 fails: $(<"$work/log")"
}
passes pytest
ok "pytest"
passes pytest-xdist -n 4
ok "pytest-xdist with 4 workers"
nothing_is_left "pytest"
! offline somebody "FAIL=yes $pytest" >"$work/log" || die "the failing test passes"
grep -E '^1 failed, 13 passed' "$work/log" >/dev/null || die "a failing test harms others: $(<"$work/log")"
ok "a failing test fails alone"
# The processes that a killed run leaves end a moment later.
offline somebody "FAIL=abort $pytest || for i in {1..600}; do grep -qsE '^(table-service|postgres)' /proc/[0-9]*/comm || break; sleep 0.1; done" >"$work/log" 2>&1
nothing_is_left "an aborted run"
# Shells let programs in the background ignore a Ctrl-C, and tests may run there.
! offline somebody "FAIL=interrupt setsid --wait env --default-signal=INT $pytest" >"$work/log" 2>&1 || die "the interrupted run passes"
{ grep KeyboardInterrupt "$work/log" && ! grep -E 'URLError|INTERNALERROR' "$work/log"; } >/dev/null || die "an interrupted run: $(<"$work/log")"
nothing_is_left "an interrupted run"
for user in nobody postgres; do
  inside "id $user >/dev/null 2>&1 || useradd --system $user"
  inside "rm -rf /root/installed; python3 -m venv /root/installed" >/dev/null
  offline root "/root/installed/bin/pip install -q --no-index --find-links /packages table-service-emulator azure-data-tables && chmod 700 /root"
  same "root, whose server runs as $user" "[7, 8, 9]" \
    "$(offline root "$session session /root/installed/bin/table-service-emulator /root/installed/bin/python session.py")"
  nothing_is_left "root, $user"
done
refused=$(offline root "mount -t tmpfs -o noexec,mode=1777 none /mnt; TMPDIR=/mnt /root/installed/bin/table-service-emulator --port 0 2>&1 || true")
[[ $refused == *"may be mounted noexec"* ]] || die "root, where no program runs: $refused"
ok "root is told where its programs do not run"
chmod u+w "$system/home/somebody"
same "the lines of azurite-table, in a current directory that keeps the tables" "Azurite Table service is successfully listening at http://127.0.0.1:10002
Azurite Table service successfully closed" "$(offline somebody "mkdir -p /tmp/kept; cd /tmp/kept; '$installed/bin/table-service-emulator' azurite-table --silent >/tmp/said & e=\$!
  until grep -q listening /tmp/said 2>/dev/null; do sleep 0.05; done; kill -TERM \$e; wait \$e; grep -E 'listening|closed' /tmp/said; rm -r /tmp/said /tmp/kept")"
# The content of the package, by its bill of materials, and the words of its licences.
own="$system$installed/share/table-service-emulator"
for part in postgresql rust-std table_service tikv-jemalloc-sys; do
  "$venv/bin/python" -c 'import json, sys; sys.exit(sys.argv[1] not in [part["name"] for part in json.load(sys.stdin)["components"]])' "$part" \
    <"$own/sbom.cdx.json" || die "the bill of materials lacks $part"
done
for words in crates:'Jason Evans' crates:'The Rust Standard Library' crates:'PgCentral Foundation' crates:'Apache License' \
  postgresql:'PostgreSQL Global Development Group' postgresql:'Henry Spencer' table_service:'table_service authors'; do
  grep -q "${words#*:}" "$own/licences/${words%%:*}" || die "the licences lack: $words"
done
ok "its bill of materials and licences"
# A version before: the same files under another number.
"$venv/bin/python" - "$wheel" "$system/packages" <<'PROGRAM'
import re, sys, zipfile
source, directory = sys.argv[1:]
version = re.search(r"emulator-([\d.]+)-py3", source)[1]
with zipfile.ZipFile(source) as old, zipfile.ZipFile(f"{directory}/table_service_emulator-0.0.1-py3-none-any.whl", "w") as new:
    for entry in old.infolist():
        content = old.read(entry)
        if ".dist-info/" in entry.filename:
            content = content.replace(version.encode(), b"0.0.1")
        entry.filename = entry.filename.replace(version, "0.0.1")
        new.writestr(entry, content)
PROGRAM
pip="'$installed/bin/pip'"
offline somebody "$pip install -q --no-index --find-links /packages table-service-emulator==0.0.1 && $pip install -q --no-index --find-links /packages --upgrade table-service-emulator"
same "a session after an upgrade" "[7, 8, 9]" \
  "$(offline somebody "$session session '$installed/bin/table-service-emulator' '$installed/bin/python' session.py")"
offline somebody "$pip uninstall -q -y table-service-emulator"
# pytest keeps a compiled form of plugins, unknown to pip.
same "what is left when it is uninstalled" "" "$(inside "find /home/somebody/installed -path '*table?service?emulator*' -type f -not -name '*.pyc'")"
leave

# --- Node.js ------------------------------------------------------------------------------------------------------------------

enter "$release"
# npm scripts end the processes that they have started with the help of `ps`.
apt_install nodejs npm procps
inside "useradd --create-home somebody"
mkdir -p "$system"/{packages,tests} "$system/usr/local/lib/sdk"
cp "$npm" "$system/packages/"
cp -r "$sdk/node_modules" "$system/usr/local/lib/sdk/"
touch "$system/started"
there='cd ~/installed/my\ project'
install="npm install --offline --no-audit --no-fund --silent"
path="export NODE_PATH=/usr/local/lib/sdk/node_modules"
for options in "" --ignore-scripts; do
  offline somebody "rm -rf ~/installed; mkdir -p ~/installed/my\ project && $there && npm init -y >/dev/null && $install $options /packages/$(basename "$npm")"
  cp packaging/emulator/tests/service.test.mjs "$system/home/somebody/installed/my project/"
  offline somebody "$there && ./node_modules/.bin/table-service-emulator --version >/dev/null && $path && node --test" >"$work/log" 2>&1 ||
    { tail -n 60 "$work/log" >&2; die "the tests in Node.js fail"; }
  grep -E '^# pass 6$|pass 6$' "$work/log" >/dev/null || { tail -n 60 "$work/log" >&2; die "not all tests in Node.js have run"; }
  ok "npm install $options, and the tests of Node.js"
  nothing_is_left "npm install $options"
done
cp packaging/emulator/tests/setups/* "$system/home/somebody/installed/my project/"
cp -r "$setups/node_modules/." "$system/home/somebody/installed/my project/node_modules/"
offline somebody "$there && $path && node --test setups.test.mjs" >"$work/log" 2>&1 || { tail -n 60 "$work/log" >&2; die "the set-ups fail"; }
grep -E '^# pass 4$|pass 4$' "$work/log" >/dev/null || { tail -n 60 "$work/log" >&2; die "not all set-ups have run"; }
ok "npm scripts, an editor's task and steps of CI"
# A version before: the same files under another number.
mkdir "$work/before"
tar xzf "$npm" -C "$work/before"
sed -i 's/"version": ".*"/"version": "0.0.1"/' "$work/before/package/package.json"
tar czf "$system/packages/before.tgz" -C "$work/before" package
version='node --print "require(\"./node_modules/table-service-emulator/package.json\").version"'
same "npm before and after an upgrade" "0.0.1 $(basename "$npm" .tgz | sed 's/.*-//')" "$(offline somebody "cd /home/somebody && mkdir -p installed/upgraded && cd installed/upgraded && npm init -y >/dev/null &&
  $install /packages/before.tgz && before=\$($version) && $install /packages/$(basename "$npm") && echo \"\$before \$($version)\"")"
offline somebody "cd ~/installed/upgraded && npm uninstall --offline --no-audit --no-fund --silent table-service-emulator"
same "what is left when it is uninstalled" "" "$(inside "find /home/somebody/installed/upgraded/node_modules -name 'table-service*' 2>/dev/null || true")"
# For all users, by root; the program is a link then.
offline root "npm install --global --offline --no-audit --no-fund --silent /packages/$(basename "$npm")"
same "it is there for everybody" "table-service-emulator $(basename "$npm" .tgz | sed 's/.*-//')" "$(offline somebody "table-service-emulator --version")"
offline somebody "table-service-emulator azurite-table --inMemoryPersistence >/tmp/said & e=\$!; until grep -q listening /tmp/said 2>/dev/null; do kill -0 \$e; sleep 0.05; done; kill \$e; wait \$e; rm /tmp/said"
nothing_is_left "installed for everybody"
leave
echo "Passed: $(basename "$wheel"), $(basename "$npm")"
