# shellcheck shell=bash
# The common parts of the tests of packages and images. To be sourced from the root of the project.

die() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}
ok() { printf 'ok       %s\n' "$*"; }
# same WHAT EXPECTED GOT
same() {
  [[ $2 == "$3" ]] || die "$1
   expected: $2
   got:      $3"
  ok "$1"
}
