# shellcheck shell=bash disable=SC2034,SC2154
# SDKs and clients from their registries, at their pinned versions, in the cache. Sourced after pgrx-config/env.sh.

# A directory in the cache for what this file of versions says: another version is another directory.
packages_directory() { echo "$cache/sdk/$1-$(sha256sum "$2" | cut -c1-12)"; }

# install_python NAME REQUIREMENTS: sets `venv`.
install_python() {
  venv=$(packages_directory "$1" "$2")
  [[ ! -e $venv/.complete ]] || return 0
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$2"
  touch "$venv/.complete"
}

# install_javascript NAME DIRECTORY: what DIRECTORY/package-lock.json says; sets `modules`, whose bin has the right Node.js if the
# machine's own is too old.
install_javascript() {
  modules=$(packages_directory "$1" "$2/package-lock.json")
  [[ ! -e $modules/.complete ]] || return 0
  rm -rf "$modules"
  mkdir -p "$modules"
  cp "$2"/package{,-lock}.json "$modules/"
  npm ci --prefix "$modules" --no-audit --no-fund --loglevel=error
  local have
  have=$(node --version)
  have=${have#v}
  ((${have%%.*} >= minimum_node)) || npm install --prefix "$modules" --no-save --no-audit --no-fund --loglevel=error "node@$node_version"
  touch "$modules/.complete"
}

# run_node ARGUMENT...: Node.js, which finds the installed packages.
run_node() { NODE_PATH=$modules/node_modules PATH=$modules/node_modules/node/bin:$PATH node "$@"; }
