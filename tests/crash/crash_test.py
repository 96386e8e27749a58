#!/usr/bin/python3
"""kill -9 of client, server, agent, executor or all of them, at random moments of put and run.

After each kill what died is started again; the volume must then `get` whole and equal to a state that was complete, and the
next command must succeed. Contents are a function of the path and of a number, so that the test knows every file of every state.

    crash_test.py [--points 20] [--seed S] [--all]        # --all: 200 points"""

import argparse
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from cairn_box import BINARY, Box, kill, wait_until  # noqa: E402
from local_files import noise, write  # noqa: E402

SMALL_FILES, LARGE_FILES, LARGE_BYTES = 250, 3, 5 << 20
RUN_FILES = 40
# Writes each file under another name first, so that a final name always stands for a whole file.
RUN_SCRIPT = """
import hashlib, os, sys, time
point = int(sys.argv[1])
folder = f"/volume/made/{point}"
os.makedirs(folder)
for i in range(RUN_FILES):
    with open(folder + "/.part", "wb") as file:
        file.write(hashlib.sha256(b"%d/%d" % (point, i)).digest() * (1 + i * 7919 % 4000))
    os.rename(folder + "/.part", f"{folder}/{i}")
    time.sleep(0.01)
open(folder + "/done", "w").write("done")
""".replace("RUN_FILES", str(RUN_FILES))


class Supervised(Box):
    """A box whose server and agent the test starts itself, so that it decides when they come back."""

    def start(self):
        if not os.path.exists(f"{self.data}/agent.toml"):
            super().start()
            self.down()
        self.children = {}
        for role in ("server", "agent"):
            self.revive(role)

    def revive(self, role):
        child = self.children.get(role)
        if child and child.poll() is None:
            return
        os.makedirs(f"{self.data}/logs", exist_ok=True)
        with open(f"{self.data}/logs/{role}.log", "ab") as log:
            self.children[role] = subprocess.Popen([BINARY, role, "--config", f"{self.data}/{role}.toml"], cwd="/",
                                                   env=self.environment(), stdout=log, stderr=log, start_new_session=True)
        if role == "server":
            wait_until(self.answers, 60, "the server answers")

    def answers(self):
        try:
            return self.api("GET", "/v1/whoami")[0] == 200
        except OSError:
            if self.children["server"].poll() is not None:
                raise AssertionError(f"the server ended with {self.children['server'].returncode}:\n{self.logs()}") from None
            return False

    def kill_roles(self, roles):
        for role in roles:
            for pid in self.pids(role):
                kill(pid, signal.SIGKILL)
            if role in self.children:
                self.children[role].wait()

    def stop(self):
        self.kill_all()
        super().stop()


def run_file(point, i):
    return hashlib.sha256(b"%d/%d" % (point, i)).digest() * (1 + i * 7919 % 4000)


