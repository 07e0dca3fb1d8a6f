# Sourced by the scripts beside it: the Debian packages that building, testing and the quick start need, and how to install
# them. Only what is missing is installed, so that a second run needs neither the network nor root.

BUILD_PACKAGES="g++ cmake ninja-build ccache pkg-config libcli11-dev libtomlplusplus-dev libasio-dev libfmt-dev libssl-dev
  zlib1g-dev libpng-dev libturbojpeg0-dev libdnnl-dev libexpected-dev nlohmann-json3-dev scdoc"
DATA_PACKAGES="dataset-fashion-mnist"
DEB_PACKAGES="debhelper dpkg-dev"
TEST_PACKAGES="libgtest-dev libgmock-dev python3 procps man-db iproute2 openmpi-bin slurmctld slurmd
  slurm-client munge openssh-server openssh-client rsync python3-yaml zsh lintian debootstrap systemd $DEB_PACKAGES"
ALL_PACKAGES="clang clang-tidy libomp-dev libclang-rt-14-dev"

install_packages() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  local root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "missing packages: ${missing[*]}; install them as root, or run this script as root" >&2; return 1; }
    root=(sudo)
  fi
  echo "installing: ${missing[*]}"
  "${root[@]}" apt-get update -q >/dev/null || return 1
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends "${missing[@]}" >/dev/null || {
    echo "cannot install: ${missing[*]}" >&2
    return 1
  }
}
