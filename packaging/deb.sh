#!/usr/bin/env bash
# Builds the Debian package of this tree, as it lies here, without network: build/deb/dtrain_VERSION_ARCH.deb. What it needs
# is installed first, where it is missing (as root, or by sudo).
set -euo pipefail
cd "$(dirname "$0")/.."
source packaging/packages.sh

# shellcheck disable=SC2086
install_packages $BUILD_PACKAGES $DEB_PACKAGES

version=$(sed -n 's/^project(dtrain VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
packaged=$(dpkg-parsechangelog -l packaging/debian/changelog -S Version)
[ "$version" = "$packaged" ] || {
  echo "CMakeLists.txt has version $version, packaging/debian/changelog $packaged: make them one" >&2
  exit 2
}

echo "building the package (some minutes, all of it in build/deb/build.log)" >&2

# The build wants debian/ at the root, and writes all over: in a copy.
out=$PWD/build/deb
tree=$out/tree
rm -rf "$out"
mkdir -p "$tree"
tar --exclude='./.git' --exclude='./build*' --exclude='./runs' --exclude='./.cache' --exclude='__pycache__' -cf - . | tar -xf - -C "$tree"
cp -r packaging/debian "$tree/debian"

# The package's build has a home of its own, but the compiler's cache is everybody's, with paths that count from the tree.
export CCACHE_BASEDIR=$tree
if command -v ccache >/dev/null; then
  CCACHE_DIR=${CCACHE_DIR:-$(ccache --get-config cache_dir)}
  export CCACHE_DIR
fi
export DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-parallel=$(nproc)} noautodbgsym"
export DEB_CXXFLAGS_STRIP="${DEB_CXXFLAGS_STRIP:--g}"  # symbols would go nowhere
(cd "$tree" && dpkg-buildpackage --build=binary --no-sign) >"$out/build.log" 2>&1 || {
  tail -n 40 "$out/build.log" >&2
  echo "the package was not built; all of it is in build/deb/build.log" >&2
  exit 1
}
rm -rf "$tree"
ls "$out"/*.deb