class Crash:
    def __init__(self, box, rng):
        self.box, self.rng = box, rng
        self.source = box.local("corpus")
        self.state = {}      # of the local folder: path → seed of its contents
        self.published = {}  # of the volume's data/, what was last known to be published
        self.run_states = {}  # point → "all" | "some": what a run must have left in made/<point>
        self.count = 0
        self.typical = {"put": 0.6, "run": 2.0}
        for i in range(SMALL_FILES):
            self.change(f"d{i % 7}/s{i}")
        for i in range(LARGE_FILES):
            self.change(f"large/{i}")

    def bytes_of(self, path, seed):
        size = LARGE_BYTES if path.startswith("large/") else 200 + seed * 7919 % 9000
        if not path.startswith("large/"):
            return noise(f"{path}:{seed}", size)
        # Large files change in one place, so that most of their chunks are the old ones.
        data, at = noise(path, size), seed * 997 % size
        return data[:at] + b"%d" % seed + data[at:]

    def change(self, path):
        self.count += 1
        self.state[path] = self.count
        write(f"{self.source}/{path}", self.bytes_of(path, self.count))

    def mutate(self):
        for path in self.rng.sample(sorted(self.state), 30):
            self.change(path)
        for path in self.rng.sample([path for path in sorted(self.state) if not path.startswith("large/")], 5):
            os.remove(f"{self.source}/{path}")
            del self.state[path]
        for _ in range(5):
            self.change(f"d{self.rng.randrange(9)}/n{self.count}")

    # What the volume holds, and whether that may be.

    def read(self):
        target = self.box.local("read")
        shutil.rmtree(target, ignore_errors=True)
        self.box.cairn("volumes", "get", "v", "/", target)
        data, made = {}, {}
        for folder, _, names in os.walk(target):
            for name in names:
                path = os.path.join(folder, name)
                relative = os.path.relpath(path, target)
                with open(path, "rb") as file:
                    contents = file.read()
                top, _, rest = relative.partition("/")
                if top == "data":
                    data[rest] = contents
                elif top == "made":
                    made[rest] = contents
        return data, made

    def is_state(self, data, state):
        return data.keys() == state.keys() and all(contents == self.bytes_of(path, state[path]) for path, contents in data.items())

    def check_made(self, made):
        for point, promise in self.run_states.items():
            names = {path.split("/", 1)[1] for path in made if path.startswith(f"{point}/")}
            for name in names - {".part", "done"}:
                assert made[f"{point}/{name}"] == run_file(point, int(name)), f"made/{point}/{name} is torn"
            done = names == {str(i) for i in range(RUN_FILES)} | {"done"}
            assert done or promise == "some", f"made/{point} is not whole: {len(names)} files"

    def check(self, allowed, what):
        data, made = self.read()
        for state in allowed:
            if self.is_state(data, state):
                self.published = dict(state)
                break
        else:
            raise AssertionError(f"{what}: the volume holds {len(data)} files and equals none of {len(allowed)} complete states")
        self.check_made(made)

    # The points.

    def put(self):
        return self.box.spawn("volumes", "put", "--delete", "v", self.source + "/", "data")

    def put_whole(self):
        started = time.monotonic()
        self.box.cairn("volumes", "put", "--delete", "v", self.source + "/", "data", timeout=150)
        self.typical["put"] = 0.7 * self.typical["put"] + 0.3 * (time.monotonic() - started)
        self.published = dict(self.state)

    def point_put(self, victims):
        self.mutate()
        client = self.put()
        delay = self.rng.uniform(0, 1.2 * self.typical["put"])
        time.sleep(delay)
        if "client" in victims:
            client.kill()
        self.box.kill_roles([victim for victim in victims if victim != "client"])
        self.revive()
        code = client.wait(150)
        notes = client.stderr.read().decode(errors="replace")
        if "client" not in victims:
            assert code in (0, 6, 8, 10), f"put ended with {code}: {notes}"
        allowed = [self.state] if code == 0 else [self.published, self.state]
        self.check(allowed, f"put ({code}) with {victims} killed after {delay:.3f} s")
        self.put_whole()
        self.check([self.state], "the put after it")
        return delay

    def point_run(self, victims, point):
        started = time.monotonic()
        run = self.box.json("run", "--no-upload", "--detach", "--volume", "v", "--", "python3", "-c", RUN_SCRIPT, str(point))["id"]
        delay = self.rng.uniform(0, 1.3 * self.typical["run"])
        time.sleep(delay)
        self.run_states[point] = "some" if "executor" in victims else "all"
        self.box.kill_roles(victims)
        self.revive()
        self.box.wait_state(run, "COMPLETED", "FAILED", "STOPPED", seconds=120)
        ended = self.box.json("train", "get", run)
        if ended["state"] == "COMPLETED":
            self.run_states[point] = "all"
            self.typical["run"] = 0.7 * self.typical["run"] + 0.3 * min(4.0, time.monotonic() - started)
        else:
            assert "executor" in victims, f"run {ended['state']} after the kill of {victims}: {ended['reason']}"
        self.check([self.published], f"run {run} ({ended['state']}) with {victims} killed after {delay:.3f} s")
        self.put_whole()
        return delay

    def revive(self):
        if self.rng.random() < 0.3:
            time.sleep(self.rng.uniform(0, 1.0))
        for role in ("server", "agent"):
            self.box.revive(role)

    def run(self, points):
        self.box.cairn("volumes", "create", "v", "--size", "10Gi", "--history", "20")
        self.put_whole()
        self.check([self.state], "the first put")
        for point in range(points):
            if self.rng.random() < 0.6:
                kind = "put"
                victims = self.rng.choice((["client"], ["server"], ["client", "server"], ["server", "agent"]))
                delay = self.point_put(victims)
            else:
                kind = "run"
                victims = self.rng.choice((["agent"], ["server"], ["executor"], ["server", "agent"], ["executor", "agent", "server"]))
                delay = self.point_run(victims, point)
            print(f"point {point}: {kind}, killed {'+'.join(victims)} after {delay:.3f} s: ok", flush=True)
        for volume in self.box.json("volumes", "list"):
            assert volume["writer"] is None, f"a lease was left behind: {volume}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--all", action="store_true", help="200 points")
    options = parser.parse_args()
    print(f"seed {options.seed}: repeat with --seed {options.seed}", flush=True)
    box = Supervised("crash")
    try:
        Crash(box, random.Random(options.seed)).run(200 if options.all else options.points)
    except BaseException:
        print(f"failed with --seed {options.seed}\n{box.logs()}", flush=True)
        raise
    finally:
        box.stop()
    print("all points held")


if __name__ == "__main__":
    main()
