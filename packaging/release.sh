#!/usr/bin/env bash
# The steps of .github/workflows/release.yml.
#
#   release.sh build                     everything for this machine's architecture, for all majors of PostgreSQL (root)
#   release.sh collect BUILT TO TAG      the files of all architectures, which are in directories of their name, under one name each; with
#                                        their checksums
#   release.sh draft FROM TAG            a draft of a release with these files
set -euo pipefail

cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
die() {
  echo "release.sh: $*" >&2
  exit 1
}

build() {
  # shellcheck source=pgrx-config/env.sh
  . pgrx-config/env.sh ''
  local major
  for major in $supported_pg; do pgrx-config/setup.sh "$major" run; done
  packaging/build.sh
  packaging/image.sh
}

collect() {
  local built=$1 to=$2 tag=$3 machine file name
  [[ $tag == "v$version" ]] || die "the tag is $tag, and the version is $version"
  mkdir "$to"
  for machine in "$built"/*; do
    for file in "$machine"/*; do
      name=$(basename "$file")
      # The same for both machines, or of one machine alone.
      case $name in
      *.tar) name=${name%.tar}-$version-$(basename "$machine").tar ;;
      *.tgz) name=${name%.tgz}-$(basename "$machine").tgz ;;
      esac
      [[ ! -e $to/$name ]] || cmp "$file" "$to/$name" || die "$name differs between machines"
      cp "$file" "$to/$name"
    done
  done
  (cd "$to" && sha256sum -- * >SHA256SUMS)
}

draft() { gh release create "$2" --draft --verify-tag --title "$version" --notes "CHANGELOG.md says what is new." "$1"/*; }

case ${1:-} in
build | collect | draft) "$@" ;;
*) die "build, collect or draft?" ;;
esac
