#!/usr/bin/env bash
# Runs the programs of docs/guide/drivers.md that are not written in Rust, and compares what they print with the page.
# Not a part of `make test`: it fetches the drivers from their registries. Needs python3, node with npm, java, and apt-get.
#
#   drivers.sh      on a throwaway server with the extension, which `cargo xtask drivers` has installed
#
# Environment: BOUNCER=PROGRAM, a PgBouncer that the drivers connect to, in transaction mode
set -euo pipefail

project=$(realpath "$(dirname "$0")/../..")
page=$project/docs/guide/drivers.md
work=$(mktemp -d /tmp/table_service_drivers.XXXXXX)
bouncer_pid=
cleanup() {
  if [[ -n $bouncer_pid ]]; then kill "$bouncer_pid" 2>/dev/null || true; fi
  "$project/pgrx-config/cluster.sh" stop "$work/cluster"
  rm -rf "$work"
}
trap cleanup EXIT
# The server's user must reach it.
chmod 755 "$work"
cd "$work"

# block LANGUAGE: the page's block of that language. shown LANGUAGE: the block after it, which is what it prints.
block() { awk -v fence="\`\`\`$1" '$0 == fence { inside = 1; next } /^```/ { inside = 0 } inside' "$page"; }
shown() { awk -v fence="\`\`\`$1" '$0 == fence { found = 1; next } /^```text/ && found { inside = 1; found = 0; next } /^```/ { inside = 0 } inside' "$page"; }

TCP=1 "$project/pgrx-config/cluster.sh" start "$work/cluster" >connection
set -a
# shellcheck source=/dev/null
. ./connection
export PGHOST=localhost
set +a

fresh() {
  PGOPTIONS='-c client_min_messages=warning' "$PGBIN/psql" -qX -d postgres -c 'DROP DATABASE IF EXISTS drivers' -c 'CREATE DATABASE drivers'
  # shellcheck disable=SC2016 # psql expands it
  "$PGBIN/psql" -qX -d drivers -c 'CREATE EXTENSION table_service' -c 'ALTER DATABASE drivers SET search_path = "$user", public, table_service'
}

driver_port=$PGPORT
if [[ -n ${BOUNCER:-} ]]; then
  # shellcheck source=tests/pgbouncer.sh
  . "$project/tests/pgbouncer.sh"
  start_pgbouncer "$work/pgbouncer" "$work/cluster" "$PGPORT"
  driver_port=$bouncer_port
fi

check() { # LANGUAGE COMMAND...
  fresh
  PGDATABASE=drivers PGPORT=$driver_port "${@:2}" >printed
  diff <(shown "$1") printed || {
    echo "$page: the $1 program prints something else"
    exit 1
  }
  echo "$1: as the page shows"
}

block python >employees.py
python3 -m venv python
python/bin/pip install --quiet 'psycopg[binary]'
check python python/bin/python employees.py

block js >employees.js
npm install --silent --no-fund --no-audit pg
check js node employees.js

block java >Employees.java
apt-get download -qq libpostgresql-jdbc-java 2>/dev/null
dpkg -x libpostgresql-jdbc-java_*.deb jdbc
check java java -cp jdbc/usr/share/java/postgresql.jar Employees.java "jdbc:postgresql://localhost:$driver_port/drivers?user=$PGUSER"
