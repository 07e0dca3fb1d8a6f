#!/usr/bin/env bash
# Installs what the tests need, builds, and runs every test. Its last line is "N passed, N failed".
#   --all   also builds with clang, runs the sanitizers and clang-tidy
set -uo pipefail
cd "$(dirname "$0")/.."
source packaging/packages.sh

everything=0
for argument in "$@"; do
  case "$argument" in
    --all) everything=1 ;;
    *) echo "usage: packaging/test.sh [--all]" >&2; exit 2 ;;
  esac
done

failed_to() {
  echo "failed to $1" >&2
  echo "0 passed, 1 failed"
  exit 1
}

# shellcheck disable=SC2086
install_packages $BUILD_PACKAGES $DATA_PACKAGES $TEST_PACKAGES || failed_to "install packages"
if [ $everything = 1 ]; then
  # shellcheck disable=SC2086
  install_packages $ALL_PACKAGES || failed_to "install packages"
fi
# Paths that count from here, in the compiler's cache: so the build of the package, in a copy, finds these objects.
export CCACHE_BASEDIR=$PWD
echo "building everything (about ten minutes on two cores)"
cmake -S . -B build -G Ninja -DDTRAIN_TESTS=ON >/dev/null || failed_to "configure"
ninja -C build --quiet || failed_to "build"

arguments=(--build build)
[ $everything = 1 ] && arguments+=(--all)
exec python3 tests/run_all.py "${arguments[@]}"
