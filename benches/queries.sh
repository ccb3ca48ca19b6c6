#!/usr/bin/env bash
# Queries beside hand-written SQL over a jsonb table with the same rows and key: prepared statements, one connection, rounds in
# turn, and the ratio of the medians (ours / hand-written, throughput; more is better).
#
#   queries.sh [ENTITIES]     default: 1000000
#
# Environment:
#   ROUNDS, SECONDS_EACH      how many rounds of how many seconds for each side (5 and 3)
#   PG_CONFIG                 a PostgreSQL that has a release build of the extension; without it one is made of the project's own
#   PG                        the PostgreSQL major, as for the other scripts
set -euo pipefail

entities=${1:-1000000}
rounds=${ROUNDS:-5}
seconds=${SECONDS_EACH:-3}
given=${PG_CONFIG:-}

cd "$(dirname "$0")/.."
# shellcheck source=pgrx-config/env.sh
. pgrx-config/env.sh ''

work=$(mktemp -d /tmp/table_service.XXXXXX)
chmod 755 "$work"
cleanup() {
  pgrx-config/cluster.sh stop "$work/cluster"
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

if [[ -n $given ]]; then
  export PG_CONFIG=$given
else
  pgrx-config/setup.sh "$PG"
  cp -a "$cache/pg$PG" "$work/pg"
  export PG_CONFIG=$work/pg/bin/pg_config
  cargo pgrx install --release --pg-config "$PG_CONFIG" --no-default-features --features "pg$PG"
fi
bin=$("$PG_CONFIG" --bindir)

pgrx-config/cluster.sh start "$work/cluster" shared_buffers=1GB max_parallel_workers_per_gather=0 jit=off >"$work/env"
set -a
# shellcheck source=/dev/null
. "$work/env"
set +a

echo "PostgreSQL $("$bin/psql" -Atc 'SHOW server_version'), $entities entities, $rounds rounds of $seconds s"
"$bin/psql" -q -v ON_ERROR_STOP=1 -v entities="$entities" <<'SQL'
CREATE EXTENSION table_service;
SELECT table_service.create_table('Bench') \g /dev/null
CREATE TABLE source AS SELECT 'p' || lpad((n / (:entities / 100))::text, 3, '0') AS partition_key, lpad(n::text, 8, '0') AS row_key,
    jsonb_build_object('Name', md5(n::text), 'Age', n * 7919::bigint % 100, 'City', (ARRAY['Seattle', 'Redmond', 'Oslo', 'Graz'])[1 + n % 4], 'Score', n % 1000 / 8.0, 'Active', n % 3 = 0) AS props
FROM generate_series(0, :entities - 1) AS n;
CREATE TABLE hand (partition_key text COLLATE "C", row_key text COLLATE "C", ts timestamptz NOT NULL DEFAULT clock_timestamp(), props jsonb NOT NULL, PRIMARY KEY (partition_key, row_key));
INSERT INTO hand SELECT partition_key, row_key, clock_timestamp(), props FROM source ORDER BY 1, 2;
INSERT INTO table_service_data."Bench" SELECT partition_key, row_key, clock_timestamp(), props::table_service.properties FROM source ORDER BY 1, 2;
-- Sets of 50 points, as a filter and as arrays.
SELECT setseed(0.5) \g /dev/null
CREATE TABLE points AS SELECT set AS n, string_agg(format('(PartitionKey eq ''%s'' and RowKey eq ''%s'')', partition_key, row_key), ' or ') AS filter,
    array_agg(partition_key) AS partition_keys, array_agg(row_key) AS row_keys
FROM (SELECT set, lpad(floor(random() * :entities)::int::text, 8, '0') AS wanted FROM generate_series(1, 1000) AS set, generate_series(1, 50)) AS w, LATERAL
    (SELECT 'p' || lpad((wanted::int / (:entities / 100))::text, 3, '0'), wanted) AS k (partition_key, row_key) GROUP BY set;
ALTER TABLE points ADD PRIMARY KEY (n);
DROP TABLE source;
VACUUM ANALYZE hand;
VACUUM ANALYZE table_service_data."Bench";
VACUUM ANALYZE points;
SELECT format('bytes per entity: ours %s, hand-written %s', pg_total_relation_size('table_service_data."Bench"') / :entities, pg_total_relation_size('hand') / :entities) AS bytes \gset
\echo :bytes
SQL

# What is compared: NAME, then ours and the hand-written statement as pgbench scripts.
last=$((entities - 1001))
declare -A ours hand
ours[page]="\\set n random(0, $last)
SELECT * FROM table_service.query_page('Bench', 'PartitionKey eq @p and RowKey ge @r', parameters =>
    pg_catalog.json_build_object('p', 'p' || lpad((:n::int / ($entities / 100))::text, 3, '0'), 'r', lpad(:n::text, 8, '0'))::text::table_service.properties);"
hand[page]="\\set n random(0, $last)
SELECT * FROM hand WHERE partition_key = 'p' || lpad((:n::int / ($entities / 100))::text, 3, '0') AND row_key >= lpad(:n::text, 8, '0') ORDER BY row_key LIMIT 1000;"
ours[scan]="SELECT * FROM table_service.query_entities('Bench', 'Age ge 40 and Age lt 42');"
hand[scan]="SELECT * FROM hand WHERE (props ->> 'Age')::int >= 40 AND (props ->> 'Age')::int < 42 ORDER BY partition_key, row_key;"
ours[points]="\\set n random(1, 1000)
SELECT q.* FROM points AS f, LATERAL table_service.query_entities('Bench', f.filter) AS q WHERE f.n = :n;"
hand[points]="\\set n random(1, 1000)
SELECT h.* FROM points AS f, LATERAL ROWS FROM (unnest(f.partition_keys), unnest(f.row_keys)) AS k (p, r),
    LATERAL (SELECT * FROM hand WHERE partition_key = k.p AND row_key = k.r OFFSET 0) AS h WHERE f.n = :n;"
declare -A title=([page]='page of 1000 entities by key range' [scan]='filter scan, two comparisons, 2 % match' [points]='OR of 50 points / 50 look-ups')
declare -A target=([page]=1.0 [scan]=1.2 [points]=0.67)

measure() { # prints transactions per second
  "$bin/pgbench" -n -M prepared -T "$seconds" -f "$work/$1.sql" 2>"$work/error" | sed -n 's/^tps = \([0-9.]*\).*/\1/p' | head -n 1
  if grep -q ERROR "$work/error"; then
    cat "$work/error" >&2
    return 1
  fi
}
median() { sort -g "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

printf '\n%-42s %12s %12s %8s %8s\n' '' 'ours /s' 'hand /s' ratio target
for name in page scan points; do
  echo "${ours[$name]}" >"$work/ours.sql"
  echo "${hand[$name]}" >"$work/hand.sql"
  : >"$work/ours"
  : >"$work/hand"
  measure ours >/dev/null # warms up
  measure hand >/dev/null
  for ((round = 0; round < rounds; round++)); do
    measure ours >>"$work/ours"
    measure hand >>"$work/hand"
  done
  awk -v title="${title[$name]}" -v a="$(median "$work/ours")" -v b="$(median "$work/hand")" -v target="${target[$name]}" \
    'BEGIN { printf "%-42s %12.1f %12.1f %8.2f %8s\n", title, a, b, a / b, target }'
done
