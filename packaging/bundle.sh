#!/usr/bin/env bash
# Makes the emulator's packages for Python and Node.js in target/packages: the program, the extension, and a
# PostgreSQL of its own.
#
# packaging/build.sh calls this in the source that it has unpacked, when it has built the program and the extension.
# PROGRAMS is the directory of the program, and BUILD that of the extension; POSTGRESQL is the directory of the
# emulator's; SOURCE_DATE_EPOCH is the time of all files.
#
#   bundle.sh [MACHINE GLIBC]    MACHINE is the one that they were built for, and GLIBC the oldest C library for them
set -euo pipefail

packages=$(dirname "$BUILD")
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
machine=${1:-$(uname -m)}
glibc=${2:-2.34}
die() {
  echo "bundle.sh: $*" >&2
  exit 1
}

# --- The parts of both packages: bin and share ----------------------------------------------------------------------

tree=$packages/bundle
rm -rf "$tree"
own=$tree/share/table-service-emulator
install -d "$tree/bin" "$own"/{bin,lib/postgresql,share/postgresql,share/extension,licences}
install -m 755 "$PROGRAMS/table-service-emulator" "$tree/bin/"
install -m 755 "$POSTGRESQL"/bin/{postgres,initdb} "$own/bin/"
# Neither zip archives nor npm keep links.
install -m 755 "$(realpath "$POSTGRESQL/lib/libpq.so.5")" "$own/lib/libpq.so.5"
install -m 755 "$POSTGRESQL"/lib/postgresql/{plpgsql,dict_snowball,pgoutput}.so "$own/lib/postgresql/"
cp -r "$POSTGRESQL/share/postgresql/." "$own/share/postgresql/"
rm "$own"/share/postgresql/{errcodes.txt,pg_service.conf.sample}
packaging/extension.sh "$BUILD/bundle/table_service.so" "$own/lib" "$own/share/extension"
chmod 755 "$own/lib/table_service.so"
find "$tree" -type f -perm -100 -exec "$machine-linux-gnu-strip" --strip-unneeded {} +

install -m 644 LICENSE "$own/licences/table_service"
cat "$POSTGRESQL/COPYRIGHT" packaging/emulator/postgresql-parts.txt >"$own/licences/postgresql"
number=$("$own/bin/postgres" --version | grep -o '[0-9][0-9.]*' | head -n 1)
python3 packaging/bill.py "$own/sbom.cdx.json" "$own/licences/crates" table_service_emulator table_service "postgresql=$number"

# The names of the packages promise this C library.
needed=$(find "$tree" -type f -perm -100 -exec "$machine-linux-gnu-objdump" -T {} + | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1)
[[ $(printf '%s\n' "GLIBC_$glibc" "$needed" | sort -V | tail -n 1) == "GLIBC_$glibc" ]] || die "the programs need $needed, later than $glibc"
others=$(find "$tree" -type f -perm -100 -exec "$machine-linux-gnu-objdump" -p {} + | awk '$1 == "NEEDED" {print $2}' | sort -u |
  grep -Ev '^(libc|libm|libgcc_s|ld-linux-(x86-64|aarch64)|libpq)\.so\.[0-9]+$' || true)
[[ -z $others ]] || die "the programs need libraries that systems may lack: $others"

# --- The packages ---------------------------------------------------------------------------------------------------

rm -f "$packages"/table_service_emulator-*.whl "$packages"/table-service-emulator-*.tgz
python3 packaging/emulator/archives.py "$version" "$glibc" "$machine" "$tree" "$packages"
rm -rf "$tree"
