#!/usr/bin/env bash
# Puts the files of the extension into two directories. The scripts of packages call this in the source.
#
#   extension.sh BUILT LIBRARIES EXTENSIONS    BUILT has table_service.so
set -euo pipefail

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
install -d "$2" "$3"
install -m 644 "$1/table_service.so" "$2/"
sed "s/@CARGO_VERSION@/$version/" table_service.control >"$3/table_service.control"
install -m 644 sql/install.sql "$3/table_service--$version.sql"
install -m 644 sql/table_service--*--*.sql "$3/"
