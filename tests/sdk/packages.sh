#!/usr/bin/env bash
# SDKs and clients from their registries, at their pinned versions, in the cache. Prints the directory that has them.
#
#   packages.sh python NAME REQUIREMENTS     a virtual environment with the packages that this file lists
#   packages.sh javascript NAME DIRECTORY    the packages of DIRECTORY/package-lock.json, in node_modules; also Node.js, in
#                                            node_modules/node/bin, if the machine's own is too old
set -euo pipefail

cd "$(dirname "$0")/../.."
# shellcheck source=pgrx-config/env.sh
. pgrx-config/env.sh ''
language=$1 name=$2 wanted=$3
if [[ $language == javascript ]]; then versions=$wanted/package-lock.json; else versions=$wanted; fi

# Other versions are in another directory.
packages=$cache/sdk/$name-$(sha256sum "$versions" | cut -c1-12)
if [[ ! -e $packages/.complete ]]; then
  rm -rf "$packages"
  case $language in
  python)
    python3 -m venv "$packages"
    "$packages/bin/pip" install --quiet --disable-pip-version-check -r "$wanted"
    ;;
  javascript)
    mkdir -p "$packages"
    cp "$wanted"/package{,-lock}.json "$packages/"
    npm ci --prefix "$packages" --no-audit --no-fund --loglevel=error
    have=$(node --version)
    have=${have#v}
    ((${have%%.*} >= minimum_node)) || npm install --prefix "$packages" --no-save --no-audit --no-fund --loglevel=error "node@$node_version"
    ;;
  esac >&2
  touch "$packages/.complete"
fi
echo "$packages"
