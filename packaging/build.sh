#!/usr/bin/env bash
# Builds the Debian packages of the last commit into target/packages, and the emulator's packages for Python and Node.js.
#
#   build.sh [MAJOR ...]   for these majors of PostgreSQL; by default for all that this machine has: Debian's, and those that
#                          `make setup PG=MAJOR` has built
#
# Packages: postgresql-MAJOR-table-service, table-service-gateway (with table-service-copy), table-service-emulator. The wheel and the npm
# package have a PostgreSQL of their own. Times and paths of the build are not in them.
# BUNDLE=only leaves the Debian packages out; the others are the same, byte for byte.
# Cargo's results stay in target/packages/build.
set -euo pipefail

cd "$(dirname "$0")/.."
project=$PWD
# shellcheck source=pgrx-config/env.sh
. pgrx-config/env.sh ''
unset PG_CONFIG
pgrx-config/setup.sh tools

programs=(python3 strip objdump bison flex dpkg-buildflags)
[[ ${BUNDLE:-} == only ]] || programs+=(dpkg-buildpackage dh help2man)
for program in "${programs[@]}"; do
  command -v "$program" >/dev/null || {
    echo "build.sh: $program is missing: apt-get install dpkg-dev debhelper help2man python3 binutils bison flex" >&2
    exit 1
  }
done

pg_config_of() {
  local program
  for program in "/usr/lib/postgresql/$1/bin/pg_config" "$cache/pg$1/bin/pg_config"; do
    if [[ -x $program && -e $("$program" --includedir-server)/postgres.h ]]; then
      echo "$program"
      return
    fi
  done
  return 1
}

majors=("$@")
if ((${#majors[@]} == 0)); then
  for major in $supported_pg; do
    if pg_config_of "$major" >/dev/null; then majors+=("$major"); fi
  done
fi
((${#majors[@]})) || {
  echo "build.sh: no PostgreSQL with server headers here: apt-get install postgresql-server-dev-$default_pg, or make setup" >&2
  exit 1
}
for major in "${majors[@]}"; do
  pg_config=$(pg_config_of "$major") || {
    echo "build.sh: there are no headers of PostgreSQL $major: apt-get install postgresql-server-dev-$major, or make setup PG=$major" >&2
    exit 1
  }
  export "PG_CONFIG_$major=$pg_config"
done
export MAJORS="${majors[*]}"

packages=$project/target/packages
source=$packages/source
export BUILD=$packages/build
mkdir -p "$packages" "$BUILD"/{sbom,licences}
rm -rf "$source"
[[ ${BUNDLE:-} == only ]] || rm -f "$packages"/*.deb
mkdir "$source"
[[ -z $(git status --porcelain --untracked-files=no) ]] || echo "Changes that are not committed are not in the packages."
git archive HEAD | tar x -C "$source"
# Cargo builds again only what is newer than its last build, which may be another commit's, whatever its age. So all files have the
# time at which the commit was another one than before.
commit=$(git rev-parse HEAD)
[[ $(cat "$BUILD/commit" 2>/dev/null) == "$commit" ]] || echo "$commit" >"$BUILD/commit"
find "$source" -exec touch --no-dereference --reference="$BUILD/commit" {} +
cd "$source"
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
# Debian's variables for it. The project has no mail address of its own.
maintainer="${DEBFULLNAME:-The table_service developers} <${DEBEMAIL:-table-service@localhost}>"
export SOURCE_DATE_EPOCH
SOURCE_DATE_EPOCH=$(git -C "$project" log -1 --format=%ct)

cp -r packaging/debian debian
{
  names=$(printf 'postgresql-%s-table-service | ' "${majors[@]}")
  while IFS= read -r line; do
    if [[ $line == @EXTENSION_PACKAGES@ ]]; then
      for major in "${majors[@]}"; do sed "s/@PG@/$major/g" debian/extension-package.in && echo; done
    else
      line=${line//@EXTENSION_NAMES@/${names% | }}
      echo "${line//@MAINTAINER@/$maintainer}"
    fi
  done <debian/control.in
} >debian/control
for package in $(sed -n 's/^Package: //p' debian/control); do
  {
    echo '# The project has no mail address of its own; SECURITY.md says how to reach its maintainers.'
    echo "$package: bogus-mail-host"
    echo "$package: bogus-mail-host-in-debian-changelog"
  } >>"debian/$package.lintian-overrides"
done
cat >debian/changelog <<CHANGES
table-service ($version) unstable; urgency=medium

  * See CHANGELOG.md in the source.

 -- $maintainer  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
CHANGES
# What is in each program, for those who look for components with known errors, and under which licences.
cyclonedx=$cache/cargo-cyclonedx-$cargo_cyclonedx_version
if ! command -v cargo-cyclonedx >/dev/null && [[ ! -x $cyclonedx/bin/cargo-cyclonedx ]]; then
  cargo install --quiet --locked --root "$cyclonedx" "cargo-cyclonedx@$cargo_cyclonedx_version"
fi
PATH=$PATH:$cyclonedx/bin cargo cyclonedx --format json --spec-version 1.5 --override-filename bom --quiet
rust=$(rustc --version | cut -d' ' -f2)
for part in .:table_service crates/gateway:table_service_gateway crates/copy:table_service_copy crates/emulator:table_service_emulator; do
  # Serial number, time and paths differ between builds.
  python3 packaging/reproducible_sbom.py "${part%%:*}/bom.json" "$SOURCE_DATE_EPOCH" "$source" "$rust" \
    >"$BUILD/sbom/${part##*:}.cdx.json"
  python3 packaging/licences.py "$BUILD/sbom/${part##*:}.cdx.json" >"$BUILD/licences/${part##*:}"
done
if [[ ${BUNDLE:-} == only ]]; then
  # The emulator with Debian's flags of the compiler, and the features of crates that it has beside the other programs.
  (
    eval "$(dpkg-buildflags --export=sh)"
    MAJORS='' debian/rules override_dh_auto_build
  )
else
  dpkg-buildpackage --build=binary --no-sign --no-check-builddeps
fi
packaging/bundle.sh
cd "$packages"
rm -rf "$source"
rm -f ./*.buildinfo ./*.changes
find . -maxdepth 1 \( -name '*.deb' -o -name '*.whl' -o -name '*.tgz' \) -exec sha256sum {} +
