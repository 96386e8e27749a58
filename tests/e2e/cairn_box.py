"""A whole Cairn on loopback for one test: its own data folder, home, port and processes.

    box = Box("name")                      # started and ready; box.stop() ends it and removes everything
    box.cairn("volumes", "create", "v")    # must end with 0; gives .out, .err, .code
    box.json("volumes", "info", "v")       # with -o json, the document
    box.fails("path_invalid", 2, ...)      # error code and exit code; message and hint must be there

The program comes from $CAIRN_BINARY, else build/dev/bin/cairn. Needs Python's standard library only."""

import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from local_files import noise, read, tree, write  # noqa: F401  (handed on to the tests)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.environ.get("CAIRN_BINARY") or os.path.join(ROOT, "build/dev/bin/cairn")
LOG_TAIL_BYTES = 6000


class Outcome:
    def __init__(self, args, code, out, err):
        self.args, self.code, self.out, self.err = args, code, out, err

    @property
    def text(self):
        return self.out.decode(errors="replace")

    @property
    def notes(self):
        return self.err.decode(errors="replace")

    def document(self):
        try:
            return json.loads(self.out)
        except ValueError:
            raise AssertionError(f"not one JSON document: {self}") from None

    def __str__(self):
        return f"{' '.join(map(str, self.args))}\n  exit {self.code}\n  stdout {self.text[-2000:]!r}\n  stderr {self.notes[-2000:]!r}"


