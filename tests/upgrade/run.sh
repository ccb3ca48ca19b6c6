#!/usr/bin/env bash
# Upgrades from released versions, with the libraries and gateways of these versions (see pgrx-config/release.sh).
#
#   run.sh [PG]     PG has the extension of this checkout. On a major after 15 also pg_upgrade from 15
#
# data.sql is what a database holds, answers.sql and matches.sql what it answers: the same before, during and after the upgrade.
# catalog.sql lists every object of the extension. tests/system/tests/system/upgrade.rs tests what needs no library of another version.
set -euo pipefail

cd "$(dirname "$0")/../.."
PG=${1:-${PG:-}}
# shellcheck source=pgrx-config/env.sh
. pgrx-config/env.sh ''
work=$(mktemp -d /tmp/table_service_upgrade.XXXXXX)
chmod 755 "$work"
gateway=${CARGO_TARGET_DIR:-$PWD/target}/debug/table-service-gateway
this=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)

cleanup() {
  local cluster
  for cluster in "$work"/*/env; do
    [[ ! -e $cluster ]] || pgrx-config/cluster.sh stop "$(dirname "$cluster")"
  done
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

step() { printf -- '-- %s\n' "$*"; }
as_server() { if ((EUID == 0)); then runuser -u postgres -- "$@"; else "$@"; fi; }

# A copy of PostgreSQL MAJOR with that release: tree DIRECTORY MAJOR RELEASE.
tree() {
  local built libraries extensions
  built=$(pgrx-config/release.sh "$3" "$2")
  cp -a "$cache/pg$2" "$1"
  libraries=$("$1/bin/pg_config" --pkglibdir)
  extensions=$("$1/bin/pg_config" --sharedir)/extension
  rm -f "$extensions"/table_service[.-]* "$libraries"/table_service.so
  cp "$built/table_service.so" "$libraries/"
  cp "$built/table_service--$3.sql" "$extensions/"
  sed "s/@CARGO_VERSION@/$3/" table_service.control >"$extensions/table_service.control"
}

# The files of this checkout over those of a release, as a package does it: upgrade_tree DIRECTORY.
upgrade_tree() {
  local old=$1 libraries extensions
  libraries=$("$old/bin/pg_config" --pkglibdir)
  extensions=$("$old/bin/pg_config" --sharedir)/extension
  cp "$("$PG_CONFIG" --sharedir)"/extension/table_service[.-]* "$extensions/"
  cp "$("$PG_CONFIG" --pkglibdir)/table_service.so" "$libraries/table_service.so.new"
  mv "$libraries/table_service.so.new" "$libraries/table_service.so"
}

server() { PG_CONFIG=$1/bin/pg_config pgrx-config/cluster.sh start "$2" | sed -n 's/^PGHOST=//p'; }
sql() { "$PGBIN/psql" -XAtq -v ON_ERROR_STOP=1 -U postgres -h "$@"; }
answers() { sql "$1" -d "${2:-tables}" -f tests/upgrade/answers.sql -f tests/upgrade/matches.sql; }

# same WHAT EXPECTED GOT: two files
same() {
  if ! diff -u "$2" "$3" >"$work/differences"; then
    head -n 40 "$work/differences" | cut -c 1-400
    echo "FAILED: $1" >&2
    exit 1
  fi
  echo "ok: $1"
}

# is_like_new HOST WHAT: the catalog of the database is that of a new one.
is_like_new() {
  PGOPTIONS="-c search_path=" sql "$1" -d tables -f tests/upgrade/catalog.sql >"$work/catalog"
  same "$2 has the catalog of a new database" "$work/catalog.new" "$work/catalog"
}

new_host=$(server "$cache/pg$PG" "$work/new")
sql "$new_host" -d postgres -c "CREATE DATABASE tables" -c '\c tables' -c "CREATE EXTENSION table_service"
PGOPTIONS="-c search_path=" sql "$new_host" -d tables -f tests/upgrade/catalog.sql >"$work/catalog.new"
test -s "$work/catalog.new"

all_answers="\\i tests/upgrade/answers.sql
\\i tests/upgrade/matches.sql"

from() {
  local release=$1 old=$work/tree-$1 host session_in session_out
  step "From $release to $this on PostgreSQL $PG"
  tree "$old" "$PG" "$release"
  host=$(server "$old" "$work/old-$release")
  sql "$host" -d postgres -c "CREATE DATABASE tables" -c '\c tables' -c "CREATE EXTENSION table_service"
  sql "$host" -d tables -f tests/upgrade/data.sql >"$work/log"
  answers "$host" >"$work/answers.$release"

  step "Its binary formats are the committed ones"
  sql "$host" -d tables -f tests/upgrade/formats.sql >"$work/formats"
  if [[ ${ACCEPT:-} == 1 ]]; then
    mkdir -p crates/model/tests/formats
    cp "$work/formats" "crates/model/tests/formats/$release.txt"
  fi
  same "crates/model/tests/formats/$release.txt" "crates/model/tests/formats/$release.txt" "$work/formats"

  step "A dump of $release, restored into $this"
  "$PGBIN/pg_dump" -U postgres -h "$host" tables >"$work/dump.sql"
  sql "$new_host" -d postgres -c "SET client_min_messages = warning" -c "DROP DATABASE IF EXISTS restored" -c "CREATE DATABASE restored"
  sql "$new_host" -d restored -f "$work/dump.sql" >"$work/log"
  answers "$new_host" restored >"$work/answers"
  same "answers of the restored database" "$work/answers.$release" "$work/answers"

  step "The gateway of $release with $this, and the other way round"
  mkdir "$work/source-$release"
  git archive "$(sed -n "s/^$release //p" sql/releases/commits)" | tar x -C "$work/source-$release"
  pair "$(pgrx-config/release.sh "$release" "$PG")/table-service-gateway" "$PG_CONFIG" "$work/source-$release/tests/sdk"
  pair "$gateway" "$old/bin/pg_config" "$PWD/tests/sdk"

  step "The library of $this under the objects of $release, while a session has the old one open"
  coproc SESSION { sql "$host" -d tables 2>&1; }
  session_in=${SESSION[1]} session_out=${SESSION[0]}
  in_session "$all_answers" >"$work/answers"
  same "answers of the open session before" "$work/answers.$release" "$work/answers"
  in_session "\\i tests/upgrade/answers.sql" >"$work/answers.without_matches"
  upgrade_tree "$old"
  in_session "$all_answers" >"$work/answers"
  same "answers of the open session after the files were replaced" "$work/answers.$release" "$work/answers"
  answers "$host" >"$work/answers"
  same "answers of a new session, before ALTER EXTENSION" "$work/answers.$release" "$work/answers"
  writes_in_turn "$host" Before

  sql "$host" -d tables -c "ALTER EXTENSION table_service UPDATE"
  in_session "\\i tests/upgrade/answers.sql" >"$work/answers"
  same "answers of the open session after ALTER EXTENSION, but those of matches" "$work/answers.without_matches" "$work/answers"
  answers "$host" >"$work/answers"
  same "answers of a new session after ALTER EXTENSION" "$work/answers.$release" "$work/answers"
  writes_in_turn "$host" After
  in_session "\\set ON_ERROR_STOP off
\\i tests/upgrade/matches.sql" >"$work/said"
  sed 's/ in file .*//' "$work/said" >"$work/answers"
  echo 'psql:tests/upgrade/matches.sql:3: ERROR:  could not find function "matches_support_wrapper"' >"$work/expected"
  same "the open session needs the new library for matches" "$work/expected" "$work/answers"
  eval "exec $session_in>&-"
  wait "$SESSION_PID" || true
  is_like_new "$host" "the database that was upgraded from $release"

  pgrx-config/cluster.sh stop "$work/old-$release"
}

