#!/usr/bin/env bash
# From a bare Debian 12 to a trained network: installs what the build needs, builds, and trains LeNet on Fashion-MNIST with one
# parameter server and two workers, as three processes on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
source packaging/packages.sh

# shellcheck disable=SC2086
install_packages $BUILD_PACKAGES $DATA_PACKAGES
echo "building build/dtrain (some minutes)"
cmake -S . -B build -G Ninja -DDTRAIN_TESTS=OFF >/dev/null
ninja -C build --quiet dtrain

out=runs/quickstart
rm -rf "$out"
build/dtrain launch configs/lenet-fashion.toml --workers 2 --ps 1 --out "$out"
echo
echo "The model is in $out/model.safetensors, what was measured in $out/metrics.jsonl. Next:"
echo "  build/dtrain eval configs/lenet-fashion.toml --model $out/model.safetensors"
echo "  build/dtrain inspect $out/model.safetensors --hash"
echo "  build/dtrain check configs/lenet-fashion.toml"
