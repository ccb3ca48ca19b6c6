#!/usr/bin/env bash
# Checks that what the tables of ARCHITECTURE.md point to exists: a path in backticks, from the root of the project, with an
# optional `::symbol` or `:name` that must occur in that file.
set -euo pipefail

cd "$(dirname "$0")/.."
file=ARCHITECTURE.md
checked=0
wrong=0

while IFS=: read -r line span; do
  path=${span%%:*}
  [[ $path == */* || $path =~ \.(rs|sql|sh|toml|md|control|spec|out)$ ]] || continue # not a path
  checked=$((checked + 1))
  symbol=${span#"$path"}
  symbol=${symbol##*:}
  if [[ ! -e $path ]]; then
    echo "$file:$line: $path does not exist"
    wrong=$((wrong + 1))
  elif [[ -n $symbol ]] && ! grep -qF -- "$symbol" "$path"; then
    echo "$file:$line: $path does not contain '$symbol'"
    wrong=$((wrong + 1))
  fi
done < <(awk '/^[[:space:]]*\|/ {
  n = split($0, part, "`")
  for (i = 2; i < n; i += 2) if (part[i] ~ /^[A-Za-z_.][A-Za-z0-9_.\/-]*(::?[A-Za-z0-9_:]+)?$/) print NR ":" part[i]
}' "$file")

if ((checked == 0)); then
  echo "$file: no path found in its tables"
  exit 1
fi
echo "$checked references, $wrong wrong"
((wrong == 0))