# What the session that was open before answers.
in_session() {
  local line
  printf '%s\n;\n\\echo end of the answer\n' "$1" >&"$session_in"
  while IFS= read -r line <&"$session_out" && [[ $line != "end of the answer" ]]; do printf '%s\n' "$line"; done
}

# The session with the old library and one with the new library change the same entity in turn.
writes_in_turn() {
  local table=$2 tag i
  in_session "SELECT 1 FROM table_service.create_table('$table')" >"$work/log"
  # A subshell could not talk to the session.
  in_session "SELECT table_service.insert_entity('$table', 'p', 'r', '{\"A\": 0}')" >"$work/tag"
  for i in 1 2 3; do
    tag=$(sql "$1" -d tables -v tag="$(<"$work/tag")" <<<"SELECT table_service.merge_entity('$table', 'p', 'r', '{\"New\": $i}', :'tag')")
    in_session "SELECT table_service.merge_entity('$table', 'p', 'r', '{\"Old\": $i}', '${tag//\'/\'\'}')" >"$work/tag"
  done
  in_session "SELECT properties FROM table_service.get_entity('$table', 'p', 'r')" >"$work/answers"
  echo '{"A":0,"New":3,"Old":3}' >"$work/expected"
  same "the old and the new library write in turn" "$work/expected" "$work/answers"
  in_session "SELECT 1 FROM table_service.delete_table('$table')" >"$work/log"
}

