#!/usr/bin/python3
"""Cairn beside cp, rsync, rclone and restic on the same machine, in one run, on the same seeded data.

    bench.py [--big 8Gi] [--files 100000] [--only cairn,cp,...] [--dir FOLDER] [--no-results]

Every tool copies the same source into an empty place and back; each figure is wall time with the last bytes on disk (sync is
part of it). restic and Cairn hash and verify what they move, the others do not. The page cache is dropped before each step
where this is allowed, else the table says so. Results go to bench/results/<date>.md and .json.

The program comes from $CAIRN_BINARY, else build/release/bin/cairn."""

import argparse
import datetime
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("CAIRN_BINARY", os.path.join(ROOT, "build/release/bin/cairn"))
sys.path.insert(0, os.path.join(ROOT, "tests/e2e"))
from cairn_box import BINARY, Box  # noqa: E402
from tools import (FILE_BYTES, GIB, KIB, MIB, Cairn, Copy, Restic, drop_caches, insert_in_the_middle, make_big,  # noqa: E402
                   make_files, timed)


def quantity(text):
    for suffix, factor in (("Ki", KIB), ("Mi", MIB), ("Gi", GIB)):
        if text.endswith(suffix):
            return int(float(text[:-2]) * factor)
    return int(text)


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder, self.rows = options, folder, []
        self.box = Box("bench") if "cairn" in options.only else None
        self.cold = True

    def tool(self, name, volume):
        if name == "cairn":
            return Cairn(self.box, volume)
        return Restic(self.folder) if name == "restic" else Copy(name, self.folder)

    def measure(self, what, tool, action, size, cold=True):
        self.cold = self.cold and (not cold or drop_caches())
        result = action()
        row = {"what": what, "tool": tool.name, "seconds": round(result.seconds, 3), "client_peak_bytes": result.peak_bytes,
               "mib_per_s": round(size / MIB / result.seconds, 1)}
        if tool.name == "cairn":
            row.update(server_peak_bytes=tool.server_peak, bytes_sent=tool.sent)
        self.rows.append(row)
        print(f"  {what:34} {tool.name:8} {result.seconds:9.2f} s {row['mib_per_s']:9.1f} MiB/s", flush=True)
        return result

    def find(self, what, source):
        timed(["find", source, "-newermt", "2100-01-01"], sync=False)
        result = timed(["find", source, "-newermt", "2100-01-01"], sync=False)
        self.rows.append({"what": what, "tool": "find (stat)", "seconds": round(result.seconds, 3)})
        print(f"  {what:34} {'find':8} {result.seconds:9.2f} s")

    def floors(self, file, size):
        """What one copy of the file costs at least on this machine."""
        copy = os.path.join(self.folder, "floor")
        for name, argv in (("read O_DIRECT", ["dd", f"if={file}", "of=/dev/null", "bs=4M", "iflag=direct"]),
                           ("openssl sha256", ["openssl", "dgst", "-sha256", file]),
                           ("copy O_DIRECT", ["dd", f"if={file}", f"of={copy}", "bs=4M", "iflag=direct", "oflag=direct"])):
            drop_caches()
            seconds = timed(argv).seconds
            for what in ("put big file", "get big file"):
                self.rows.append({"what": what, "tool": name, "seconds": round(seconds, 3), "mib_per_s": round(size / MIB / seconds, 1)})
            print(f"  {'one pass over the big file':34} {name:15} {seconds:6.2f} s {size / MIB / seconds:9.1f} MiB/s", flush=True)
        os.remove(copy)

    def there_and_back(self, what, source, size, again=False, change=None):
        for name in self.options.only:
            tool = self.tool(name, what.split()[0])
            self.measure(f"put {what}", tool, lambda: tool.put(source), size)
            target = os.path.join(self.folder, "back")
            self.measure(f"get {what}", tool, lambda: tool.get(target), size)
            if name == "cairn":
                done = subprocess.run(["diff", "-rq", source, target], capture_output=True, text=True)
                if done.returncode != 0:
                    raise SystemExit(f"what came back differs: {done.stdout[:2000]}{done.stderr[:2000]}")
            shutil.rmtree(target)
            if again:
                self.measure(f"put {what} again, unchanged", tool, lambda: tool.put(source), size, cold=False)
            if change and name in ("cairn", "restic"):
                change(tool)
            tool.close()

    def run(self):
        options = self.options
        if options.big:
            source = os.path.join(self.folder, "big")
            os.mkdir(source)
            file = f"{source}/big.bin"

            def insert(tool):
                original = file + ".original"
                os.rename(file, original)
                shutil.copyfile(original, file)
                insert_in_the_middle(file, options.big)
                os.rename(original, os.path.join(self.folder, "original"))
                self.measure("put big file, 1 MiB inserted", tool, lambda: tool.put(source), options.big)
                os.replace(os.path.join(self.folder, "original"), file)

            make_big(file, options.big)
            self.floors(file, options.big)
            self.there_and_back("big file", source, options.big, change=insert)
            shutil.rmtree(source)
        if options.files:
            source = os.path.join(self.folder, "files")
            make_files(source, options.files)
            self.find("put small files again, unchanged", source)
            self.there_and_back("small files", source, options.files * FILE_BYTES, again=True)
            shutil.rmtree(source)


