#!/usr/bin/python3
"""Cairn's tokenizer beside Hugging Face's `tokenizers` (a Python package, in Rust) on the same text, tokenizer and machine.

    tokenizer_bench.py --tokenizer tokenizer.json TEXT_FILE_OR_FOLDER... [--mb 64] [--train VOCAB_SIZE]

Both encode the same documents of some 64 KiB from memory, with one thread and with all; each figure is the fastest of three
rounds. The ids are compared by number and sum. --train also lets both learn a vocabulary from the same text. The programs come
from build/release/bin: scripts/build.sh release tokenizer_bench cairn-trainer. Run it where `tokenizers` can be imported."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BINARIES = os.environ.get("CAIRN_BENCH_BIN", os.path.join(ROOT, "build/release/bin"))
DOCUMENT_BYTES = 64 * 1024
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def gather(paths, limit):
    """Up to `limit` bytes of text of the files at `paths`."""
    text = bytearray()
    for path in paths:
        files = [path] if os.path.isfile(path) else sorted(os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
        for file in files:
            if len(text) >= limit:
                return bytes(text[:limit])
            text += open(file, "rb").read()
    return bytes(text[:limit])


def cut(text):
    at, documents = 0, []
    while at < len(text):
        line = text.find(b"\n", at + DOCUMENT_BYTES) if len(text) - at > DOCUMENT_BYTES else -1
        end = len(text) if line < 0 else line + 1
        documents.append(text[at:end].decode("utf-8", "replace"))
        at = end
    return documents


HF_ENCODE = """
import json, sys, time
sys.path.insert(0, sys.argv[4])
from tokenizer_bench import cut
from tokenizers import Tokenizer
begin = time.perf_counter()
tokenizer = Tokenizer.from_file(sys.argv[1])
load = time.perf_counter() - begin
documents = cut(open(sys.argv[2], "rb").read())
encode = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)
fastest = None
for _ in range(3):
    begin = time.perf_counter()
    encoded = encode(documents, add_special_tokens=False)
    seconds = time.perf_counter() - begin
    fastest = seconds if fastest is None else min(fastest, seconds)
print(json.dumps({"load_seconds": load, "seconds": fastest, "documents": len(documents), "ids": sum(len(e.ids) for e in encoded), "sum": sum(sum(e.ids) for e in encoded)}))
"""

HF_TRAIN = """
import json, sys, time
sys.path.insert(0, sys.argv[3])
from tokenizer_bench import QWEN, cut
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
documents = cut(open(sys.argv[1], "rb").read())
begin = time.perf_counter()
tokenizer = Tokenizer(models.BPE())
tokenizer.normalizer = normalizers.NFC()
tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
trainer = trainers.BpeTrainer(vocab_size=int(sys.argv[2]) - 9, min_frequency=2, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
tokenizer.train_from_iterator(documents, trainer)
print(json.dumps({"seconds": time.perf_counter() - begin, "vocab": json.loads(tokenizer.to_str())["model"]["vocab"]}))
"""


def run(command, threads):
    env = dict(os.environ, RAYON_NUM_THREADS=str(threads), TOKENIZERS_PARALLELISM="true" if threads > 1 else "false")
    return json.loads(subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE).stdout)


def encode(tokenizer, path, megabytes, cores):
    print(f"encoding {megabytes:.1f} MB")
    for threads in sorted({1, cores}):
        ours = run([os.path.join(BINARIES, "tokenizer_bench"), tokenizer, path, str(threads)], threads)
        theirs = run([sys.executable, "-c", HF_ENCODE, tokenizer, path, "", os.path.dirname(os.path.abspath(__file__))], threads)
        same = all(ours[key] == theirs[key] for key in ("documents", "ids", "sum"))
        print(f"  {threads} thread(s): Cairn {megabytes / ours['seconds']:.1f} MB/s, tokenizers {megabytes / theirs['seconds']:.1f} MB/s, "
              f"ratio {theirs['seconds'] / ours['seconds']:.1f}; {ours['ids']} ids, {'the same' if same else 'NOT THE SAME'}; "
              f"load {ours['load_seconds']:.2f} s and {theirs['load_seconds']:.2f} s")


def train(vocab_size, documents, path, megabytes, cores, folder):
    texts = os.path.join(folder, "texts")
    os.mkdir(texts)
    for number, document in enumerate(documents):
        with open(os.path.join(texts, f"{number:08}.txt"), "w", encoding="utf-8", newline="") as file:
            file.write(document)
    for threads in sorted({1, cores}):
        output = os.path.join(folder, f"learned_{threads}")
        begin = time.perf_counter()
        subprocess.run([os.path.join(BINARIES, "cairn-trainer"), "tokenizer", "train", "--vocab-size", str(vocab_size), "--threads", str(threads), "--output", output, texts], check=True, stdout=subprocess.DEVNULL)
        ours = time.perf_counter() - begin
        theirs = run([sys.executable, "-c", HF_TRAIN, path, str(vocab_size), os.path.dirname(os.path.abspath(__file__))], threads)
        same = json.load(open(os.path.join(output, "tokenizer.json"), encoding="utf-8"))["model"]["vocab"] == theirs["vocab"]
        print(f"learning {vocab_size} entries from {megabytes:.1f} MB, {threads} thread(s): Cairn {ours:.1f} s, tokenizers {theirs['seconds']:.1f} s, "
              f"vocabulary {'the same' if same else 'NOT THE SAME'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="+")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--mb", type=int, default=64, help="at most so much text")
    parser.add_argument("--train", type=int, metavar="VOCAB_SIZE")
    arguments = parser.parse_args()
    text = gather(arguments.texts, arguments.mb * 1_000_000)
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "text")
        with open(path, "wb") as file:
            file.write(text)
        encode(arguments.tokenizer, path, len(text) / 1e6, cores)
        if arguments.train:
            train(arguments.train, cut(text), path, len(text) / 1e6, cores, folder)


if __name__ == "__main__":
    main()
