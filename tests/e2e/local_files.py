"""Local files for the tests: make them, make their contents, compare whole folders."""

import hashlib
import os
import random
import stat


def write(path, data, mode=None):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())
    if mode is not None:
        os.chmod(path, mode)
    return path


def noise(seed, size):
    return random.Random(seed).randbytes(size)


def tree(folder, times=True):
    """What lies below a folder: path → (kind, mode, mtime, contents' hash | target)."""
    found = {}
    root = os.fsencode(folder)

    def walk(path, relative):
        for name in sorted(os.listdir(path)):
            full, own = os.path.join(path, name), os.path.join(relative, name)
            info = os.lstat(full)
            mtime = info.st_mtime_ns if times else 0
            if stat.S_ISLNK(info.st_mode):
                found[own] = ("symlink", 0, 0, os.readlink(full))
            elif stat.S_ISDIR(info.st_mode):
                found[own] = ("dir", stat.S_IMODE(info.st_mode), mtime, "")
                walk(full, own)
            else:
                with open(full, "rb") as file:
                    found[own] = ("file", stat.S_IMODE(info.st_mode), mtime, hashlib.sha256(file.read()).hexdigest())

    walk(root, b"")
    return found


def read(path):
    with open(path, "rb") as file:
        return file.read()
