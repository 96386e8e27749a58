#!/usr/bin/python3
"""The numbered examples of docs/SEMANTICS.md, one test each, against real processes."""

import os
import re
import signal
import socket

from cairn_box import ROOT, BoxTest, main, noise, read, tree, wait_until, write


def unshown(shown):
    """The bytes of a name, as docs/SCRIPTING.md says."""
    return re.sub(rb"\\(\\|x..)", lambda m: b"\\" if m[1] == b"\\" else bytes.fromhex(m[1][1:].decode()), shown.encode())


class Semantics(BoxTest):
    def test_every_example_has_a_test(self):
        with open(f"{ROOT}/docs/SEMANTICS.md") as page:
            numbers = sorted(int(number) for number in re.findall(r"\*Example (\d+)\.\*", page.read()))
        tests = sorted(int(found.group(1)) for found in (re.match(r"test_example_(\d+)_", name) for name in dir(self)) if found)
        self.assertEqual(numbers, tests)

    def test_example_01_create_twice(self):
        first = self.box.json("volumes", "create", "twice", "--size", "10Gi")
        self.assertEqual(first["size_bytes"], 10 << 30)
        self.assertEqual(self.box.json("volumes", "create", "twice", "--size", "10Gi"), first)
        self.assertEqual(self.box.json("volumes", "create", "twice"), first)
        error = self.box.fails("volume_exists_with_other_size", 6, "volumes", "create", "twice", "--size", "11Gi")
        self.assertIn("expand", error["hint"])
        self.assertEqual(self.box.json("volumes", "info", "twice"), {**first, "kept_aside": []})

    def test_example_02_put_and_get_are_equal(self):
        source = self.box.local("all-kinds")
        write(f"{source}/a.txt", "hello\n", 0o640)
        write(f"{source}/script.sh", "#!/bin/sh\n", 0o755)
        write(f"{source}/read-only", "r", 0o444)
        write(f"{source}/setuid", "s", 0o4755)
        write(f"{source}/empty", b"")
        write(f"{source}/a/below", "x")
        write(f"{source}/a-b", "sorts between a and a/below in plain byte order")
        write(f"{source}/small", noise(1, 262_144))
        write(f"{source}/large", noise(2, 9_000_001))
        write(f"{source}/repeats", b"0123456789abcdef" * 200_000)
        write(f"{source}/deep/" + "/".join("d" * 20 for _ in range(30)) + "/file", "deep")
        write(f"{source}/" + "n" * 255, "long name")
        os.makedirs(f"{source}/empty-folder/inside")
        os.chmod(f"{source}/empty-folder", 0o700)
        os.symlink("a.txt", f"{source}/link")
        os.symlink("../a.txt", f"{source}/a/up")
        os.symlink("nowhere", f"{source}/dangling")
        strange = os.path.join(os.fsencode(source), b"not utf-8 \xff\xfe\n\t\"'")
        with open(strange, "wb") as file:
            file.write(b"bytes")
        for number, path in enumerate(sorted(os.listdir(source))):
            os.utime(f"{source}/{path}", ns=(0, 1_234_567_890_123_456_789 + number), follow_symlinks=False)
        os.utime(f"{source}/a.txt", ns=(0, -1_500_000_000))
        self.volume("kinds")
        sent = self.box.json("volumes", "put", "kinds", source + "/", "data")
        self.assertEqual((sent["skipped"], sent["links"]), (0, 3))
        used = self.box.json("volumes", "info", "kinds")
        self.assertEqual((sent["files"], sent["bytes"]), (used["files"], used["used_bytes"]))
        target = self.box.local("all-kinds-back")
        received = self.box.json("volumes", "get", "kinds", "data", target)
        expected = tree(source)
        kind, mode, *rest = expected[b"setuid"]
        expected[b"setuid"] = (kind, mode & 0o777, *rest)  # comes back without it
        [shown] = [entry for entry in self.box.json("volumes", "ls", "kinds", "data") if entry["name"].startswith("not utf-8")]
        self.assertEqual(shown["name"], "not utf-8 \\xff\\xfe\\x0a\\x09\"'")
        self.assertEqual(unshown(shown["path"]), b"data/" + os.path.basename(strange))
        listed = self.box.cairn("volumes", "ls", "kinds", "data").text.splitlines()
        self.assertIn(shown["name"], listed)
        used = self.box.cairn("volumes", "du", "kinds", unshown(shown["path"])).out
        self.assertEqual((used.count(b"\n"), used.isascii()), (1, True), used)
        self.assertEqual(self.box.json("volumes", "du", "kinds", unshown(shown["path"]))["path"], shown["path"])
        absent = self.box.cairn("volumes", "cat", "kinds", b"no\x1b[2J\xff", expect=5).err
        self.assertNotIn(b"\x1b", absent)
        self.assertNotIn(b"\xff", absent)
        back = f"{target}/data" if os.path.isdir(f"{target}/data") else target
        self.assertEqual(tree(back), expected)
        self.assertEqual((received["files"], received["links"], received["bytes"]), (sent["files"], sent["links"], sent["bytes"]))
        self.assertNotIn("verified", self.box.cairn("volumes", "get", "kinds", "data", target).text)

    def test_example_03_nothing_changed(self):
        source = self.box.local("unchanged")
        for i in range(50):
            write(f"{source}/{i}", noise(i, 5000 + i))
        self.volume("same")
        first = self.box.json("volumes", "put", "same", source + "/")
        again = self.box.json("volumes", "put", "same", source + "/")
        self.assertEqual((again["bytes_sent"], again["snapshot"]), (0, first["snapshot"]))
        for path in os.listdir(source):  # other times and inodes: read again, still nothing sent
            write(f"{source}/{path}.new", read(f"{source}/{path}"))
            info = os.stat(f"{source}/{path}")
            os.utime(f"{source}/{path}.new", ns=(info.st_atime_ns, info.st_mtime_ns))
            os.rename(f"{source}/{path}.new", f"{source}/{path}")
        touched = self.box.json("volumes", "put", "same", source + "/", env={"XDG_CACHE_HOME": self.box.local("other-cache")})
        self.assertEqual(touched["snapshot"], self.box.json("volumes", "info", "same")["snapshot"])
        self.assertEqual(touched["chunks_new"], 0)

    def test_example_04_runs_is_refused_however_spelled(self):
        self.volume("spelled")
        file = write(self.box.local("y"), "y")
        os.makedirs(self.box.local("folder"), exist_ok=True)
        for path in ("runs/y", "/runs", "./runs/", "a/../runs", "runs//", "runs", "//runs//y", "runs/.", "./././runs/a/b",
                     "runs/../runs/y", "x/../../runs/y"):
            for source in (file, self.box.local("folder")):
                self.box.fails(("runs_read_only", "path_invalid"), 2, "volumes", "put", "spelled", source, path)
        self.box.fails("runs_read_only", 2, "volumes", "put", "spelled", write(self.box.local("runs"), "z"))
        os.makedirs(self.box.local("holds/runs/1"), exist_ok=True)
        write(self.box.local("holds/runs/1/x"), "x")
        self.box.fails("runs_read_only", 2, "volumes", "put", "spelled", self.box.local("holds") + "/")
        self.assertEqual(self.names("spelled"), set())
        for path in ("runs-2", "data/runs"):  # only the one folder at the top
            self.box.cairn("volumes", "put", "spelled", file, path)

    def test_example_05_type_conflicts(self):
        self.volume("types")
        write(self.box.local("t/folder/x"), "x")
        file = write(self.box.local("t/file"), noise(3, 100_000))
        self.box.cairn("volumes", "put", "types", self.box.local("t/folder"))
        self.box.cairn("volumes", "put", "types", file)
        before, packs = self.box.json("volumes", "info", "types"), self.box.packs()
        self.box.fails("path_type_conflict", 6, "volumes", "put", "types", write(self.box.local("u/folder"), noise(4, 99_999)), "folder")
        write(self.box.local("u/file/below"), noise(5, 99_999))
        self.box.fails("path_type_conflict", 6, "volumes", "put", "types", self.box.local("u/file"), "file/")
        self.box.fails("path_type_conflict", 6, "volumes", "put", "types", self.box.local("u/file") + "/", "file")
        self.box.fails("path_type_conflict", 6, "volumes", "put", "types", file, "file/x/y")
        self.assertEqual(self.box.json("volumes", "info", "types"), before)
        self.assertEqual(self.box.packs(), packs)

    def test_example_06_delete_mirrors_and_spares_runs(self):
        self.volume("mirror")
        source = self.box.local("mirrored")
        for name in ("keep", "go", "dir/keep", "dir/go", "old/a"):
            write(f"{source}/{name}", name)
        self.box.cairn("volumes", "put", "mirror", source + "/", "/")
        self.box.cairn("run", "--no-upload", "--volume", "mirror", "--", "echo out > $CAIRN_OUTPUT_DIR/out")
        runs = self.box.json("volumes", "du", "mirror", "runs")
        for name in ("go", "dir/go", "old/a"):
            os.remove(f"{source}/{name}")
        os.rmdir(f"{source}/old")
        self.box.cairn("volumes", "put", "mirror", source + "/", "/")
        self.assertIn("go", self.names("mirror"))
        done = self.box.json("volumes", "put", "--delete", "mirror", source + "/", "/")
        self.assertGreaterEqual(done["files_deleted"], 3)
        self.assertEqual(self.names("mirror"), {"keep", "dir", "runs"})
        self.assertEqual(self.names("mirror", "dir"), {"keep"})
        after = self.box.json("volumes", "du", "mirror", "runs")
        self.assertEqual((after["files"], after["bytes"]), (runs["files"], runs["bytes"]))
        self.assertGreaterEqual(after["files"], 1)

    def test_example_07_what_is_skipped(self):
        self.volume("special")
        source = self.box.local("specials")
        write(f"{source}/file", "f")
        write(f"{source}/inner/file", "g")
        os.symlink("/etc/passwd", f"{source}/absolute")
        os.symlink("../../outside", f"{source}/inner/leaves")
        os.symlink("../file", f"{source}/inner/stays")
        os.mkfifo(f"{source}/pipe")
        with socket.socket(socket.AF_UNIX) as unix:
            unix.bind(f"{source}/socket")
            done = self.box.json("volumes", "put", "special", source + "/", timeout=30)
        self.assertEqual(done["skipped"], 4)
        self.assertEqual(self.names("special"), {"file", "inner"})
        self.assertEqual(self.names("special", "inner"), {"file", "stays"})

    def test_example_08_older_snapshot(self):
        self.volume("past")
        write(self.box.local("past/f"), "first")
        first = self.box.json("volumes", "put", "past", self.box.local("past"))["snapshot"]
        write(self.box.local("past/f"), "second")
        self.box.cairn("volumes", "put", "past", self.box.local("past"))
        self.assertEqual(self.cat("past", "past/f"), b"second")
        self.assertEqual(self.cat(f"past@{first}", "past/f"), b"first")
        self.box.cairn("volumes", "get", f"past@{first}", "past/f", self.box.local("past-back/f"))
        self.assertEqual(read(self.box.local("past-back/f")), b"first")
        self.box.fails("snapshot_not_found", 5, "volumes", "cat", "past@99", "past/f")

    def test_example_09_one_writer(self):
        self.volume("one", small=b"s")
        slow = write(self.box.local("slow"), noise(9, 30 << 20))
        first = self.box.spawn("volumes", "put", "--bwlimit", "1Mi", "one", slow)
        wait_until(lambda: self.box.json("volumes", "info", "one")["writer"], 20, "the first put holds the lease")
        elsewhere = {"HOME": self.box.local("elsewhere"), "XDG_STATE_HOME": self.box.local("elsewhere/state")}
        other = write(self.box.local("other/file"), "other")
        error = self.box.fails("writer_lease_held", 6, "volumes", "put", "one", other, env=elsewhere, timeout=30)
        self.assertTrue(error["holder"])
        self.assertIn("admin", str(error["holder"]) + error["message"])
        self.assertEqual(self.cat("one", "small"), b"s")  # readers are not kept out
        self.box.fails("volume_in_use", 6, "volumes", "delete", "one", "--yes")
        first.send_signal(signal.SIGINT)
        self.assertEqual(first.wait(20), 130)
        self.assertIsNone(self.box.json("volumes", "info", "one")["writer"])
        self.box.cairn("volumes", "put", "one", other)  # Ctrl-C released it at once

    def test_example_10_failed_run_keeps_its_files(self):
        self.volume("failed", before=b"1")
        done = self.box.cairn("run", "--no-upload", "--volume", "failed", "--", "echo 2 > /volume/after; rm /volume/before; exit 7",
                              expect=7)
        self.assertNotIn("Traceback", done.notes)
        self.assertEqual(self.cat("failed", "after"), b"2\n")
        self.assertNotIn("before", self.names("failed"))
        run = self.box.json("train", "list")[0]
        self.assertEqual((run["state"], run["exit_code"]), ("FAILED", 7))

    def test_example_11_incomplete_checkpoint(self):
        self.volume("steps")
        self.box.cairn("run", "--no-upload", "--volume", "steps", "--", """set -e
            mkdir -p $CAIRN_OUTPUT_DIR/checkpoints/step_10/trainer $CAIRN_OUTPUT_DIR/checkpoints/step_20/trainer
            echo w > $CAIRN_OUTPUT_DIR/checkpoints/step_10/model; echo m > $CAIRN_OUTPUT_DIR/checkpoints/step_10/trainer/.metadata
            echo w > $CAIRN_OUTPUT_DIR/checkpoints/step_20/model""")
        run = self.box.json("train", "list")[0]
        listed = self.box.json("train", "checkpoints", run["id"])
        self.assertEqual([(one["step"], one["state"]) for one in listed], [(10, "COMPLETE"), (20, "INCOMPLETE")])
        self.assertEqual(run["saved"]["step"], 10)
        self.assertIn("INCOMPLETE", self.box.cairn("train", "checkpoints", run["id"]).text)

    def test_example_12_delete_and_undelete(self):
        self.volume("gone", a=b"1", b=b"2")
        self.box.cairn("volumes", "delete", "gone", "--yes")
        self.box.fails("volume_not_found", 5, "volumes", "info", "gone")
        self.volume("gone")  # the name is free at once
        self.box.fails(("volume_exists", "volume_state_conflict"), 6, "volumes", "undelete", "gone")
        self.box.cairn("volumes", "undelete", "gone", "--as", "back")
        self.assertEqual((self.cat("back", "a"), self.cat("back", "b")), (b"1", b"2"))
        self.assertEqual(self.names("gone"), set())


if __name__ == "__main__":
    main()
