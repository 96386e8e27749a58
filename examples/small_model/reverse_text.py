#!/usr/bin/env python3
"""Makes conversations out of a text corpus: the user gives a line, the assistant answers its words in reverse order.

    reverse_text.py CORPUS_DIR OUT_DIR      writes OUT_DIR/train.jsonl and OUT_DIR/held-out.jsonl

Needs Python's standard library only. The same corpus gives the same files."""

import json
import os
import sys

ROWS, HELD_OUT_EVERY, WORDS = 2000, 20, range(4, 13)


def lines(corpus):
    for folder, subfolders, names in os.walk(corpus):
        subfolders.sort()
        for name in sorted(names):
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                for line in file:
                    words = line.split()
                    if len(words) in WORDS and all(word.strip(".,:;()").isalpha() for word in words):
                        yield words


def main():
    corpus, out = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    seen = set()
    with open(f"{out}/train.jsonl", "w") as train, open(f"{out}/held-out.jsonl", "w") as held_out:
        for words in lines(corpus):
            text = " ".join(words)
            if text in seen:
                continue
            seen.add(text)
            row = {"messages": [{"role": "user", "content": text},
                                {"role": "assistant", "content": " ".join(reversed(words))}]}
            (held_out if len(seen) % HELD_OUT_EVERY == 0 else train).write(json.dumps(row) + "\n")
            if len(seen) == ROWS:
                break
    print(f"{len(seen)} conversations in {out}")


if __name__ == "__main__":
    main()
