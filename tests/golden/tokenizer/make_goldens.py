#!/usr/bin/env python3
"""Makes tokenizer.json and cases.json: what Hugging Face's `tokenizers` (0.23.3 made the stored ones) gives for texts of all kinds.

    python3 make_goldens.py        (needs the Python package `tokenizers`; the tests read only the files)

cases.json is a list of variants of tokenizer.json. "override" replaces top-level members of it, "ignore_merges" and
"merges_as_strings" change its model. Each case holds the bytes of a text (hex), its ids, and, unless it is the
text again, the decoded text (hex); null: not to be compared."""

import json
import os
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..", "..")
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = QWEN.replace(r"\p{N}|", r"\p{N}{1,3}|", 1)
OTHER = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}]*[\p{Ll}\p{M}]+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]+|\s+"

TEXTS = [
    "", " ", "  ", "\n", "\t\n  \r\n\r\n x", "The quick brown fox jumps over the lazy dog.", "don't DON'T I'LL we've it's '\u017f 'tis",
    "1 12 123 1234 12345 \u0661\u0662\u0663 \u2167 \u00bd", "def f(x):\n    return {x: [x**2, 'a\\n']}\n\n\n", "   leading and trailing   ",
    "caf\u00e9 cafe\u0301 \u1e69 s\u0323\u0307 s\u0307\u0323 \u212b \u2126 \ufb01 A\u030a", "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8 \ud55c\uad6d\uc5b4 \u1112\u1161\u11ab \u4e2d\u6587",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd", "\U0001f600 \U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \u2764\ufe0f",
    "a\u00a0b\u2003c\u3000d\u180ee\u0085f\u2028g\ufeffh", "=" * 70 + "\n" + "-" * 33, " " * 50 + "x" + "\n" * 20 + "y", "a" * 300, "0" * 100, "\u0301\u0301x\u0898\u0323",
    "<|endoftext|>", "a<|endoftext|>b <|im_start|>user\nhi<|im_end|>\n", "x <strip> y<strip>  z \n<strip>\t", "<left>  a  <left>b", "<right>  a<right>\n\n b<right>",
    "word aword word1 (word) word_ word\u0301 \u65e5word word-word", "n\u00e9e X ne\u0301e X n\u00e9eX ne\u0301eX", "<think></think><thinking><think", "rare\U00010d40\u1c89\ua7cb\U0002ebf0", "ab<ab<abc<abcd",
]
BROKEN = [b"\xff", b"a\xc3", b"\xe2\x82x\xf0\x9f\x98", b"\xed\xa0\x80\xed\xb0\x80", b"\xf4\x90\x80\x80 \xc0\xaf", b"ok \x80\x80 caf\xc3\xa9 e\xcc\x81\xff\xcc\x81"]


def random_texts(count, added):
    rnd = random.Random(7)
    pools = [" \t\n\r'aesStTrRvVmMlLdD01234.,;-_", "".join(map(chr, range(32, 127))), "".join(map(chr, range(0xA0, 0x180))), "".join(map(chr, range(0x300, 0x340))),
             "".join(map(chr, range(0x1100, 0x1180))), "\u0085\u00a0\u1680\u180e\u2028\u202f\u3000\u000b\u001c", "".join(map(chr, range(0x4E00, 0x4E20))), "".join(map(chr, range(0x1F600, 0x1F640)))]
    for _ in range(count):
        chosen = rnd.sample(pools, rnd.choice((1, 2, 4)))
        parts = [rnd.choice(added) if rnd.random() < 0.08 else rnd.choice(rnd.choice(chosen)) for _ in range(rnd.choice((3, 8, 20, 40)))]
        data = bytearray("".join(parts).encode())
        if rnd.random() < 0.3:
            data[rnd.randrange(len(data))] = rnd.randrange(128, 256)
        yield bytes(data)


def train():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=700, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False)
    # The texts make sure that words beyond ASCII are merged too.
    tokenizer.train_from_iterator([open(os.path.join(ROOT, "LICENSE"), encoding="utf-8").read()] + TEXTS * 3, trainer)
    flags = dict(normalized=False)
    tokenizer.add_special_tokens([AddedToken(t, **flags) for t in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")])
    tokenizer.add_tokens([
        AddedToken("<think>", **flags), AddedToken("</think>", **flags), AddedToken("<strip>", lstrip=True, rstrip=True, **flags), AddedToken("<left>", lstrip=True, **flags),
        AddedToken("<right>", rstrip=True, **flags), AddedToken("word", single_word=True, **flags), AddedToken("ne\u0301eX", normalized=True), AddedToken("<ab", **flags),
        AddedToken("<abcd", **flags), AddedToken("n\u00e9e X", normalized=True, single_word=True), AddedToken("\u65e5\u672c", **flags),
    ])
    return tokenizer


def byte_level(prefix, regex):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def split(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


VARIANTS = [
    # "learned_from": tokenizer.json was learned from the repository's LICENSE and three times the first so many texts.
    {"name": "qwen", "learned_from": len(TEXTS)},
    {"name": "gpt2", "override": {"normalizer": None, "pre_tokenizer": byte_level(False, True)}, "merges_as_strings": True},
    {"name": "gpt2_prefix_space", "override": {"pre_tokenizer": byte_level(True, True)}},
    {"name": "whole_pieces_prefix_space", "override": {"pre_tokenizer": byte_level(True, False)}},
    {"name": "llama3", "override": {"normalizer": None, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split(LLAMA3), byte_level(False, False)]}}, "ignore_merges": True},
    {"name": "other_pattern", "override": {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split(OTHER), byte_level(False, False)]}}},
    {"name": "two_splits", "override": {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split(r"\p{N}"), split(QWEN), byte_level(True, True)]}}},
]


def main():
    tokenizer = train()
    whole = json.loads(tokenizer.to_str())
    with open(os.path.join(HERE, "tokenizer.json"), "w", encoding="utf-8") as file:
        json.dump(whole, file, ensure_ascii=False, separators=(",", ":"))
        file.write("\n")
    added = [token["content"] for token in whole["added_tokens"]]
    # Hugging Face reads the characters of such tokens as if they stood for bytes; Cairn gives them as they are spelled.
    strange = {token["id"] for token in whole["added_tokens"] if not token["content"].isascii()}
    texts = [text.encode() for text in TEXTS] + BROKEN + list(random_texts(40, added))
    out = []
    for variant in VARIANTS:
        changed = json.loads(json.dumps(whole))
        changed.update(variant.get("override", {}))
        changed["model"]["ignore_merges"] = variant.get("ignore_merges", False)
        hf = Tokenizer.from_str(json.dumps(changed))
        cases = []
        for text in texts:
            ids = hf.encode(text.decode("utf-8", "replace"), add_special_tokens=False).ids
            decoded = hf.decode(ids, skip_special_tokens=False)
            case = [text.hex(), ids]
            if strange.intersection(ids):
                case.append(None)
            elif decoded != text.decode("utf-8", "replace"):
                case.append(decoded.encode().hex())
            cases.append(case)
        out.append(dict(variant, cases=cases))
    with open(os.path.join(HERE, "cases.json"), "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(v, separators=(",", ":")) for v in out) + "\n]\n")


main()
