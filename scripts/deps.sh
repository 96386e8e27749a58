#!/usr/bin/env bash
# Installs the Debian 12 packages Cairn needs and says which. Safe to run twice: what is there is left alone.
#   scripts/deps.sh [build] [test] [demo]      (default: build)
set -euo pipefail

build_packages="cmake ninja-build g++ ccache pkg-config ca-certificates
  libboost1.81-dev libexpected-dev libfmt-dev libspdlog-dev libssl-dev libzstd-dev libcurl4-openssl-dev
  libsqlite3-dev libpq-dev nlohmann-json3-dev libcli11-dev libtomlplusplus-dev libgtest-dev libgmock-dev bubblewrap
  libpcre2-dev libicu-dev libsimdjson-dev libsnappy-dev zlib1g-dev libtorch-dev libgloo-dev libopenblas0-openmp"
test_packages="postgresql-15 python3 python3-numpy python3-venv curl openssl jq rsync util-linux libbenchmark-dev"
demo_packages="python3 python3-numpy python3-venv"
all_packages="clang clang-tidy clang-format libclang-rt-14-dev rclone restic"

wanted=""
for group in "${@:-build}"; do
  case "$group" in
    build) wanted+=" $build_packages" ;;
    test) wanted+=" $test_packages" ;;
    demo) wanted+=" $demo_packages" ;;
    all) wanted+=" $all_packages" ;;
    *) echo "deps.sh: unknown group '$group' (build, test, demo, all)" >&2; exit 2 ;;
  esac
done

missing=""
for package in $wanted; do
  dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing+=" $package"
done
[ -z "$missing" ] && exit 0

as_root=""
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || { echo "deps.sh: please install as root:$missing" >&2; exit 1; }
  as_root="sudo"
fi
echo "== installing Debian packages:$missing"
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
$as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
