#!/usr/bin/env bash
# Builds the Debian packages of the last commit into target/packages, and the emulator's packages for Python and
# Node.js. It installs the tools that it needs, and says how long each step has taken.
#
#   build.sh [MAJOR ...]   for these majors of PostgreSQL; by default for all that this machine has: Debian's, and those that
#                          `make setup PG=MAJOR` has built
#   build.sh emulator      only the emulator's packages for Python and Node.js, less optimised, as for `make run`
#
# Packages: postgresql-MAJOR-table-service, table-service-gateway (with table-service-copy), table-service-emulator,
# table-service-doc. The wheel and the npm package have a PostgreSQL of their own. For each major from 18 on there is
# an image of the extension's files alone, which Kubernetes mounts. Times and paths of the build are not in them.
# Cargo's results stay in target/packages/build.
set -euo pipefail

cd "$(dirname "$0")/.."
project=$PWD
# shellcheck source=pgrx-config/env.sh
. pgrx-config/env.sh ''
unset PG_CONFIG
die() {
  printf 'build.sh: %s\n' "$*" >&2
  exit 1
}
# step WHAT: prints how long the step before has taken, and the next one.
step=
step() {
  if [[ -n $step ]]; then printf '   %d:%02d  %s\n' $(((SECONDS - begun) / 60)) $(((SECONDS - begun) % 60)) "$step"; fi
  step=$1
  begun=$SECONDS
  [[ -z $step ]] || printf '\033[1m==\033[0m %s\n' "$step"
}

want=packages
profile=release
if [[ ${1:-} == emulator ]]; then
  want=emulator
  profile=tour
fi
# The names of wheels have the machine.
bundled=yes
if [[ $(uname -m) != x86_64 && $(uname -m) != aarch64 ]]; then
  bundled=no
  echo "The emulator's packages for Python and Node.js are made for x86_64 and aarch64; this machine is $(uname -m)."
  [[ $want == packages ]] || exit 1
fi
step "What is needed"
pgrx-config/setup.sh "$want"

