#!/usr/bin/env bash
# Installs what is needed, builds and runs the tests. Safe to run twice.
#   scripts/test.sh          one g++ build, all default tests, a short sanitizer leg; under 20 minutes on 2 cores
#   scripts/test.sh --all    also clang, everything under ASan+UBSan and TSan, 200 kill points, fuzzing
set -euo pipefail
cd "$(dirname "$0")/.."
all=0
case "${1:-}" in
  "") ;;
  --all) all=1 ;;
  *) echo "usage: scripts/test.sh [--all]" >&2; exit 2 ;;
esac

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
failed_legs=0

# leg NAME COMMAND...: runs it, remembers its outcome, goes on.
leg() {
  local name=$1 started=$SECONDS
  shift
  echo "== $name"
  if "$@"; then
    echo "== $name: ok, $((SECONDS - started)) s"
  else
    echo "== $name: FAILED, $((SECONDS - started)) s"
    failed_legs=$((failed_legs + 1))
  fi
}

# tests PRESET CTEST_ARGUMENTS...: runs tests beside a private PostgreSQL and counts them.
tests() {
  local preset=$1 log="$results/$1-$RANDOM.log" status=0
  shift
  scripts/with-postgres.sh ctest --test-dir "build/$preset" --output-on-failure -j3 "$@" 2>&1 | tee "$log" || status=1
  return $status
}

scripts/deps.sh build test
[ $all = 1 ] && scripts/deps.sh all

leg "build (dev)" scripts/build.sh dev
leg "tests (dev)" tests dev

# The short sanitizer leg: every decoder on its corpus, and the tests of what reads and writes stored bytes.
decoders=""
for corpus in tests/corpus/*/; do decoders+=" $(basename "$corpus")_fuzz"; done
sanitizer_targets="codec_test os_test object_test store_test dataset_shards_test dataset_readers_test trainer_files_test $decoders"
if [ $all = 0 ]; then
  leg "build (asan, decoders and stores)" scripts/build.sh asan $sanitizer_targets
  leg "tests (asan)" tests asan -R "^($(echo $sanitizer_targets | tr ' ' '|'))\$"
else
  leg "build (clang)" scripts/build.sh clang
  for sanitizer in asan tsan; do
    leg "build ($sanitizer)" scripts/build.sh "$sanitizer"
    leg "tests ($sanitizer)" tests "$sanitizer"
  done
  leg "200 kill points" env CAIRN_BINARY="$PWD/build/dev/bin/cairn" /usr/bin/python3 tests/crash/crash_test.py --points 200
  leg "build (fuzz)" scripts/build.sh fuzz $decoders
  leg "60 s of fuzzing per decoder" scripts/fuzz.sh 60
fi

count() { cat "$results"/*.log 2>/dev/null | grep -cE "$1" || true; }
passed=$(count '^ *[0-9]+/[0-9]+ Test +#[0-9]+: .* Passed ')
failed=$(count '^ *[0-9]+/[0-9]+ Test +#[0-9]+: .*\*\*\*(Failed|Timeout|Exception|Not Run)')
skipped=$(count '^ *[0-9]+/[0-9]+ Test +#[0-9]+: .*\*\*\*Skipped')
cases_skipped=$(count '^\[  SKIPPED \] .*\([0-9]+ ms\)')
[ "$cases_skipped" = 0 ] || echo "$cases_skipped test cases were skipped; each says why above"
[ $failed_legs = 0 ] || echo "$failed_legs of the steps above failed"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed_legs = 0 ]
