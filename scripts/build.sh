#!/usr/bin/env bash
# Configures and builds one preset: scripts/build.sh [PRESET] [TARGET...]. Binaries land in build/PRESET/bin/.
set -euo pipefail
cd "$(dirname "$0")/.."
preset="${1:-dev}"
[ $# -gt 0 ] && shift
# ccache wants to be told that a precompiled header's time and unused macros do not matter.
[ -d /usr/lib/ccache ] && export PATH="/usr/lib/ccache:$PATH" CCACHE_SLOPPINESS=pch_defines,time_macros
if [ ! -f "build/$preset/build.ninja" ]; then
  cmake --preset "$preset" >"build-$preset.log" 2>&1 || { cat "build-$preset.log" >&2; rm -f "build-$preset.log"; exit 1; }
  rm -f "build-$preset.log"
fi
exec ninja -C "build/$preset" "$@"