class Box:
    def __init__(self, name="box", up=(), start=True):
        """`up`: further arguments of `cairn up`."""
        self.folder = tempfile.mkdtemp(prefix=f"cairn-{name}-")
        self.data = os.path.join(self.folder, "data")
        self.home = os.path.join(self.folder, "home")
        self.work = os.path.join(self.folder, "work")
        os.mkdir(self.home)
        os.mkdir(self.work)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.up_arguments = ["--listen", f"127.0.0.1:{self.port}", *up]
        self.started = []
        if start:
            try:
                self.start()
            except BaseException:
                print(self.logs())
                self.stop()
                raise

    # Processes.

    def start(self):
        self.cairn("up", "--data", self.data, *self.up_arguments, "--detach", timeout=90)

    def down(self):
        self.cairn("down", "--data", self.data, timeout=120)

    def restart(self):
        self.down()
        self.start()

    def stop(self):
        """Ends it cleanly where that works, else by force, and removes the folder. Says what did not end."""
        complaint = None
        if os.path.exists(self.data) and self.pids("up"):
            ended = self.cairn("down", "--data", self.data, expect=None, timeout=60)
            if ended.code != 0:
                complaint = f"'cairn down' did not work: {ended}"
        self.kill_all()
        unmount_below(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        if complaint:
            raise AssertionError(complaint)

    def kill_all(self):
        """Ends everything whose command line names this box's folder; nothing else."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
        for _ in range(200):
            pids = [pid for pid, _ in self.processes()]
            if not pids:
                return
            for pid in pids:
                kill(pid, signal.SIGKILL)
            time.sleep(0.02)

    def processes(self):
        """(pid, argv) of all living processes of this box."""
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    argv = file.read().split(b"\0")
            except OSError:
                continue
            if any(self.folder.encode() in word for word in argv):
                found.append((int(entry), [word.decode(errors="replace") for word in argv]))
        return found

    def pids(self, role):
        """Of 'up', 'server', 'agent', 'executor' (of runs) or 'bwrap'."""
        found = []
        for pid, argv in self.processes():
            program = os.path.basename(argv[0])
            if program != os.path.basename(BINARY):
                own = program
            elif argv[1:3] == ["agent", "exec"] or (argv[1] == "agent" and "exec" in argv):
                own = "executor"
            else:
                own = argv[1]
            if own == role:
                found.append(pid)
        return found

    # Commands.

    def environment(self, **changes):
        env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": self.home, "LANG": "C.UTF-8", "NO_COLOR": "1",
               "XDG_STATE_HOME": f"{self.home}/state", "XDG_CACHE_HOME": f"{self.home}/cache",
               "XDG_CONFIG_HOME": f"{self.home}/config", "CAIRN_URL": self.url}
        env.update({name: value for name, value in os.environ.items() if name.startswith(("ASAN_", "UBSAN_", "TSAN_"))})
        if os.path.exists(f"{self.data}/admin-token"):
            env["CAIRN_TOKEN"] = self.token
        env.update(changes)
        return {name: value for name, value in env.items() if value is not None}

    @property
    def token(self):
        with open(f"{self.data}/admin-token") as file:
            return file.read().strip()

    def cairn(self, *args, expect=0, cwd=None, env=None, stdin=b"", timeout=120, prefix=()):
        argv = [*prefix, BINARY, *args]
        done = subprocess.run(argv, cwd=cwd or self.work, env=self.environment(**(env or {})), input=stdin,
                              capture_output=True, timeout=timeout)
        outcome = Outcome(args, done.returncode, done.stdout, done.stderr)
        if expect is not None and outcome.code != expect:
            raise AssertionError(f"exit code {expect} was expected: {outcome}")
        return outcome

    def json(self, *args, **options):
        at = args.index("--") if "--" in args else len(args)
        return self.cairn(*args[:at], "-o", "json", *args[at:], **options).document()

    def fails(self, code, exit_code, *args, **options):
        """Runs it with -o json; gives the error after checking code(s), exit code, message and hint."""
        error = self.json(*args, expect=exit_code, **options).get("error")
        codes = (code,) if isinstance(code, str) else code
        if not error or error["code"] not in codes:
            raise AssertionError(f"error {codes} was expected from {args}: {error}")
        if not error.get("message") or not error.get("hint"):
            raise AssertionError(f"message or hint is missing from {args[:4]}: {error}")
        return error

    def spawn(self, *args, cwd=None, env=None):
        """A command in the background; ended by stop() at the latest."""
        process = subprocess.Popen([BINARY, *args], cwd=cwd or self.work, env=self.environment(**(env or {})),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.started.append(process)
        return process

    def api(self, method, path, body=None, token=None):
        """One request past the command line: status and decoded answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {"Authorization": f"Bearer {token or self.token}", "Content-Type": "application/json"}
        if method != "GET":
            headers["Cairn-Request-Id"] = random.SystemRandom().randbytes(16).hex()
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        try:
            return answer.status, json.loads(data) if data else None
        except ValueError:
            return answer.status, data

    # Looking.

    def packs(self, store=None):
        """Paths of the stored packs, the largest first."""
        found = []
        for folder, _, names in os.walk(store or f"{self.data}/store"):
            if os.path.basename(folder) == "p":
                found += [os.path.join(folder, name) for name in names]
        return sorted(found, key=os.path.getsize, reverse=True)

    def state_of(self, run):
        return self.json("train", "get", run)["state"]

    def wait_state(self, run, *states, seconds=60):
        wait_until(lambda: self.state_of(run) in states, seconds, f"run {run} becomes {states}")

    def logs(self):
        text = ""
        for folder in (f"{self.data}/logs",):
            for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
                with open(f"{folder}/{name}", "rb") as file:
                    file.seek(max(0, os.path.getsize(f"{folder}/{name}") - LOG_TAIL_BYTES))
                    text += f"--- {name}\n{file.read().decode(errors='replace')}\n"
        return text

    def local(self, name):
        return os.path.join(self.work, name)


class BoxTest(unittest.TestCase):
    """One box for all tests of a class. The end of the logs is printed when a test fails."""
    up = ()

    @classmethod
    def setUpClass(cls):
        cls.box = Box(cls.__name__, up=cls.up)

    @classmethod
    def tearDownClass(cls):
        cls.box.stop()

    def run(self, result=None):
        before = len(result.failures) + len(result.errors)
        super().run(result)
        if len(result.failures) + len(result.errors) > before:
            print(f"\n===== {self.id()} failed; logs of its box:\n{self.box.logs()}", flush=True)

    def volume(self, name, **files):
        """A new volume; each keyword is a file's name (dots as in Python names are not needed) with its bytes."""
        self.box.cairn("volumes", "create", name, "--size", "1Gi")
        for file, data in files.items():
            self.box.cairn("volumes", "put", name, write(self.box.local(f"{name}-files/{file}"), data), file)
        return name

    def cat(self, volume, path):
        return self.box.cairn("volumes", "cat", volume, path).out

    def names(self, volume, path=""):
        return {entry["name"] for entry in self.box.json("volumes", "ls", volume, *([path] if path else []))}


# The system.


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def kill(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def wait_until(check, seconds, what):
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.05)


def unmount_below(folder):
    with open("/proc/self/mountinfo") as file:
        points = [line.split()[4] for line in file]
    for point in sorted((point for point in points if point.startswith(folder + "/")), reverse=True):
        subprocess.run(["umount", "-l", point], check=False)


def main():
    if not os.access(BINARY, os.X_OK):
        raise SystemExit(f"{BINARY} is not there: build it (target cairn), or name another in CAIRN_BINARY")
    unittest.main(verbosity=2)
