#!/usr/bin/env bash
# Makes container images of the packages, which `docker load` and `podman load` take. Nothing is pulled: the base is Debian's packages.
# Needs root.
#
#   image.sh [RELEASE]     Debian's release (default: the one of this machine)
#
#   target/packages/table-service-emulator.tar   the emulator
#   target/packages/table-service-azurite.tar    the same, as a replacement for azurite's image
#   target/packages/table-service.tar            PostgreSQL with the extension, and the gateway
set -euo pipefail

cd "$(dirname "$0")/.."
release=${1:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
packages=$PWD/target/packages
die() {
  echo "image.sh: $*" >&2
  exit 1
}
((EUID == 0)) || die "only root can make a root file system"
pgrx-config/setup.sh images
compgen -G "$packages/*.deb" >/dev/null || die "there are no packages: make packages"
case $release in bookworm) PG=15 ;; trixie) PG=17 ;; *) die "which PostgreSQL does $release have?" ;; esac
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
# shellcheck disable=SC2016 # apt-get expands it
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' | grep -v -- -security | sed -n 1p)
export SOURCE_DATE_EPOCH BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
work=$(mktemp -d "$packages/image.XXXXXX")
storage=(--root "$work/storage" --runroot "$work/run")
trap 'rm -rf "$work"' EXIT

# system NAME PACKAGE...: a root file system with these packages and Debian's of $include.
system() {
  local name=$1 hooks=() package
  shift
  for package; do hooks+=("--customize-hook=copy-in $(compgen -G "$packages/${package}_*.deb") /root"); done
  # No cluster is made by the server's package.
  mmdebstrap --quiet --variant=minbase --include="ca-certificates,postgresql-common,$include" \
    --customize-hook='sed -i "s/^#\? *create_main_cluster *=.*/create_main_cluster = false/" "$1/etc/postgresql-common/createcluster.conf"' \
    "${hooks[@]}" \
    --customize-hook='chroot "$1" sh -c "DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends /root/*.deb >/dev/null && rm /root/*.deb"' \
    --customize-hook='rm -rf "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/* "$1"/var/log/*' \
    "$release" "$work/$name.rootfs.tar" "$mirror"
}

# image NAME SYSTEM: an image of that system, which "${files[@]}" (FROM:TO), "${links[@]}" (FROM:TO), the directories "${directories[@]}" of
# its user and the configuration in "${config[@]}" complete.
image() {
  local name=$1 container image file link mode directory
  # Images of the format `oci` have no health check.
  container=$(buildah "${storage[@]}" from --format docker scratch)
  buildah "${storage[@]}" add --quiet "$container" "$work/$2.rootfs.tar" / >/dev/null
  # A machine makes it when it starts.
  buildah "${storage[@]}" run "$container" install --directory --owner=postgres --group=postgres --mode=2775 /run/postgresql
  for directory in "${directories[@]}"; do
    buildah "${storage[@]}" run "$container" install --directory --owner=postgres --group=postgres "$directory"
  done
  for file in "${files[@]}"; do
    mode=644
    [[ ${file#*:} != */bin/* ]] || mode=755
    buildah "${storage[@]}" add --quiet --chmod "$mode" "$container" "${file%%:*}" "${file#*:}" >/dev/null
  done
  for link in "${links[@]}"; do
    buildah "${storage[@]}" run "$container" ln -s "${link%%:*}" "${link#*:}"
  done
  # From here on commands run as the image's user.
  buildah "${storage[@]}" config --created-by "packaging/image.sh" --label "org.opencontainers.image.version=$version" "${config[@]}" "$container"
  # Without a name here: it would be another name in the file.
  image=$(buildah "${storage[@]}" commit --quiet --format docker --timestamp "$SOURCE_DATE_EPOCH" "$container")
  rm -f "$packages/$name.tar"
  buildah "${storage[@]}" push --quiet "$image" "docker-archive:$packages/$name.tar:$name:$version"
  buildah "${storage[@]}" rm "$container" >/dev/null
  echo "target/packages/$name.tar"
}

# In a container, 127.0.0.1 is the container's own, so the emulator listens on every address. Publish its port on 127.0.0.1 only:
#   docker run -p 127.0.0.1:10002:10002 table-service-emulator:VERSION
files=()
# Compose files for azurite's image keep the tables in /data, and their health checks call nc.
directories=(/data)
# Commands that start azurite's image name its program.
links=(table-service-emulator:/usr/bin/azurite table-service-emulator:/usr/bin/azurite-table)
include=netcat-openbsd
# As azurite or azurite-table it would take a free port for operators, and the current directory for its tables.
emulator=(--user postgres --env TABLE_SERVICE_EMULATOR_ADMIN_PORT=10003 --workingdir /data
  --healthcheck 'CMD table-service-emulator healthcheck' --healthcheck-interval 5s --healthcheck-start-period 10s)
system emulator "postgresql-$PG-table-service" table-service-emulator
config=("${emulator[@]}" --port 10002 --env TABLE_SERVICE_EMULATOR_EXPOSE=true --entrypoint '["table-service-emulator"]')
image table-service-emulator emulator
# As azurite's image it has no entry point, and a command that others may replace.
config=("${emulator[@]}" --port 10000 --port 10001 --port 10002
  --cmd 'azurite -l /data --blobHost 0.0.0.0 --queueHost 0.0.0.0 --tableHost 0.0.0.0')
image table-service-azurite emulator
rm "$work/emulator.rootfs.tar"

# The tables are in /var/lib/postgresql, which outlives the container if it is a volume. The gateway does not start before
# TABLE_SERVICE_ACCOUNT and TABLE_SERVICE_KEY name an account of yours: the development account's key is public.
#   docker run -p 10002:10002 -v tables:/var/lib/postgresql -e TABLE_SERVICE_ACCOUNT=… -e TABLE_SERVICE_KEY=… table-service:VERSION
# Only the gateway's port leaves the container; its PostgreSQL listens on a socket in it.
files=(packaging/start.sh:/usr/bin/table-service-start packaging/pg_hba.conf:/usr/share/table-service/pg_hba.conf
  packaging/pg_ident.conf:/usr/share/table-service/pg_ident.conf)
directories=()
links=()
include=
system gateway "postgresql-$PG-table-service" table-service-gateway
config=(--user postgres --port 10002 --env TABLE_SERVICE_LISTEN=0.0.0.0:10002 --volume /var/lib/postgresql
  --entrypoint '["table-service-start"]' --healthcheck 'CMD table-service-start healthcheck'
  --healthcheck-interval 5s --healthcheck-start-period 10s)
image table-service gateway
