"""What bench.py compares and how it measures: seeded data, one process's time and memory, and one class per tool."""

import json
import os
import random
import shutil
import subprocess
import tempfile
import time

from cairn_box import BINARY

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
FILE_BYTES = 4 * KIB

# Data.


def make_big(path, size, seed=1):
    rng = random.Random(seed)
    with open(path, "wb") as file:
        left = size
        while left > 0:
            block = rng.randbytes(min(left, 16 * MIB))
            file.write(block)
            left -= len(block)


def make_files(folder, count, seed=2):
    rng = random.Random(seed)
    for i in range(count):
        below = f"{folder}/{i // 1000:04d}"
        if i % 1000 == 0:
            os.makedirs(below)
        with open(f"{below}/{i:07d}.bin", "wb") as file:
            file.write(rng.randbytes(FILE_BYTES))


def insert_in_the_middle(path, size, seed=3):
    """1 MiB more in the middle, in place of the file."""
    half = size // 2
    with open(path, "rb") as old, open(path + ".new", "wb") as new:
        shutil.copyfileobj(_Limited(old, half), new, 16 * MIB)
        new.write(random.Random(seed).randbytes(MIB))
        shutil.copyfileobj(old, new, 16 * MIB)
    os.replace(path + ".new", path)


class _Limited:
    def __init__(self, file, left):
        self.file, self.left = file, left

    def read(self, size):
        data = self.file.read(min(size, self.left))
        self.left -= len(data)
        return data


# Measuring.


class Measured:
    def __init__(self, seconds, peak_bytes, output=b""):
        self.seconds, self.peak_bytes, self.output = seconds, peak_bytes, output


def drop_caches():
    os.sync()
    try:
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("3")
        return True
    except OSError:
        return False


def timed(argv, env=None, sync=True, cwd=None):
    """Wall seconds (with a sync of the file systems at the end) and the process's peak memory."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.monotonic()
        process = subprocess.Popen(argv, stdout=out, stderr=err, stdin=subprocess.DEVNULL, env=env, cwd=cwd)
        # Not wait4: its maximum counts the memory of this Python before exec.
        peak = 0
        while process.poll() is None:
            peak = max(peak, peak_memory(process.pid))
            time.sleep(0.002 if time.monotonic() - started < 0.2 else 0.02)
        if sync:
            os.sync()
        seconds = time.monotonic() - started
        if process.returncode != 0:
            err.seek(0)
            raise SystemExit(f"{' '.join(argv)} ended with {process.returncode}: {err.read()[-2000:].decode(errors='replace')}")
        out.seek(0)
        return Measured(seconds, peak, out.read())


def peak_memory(pid):
    try:
        with open(f"/proc/{pid}/status") as file:
            return next((int(line.split()[1]) * KIB for line in file if line.startswith("VmHWM:")), 0)
    except OSError:
        return 0


# Tools. Each has put(source folder), get(target folder) and says how it is called.


class Copy:
    def __init__(self, name, folder):
        self.name, self.store = name, os.path.join(folder, f"{name}-store")
        self.command = {"cp": ["cp", "-r"], "rsync": ["rsync", "-a", "--whole-file", "--inplace"],
                        "rclone": ["rclone", "copy", "--config", "/dev/null", "--transfers", "8", "--checkers", "16"]}[name]

    def _copy(self, source, target):
        if self.name == "cp":
            return timed([*self.command, source + "/.", target])
        return timed([*self.command, source + "/", target])

    def put(self, source):
        os.makedirs(self.store, exist_ok=True)
        return self._copy(source, self.store)

    def get(self, target):
        os.makedirs(target, exist_ok=True)
        return self._copy(self.store, target)

    def close(self):
        shutil.rmtree(self.store, ignore_errors=True)


class Restic:
    name = "restic"

    def __init__(self, folder):
        self.repository = os.path.join(folder, "restic-store")
        self.env = dict(os.environ, RESTIC_PASSWORD="bench", RESTIC_CACHE_DIR=os.path.join(folder, "restic-cache"))
        timed(["restic", "-q", "-r", self.repository, "init"], env=self.env)

    def put(self, source):
        return timed(["restic", "-q", "-r", self.repository, "backup", "."], env=self.env, cwd=source)

    def get(self, target):
        return timed(["restic", "-q", "-r", self.repository, "restore", "latest", "--target", target], env=self.env)

    def close(self):
        shutil.rmtree(self.repository, ignore_errors=True)
        shutil.rmtree(self.env["RESTIC_CACHE_DIR"], ignore_errors=True)


class Cairn:
    name = "cairn"

    def __init__(self, box, volume):
        self.box, self.volume = box, volume
        box.cairn("volumes", "create", volume, "--size", "1Ti", "--history", "off")
        self.sent = self.server_peak = 0

    def _timed(self, *args):
        done = timed([BINARY, *args, "-o", "json"], env=self.box.environment())
        self.server_peak = max(map(peak_memory, self.box.pids("server")))
        return done

    def put(self, source):
        done = self._timed("volumes", "put", self.volume, source + "/", "/")
        self.sent = json.loads(done.output)["bytes_sent"]
        return done

    def get(self, target):
        return self._timed("volumes", "get", self.volume, "/", target)

    def close(self):
        self.box.cairn("volumes", "delete", self.volume, "--yes", "--purge")
