# shellcheck shell=bash
# Source this, with a PostgreSQL major or with PG set, to work by hand with the tools that setup.sh prepared:
#   . pgrx-config/env.sh 15
# It changes only the environment.

_project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
[[ ${1:-} =~ ^[0-9]+$ ]] && PG=$1

# Settings for other servers must not leak into ours: connection defaults (PGHOST, PGOPTIONS, ...) and pgrx's own (PGRX_...).
for _name in "${!PG@}"; do
  [[ $_name == PG ]] || unset "$_name"
done
unset _name

_there=$PWD
cd "$_project" || return 1
# shellcheck source=pgrx-config/versions.sh
. pgrx-config/versions.sh
cd "$_there" || return 1

export PG=${PG:-$default_pg}
check_pg "$PG" || return 1
# CHECKED=1 means a PostgreSQL that looks for faults: built with assertions, with caches that keep nothing that nobody
# holds, and for valgrind. Its extension is built apart.
checked=${CHECKED:+-checked}
if [[ -n $checked ]]; then export CARGO_TARGET_DIR=$_project/target/checked; fi
# cargo looks into its home's bin first, unless that is on the PATH; ours must win there over another version.
PATH=$cache/cargo-pgrx-$cargo_pgrx_version/bin:$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
if [[ $(cd "$_project" && rustc --version 2>/dev/null) == "rustc 1.95."* ]]; then PATH=$_project/pgrx-config/rust-1.95:$PATH; fi
export PATH PGRX_HOME=$cache/pgrx$checked
export PGBIN=$cache/pg$PG$checked/bin
export PG_CONFIG=$PGBIN/pg_config
# pgrx's tests connect under this name, and some containers do not set it.
export USER=${USER:-$(id -un)}
unset _there _project
