#!/usr/bin/env python3
"""Writes the Parquet files in this folder with pyarrow, and expected.json with the rows pyarrow reads from them.

    python3 -m venv VENV && VENV/bin/pip install pyarrow
    VENV/bin/python tests/golden/parquet/make.py

Made with pyarrow 26.0.1."""

import json
import os
import random

import pyarrow as pa
import pyarrow.parquet as pq

HERE = os.path.dirname(os.path.abspath(__file__))
CHANCE = random.Random(5)
WORDS = ["", "a", "Grüße", "日本語", "\U0001f600 smile", 'quote " and \\', "line\nend\ttab", "\u0001", "long " * 30]


def text():
    return CHANCE.choice(WORDS) + str(CHANCE.randrange(50))


def maybe(value, odds=0.2):
    return None if CHANCE.random() < odds else value


def texts(count):
    return pa.table({
        "id": pa.array(range(count), pa.int64()),
        "text": pa.array([text() for _ in range(count)], pa.string()),
        "nullable": pa.array([maybe(text()) for _ in range(count)], pa.string()),
    })


MESSAGE = pa.struct([("role", pa.string()), ("content", pa.string())])
CALL = pa.struct([("name", pa.string()), ("arguments", pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])))])


def message(calls=False):
    value = {"role": CHANCE.choice(["system", "user", "assistant"]), "content": maybe(text())}
    if calls:
        value["tool_calls"] = maybe([maybe({"name": text(), "arguments": maybe([{"key": text(), "value": maybe(text())}
                                                                               for _ in range(CHANCE.randrange(3))])})
                                     for _ in range(CHANCE.randrange(3))], 0.5)
    return value


def chats(count):
    return pa.table({
        "messages": pa.array([maybe([message() for _ in range(CHANCE.randrange(5))]) for _ in range(count)], pa.list_(MESSAGE)),
        "tools": pa.array([maybe(json.dumps([{"name": text()}])) for _ in range(count)], pa.string()),
    })


def nested(count):
    deep = pa.struct([*MESSAGE, ("tool_calls", pa.list_(CALL))])
    return pa.table({
        "messages": pa.array([maybe([maybe(message(True)) for _ in range(CHANCE.randrange(4))]) for _ in range(count)], pa.list_(deep)),
        "lists": pa.array([maybe([maybe([maybe(CHANCE.randrange(100)) for _ in range(CHANCE.randrange(4))])
                                  for _ in range(CHANCE.randrange(4))]) for _ in range(count)], pa.list_(pa.list_(pa.int32()))),
        "meta": pa.array([maybe({"inner": maybe({"x": maybe(text())})}) for _ in range(count)],
                         pa.struct([("inner", pa.struct([("x", pa.string())]))])),
    })


def numbers(count):
    return pa.table({
        "i8": pa.array([maybe(CHANCE.randrange(-128, 128)) for _ in range(count)], pa.int8()),
        "u8": pa.array([CHANCE.randrange(256) for _ in range(count)], pa.uint8()),
        "i32": pa.array([CHANCE.randrange(-2**31, 2**31) for _ in range(count)], pa.int32()),
        "u32": pa.array([CHANCE.randrange(2**32) for _ in range(count)], pa.uint32()),
        "i64": pa.array([CHANCE.randrange(-2**63, 2**63) for _ in range(count)], pa.int64()),
        "u64": pa.array([CHANCE.randrange(2**64) for _ in range(count)], pa.uint64()),
        "flag": pa.array([maybe(CHANCE.random() < 0.5) for _ in range(count)], pa.bool_()),
        "float": pa.array([CHANCE.randrange(1000) / 8 for _ in range(count)], pa.float32()),
        "double": pa.array([maybe(CHANCE.random()) for _ in range(count)], pa.float64()),
        "large": pa.array([text() for _ in range(count)], pa.large_string()),
        "binary": pa.array([text().encode() for _ in range(count)], pa.binary()),
    })


def refused():
    return pa.table({
        "text": pa.array(["a", "b"]),
        "when": pa.array([1, 2], pa.timestamp("us")),
        "day": pa.array([1, 2], pa.date32()),
        "price": pa.array([None, None], pa.decimal128(5, 2)),
        "fixed": pa.array([b"ab", b"cd"], pa.binary(2)),
        "map": pa.array([[("k", "v")], []], pa.map_(pa.string(), pa.string())),
        "mixed": pa.array([{"text": "x", "when": 1}, None], pa.struct([("text", pa.string()), ("when", pa.timestamp("ms"))])),
    })


def main():
    os.chdir(HERE)
    expected = {}

    def write(name, table, **settings):
        pq.write_table(table, name + ".parquet", **settings)
        rows = pq.read_table(name + ".parquet").to_pylist()
        for row in rows:
            for key, value in row.items():
                if isinstance(value, bytes):
                    row[key] = value.decode()
        expected[name] = rows

    write("texts_none", texts(30), compression="none", use_dictionary=False, row_group_size=13)
    write("texts_snappy_dictionary", texts(60), compression="snappy", row_group_size=25, data_page_size=200, write_page_checksum=True)
    write("texts_zstd_v2", texts(40), compression="zstd", data_page_version="2.0", data_page_size=100, use_dictionary=["text"],
          column_encoding={"nullable": "PLAIN", "id": "PLAIN"})
    write("texts_gzip", texts(40), compression="gzip", use_dictionary=False)
    write("texts_mixed_pages", texts(150), compression="snappy", dictionary_pagesize_limit=200, data_page_size=300, write_batch_size=50)
    write("chats_snappy", chats(40), compression="snappy", row_group_size=17, data_page_size=100, write_batch_size=5)
    write("chats_zstd_v2", chats(40), compression="zstd", data_page_version="2.0", data_page_size=100, write_batch_size=5)
    write("nested", nested(60), compression="none", data_page_size=200, write_batch_size=10)
    write("nested_old_lists", nested(20), compression="snappy", use_compliant_nested_type=False)
    write("numbers", numbers(30), compression="snappy")
    write("numbers_v2_plain", numbers(30), compression="none", data_page_version="2.0", use_dictionary=False)
    write("empty", texts(0))
    with open("expected.json", "w") as out:
        rows = ",\n".join(f" {json.dumps(name)}: {json.dumps(value, separators=(',', ':'))}" for name, value in expected.items())
        out.write("{\n" + rows + "\n}\n")
    pq.write_table(refused(), "refused_types.parquet")
    pq.write_table(texts(20), "refused_brotli.parquet", compression="brotli")
    pq.write_table(texts(20), "refused_lz4.parquet", compression="lz4")
    pq.write_table(texts(20), "refused_delta.parquet", use_dictionary=False, column_encoding={"text": "DELTA_LENGTH_BYTE_ARRAY"})


main()
