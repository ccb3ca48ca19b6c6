#!/usr/bin/env bash
# Puts the files of the extension into two directories. pgrx-config/install.sh and the scripts of packages call this in the source.
#
#   extension.sh BUILT LIBRARIES EXTENSIONS    BUILT is the library
set -euo pipefail
umask 022

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
mkdir -p "$2" "$3"
sed "s/@CARGO_VERSION@/$version/" table_service.control | install -m 644 /dev/stdin "$3/table_service.control"
install -m 644 sql/install.sql "$3/table_service--$version.sql"
install -m 644 sql/table_service--*--*.sql "$3/"
# Under another name first: servers may have the old library open.
install -m 644 "$1" "$2/table_service.so.new"
mv "$2/table_service.so.new" "$2/table_service.so"
