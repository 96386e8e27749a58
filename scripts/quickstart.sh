#!/usr/bin/env bash
# Installs what Cairn needs, builds it, and does its main job on real input: a volume, a text corpus, a training run of your own
# program and its checkpoint back; then the built-in trainer from raw text to a pretrained and a fine-tuned model. Safe to run
# twice.
#   scripts/quickstart.sh [--stop] [--data DIR] [--listen HOST:PORT]
set -euo pipefail
cd "$(dirname "$0")/.."

stop=0 data="${CAIRN_QUICKSTART_DATA:-$HOME/cairn-quickstart}" listen="127.0.0.1:8470"
while [ $# -gt 0 ]; do
  case "$1" in
    --stop) stop=1 ;;
    --data) data=$2; shift ;;
    --listen) listen=$2; shift ;;
    *) echo "usage: scripts/quickstart.sh [--stop] [--data DIR] [--listen HOST:PORT]" >&2; exit 2 ;;
  esac
  shift
done
mkdir -p "$data"
data=$(cd "$data" && pwd)
box="$data/box" corpus="$data/corpus"

step() { printf '\n== %s\n' "$1"; }
run() { printf '$ cairn %s\n' "$*"; "$cairn" "$@"; }

step "1. packages and build"
scripts/deps.sh build demo
scripts/build.sh release cairn cairn-trainer
cairn="$PWD/build/release/bin/cairn" trainer="$PWD/build/release/bin/cairn-trainer" examples="$PWD/examples/small_model"
"$cairn" --version

step "2. a real corpus: the kernel's documentation and a dictionary"
scripts/corpus.sh "$corpus"
printf '%s files, %s\n' "$(find "$corpus" -type f | wc -l)" "$(du -sh "$corpus" | cut -f1)"

step "3. a whole Cairn on this box"
if "$cairn" --url "http://$listen" --token "$(cat "$box/admin-token" 2>/dev/null || echo none)" whoami >/dev/null 2>&1; then
  echo "it runs already"
else
  run up --data "$box" --listen "$listen" --detach
fi
export CAIRN_URL="http://$listen" CAIRN_TOKEN
CAIRN_TOKEN=$(cat "$box/admin-token")
run nodes list

step "4. a volume, filled"
run volumes create research --size 20Gi
run volumes put research "$corpus/" text
run volumes ls research text
run volumes du research text

step "5. a run of a program of your own"
cd examples/next_token
run run --volume research -- python3 train.py /volume/text/kernel --steps 150 --save-every 50
cd ../..
id=$("$cairn" train list -o json | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["id"])')

step "6. what it left"
run train get "$id"
run train checkpoints "$id"
echo "\$ cairn train logs $id | grep held-out"
"$cairn" train logs "$id" | grep held-out

step "7. the last checkpoint, back here and unchanged"
last="runs/$id/checkpoints/step_150"
rm -rf "$data/checkpoints"
run volumes get research "$last" "$data/checkpoints/"
written=$("$cairn" train logs "$id" | sed -n 's/^checkpoint step_150: sha256 \([0-9a-f]*\) .*/\1/p')
fetched=$(sha256sum "$data/checkpoints/step_150/weights.npz" | cut -d' ' -f1)
echo "the run wrote  $written"
echo "you have       $fetched"
[ -n "$written" ] && [ "$written" = "$fetched" ] || { echo "the checkpoint is not what the run wrote" >&2; exit 1; }

step "8. from text to tokens: a tokenizer is learned, and two sets of shards are written"
rm -rf "$data/small" "$data/tokens" "$data/split"
mkdir -p "$data/split/held-out"
cp -r "$corpus/kernel" "$data/split/train"
mv "$data/split/train/filesystems" "$data/split/held-out/"
run tokenizer train --vocab-size 8000 --output "$data/small" "$data/split/train"
run tokenize --tokenizer "$data/small" --output "$data/tokens/train" "$data/split/train"
run tokenize --tokenizer "$data/small" --output "$data/tokens/held-out" "$data/split/held-out"
cp "$examples/config.json" "$data/small/"
run volumes put research "$data/small/" models/small
run volumes put research "$data/tokens/" tokens

step "9. pretraining from random weights"
# train CONFIG: runs it to its end; its id is in $id, its last checkpoint in $checkpoint
train() {
  printf '$ cairn train %s --volume research --wait\n' "$1"
  "$cairn" train "$1" --volume research --wait | tee "$data/train.log"
  id=$(head -n 1 "$data/train.log")
  checkpoint=$("$cairn" train checkpoints "$id" -o json | python3 -c 'import json, sys; print(max((c["step"], c["path"]) for c in json.load(sys.stdin))[1])')
  run train checkpoints "$id"
}
train "$examples/pretrain.toml"

step "10. exported in Hugging Face format, and fine-tuned on conversations"
rm -rf "$data/pretrained" "$data/export"
run volumes get research "$checkpoint" "$data/pretrained/"
printf '$ cairn-trainer export %s %s\n' "$data/pretrained/$(basename "$checkpoint")" "$data/export"
"$trainer" export "$data/pretrained/$(basename "$checkpoint")" "$data/export"
python3 "$examples/reverse_text.py" "$data/split/train" "$data/sft"
run volumes put research "$data/export/" models/pretrained
run volumes put research "$data/sft/" sft
train "$examples/sft.toml"

step "11. the fine-tuned checkpoint, back here"
rm -rf "$data/fine-tuned"
run volumes get research "$checkpoint" "$data/fine-tuned/"
"$trainer" export "$data/fine-tuned/$(basename "$checkpoint")" "$data/fine-tuned/hf"
ls -l "$data/fine-tuned/hf"
run volumes du research
run volumes snapshots research

if [ $stop = 1 ]; then
  step "12. stopping it"
  run down --data "$box"
  echo "everything is kept below $box; start it again with: $cairn up --data $box"
else
  step "12. it goes on running"
  cat <<END
program   $cairn
server    http://$listen   token in $box/admin-token
data      $box             logs in $box/logs

Go on with:
  export PATH="$(dirname "$cairn"):\$PATH" CAIRN_URL=http://$listen CAIRN_TOKEN=\$(cat $box/admin-token)
  cairn volumes list
  cairn run --volume research -- 'ls /volume/runs; nproc'
  cairn down --data $box
END
fi