majors=()
if [[ $want == packages ]]; then
  majors=("$@")
  if ((${#majors[@]} == 0)); then
    for major in $supported_pg; do
      if pg_config_of "$major" >/dev/null; then majors+=("$major"); fi
    done
  fi
  for major in "${majors[@]}"; do
    pg_config_of "$major" >/dev/null ||
      die "there are no headers of PostgreSQL $major: apt-get install postgresql-server-dev-$major, or make setup PG=$major"
  done
fi
export MAJORS="${majors[*]}"

packages=$project/target/packages
source=$packages/source
export BUILD=$packages/build
export PROGRAMS=$BUILD/programs/$profile
mkdir -p "$packages" "$BUILD"
rm -rf "$source"
[[ $want == emulator ]] || rm -f "$packages"/*.deb "$packages"/table-service-extension-*.tar
mkdir "$source"
[[ -z $(git status --porcelain --untracked-files=no) ]] || echo "Changes that are not committed are not in the packages."
git archive HEAD | tar x -C "$source"
# Cargo builds again only what is newer than its last build, which may be another commit's, whatever its age. So all
# files have the time at which the commit was another one than before.
commit=$(git rev-parse HEAD)
[[ $(cat "$BUILD/commit" 2>/dev/null) == "$commit" ]] || echo "$commit" >"$BUILD/commit"
find "$source" -exec touch --no-dereference --reference="$BUILD/commit" {} +
cd "$source"
# Debian's variables for it. The project has no mail address of its own.
maintainer="${DEBFULLNAME:-The table_service developers} <${DEBEMAIL:-table-service@localhost}>"
export SOURCE_DATE_EPOCH
SOURCE_DATE_EPOCH=$(git -C "$project" log -1 --format=%ct)

# build ARGUMENT...: for packages with Debian's flags of the compiler. The bytes do not depend on the directories of the
# source, of Cargo's crates and of generated files.
build() {
  (
    if [[ $want == packages ]]; then
      eval "$(dpkg-buildflags --export=sh)"
    else
      # The allocator would have debug information at its highest level.
      export CFLAGS=-g0
    fi
    export RUSTFLAGS="--remap-path-prefix=$source=. --remap-path-prefix=$BUILD=/build --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
    CARGO_TARGET_DIR=$BUILD/programs cargo build --profile "$profile" --locked "$@"
  )
}
# extension MAJOR PG_CONFIG NAME [ARGUMENT...]: the library, as $BUILD/NAME/table_service.so. The install script is the
# committed one, so nothing in the library describes its objects.
extension() {
  PGRX_PG_CONFIG_PATH=$2 build -p table_service --lib --no-default-features --features "pg$1,pgrx/no-schema-generation" "${@:4}"
  install -D -m 644 "$PROGRAMS/libtable_service.so" "$BUILD/$3/table_service.so"
}
postgresql() {
  step "The PostgreSQL of the wheel and the npm package"
  POSTGRESQL=$(packaging/postgresql.sh "$@")
  export POSTGRESQL
}
if [[ $want == emulator ]]; then
  postgresql -O1
  step "The emulator and the extension"
  # Together they take less time: crates that both need are built once.
  extension 18 "$POSTGRESQL/bin/pg_config" bundle -p table_service_emulator --bins
else
  programs=(table_service_emulator table_service_gateway table_service_copy)
  step "Programs: ${programs[*]}"
  build "${programs[@]/#/--package=}"
  for major in "${majors[@]}"; do
    step "The extension for PostgreSQL $major"
    extension "$major" "$(pg_config_of "$major")" "$major"
  done
  if [[ $bundled == yes ]]; then
    postgresql
    step "The extension for it"
    extension 18 "$POSTGRESQL/bin/pg_config" bundle
  fi
fi

if [[ $want == packages ]]; then
  step "Debian's packages"
  cp -r packaging/debian debian
  rm -rf "$BUILD"/{sbom,licences}
  mkdir "$BUILD"/{sbom,licences}
  for part in table_service "${programs[@]}"; do python3 packaging/bill.py "$BUILD/sbom/$part.cdx.json" "$BUILD/licences/$part" "$part"; done
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
  sed -n 's/^Package: //p' debian/control | while read -r package; do
    {
      echo '# The project has no mail address of its own; SECURITY.md says how to reach its maintainers.'
      echo "$package: bogus-mail-host"
      echo "$package: bogus-mail-host-in-debian-changelog"
    } >>"debian/$package.lintian-overrides"
  done
  python3 packaging/debian_changelog.py "$project" "$maintainer" "$SOURCE_DATE_EPOCH" >debian/changelog
  dpkg-buildpackage --build=binary --no-sign --no-check-builddeps
  version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
  for major in "${majors[@]}"; do
    ((major >= 18)) || continue
    step "The image of the extension for PostgreSQL $major"
    tree=$BUILD/image-$major
    rm -rf "$tree"
    packaging/extension.sh "$BUILD/$major/table_service.so" "$tree/lib" "$tree/share/extension"
    strip --strip-unneeded "$tree/lib/table_service.so"
    install -D -m 644 -t "$tree/licenses" LICENSE "$BUILD/licences/table_service" "$BUILD/sbom/table_service.cdx.json"
    python3 packaging/extension_image.py "table-service-extension:$version-$major" "$(dpkg --print-architecture)" "$tree" \
      "$packages/table-service-extension-$major.tar"
  done
fi
if [[ $bundled == yes ]]; then
  step "The wheel and the npm package"
  packaging/bundle.sh
fi
step ""
cd "$packages"
rm -rf "$source"
rm -f ./*.buildinfo ./*.changes
find . -maxdepth 1 \( -name '*.deb' -o -name '*.whl' -o -name '*.tgz' -o -name 'table-service-extension-*.tar' \) -exec sha256sum {} +
