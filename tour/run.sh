#!/usr/bin/env bash
# Builds the extension and the gateway, starts a throwaway PostgreSQL with them, loads real data, and shows the product. On a
# terminal it ends in psql, and the servers go when psql does.
set -euo pipefail

cd "$(dirname "$0")/.."
# shellcheck source=pgrx-config/env.sh
. pgrx-config/env.sh ''

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }

terminal=no
if [[ -t 0 && -t 1 ]]; then terminal=yes; fi

# shellcheck source=tour/step.sh
. tour/step.sh
mkdir -p target
log=target/tour.log
: >"$log"

say "Getting what is needed"
step pgrx-config/setup.sh "$PG" run
echo "Everything for PostgreSQL $PG is in $cache."

say "Building the extension and the gateway"
step env PROFILE=tour ALSO=table_service_gateway pgrx-config/install.sh "$PG_CONFIG"

say "Starting a throwaway PostgreSQL"
work=$(mktemp -d /tmp/table_service.XXXXXX)
chmod 755 "$work" # as root, the server's user must get in
gateway=
cleanup() {
  if [[ -n $gateway ]]; then
    kill "$gateway" 2>/dev/null || true
    wait "$gateway" || true
  fi
  pgrx-config/cluster.sh stop "$work/cluster"
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
pgrx-config/cluster.sh start "$work/cluster" >"$work/connection"
while IFS='=' read -r name value; do export "$name=$value"; done <"$work/connection"

# Scripts must not depend on the user's .psqlrc, nor wait in a pager.
sql() { "$PGBIN/psql" -X -q -v ON_ERROR_STOP=1 -P pager=off "$@"; }

sql <<'EOF'
CREATE DATABASE tour;
\connect tour
CREATE EXTENSION table_service;
ALTER DATABASE tour SET search_path = "$user", public, table_service;
EOF
export PGDATABASE=tour
sql -At -c "SELECT split_part(version(), ' on ', 1) || ' with table_service ' || extversion FROM pg_extension WHERE extname = 'table_service'"

# Each package goes through insert_entity, ten thousand of them to a transaction.
load_packages() {
  local total done=0 count began chunk_began chunk
  total=$(wc -l <"$work/packages")
  split -l 10000 "$work/packages" "$work/packages."
  began=$EPOCHREALTIME
  sql -o /dev/null -c "SELECT create_table('Packages')"
  for chunk in "$work"/packages.*; do
    count=$(wc -l <"$chunk")
    chunk_began=$EPOCHREALTIME
    # ^A is the quote character, which JSON never contains.
    sql -o /dev/null <<EOF
CREATE TEMPORARY TABLE chunk (partition_key text, row_key text, properties properties);
\copy chunk FROM '$chunk' WITH (FORMAT csv, DELIMITER E'\x02', QUOTE E'\x01')
SELECT count(insert_entity('Packages', partition_key, row_key, properties)) FROM chunk;
EOF
    done=$((done + count))
    awk -v done="$done" -v total="$total" -v count="$count" -v from="$chunk_began" -v to="$EPOCHREALTIME" \
      'BEGIN { printf "%7d of %d packages   %6.0f entities/s\n", done, total, count / (to - from) }'
  done
  awk -v total="$total" -v from="$began" -v to="$EPOCHREALTIME" \
    'BEGIN { printf "Loaded in %.1f s, %.0f entities/s.\n", to - from, total / (to - from) }'
}

say "Loading data"
parts=(employees)
if command -v apt-cache >/dev/null; then
  apt-cache dumpavail 2>/dev/null | LC_ALL=C awk -f tour/packages.awk >"$work/packages" || true
fi
if [[ -s $work/packages ]]; then
  parts+=(packages)
  echo "The package index of this machine, as entities:"
  load_packages
else
  echo "This machine has no package index, which apt-get update fetches, so this part of the tour is left out."
fi

# On a terminal, statements get another colour than their results.
paint() {
  if [[ $terminal == no ]]; then
    cat
  else
    awk '
      /^-- / { print "\033[1m" $0 "\033[0m"; next }
      /^(GET|POST|PUT|DELETE) / { print "\033[36m" $0 "\033[0m"; next }
      /^(ERROR|HINT|DETAIL):/ { print "\033[31m" $0 "\033[0m"; next }
      /^(SELECT|INSERT|CREATE|ANALYZE|BEGIN|ROLLBACK|COMMIT)/ { sql = 1 }
      sql { print "\033[36m" $0 "\033[0m"; if (/;$/ || /^$/) sql = 0; next }
      { print }'
  fi
}

say "The tour"
cd tour
for file in "${parts[@]}"; do
  sql <"$file.sql" 2>&1 | paint
done
cd ..

say "The same, over HTTP"
# The development account, on the port where every SDK looks for it, or on any other if something listens there already.
start_gateway() {
  target/tour/table-service-gateway --listen "$1" --admin-listen 127.0.0.1:0 --log warn \
    --explorer write --explorer-address-file "$work/explorer" \
    --database-url "postgresql://postgres@${PGHOST//\//%2F}:$PGPORT/tour" >"$work/gateway" 2>"$work/gateway.log" &
  gateway=$!
  for ((i = 0; i < 100; i++)); do
    [[ ! -s $work/gateway ]] || return 0
    kill -0 "$gateway" 2>/dev/null || return 1
    sleep 0.1
  done
  return 1
}
if ! start_gateway 127.0.0.1:10002; then
  cat "$work/gateway.log"
  echo "So it gets another port."
  start_gateway 127.0.0.1:0
fi
address=$(sed -n 's|^listening on \(http://[^,]*\),.*|\1|p' "$work/gateway")
# The well-known account and key of emulators.
key='Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=='
connection_string="DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=$key;TableEndpoint=$address/devstoreaccount1;"
echo "The gateway listens on $address. Its connection string:"
echo
if [[ $address == */127.0.0.1:10002 ]]; then echo "  UseDevelopmentStorage=true     or, in full:"; fi
echo "  $connection_string"
echo
TABLES_SAS=$(sql -At -c "SELECT generate_sas('devstoreaccount1', '$key', 'Employees', 'raud', now() + interval '1 day')")
export TABLES_ENDPOINT=$address/devstoreaccount1 TABLES_SAS
tour/http.sh 2>&1 | paint

if [[ $terminal == no ]]; then
  # The token stays out of output that may be a log.
  echo "The explorer of this gateway, at $(sed 's/#.*//' "$work/explorer"), ends with the tour here. On a terminal the tour goes on, and says how to open it."
  exit 0
fi

say "Your turn"
cat <<EOF
The tables in your browser: $(<"$work/explorer")

This is psql on the tour's database; \\q ends it and removes the servers. Some things to try:

  SELECT * FROM query_tables();
  SELECT * FROM table_service_data."Employees";
  SELECT merge_entity('Employees', 'Sales', '00010', '{"Phone": "425-555-0100", "Id@odata.type": "Edm.Guid",
                      "Id": "c9da6455-213d-42c9-9a79-3e9149a57833"}', if_match => '*');
  SELECT p.* FROM get_entity('Employees', 'Sales', '00010') AS e, each_property(e.properties) AS p;
  SELECT insert_or_merge_entity('Employees', 'Sales', '00011', '{"FirstName": "Kim", "Nested": {"no": 1}}');
  SELECT delete_entity('Employees', 'Sales', '00010');
  \\df table_service.*

EOF
# With job control psql gets the terminal for itself, so that Ctrl-C ends a query there, and neither the tour nor make.
set -m
"$PGBIN/psql" || true
