#!/usr/bin/env bash
# Fuzzes every decoder for SECONDS, as many at a time as there are CPUs: scripts/fuzz.sh [SECONDS] [NAME...] (default 60, all).
# Needs scripts/build.sh fuzz. An input that crashes one is left in build/fuzz/crashes/ and the exit status is 1.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds="${1:-60}"
[ $# -gt 0 ] && shift
names=("$@")
if [ ${#names[@]} = 0 ]; then
  for corpus in tests/corpus/*/; do names+=("$(basename "$corpus")"); done
fi

fuzz_one() {
  local seconds=$1 name=$2 log found status=0
  found=$(mktemp -d)
  log="$found.log"
  mkdir -p build/fuzz/crashes
  "build/fuzz/bin/${name}_fuzz" -max_total_time="$seconds" -rss_limit_mb=2048 -artifact_prefix="build/fuzz/crashes/$name-" \
    "$found" "tests/corpus/$name" >"$log" 2>&1 || status=$?
  if [ $status = 0 ]; then
    echo "$name: $(grep -o '^Done .*' "$log")"
  else
    echo "$name: FAILED"
    grep -v '^#' "$log" | tail -n 60
  fi
  rm -rf "$found" "$log"
  return $status
}
export -f fuzz_one
printf '%s\n' "${names[@]}" | xargs -P "$(nproc)" -I{} bash -c 'fuzz_one "$@"' fuzz_one "$seconds" {}
