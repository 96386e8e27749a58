#!/usr/bin/env python3
"""Holds the source tree to src/layers.txt and to a few rules that no compiler checks.

Every #include of one module by another must be allowed by the table, and only from a lower rank. Heavy headers stay out of
headers that another module includes. Sizes are a ratchet: files and headers over the budget must be on the list below, and may not grow past it.
Run without arguments it first proves that it can fail (a forbidden include in a scratch tree is found)."""

import os
import re
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INCLUDE = re.compile(r'^\s*#\s*include\s+"(([a-z_]+)/[^"]+)"')
HEAVY = re.compile(r'^\s*#\s*include\s+[<"](nlohmann/|boost/|CLI/|toml\+\+|spdlog/|sqlite3\.h|libpq|curl/|openssl/|zstd\.h|torch/|ATen/|c10/|unicode/|pcre2|simdjson|snappy)')
SOURCE_LINES_MAX, HEADER_LINES_MAX = 600, 300
LONG_FILES = {}  # path: lines it may have


def read_layers(path):
    table = {}
    for line in open(path):
        if line.startswith("#") or not line.strip():
            continue
        head, _, allowed = line.partition(":")
        rank, module = head.split()
        table[module] = (int(rank), set(allowed.split()))
    return table


def sources(root):
    for folder, _, names in os.walk(root):
        for name in sorted(names):
            if name.endswith((".cc", ".h", ".def")):
                yield os.path.join(folder, name)


def check(root):
    """All complaints about the tree at `root`, as lines of text."""
    table, complaints = read_layers(os.path.join(root, "src/layers.txt")), []
    heavy, included_from_outside = {}, set()
    for module, (rank, allowed) in table.items():
        for other in allowed:
            if other not in table or table[other][0] >= rank:
                complaints.append(f"src/layers.txt: {module} (rank {rank}) may not list {other}")
    for module in sorted(os.listdir(os.path.join(root, "src"))):
        folder = os.path.join(root, "src", module)
        if not os.path.isdir(folder):
            continue
        if module not in table and module != "testing":
            complaints.append(f"src/{module}: not in src/layers.txt")
            continue
        if not os.path.exists(os.path.join(folder, "README.md")):
            complaints.append(f"src/{module}: has no README.md")
        for path in sources(folder):
            relative = os.path.relpath(path, root)
            is_test = re.search(r"_((test|fuzz|bench)\.cc|fixture\.h)$", path) or module == "testing"
            lines = open(path, encoding="utf-8").read().split("\n")
            for number, line in enumerate(lines, 1):
                match = INCLUDE.match(line)
                if match and match[2] != module:
                    included_from_outside.add("src/" + match[1])
                    if match[2] == "testing" and not is_test:
                        complaints.append(f"{relative}:{number}: shipped code may not include testing")
                    elif not is_test and match[2] not in table[module][1]:
                        complaints.append(f"{relative}:{number}: {module} may not include {match[2]}")
                if HEAVY.match(line) and path.endswith(".h"):
                    heavy[relative] = f"{relative}:{number}: heavy header in a header of other modules: {line.strip()}"
            budget = HEADER_LINES_MAX if path.endswith(".h") else SOURCE_LINES_MAX
            budget = LONG_FILES.get(relative, budget)
            if len(lines) - 1 > budget and not is_test:
                complaints.append(f"{relative}: {len(lines) - 1} lines, over its budget of {budget}")
            if path.endswith(".h") and "#pragma once" not in lines:
                complaints.append(f"{relative}: no #pragma once")
    return complaints + [text for path, text in sorted(heavy.items()) if path in included_from_outside]


def prove_it_can_fail():
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(os.path.join(root, "src/base"))
        os.makedirs(os.path.join(root, "src/codec"))
        open(os.path.join(root, "src/layers.txt"), "w").write("0 base:\n1 codec: base\n")
        open(os.path.join(root, "src/base/README.md"), "w").close()
        open(os.path.join(root, "src/codec/README.md"), "w").close()
        open(os.path.join(root, "src/base/bad.h"), "w").write('#pragma once\n#include "codec/digest.h"\n')
        found = check(root)
        assert found == ["src/base/bad.h:2: base may not include codec"], found


if __name__ == "__main__":
    prove_it_can_fail()
    complaints = check(ROOT)
    for complaint in complaints:
        print(complaint)
    print(f"layers: {len(complaints)} complaints")
    sys.exit(1 if complaints else 0)
