#!/usr/bin/env bash
# Configures and builds one preset: scripts/build.sh [PRESET] [TARGET...]. Binaries land in build/PRESET/bin/.
set -euo pipefail
cd "$(dirname "$0")/.."
preset="${1:-dev}"
[ $# -gt 0 ] && shift
[ -d /usr/lib/ccache ] && export PATH="/usr/lib/ccache:$PATH"
if [ ! -f "build/$preset/build.ninja" ]; then
  cmake --preset "$preset" >"build-$preset.log" 2>&1 || { cat "build-$preset.log" >&2; rm -f "build-$preset.log"; exit 1; }
  rm -f "build-$preset.log"
fi
exec ninja -C "build/$preset" "$@"
