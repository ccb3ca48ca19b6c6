# shellcheck shell=bash
# Bare Debian systems in chroots, for the tests that need one. To be sourced from the root of the project after pgrx-config/env.sh, by
# root, with a function `die`.
#
#   make_base RELEASE       makes a bare system, once
#   enter RELEASE           a fresh copy of it in $system, with the project in /project and this machine's Rust
#   inside [USER] COMMAND   runs a command in it
#   apt_install PACKAGE...  installs packages in it
#   leave                   removes the copy
#
# Systems of one release share $builds/RELEASE, if $builds is set: Cargo's build of the project, and cargo-pgrx.

((EUID == 0)) || die "only root can make a chroot"
command -v mmdebstrap >/dev/null || apt-get install -y -qq --no-install-recommends mmdebstrap >/dev/null ||
  die "mmdebstrap is missing, and apt-get cannot install it"

# shellcheck disable=SC2016 # apt-get expands it
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' | grep -v -- -security | sed -n 1p)
bases=$cache/cold
mkdir -p "$bases"
work=$(mktemp -d "$bases/work.XXXXXX")
system=$work/system
cleanup() {
  leave
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

make_base() {
  local release=$1
  [[ ! -e $bases/$release/.complete ]] || return 0
  echo "Making a bare system of $release"
  rm -rf "${bases:?}/$release"
  # A mirror that has not been updated for some days will do.
  mmdebstrap --quiet --aptopt='Acquire::Check-Valid-Until "false"' --variant=minbase --include=make,ca-certificates "$release" "$bases/$release" "$mirror"
  # The mirror may be behind a proxy with a certificate of its own.
  cp -L /etc/ssl/certs/ca-certificates.crt "$bases/$release/etc/ssl/certs/ca-certificates.crt"
  touch "$bases/$release/.complete"
}

# A fresh copy of a base, with the project in /project.
enter() {
  local release=$1
  mkdir -p "$work"/{upper,overlay,cargo-upper,cargo-overlay} "$system"
  mount -t overlay overlay -o "lowerdir=$bases/$release,upperdir=$work/upper,workdir=$work/overlay" "$system"
  mkdir -p "$system"/{project,opt/rust,opt/cargo} "$bases/$release-archives/partial"
  mount --bind "$bases/$release-archives" "$system/var/cache/apt/archives"
  mount --rbind /dev "$system/dev"
  mount --make-rslave "$system/dev"
  mount --bind "$(rustc --print sysroot)" "$system/opt/rust"
  mount -t overlay overlay -o "lowerdir=${CARGO_HOME:-$HOME/.cargo},upperdir=$work/cargo-upper,workdir=$work/cargo-overlay" "$system/opt/cargo"
  cp -L /etc/resolv.conf "$system/etc/resolv.conf"
  local cargo_pgrx=
  if [[ ${CARGO_PGRX:-} == 1 ]]; then cargo_pgrx=$cache/cargo-pgrx-$cargo_pgrx_version; fi
  if [[ -n ${builds:-} ]]; then
    mkdir -p "$builds/$release/target" "$system/project/target"
    mount --bind "$builds/$release/target" "$system/project/target"
    if [[ -e $builds/$release/cargo-pgrx-$cargo_pgrx_version ]]; then cargo_pgrx=$builds/$release/cargo-pgrx-$cargo_pgrx_version; fi
  fi
  if [[ -n $cargo_pgrx ]]; then
    mkdir -p "$system/var/cache/table_service"
    cp -rL "$cargo_pgrx" "$system/var/cache/table_service/"
  fi
  git -C "$project" ls-files -z --cached --others --exclude-standard --deduplicate | while IFS= read -r -d '' file; do
    if [[ -e $project/$file ]]; then printf '%s\0' "$file"; fi
  done | (cd "$project" && xargs -0 cp --parents -t "$system/project")
}

leave() {
  local mounted
  for mounted in project/target var/cache/apt/archives opt/cargo opt/rust dev ''; do
    if mountpoint -q "$system/$mounted"; then umount -R -l "$system/$mounted"; fi
  done
  rm -rf "$work"/{upper,overlay,cargo-upper,cargo-overlay}
}

# inside [USER] COMMAND: in the system, with processes of its own, none of which outlives the command.
inside() {
  local user=root
  if (($# > 1)); then
    user=$1
    shift
  fi
  unshare --mount --pid --fork --kill-child bash -c "mount -t proc proc '$system/proc' && exec chroot '$system' \"\$@\"" - \
    runuser -u "$user" -- env -i PATH=/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME="$(if [[ $user == root ]]; then echo /root; else echo "/home/$user"; fi)" CARGO_HOME=/opt/cargo LANG=C.UTF-8 \
    bash -c "cd /project && $1"
}

apt_install() {
  inside "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $*" >"$work/log" 2>&1 || {
    tail -n 20 "$work/log" >&2
    die "apt-get install $* fails in $release"
  }
}
