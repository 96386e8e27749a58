#!/usr/bin/python3
"""Wrong input and a broken world: every refusal has its code, its exit code, a message and a hint, and harms nothing."""

import contextlib
import itertools
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import unittest

from cairn_box import BINARY, ROOT, Box, BoxTest, free_port, main, noise, read, tree, wait_until, write


class WrongWords(BoxTest):
    def tearDown(self):
        for volume in self.box.json("volumes", "list"):
            self.assertIsNone(volume["writer"], f"a lease was left behind on {volume['name']}")

    def runs(self):
        return [run["id"] for run in self.box.json("train", "list")]

    def test_volume_names(self):
        for name in ("Upper", "under_score", "a-", "", "x" * 41, "a/b", "..", ".", "é", "a b", "a.b", "a\nb"):
            self.box.fails("volume_name_invalid", 2, "volumes", "create", name)
        for name in ("a", "0", "a-b", "x" * 40):
            self.box.cairn("volumes", "create", name, "--size", "1Gi")
        for verb in (("info",), ("ls",), ("du",), ("cat", "x"), ("get", "x"), ("delete", "--yes"), ("snapshots",),
                     ("expand", "--size", "2Gi"), ("rm", "x"), ("put", write(self.box.local("f"), "f")), ("undelete",)):
            self.box.fails("volume_not_found", 5, "volumes", verb[0], "no-such-volume", *verb[1:])

    def test_sizes(self):
        for size in ("abc", "5Qi", "-5Gi", "0", "1e400", "", "5 Gi Gi", "NaN", "0x10"):
            error = self.box.json("volumes", "create", "sized", "--size", size, expect=2)["error"]
            self.assertIn(error["code"], ("size_invalid", "usage", "size_over_maximum"), size)
        for size in ("21Ti", "9999999Ti", "18446744073709551616", "99999999999999999999999999"):
            self.box.fails(("size_over_maximum", "size_invalid"), 2, "volumes", "create", "sized2", f"--size={size}")
        self.volume("growing")
        error = self.box.fails("only_grow", 2, "volumes", "expand", "growing", "--size", "512Mi")
        self.assertIn("1 GiB", error["message"].replace("1Gi", "1 GiB"))
        self.assertEqual(self.box.json("volumes", "expand", "growing", "--size", "2Gi")["size_bytes"], 2 << 30)

    def test_contents_over_the_size(self):
        self.box.cairn("volumes", "create", "tight", "--size", "1Mi")
        self.box.fails("contents_exceed_size", 7, "volumes", "put", "tight", write(self.box.local("big"), noise(1, 2 << 20)))
        self.assertEqual(self.names("tight"), set())
        self.box.cairn("volumes", "put", "tight", write(self.box.local("fits"), noise(2, 1 << 19)))

    def test_hostile_paths(self):
        self.volume("paths", x=b"x")
        file = write(self.box.local("file"), "f")
        long_path = "/".join(["a" * 100] * 50)
        for path in ("../x", "a/../../x", "..", "a" * 256, long_path, "a/" * 2500 + "b"):
            self.box.fails("path_invalid", 2, "volumes", "put", "paths", file, path)
            for verb in ("ls", "cat", "du", "rm"):
                self.box.fails("path_invalid", 2, "volumes", verb, "paths", path)
            self.box.fails("path_invalid", 2, "volumes", "get", "paths", path, self.box.local("out"))
        for path in ("nope", "x/below", "x/"):
            code = ("path_not_found", "path_type_conflict", "path_invalid")
            if path != "x/":
                self.box.fails(code, 5, "volumes", "get", "paths", path, self.box.local("out"))
            if path == "nope":
                self.box.fails(code, 5, "volumes", "cat", "paths", path)
                self.box.fails(code, 5, "volumes", "rm", "paths", path)
        self.assertFalse(os.path.exists(self.box.local("out")))
        self.assertEqual(self.cat("paths", "/x"), b"x")  # an absolute spelling means the volume's top

    def test_hostile_paths_past_the_command_line(self):
        self.volume("api-paths", x=b"x")
        for path in (b"a\0b", b"../x", b"x/../../y", b"/x", b"x//y", b"a/./b", b"x" * 5000, b"y" * 256):
            for route in ("ls", "du", "stat"):
                status, answer = self.box.api("GET", f"/v1/volumes/api-paths/{route}?path={path.hex()}")
                self.assertEqual((status, answer["error"]["code"] in ("path_invalid", "request_invalid")), (400, True), (route, path[:20]))
            status, answer = self.box.api("POST", "/v1/volumes/api-paths/remove", {"paths": ["x"], "paths_hex": [path.hex()]})
            self.assertEqual((status, answer["error"]["code"] in ("path_invalid", "request_invalid")), (400, True), path[:20])
        for query in ("path=zz", "path=6", "path=" + "61" * 200_000, "limit=-1", "limit=abc", "snapshot=18446744073709551616"):
            status, answer = self.box.api("GET", f"/v1/volumes/api-paths/ls?{query}")
            self.assertIn(status // 100, (4,), (query[:30], answer))
        for body in ("text", [], {"paths_hex": "61"}, {"paths_hex": [1]}, {"paths_hex": ["61"] * 5000}, None):
            status, answer = self.box.api("POST", "/v1/volumes/api-paths/remove", body)
            self.assertEqual(status // 100, 4, (str(body)[:40], answer))
        for key in ("../../admin-token", "..%2f..%2fadmin-token", "s/x/p/y", "%00", "server.toml"):
            status, _ = self.box.api("GET", f"/store/{key}")
            self.assertEqual(status // 100, 4, key)
        self.assertEqual(self.cat("api-paths", "x"), b"x")

    def test_usage_is_json_too(self):
        for arguments in (("volumes", "create"), ("volumes", "create", "v", "--no-such"), ("volumes", "putt"), ("nothing",),
                          ("train",), ("run",), ("volumes", "ls", "v@x"), ("volumes", "ls", "v@0")):
            self.box.fails("usage", 2, *arguments)

    def test_wrong_values_of_options_are_usage(self):
        self.volume("valued")
        self.volume("valued2")
        for arguments in (("volumes", "create", "kept", "--history", "0"), ("volumes", "create", "kept", "--history", "x"),
                          ("tokens", "create", "t", "--expires", "0d"), ("tokens", "create", "t", "--expires", "20000d"),
                          ("tokens", "create", "t", "--scope", "bad"), ("tokens", "create", ""), ("volumes", "list", "--team", "nlp"),
                          ("train", "logs", "0" * 32, "--component", "x")):
            self.box.fails("usage", 2, *arguments)
        for options in (("--gpu", "-5"), ("--env", "A B=1"), ("--env", "CAIRN_X=1"), ("--mount", "valued:/usr/x"),
                        ("--mount", "valued", "--mount", "valued"), ("--mount", "valued:/d", "--mount", "valued2:/d")):
            self.box.fails("usage", 2, "run", "--no-upload", *options, "--", "true")
        self.box.fails("size_invalid", 2, "run", "--no-upload", "--volume", "kept", "--volume-size", "x", "--", "true")
        self.box.fails("object_not_found", 5, "tokens", "create", "t", "--user", "nobody")
        config = write(self.box.local("gpu.toml"), 'mode = "sft"\ngpu_type = "-5"\n')
        self.box.fails("config_invalid", 3, "train", config)
        self.assertNotIn("kept", [volume["name"] for volume in self.box.json("volumes", "list")])

    def test_what_stands_in_the_way_on_this_side(self):
        self.volume("ways", **{"f": b"f"})
        file = write(self.box.local("plain"), "p")
        folder = os.path.dirname(write(self.box.local("folder/x"), "x"))
        os.symlink("loop", self.box.local("loop"))
        for local in (file + "/", f"{file}/below", self.box.local("loop")):
            self.box.fails("path_type_conflict", 6, "volumes", "put", "ways", local, "q")
        for local in (file + "/", f"{file}/below", f"{file}/below/it"):
            self.box.fails("path_type_conflict", 6, "volumes", "get", "ways", "f", local)
        self.box.fails("path_type_conflict", 6, "volumes", "put", "ways", folder, "q", "--ignore-file", self.box.folder)
        self.box.fails("path_type_conflict", 6, "train", self.box.folder)
        for data in (file, f"{file}/below"):
            for command in (("up",), ("up", "--detach"), ("down",)):
                error = self.box.fails("path_type_conflict", 6, *command, "--data", data)
                self.assertIn(f"--data {data} ", error["message"])
        self.assertEqual((self.names("ways"), read(file)), ({"f"}, b"p"))

    def test_a_refused_put_makes_no_volume(self):
        source = self.box.local("first")
        write(f"{source}/runs/x", "x")
        for code, exit_code, *words in (("runs_read_only", 2, source, "runs/f"), ("runs_read_only", 2, source + "/", "/"),
                                        ("path_invalid", 2, source, "../x"), ("file_not_found", 5, f"{source}/absent", "x"),
                                        ("size_invalid", 2, source, "x", "--bwlimit", "y"), ("volume_not_found", 5, source, "x", "--dry-run")):
            self.box.fails(code, exit_code, "storage", "put", "first-use", *words)
        self.box.fails("volume_not_found", 5, "volumes", "info", "first-use")
        self.assertEqual(self.box.json("storage", "put", "first-use", source, "x")["files"], 1)

    def test_hints_name_commands_that_exist(self):
        named = {}
        for folder, _, names in os.walk(f"{ROOT}/src"):
            for name in names:
                if name.endswith(".cc") and not name.endswith("_test.cc"):
                    text = "\n".join(re.findall(r'"(?:[^"\\\n]|\\.)*"', read(os.path.join(folder, name)).decode()))
                    for words in re.findall(r"\bcairn ((?:volumes|storage|train|nodes|config|tokens|users|keys) [a-z][a-z-]*|[a-z-]{2,})", text):
                        named.setdefault(words, name)
        self.assertGreater(len(named), 10)
        for words, file in named.items():
            if words not in ("agent exec",) and words.split()[0] not in ("volumes", "storage", "train", "nodes", "config"):
                words = words.split()[0]
            self.assertEqual(self.box.cairn(*words.split(), "--help", expect=None).code, 0, f"'cairn {words}' in {file}")

    def test_missing_local_file(self):
        self.volume("local")
        self.box.fails("file_not_found", 5, "volumes", "put", "local", self.box.local("not-there"))
        self.box.fails("file_not_found", 5, "train", self.box.local("not-there.toml"))

    def as_nobody(self):
        """What makes a command one of a person who may not read everything."""
        prefix, env = (), {}
        if os.geteuid() == 0:
            if not shutil.which("setpriv"):
                self.skipTest("root reads everything, and there is no setpriv to become somebody else")
            prefix = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
            os.chmod(self.box.folder, 0o711)
            env = {name: self.box.local("nobody") for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")}
            os.makedirs(env["HOME"], exist_ok=True)
            os.chown(env["HOME"], 65534, 65534)
            if subprocess.run([*prefix, BINARY, "version"], capture_output=True).returncode != 0:
                self.skipTest(f"another user cannot execute {BINARY}")
        return {"prefix": prefix, "env": env}

    def test_unreadable_file_is_named_and_the_rest_goes(self):
        source = self.box.local("partly")
        write(f"{source}/open", "o", 0o644)
        write(f"{source}/closed", "c", 0o000)
        os.mkdir(f"{source}/shut", 0o000)
        os.chmod(source, 0o755)
        nobody = self.as_nobody()
        self.volume("partly")
        done = self.box.json("volumes", "put", "partly", source + "/", expect=1, **nobody)
        self.assertEqual((done["failed"], done["failed_paths"]), (2, ["shut", "closed"]))
        self.assertEqual(self.names("partly"), {"open"})
        said = self.box.cairn("volumes", "put", "partly", source + "/", "again", expect=1, **nobody).notes
        for name in ("shut", "closed"):
            self.assertRegex(said, rf"(?m)^cairn: {name}: open .*{source}/{name}: Permission denied$")
        self.assertIn("2 files or folders could not be read whole", said)
        done = self.box.json("volumes", "put", "partly", source, "below/", expect=1, **nobody)
        self.assertEqual(done["failed_paths"], ["below/partly/shut", "below/partly/closed"])

    def test_a_working_directory_that_cannot_be_read_starts_no_run(self):
        before = self.runs()
        def workspaces(where):
            with contextlib.closing(sqlite3.connect(f"file:{self.box.data}/catalog.db?mode=ro", uri=True)) as catalog:
                return catalog.execute(f"select count(*) from volumes where kind = 'workspace' {where}").fetchone()[0]
        project = self.box.local("closed-project")
        write(f"{project}/train.py", "t", 0o644)
        os.mkdir(f"{project}/shut", 0o000)
        os.chmod(project, 0o755)
        nobody = self.as_nobody()
        error = self.box.fails("file_unreadable", 125, "run", "--", "true", cwd=project, **nobody)
        self.assertIn("'shut'", error["message"])
        self.assertEqual(workspaces(""), 0)
        write(f"{project}/closed", "c", 0o000)
        write(f"{project}/.cairnignore", "shut/\n", 0o644)
        error = self.box.fails("file_changed", 125, "run", "--", "true", cwd=project, **nobody)
        self.assertIn("'closed'", error["message"])
        self.assertEqual(workspaces("and state = 'created'"), 0)
        self.assertEqual(self.runs(), before)

    def test_training_config(self):
        before = self.runs()
        self.volume("training")
        config = write(self.box.local("c.toml"), 'mode = "sft"\nvolume = "training"\n[model]\nname = "x"\n')
        error = self.box.fails("config_invalid", 3, "train", config)  # without an engine: the built-in one's
        self.assertIn("data.name", error["message"])
        self.box.fails("config_unsupported", 3, "train", write(self.box.local("e.toml"), 'engine = "nope"\n'))
        for text in ("a = [1,\nb", "volume = 7\n", "= 3", "\0\0", 'engin = "x"\n'):
            error = self.box.json("train", write(self.box.local("bad.toml"), text), expect=3)["error"]
            self.assertEqual(error["code"], "config_invalid")
            self.assertIn("bad.toml", error["message"])
        self.assertEqual(self.runs(), before)

    def test_an_upload_that_was_killed_holds_nobody_up(self):
        self.box.cairn("volumes", "create", "held")
        self.box.cairn("volumes", "put", "held", write(self.box.local("held-first"), "first"))
        big = write(self.box.local("held-big"), os.urandom(30_000_000))
        for then in (["volumes", "put", "held", write(self.box.local("held-other"), "other")], ["volumes", "rm", "held", "held-other"],
                     ["run", "--no-upload", "--volume", "held", "--", "true"], ["volumes", "delete", "held", "--yes"]):
            putting = self.box.spawn("volumes", "put", "held", big, "--bwlimit", "1Mi")
            wait_until(lambda: self.box.json("volumes", "info", "held")["writer"], 20, "the upload")
            refused = self.box.cairn(*then, expect=125 if then[0] == "run" else 6)
            self.assertIn("volume_in_use" if "delete" in then else "writer_lease_held", refused.notes)
            putting.kill()
            putting.wait()
            self.box.cairn(*then)

    def test_nodes_and_gpus_that_are_not_there(self):
        refused = self.box.cairn("run", "--no-upload", "--node", "nope", "--", "true", expect=125)
        self.assertIn("there is no node 'nope' (node_not_found)", refused.notes)
        refused = self.box.cairn("run", "--no-upload", "--volume", "never-made", "--gpu-type", "H100:2", "--", "true", expect=125)
        self.assertIn("no node has 2 GPUs of type H100; GPUs there are: none (gpu_type_unavailable)", refused.notes)
        self.assertNotIn("never-made", self.box.cairn("volumes", "list").text)
        self.assertEqual([run for run in self.box.json("train", "list") if run["state"] == "QUEUED"], [])

    def test_unknown_runs(self):
        for verb in ("get", "logs", "wait", "stop", "checkpoints"):
            self.box.fails("run_not_found", 5, "train", verb, "0" * 32)
            self.box.fails("run_not_found", 5, "train", verb, "../../x")

    def test_dead_server_and_wrong_token(self):
        dead = {"CAIRN_URL": f"http://127.0.0.1:{free_port()}"}
        file = write(self.box.local("f"), "f")
        silent = self.box.cairn("volumes", "list", env=dead, expect=8, timeout=60).notes
        self.assertIn(f"cairn: waiting for the server at {dead['CAIRN_URL']} ...\n", silent)
        for arguments in (("volumes", "list"), ("volumes", "put", "v", file)):
            self.box.fails("server_unavailable", 8, *arguments, env=dead, timeout=60)
            self.box.fails("token_invalid", 4, *arguments, env={"CAIRN_TOKEN": "cairn_" + "0" * 52})
            self.box.fails("token_invalid", 4, *arguments, env={"CAIRN_TOKEN": "x"})
            self.box.fails("not_signed_in", 4, *arguments, env={"CAIRN_TOKEN": "", "XDG_CONFIG_HOME": "/nowhere", "HOME": "/nowhere"})
        self.assertEqual(self.box.cairn("run", "--no-upload", "--", "true", env=dead, expect=125, timeout=60).code, 125)

    def test_wrong_toml_of_the_client_and_of_the_box(self):
        path = write(self.box.local("client.toml"), "url = [\n")
        error = self.box.fails("config_invalid", 3, "volumes", "list", env={"CAIRN_CONFIG": path})
        self.assertIn("client.toml", error["message"])
        data = self.box.local("other-data")
        write(f"{data}/server.toml", f'listen = "127.0.0.1:{free_port()}"\ndata_dir = "{data}"\nlisten_to = 3\n')
        for command in (("up",), ("up", "--detach")):
            error = self.box.fails("config_invalid", 3, *command, "--data", data, timeout=60)
            self.assertIn("listen_to", error["message"])
            self.assertNotIn("hint:", error["message"])
            said = self.box.cairn(*command, "--data", data, expect=3, timeout=60).notes
            self.assertEqual((said.count("listen_to"), said.count("hint:")), (1, 1), said)
        data = self.box.local("third-data")
        catalog = f"postgresql://127.0.0.1:{free_port()}/x"
        error = self.box.fails("catalog_unavailable", 8, "up", "--data", data, "--listen", f"127.0.0.1:{free_port()}", "--catalog", catalog,
                               timeout=90)
        self.assertTrue(error["message"].startswith("the server ended at once: "), error)
        self.box.fails("busy", 8, "up", "--data", self.box.data, "--detach")


class FullDisk(unittest.TestCase):
    def test_put_on_a_full_store(self):
        if os.geteuid() != 0:
            self.skipTest("a small file system can only be mounted by root")
        box = Box("full", start=False)
        disk = os.path.join(box.folder, "disk")
        os.mkdir(disk)
        try:
            mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", disk], capture_output=True, text=True)
            if mounted.returncode != 0:
                self.skipTest(f"cannot mount a tmpfs: {mounted.stderr}")
            box.up_arguments += ["--store", f"{disk}/store"]
            box.start()
            box.cairn("volumes", "create", "v", "--size", "1Gi")
            before = write(box.local("before"), noise(1, 8 << 20))
            box.cairn("volumes", "put", "v", before)
            filler = write(f"{disk}/filler", b"\0" * (16 << 20))
            source = box.local("much")
            for i in range(8):
                write(f"{source}/{i}", noise(i, 4 << 20))
            box.fails("no_space_left", 7, "volumes", "put", "v", source, timeout=120)
            self.assertIsNone(box.json("volumes", "info", "v")["writer"])
            self.assertEqual(box.cairn("volumes", "cat", "v", "before").out, noise(1, 8 << 20))
            os.remove(filler)
            box.cairn("volumes", "put", "v", source, timeout=120)
            box.cairn("volumes", "get", "v", "much", box.local("back"))
            back = box.local("back/much") if os.path.isdir(box.local("back/much")) else box.local("back")
            self.assertEqual(tree(back), tree(source))
        except BaseException:
            print(box.logs())
            raise
        finally:
            box.stop()


class Damage(BoxTest):
    def put_files(self, volume):
        self.volume(volume)
        source = self.box.local(volume)
        for i in range(6):
            write(f"{source}/file{i}", noise(f"{volume}{i}", 3 << 20))
        before = set(self.box.packs())
        self.box.cairn("volumes", "put", volume, source)
        return [pack for pack in self.box.packs() if pack not in before]

    def check_get(self, volume, codes):
        target = self.box.local(f"{volume}-back")
        error = self.box.json("volumes", "get", volume, volume, target, expect=9, timeout=60)["error"]
        self.assertIn(error["code"], codes)
        self.assertRegex(error["message"], r"file\d", "the damaged file is named")
        whole = tree(self.box.local(volume))
        for path, entry in (tree(target).items() if os.path.isdir(target) else ()):
            name = os.path.basename(path)
            if entry[0] == "file" and name in whole:
                self.assertEqual(entry[3], whole[name][3], f"a half file under its final name: {name}")
        for i in range(6):
            self.box.cairn("volumes", "cat", volume, f"{volume}/file{i}", expect=None)
        self.box.cairn("volumes", "ls", volume)
        self.box.json("volumes", "info", volume)

    def test_flipped_bytes(self):
        pack = self.put_files("flipped")[0]
        os.chmod(pack, 0o600)
        with open(pack, "r+b") as file:
            file.seek(os.path.getsize(pack) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        self.check_get("flipped", ("chunk_corrupt", "data_corrupt"))

    def test_cut_pack(self):
        pack = self.put_files("cut")[0]
        os.chmod(pack, 0o600)
        os.truncate(pack, os.path.getsize(pack) // 2)
        self.check_get("cut", ("chunk_corrupt", "data_corrupt"))

    def test_missing_pack(self):
        os.remove(self.put_files("missing")[0])
        self.check_get("missing", ("chunk_corrupt", "data_corrupt"))

    def test_file_that_changes_is_never_mixed(self):
        self.volume("moving")
        path = write(self.box.local("moving/file"), b"a" * (8 << 20))
        script = "while :; do for c in a b c; do head -c 8388608 /dev/zero | tr '\\0' $c | dd of=%s conv=notrunc bs=64k status=none; done; done"
        with subprocess.Popen(["sh", "-c", script % path], start_new_session=True) as writer:
            try:
                done = self.box.cairn("volumes", "put", "moving", path, "-o", "json", expect=None)
            finally:
                os.killpg(writer.pid, signal.SIGKILL)
        if done.code == 1:
            self.assertEqual(done.document()["failed"], 1)
            self.assertEqual(self.names("moving"), set())
        else:
            self.assertEqual(done.code, 0, done)
            # The writer goes from front to back through a, b, c, a ...: at any one moment the file is one letter, or the
            # next letter up to some place and the old one behind it. What was read over time has them the other way round.
            found = self.cat("moving", "file")
            self.assertEqual(len(found), 8 << 20)
            letters = [letter for letter, _ in itertools.groupby(found)]
            following = {ord("a"): ord("b"), ord("b"): ord("c"), ord("c"): ord("a")}
            one_moment = len(letters) == 1 or (len(letters) == 2 and letters[0] == following[letters[1]])
            self.assertTrue(one_moment, f"a mix of two moments was stored: {bytes(letters[:9])}")

    def test_interrupted_get_leaves_no_half_file(self):
        self.volume("slow", file=noise(7, 12 << 20))
        target = self.box.local("slow-back")
        os.mkdir(target)
        getting = self.box.spawn("volumes", "get", "--bwlimit", "2Mi", "slow", "file", target + "/")
        wait_until(lambda: sum(len(names) for _, _, names in os.walk(target)), 20, "something arrives")
        getting.kill()
        getting.wait()
        self.assertFalse(os.path.exists(f"{target}/file"))
        self.box.cairn("volumes", "get", "slow", "file", target + "/")
        self.assertEqual(set(tree(target)), {b"file"}, "the leftovers of the killed one are gone")
        self.assertEqual(read(f"{target}/file"), noise(7, 12 << 20))


if __name__ == "__main__":
    main()
