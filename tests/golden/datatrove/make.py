#!/usr/bin/env python3
"""Writes the shards in this folder with datatrove itself, and expected.json with what datatrove's own reader finds in them.

    python3 -m venv --system-site-packages VENV && VENV/bin/pip install datatrove tokenizers humanize "numpy<2"
    VENV/bin/python tests/golden/datatrove/make.py

The reader wants torch. Made with datatrove 0.10.1."""

import json
import os
import random
import shutil

import numpy as np
from datatrove.data import Document
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.tokens import DocumentTokenizer, DocumentTokenizerMerger
from datatrove.utils.dataset import DatatroveFileDataset
from tokenizers import Tokenizer, models, pre_tokenizers

HERE = os.path.dirname(os.path.abspath(__file__))
SEQ_LEN = 7
WORK = "work"


def make_tokenizer(path, size):
    vocab = {"<|endoftext|>": 0, **{f"w{i}": i for i in range(1, size)}}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="<|endoftext|>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(path)


def documents(count, size, seed, no_loss=False):
    chance = random.Random(seed)
    for i in range(count):
        words = [f"w{chance.randrange(1, size)}" for _ in range(chance.randrange(1, 12))]
        metadata = {"no_loss_ranges": [(0, len(words[0]) + 1)]} if no_loss and len(words) > 2 else {}
        yield Document(text=" ".join(words), id=str(i), metadata=metadata)


def make(name, tokenizer, size, counts, no_loss=False, **settings):
    for rank, count in enumerate(counts):
        step = DocumentTokenizer(name, tokenizer, eos_token="<|endoftext|>", seed=rank, save_loss_metadata=no_loss, **settings)
        step.run(documents(count, size, rank + 1, no_loss), rank=rank, world_size=len(counts))


TEXTS = ["Hello, world!", "Grüße aus Köln\n\tmit Tab", "日本語のテキスト", "def f(x):\n    return x + 1\n", "", "emoji \U0001f600\u200d\U0001f680", "a" * 300,
         "1234567 8.9", "  spaces   ", "<|endoftext|> inside", "e\u0301 composed"]


def tokenized():
    """Texts through a real tokenizer: what `cairn-trainer tokenize --no-shuffle` has to write byte for byte."""
    with open("documents.jsonl", "w") as out:
        for i, text in enumerate(TEXTS * 3):
            out.write(json.dumps({"id": i, "text": text + (str(i) if text else "")}, ensure_ascii=i % 2 == 0) + "\n")
    shutil.rmtree("tokenized", ignore_errors=True)
    step = DocumentTokenizer("tokenized", "../tokenizer/tokenizer.json", eos_token="<|endoftext|>", shuffle_documents=False)
    step.run(JsonlReader(".", glob_pattern="documents.jsonl").run())


def expected(name):
    shards = []
    for file in sorted(f for f in os.listdir(name) if f.endswith(".ds")):
        path = os.path.join(name, file)
        width = 4 if name.startswith("wide") else 2
        ids = np.fromfile(path, np.uint32 if width == 4 else np.uint16).tolist()
        ends = np.fromfile(path + ".index", np.uint64).tolist() if os.path.exists(path + ".index") else None
        loss = np.fromfile(path + ".loss", np.uint8).tolist() if os.path.exists(path + ".loss") else None
        reader = DatatroveFileDataset(path, SEQ_LEN, token_size=width)
        windows = [reader[i]["input_ids"].tolist() for i in range(len(reader))]
        shards.append({"name": file, "token_size": width, "ids": ids, "ends": ends, "loss": loss, "windows": windows})
    return shards


def main():
    os.chdir(HERE)
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    barred, narrow, wide = "work/nar|row.json", "work/narrow.json", "work/wide.json"
    make_tokenizer(barred, 300)
    make_tokenizer(narrow, 300)
    make_tokenizer(wide, 65537)
    sets = ["narrow_unshuffled", "narrow_shuffled", "narrow_split", "narrow_loss", "narrow_no_index", "narrow_no_metadata",
            "narrow_empty", "narrow_merged", "wide_unshuffled", "wide_shuffled"]
    for name in sets:
        shutil.rmtree(name, ignore_errors=True)
    make("narrow_unshuffled", narrow, 300, [6, 4], shuffle_documents=False)
    make("narrow_shuffled", barred, 300, [8])
    make("narrow_split", narrow, 300, [9], max_tokens_per_file=20)
    make("narrow_loss", narrow, 300, [5], no_loss=True)
    make("narrow_no_index", narrow, 300, [5], shuffle_documents=False, save_index=False)
    make("narrow_no_metadata", narrow, 300, [5], shuffle_documents=False, save_final_metadata=False)
    make("narrow_empty", narrow, 300, [0])
    DocumentTokenizerMerger("narrow_unshuffled", "narrow_merged", save_filename="all", seed=3).run([])
    make("wide_unshuffled", wide, 65537, [6], shuffle_documents=False)
    make("wide_shuffled", wide, 65537, [6, 5])
    with open("expected.json", "w") as out:
        rows = ",\n".join(f" {json.dumps(name)}: {json.dumps(expected(name), separators=(',', ':'))}" for name in sets)
        out.write("{\n" + rows + "\n}\n")
    shutil.rmtree(WORK)
    tokenized()


main()
