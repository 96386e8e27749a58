#!/usr/bin/env python3
"""docs/ERRORS.md is made from src/base/error_codes.def; this fails when they disagree. `--write` makes it anew."""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TABLE = os.path.join(ROOT, "src/base/error_codes.def")
PAGE = os.path.join(ROOT, "docs/ERRORS.md")
ROW = re.compile(r'^CAIRN_ERROR\((\w+), "(\w+)", (\d+), (\w+), (\d+), (\w+)\)')
RETRY = {
    "kNever": "no",
    "kBackoff": "later",
    "kAfterHolder": "when the holder ends",
    "kReadBack": "yes: it may have happened, asking again is safe",
}
HEAD = """# Error codes

Made from the one table in the code (`src/base/error_codes.def`) by `tests/errors_doc_test.py --write`. The code stands in
`{"error": {"code": ...}}` of the API and of `-o json`; the exit code is the command line's.

"""


def page():
    text, rows = HEAD, 0
    for line in open(TABLE):
        match = ROW.match(line)
        if match:
            _, wire, http, errno, exit_code, retry = match.groups()
            text += f"| `{wire}` | {exit_code} | {http} | {errno} | {RETRY[retry]} |\n"
            rows += 1
        elif line.startswith("// ") and rows_follow(line):
            text += f"## {line[3:].strip()}\n\n| code | exit code | HTTP | errno | worth asking again |\n| --- | --- | --- | --- | --- |\n"
        elif not line.strip() and rows:
            text += "\n"
    assert rows > 40, rows
    return text


def rows_follow(line):
    """Group titles are the short comments; the table's own description ends with full stops and commas."""
    return len(line) < 40 and not line.rstrip().endswith((".", ",", ")"))


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        open(PAGE, "w").write(page())
    elif open(PAGE).read() != page():
        sys.exit("docs/ERRORS.md is not what src/base/error_codes.def says; run: python3 tests/errors_doc_test.py --write")
    print("errors: page and table agree")