# pair GATEWAY PG_CONFIG PROGRAMS: a gateway works with a database, by an SDK that knows neither, in the gateway's test programs.
pair() {
  GATEWAY=$1 PG_CONFIG=$2 PROGRAMS=$3 tests/sdk/run.sh python >"$work/sdk.log" 2>&1 || {
    tail -n 40 "$work/sdk.log"
    echo "FAILED: $1 with the extension of $2" >&2
    exit 1
  }
  echo "ok: $("$1" --version) with the extension of ${2#"$work"/}"
}

# From the extension of a release on PostgreSQL 15 to this one on PG.
by_pg_upgrade() {
  local release=$1 old=$work/tree15-$1 host checksums=()
  step "pg_upgrade from $release on PostgreSQL 15 to $this on PostgreSQL $PG"
  pgrx-config/setup.sh 15 run
  tree "$old" 15 "$release"
  host=$(server "$old" "$work/old15-$release")
  sql "$host" -d postgres -c "CREATE DATABASE tables" -c '\c tables' -c "CREATE EXTENSION table_service"
  sql "$host" -d tables -f tests/upgrade/data.sql >"$work/log"
  answers "$host" >"$work/answers.$release"
  KEEP=1 pgrx-config/cluster.sh stop "$work/old15-$release"
  ((PG < 18)) || checksums=(--no-data-checksums)
  mkdir "$work/upgraded"
  if ((EUID == 0)); then chown postgres: "$work/upgraded"; fi
  as_server "$PGBIN/initdb" -D "$work/upgraded/data" -U postgres -A trust -E UTF8 --locale=C.UTF-8 --no-sync "${checksums[@]}" >"$work/log"
  (cd "$work/upgraded" && as_server "$PGBIN/pg_upgrade" -b "$old/bin" -B "$PGBIN" -d "$work/old15-$release/data" -D "$work/upgraded/data" -U postgres \
    -s "$work/upgraded" >"$work/log" 2>&1) || {
    tail -n 30 "$work/log"
    find "$work/upgraded" \( -name '*.txt' -o -name 'pg_upgrade_dump_*.log' \) -exec tail -n 20 {} +
    echo "FAILED: pg_upgrade" >&2
    exit 1
  }
  printf "include_if_exists = 'run.conf'\n" | as_server tee -a "$work/upgraded/data/postgresql.conf" >/dev/null
  host=$(server "$cache/pg$PG" "$work/upgraded")
  answers "$host" >"$work/answers"
  same "answers after pg_upgrade" "$work/answers.$release" "$work/answers"
  sql "$host" -d tables -c "ALTER EXTENSION table_service UPDATE"
  answers "$host" >"$work/answers"
  same "answers after ALTER EXTENSION" "$work/answers.$release" "$work/answers"
  is_like_new "$host" "the database that pg_upgrade made"
}

while read -r release _; do
  [[ $release != '#' && $release != "$this" ]] || continue
  from "$release"
  if ((PG > 15)); then by_pg_upgrade "$release"; fi
done <sql/releases/commits
