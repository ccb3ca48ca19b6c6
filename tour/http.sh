#!/usr/bin/env bash
# The tour, over HTTP: the requests that an SDK sends, without an SDK. Bash alone sends them, so that nothing need be installed.
#
# Environment: TABLES_ENDPOINT (http://127.0.0.1:10002/devstoreaccount1) and TABLES_SAS, a shared access signature for the table
# Employees.
set -euo pipefail

authority=${TABLES_ENDPOINT#http://}
account=/${authority#*/}
authority=${authority%%/*}

# request METHOD RESOURCE OPTIONS BODY [HEADER ...]: sends a request, and prints the request and the answer.
request() {
  local method=$1 target=$account/$2 body=$4 answer line header status etag=
  printf '\n%s\n' "$method $target${3:+?$3}"
  if (($# > 4)); then printf '%s\n' "${@:5}"; fi
  if [[ -n $body ]]; then printf '%s\n' "$body"; fi
  exec {connection}<>"/dev/tcp/${authority%:*}/${authority##*:}"
  {
    printf '%s\r\n' "$method $target?${3:+$3&}$TABLES_SAS HTTP/1.1" "Host: $authority" 'Connection: close' \
      'Accept: application/json;odata=nometadata' 'Content-Type: application/json' "Content-Length: ${#body}" "${@:5}" ''
    printf '%s' "$body"
  } >&"$connection"
  answer=$(tr -d '\r' <&"$connection")
  exec {connection}>&-
  header=${answer%%$'\n\n'*}
  status=${header%%$'\n'*}
  while IFS= read -r line; do
    if [[ ${line,,} == etag:* ]]; then etag=$line; fi
  done <<<"$header"
  printf '→ %s\n' "${status#HTTP/1.1 }" ${etag:+"$etag"}
  if [[ $answer == *$'\n\n'* ]]; then printf '%s\n' "${answer#*$'\n\n'}"; fi
}

echo "-- A shared access signature, made by SELECT generate_sas(…), is all that these requests need. Entities by a filter:"
request GET 'Employees()' "\$filter=PartitionKey%20eq%20'Marketing'%20and%20Age%20gt%2030&\$select=RowKey,FirstName,Age" ''
echo
echo "-- A new one; its ETag is the first version:"
request POST Employees '' '{"PartitionKey": "Tour", "RowKey": "1", "Seen": true}' 'Prefer: return-no-content'
echo
echo "-- A change of a version that is not there any more is refused:"
request PUT "Employees(PartitionKey='Tour',RowKey='1')" '' '{"Seen": false}' "If-Match: W/\"datetime'2020-01-01T00%3A00%3A00Z'\""
echo
echo "-- Any version:"
request DELETE "Employees(PartitionKey='Tour',RowKey='1')" '' '' 'If-Match: *'
echo
echo "The same with curl:"
echo "  curl -H 'Accept: application/json' '$TABLES_ENDPOINT/Employees()?$TABLES_SAS'"