# Telling.


def machine():
    model = "unknown"
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
    with open("/proc/meminfo") as file:
        memory = int(file.readline().split()[1]) * KIB
    return {"cpu": model, "cpus": os.cpu_count(), "memory_gib": round(memory / GIB, 1), "kernel": platform.release()}


def table(bench, facts):
    own = {row["what"]: row["seconds"] for row in bench.rows if row["tool"] == "cairn"}
    lines = [f"# Benchmark of {facts['date']}", "",
             f"Commit {facts['commit']}; {facts['machine']['cpus']} × {facts['machine']['cpu']}, "
             f"{facts['machine']['memory_gib']} GiB, Linux {facts['machine']['kernel']}; load before {facts['load']}.",
             f"One file of {facts['big_bytes'] / GIB:g} GiB of random bytes; {facts['files']:,} files of 4 KiB; "
             + ("page cache dropped before each step but 'unchanged'; " if bench.cold else "page cache warm (dropping it is not allowed here); ")
             + "each time includes the sync to disk.", "",
             "| work | tool | seconds | MiB/s | Cairn is faster by | client memory | server memory | sent |",
             "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for row in bench.rows:
        ratio = f"{row['seconds'] / own[row['what']]:.2f} ×" if row["what"] in own and row["tool"] != "cairn" else ""

        def mib(key):
            return f"{row[key] / MIB:,.0f} MiB" if key in row else ""

        lines.append(f"| {row['what']} | {row['tool']} | {row['seconds']:.2f} | {row.get('mib_per_s', '')} | {ratio} | "
                     f"{mib('client_peak_bytes')} | {mib('server_peak_bytes')} | {mib('bytes_sent') if 'put' in row['what'] else ''} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--big", type=quantity, default=8 * GIB, help="size of the one file (0: none)")
    parser.add_argument("--files", type=int, default=100_000, help="number of small files (0: none)")
    parser.add_argument("--only", default="cairn,cp,rsync,rclone,restic", type=lambda text: text.split(","))
    parser.add_argument("--dir", default=None, help="where to work (needs about four times --big)")
    parser.add_argument("--no-results", action="store_true", help="print only")
    options = parser.parse_args()
    for name in [name for name in options.only if name != "cairn" and not shutil.which(name)]:
        print(f"{name} is not installed: left out")
        options.only.remove(name)
    folder = tempfile.mkdtemp(prefix="cairn-bench-", dir=options.dir)
    if options.dir:
        tempfile.tempdir = folder  # the box lies on the same file system
    needed = 4 * options.big + 4 * options.files * 2 * FILE_BYTES + GIB
    if shutil.disk_usage(folder).free < needed:
        raise SystemExit(f"{folder} has less than {needed / GIB:.1f} GiB free; choose smaller sizes or another --dir")
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    facts = {"date": datetime.date.today().isoformat(), "commit": commit, "machine": machine(), "load": os.getloadavg()[0],
             "big_bytes": options.big, "files": options.files, "binary": os.path.relpath(BINARY, ROOT)}
    bench = None
    try:
        bench = Bench(options, folder)
        bench.run()
        text = table(bench, facts)
    finally:
        if bench and bench.box:
            bench.box.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print("\n" + text)
    if not options.no_results:
        results = os.path.join(ROOT, "bench/results")
        os.makedirs(results, exist_ok=True)
        for ending, contents in ((".md", text), (".json", json.dumps({**facts, "rows": bench.rows}, indent=1) + "\n")):
            with open(os.path.join(results, facts["date"] + ending), "w") as file:
                file.write(contents)


if __name__ == "__main__":
    main()
