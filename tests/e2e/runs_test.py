#!/usr/bin/python3
"""Runs from end to end: volumes in, changes out, whatever happens to the command, the agent or the server."""

import os
import re
import signal
import time

from cairn_box import BoxTest, kill, main, read, wait_until, write


class Runs(BoxTest):
    def run_(self, command, *options, expect=0, volume=None, **more):
        """Follows a run without an upload of the working directory; one command string is run by sh."""
        volumes = ("--volume", volume) if volume else ()
        return self.box.cairn("run", "--no-upload", *volumes, *options, "--", *([command] if isinstance(command, str) else command),
                              expect=expect, **more)

    def detach(self, command, *options):
        return self.box.json("run", "--no-upload", "--detach", *options, "--", command)["id"]

    def wait(self, run, expect):
        return self.box.json("train", "wait", run, expect=expect)

    def wait_for_line(self, run, text):
        wait_until(lambda: text in self.box.cairn("train", "logs", run).text, 40, f"'{text}' in the log")

    # Ends.

    def test_exit_codes(self):
        self.assertIn("fine", self.run_("echo fine").text)
        self.run_("exit 7", expect=7)
        self.run_(["python3", "-c", "import sys; print('to both'); print('err', file=sys.stderr); sys.exit(3)"], expect=3)
        self.run_("kill -9 $$", expect=137)
        self.run_(["no-such-program-anywhere"], expect=None)
        listed = self.box.json("train", "list")
        self.assertEqual([run["state"] for run in listed[:5]], ["FAILED", "FAILED", "FAILED", "FAILED", "COMPLETED"])
        ended = self.box.json("run", "--no-upload", "--", "exit 9", expect=9)
        self.assertEqual((ended["state"], ended["exit_code"]), ("FAILED", 9))

    def test_stop_is_a_drain(self):
        self.volume("drain")
        run = self.detach("trap 'sleep 1; echo saved > /volume/drained; echo bye; exit 0' TERM; echo ready; while :; do sleep 0.1; done",
                          "--volume", "drain")
        self.wait_for_line(run, "ready")
        self.box.fails("writer_lease_held", 6, "volumes", "put", "drain", write(self.box.local("f"), "f"), timeout=30)
        self.assertEqual(self.box.json("train", "get", run)["state"], "RUNNING")
        self.box.cairn("train", "stop", run)
        self.wait(run, None)
        ended = self.box.json("train", "get", run)
        self.assertEqual(ended["state"], "STOPPED")
        self.assertEqual(self.cat("drain", "drained"), b"saved\n")
        self.assertIn("bye", self.box.cairn("train", "logs", run).text)
        self.assertIsNone(self.box.json("volumes", "info", "drain")["writer"])
        self.box.fails("run_state_conflict", 6, "train", "stop", run)

    def test_children_die_with_the_run(self):
        self.volume("children")
        self.run_("(trap '' TERM HUP; while :; do date >> /volume/ticks; sleep 0.1; done) & sleep 0.3; echo out", volume="children")
        first = self.cat("children", "ticks")
        time.sleep(0.5)
        self.assertEqual(self.cat("children", "ticks"), first)
        self.assertEqual(self.box.pids("bwrap"), [])

    # Volumes.

    def test_output_folder_and_logs_on_the_volume(self):
        self.volume("outputs")
        self.run_("echo out > $CAIRN_OUTPUT_DIR/out.txt; echo to-stdout; echo to-stderr >&2", volume="outputs")
        run = self.box.json("train", "list")[0]["id"]
        self.assertEqual(self.cat("outputs", f"runs/{run}/out.txt"), b"out\n")
        self.assertEqual(self.cat("outputs", f"runs/{run}/logs/stdout.log"), b"to-stdout\n")
        self.assertEqual(self.cat("outputs", f"runs/{run}/logs/stderr.log"), b"to-stderr\n")
        self.assertEqual(self.box.cairn("train", "logs", "--component", "stdout", run).text, "to-stdout\n")

    def test_two_volumes_and_a_read_only_one(self):
        self.volume("from", x=b"data")
        self.volume("to")
        self.run_("cp /volume/x /mnt/to/x && cmp /volume/x /mnt/from/x && rm /volume/x", "--volume", "to", volume="from")
        self.assertEqual(self.cat("to", "x"), b"data")
        self.assertNotIn("x", self.names("from"))
        before = self.box.json("volumes", "info", "to")["snapshot"]
        self.run_("cat /mnt/to/x && ! echo y > /mnt/to/y && ! rm -f /mnt/to/x", "--mount", "to")
        self.run_("cat /elsewhere/x", "--mount", "to:ro:/elsewhere")
        self.assertEqual(self.box.json("volumes", "info", "to")["snapshot"], before)

    def test_mount_of_a_snapshot(self):
        self.volume("past")
        first = self.box.json("volumes", "put", "past", write(self.box.local("p/x"), "old"))["snapshot"]
        self.box.cairn("volumes", "put", "past", write(self.box.local("p/x"), "new"))
        self.assertEqual(self.run_("cat /mnt/past/x", "--mount", f"past@{first}").text, "old\n")
        self.assertEqual(self.run_("cat /mnt/past/x", "--mount", "past").text, "new\n")
        refused = self.run_("true", "--mount", "past@77", expect=125)
        self.assertIn("`cairn volumes snapshots past`", refused.notes)

    def test_volume_named_in_the_command_is_created(self):
        self.run_("echo made > /mnt/made-by-run/file")
        self.assertEqual(self.cat("made-by-run", "file"), b"made\n")

    def test_without_a_volume(self):
        done = self.run_("test ! -e /volume && echo kept > $CAIRN_OUTPUT_DIR/f && echo $CAIRN_OUTPUT_DIR")
        self.assertIn("/output", done.text)
        self.assertIsNone(self.box.json("train", "list")[0]["volume"])

    def test_changes_of_all_kinds(self):
        self.volume("changes", gone=b"1", stays=b"2", changes=b"3", mode=b"4")
        self.run_("cd /volume; rm gone; echo more >> changes; chmod 600 mode; mkdir -p new/empty; ln -s ../stays new/link; "
                  "mkdir was; mv stays was/; mkfifo pipe; printf 'x\\n' > \"$(printf 'odd \\377 name')\"", volume="changes")
        log = self.box.cairn("train", "logs", "--component", "cairn", self.box.json("train", "list")[0]["id"]).text
        self.assertIn("'changes': 1 entry was left out", log)
        self.box.cairn("volumes", "get", "changes", "/", self.box.local("changes-back"))
        back = self.box.local("changes-back")
        self.assertEqual(sorted(os.listdir(os.fsencode(back))), sorted([b"changes", b"mode", b"new", b"odd \xff name", b"runs", b"was"]))
        self.assertEqual(read(f"{back}/changes"), b"3more\n")
        self.assertEqual(os.stat(f"{back}/mode").st_mode & 0o777, 0o600)
        self.assertEqual(os.readlink(f"{back}/new/link"), "../stays")
        self.assertTrue(os.path.isdir(f"{back}/new/empty"))
        self.assertEqual(read(f"{back}/was/stays"), b"2")

    def test_a_run_that_replaces_the_folder_of_runs(self):
        self.volume("linked", a=b"1")
        self.run_("rm -rf /volume/runs; ln -s /etc /volume/runs", volume="linked", expect=None)
        refused = self.run_("true", volume="linked", expect=125)
        self.assertIn("'runs' on volume 'linked' is no folder", refused.notes)
        self.assertIn("cairn volumes rm linked runs", refused.notes)
        self.box.cairn("volumes", "rm", "linked", "runs", "--yes")
        self.run_("true", volume="linked")

    def test_run_over_the_size_is_kept_aside(self):
        self.box.cairn("volumes", "create", "narrow", "--size", "2Mi")
        self.box.cairn("volumes", "put", "narrow", write(self.box.local("n"), "n"))
        self.run_("head -c 5000000 /dev/urandom > /volume/big", volume="narrow", expect=None)
        self.assertEqual(self.cat("narrow", "n"), b"n")
        kept = re.search(r"recovered/\S+: snapshot (\d+)", self.box.cairn("volumes", "info", "narrow").text)
        self.assertTrue(kept, "what could not be published is shown")
        self.assertEqual(len(self.cat(f"narrow@{kept.group(1)}", "big")), 5_000_000)
        self.assertEqual([one["number"] for one in self.box.json("volumes", "info", "narrow")["kept_aside"]], [int(kept.group(1))])
        run = self.box.json("train", "list")[0]["id"]
        told = self.box.cairn("train", "logs", "--component", "cairn", run).text
        self.assertIn("with the changes it would hold 4.77 MiB, and its size is 2.00 MiB", told)
        self.assertIn("cairn volumes expand narrow 1Gi", told)
        self.box.cairn(*re.search(r"cairn (volumes get \S+ /) FOLDER", told).group(1).split(), self.box.local("aside"))
        self.assertEqual(len(read(self.box.local("aside/big"))), 5_000_000)
        self.assertIsNone(self.box.json("train", "get", run)["saved"], "what lies aside does not count as saved")

    # The sandbox.

    def test_workspace_upload_and_what_is_lost(self):
        project = self.box.local("project")
        for name in ("train.py", "skip.log", "data/big.bin", "sub/kept.txt", "secret/key", ".git/config"):
            write(f"{project}/{name}", name)
        write(f"{project}/.gitignore", "*.log\n/data/\n")
        write(f"{project}/.cairnignore", "secret\n")
        before = self.box.json("volumes", "list")
        done = self.box.cairn("run", "--", "find . -type f | sort; pwd; echo 12345 > lost.txt; d=/mnt; mkdir -p $d; echo 1 > $d/typo", cwd=project)
        found = done.text.split()
        for name in ("./train.py", "./sub/kept.txt", "/workspace"):
            self.assertIn(name, found)
        for name in ("./skip.log", "./data/big.bin", "./secret/key", "./.git/config"):
            self.assertNotIn(name, found)
        run = self.box.json("train", "list")[0]["id"]
        wait_until(lambda: "lost.txt" in self.box.cairn("train", "logs", run).text, 10, "the loss report")
        report = self.box.cairn("train", "logs", "--component", "cairn", run).text
        self.assertIn("/workspace/lost.txt", report)
        self.assertIn("/mnt/typo", report)
        self.assertFalse(os.path.exists(f"{project}/lost.txt"))
        self.assertEqual([one["name"] for one in self.box.json("volumes", "list") if one not in before], [])

    def test_sandbox_keeps_secrets_out(self):
        done = self.run_(f"ls {self.box.data} {self.box.home} 2>&1; cat {self.box.data}/admin-token {self.box.data}/node-token 2>&1; "
                         "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; cat /proc/1/mountinfo; ls / /root /home 2>&1; id -u; "
                         "grep -i capeff /proc/self/status; ps ax 2>/dev/null || ls /proc")
        for secret in (self.box.token, read(f"{self.box.data}/node-token").decode().strip()):
            self.assertNotIn(secret, done.text)
        self.assertNotIn("CAIRN_TOKEN", done.text)
        self.assertNotIn("admin-token\n", done.text)
        self.assertIn("0000000000000000", done.text)
        self.run_("mount -t tmpfs x /mnt 2>/dev/null", expect=None)
        self.run_("echo x > /usr/bin/x", expect=None)
        self.assertFalse(os.path.exists("/usr/bin/x"))
        self.assertIn("venv", self.run_("command -v pip").text)

    # Following, and what survives.

    def test_logs_follow(self):
        run = self.detach("for i in 1 2 3 4 5; do echo line $i; sleep 0.4; done")
        follower = self.box.spawn("train", "logs", "-f", run)
        self.assertEqual(follower.stdout.readline(), b"line 1\n")
        self.assertIn(self.box.state_of(run), ("RUNNING", "CREATING"), "the first line came while it ran")
        self.assertIn(b"line 5\n", follower.communicate(timeout=60)[0])
        self.assertEqual(follower.returncode, 0)
        self.wait(run, 0)

    def test_log_as_json(self):
        run = self.detach("echo out; echo err >&2; sleep 1; echo \"a $(printf '\\033')[2J\"")
        lines = self.box.json("train", "logs", "-f", run)
        said = [(line["component"], line["text"]) for line in lines if line["component"] != "cairn"]
        self.assertEqual(sorted(said), [("stderr", "err"), ("stdout", "a \x1b[2J"), ("stdout", "out")])
        self.assertEqual(self.box.json("train", "logs", run), lines)
        self.assertEqual([line["text"] for line in self.box.json("train", "logs", "--component", "stderr", run)], ["err"])
        self.assertEqual(self.box.json("train", "logs", "--component", "stderr", self.detach("true")), [])

    def test_a_run_is_named_as_its_lease_shows_it(self):
        self.volume("leased")
        run = self.detach("sleep 60", "--volume", "leased")
        self.box.wait_state(run, "RUNNING")
        held = self.box.fails("writer_lease_held", 6, "volumes", "put", "leased", write(self.box.local("late"), b"x"))
        self.assertIn(f"`cairn train stop {run}`", held["hint"])
        holder = self.box.json("volumes", "info", "leased")["writer"].split()[-1]
        self.assertEqual(holder, f"run-{run}.1")
        for typed in (holder, f"run-{run}", run[:8], f"run-{run[:8]}.1"):
            self.assertEqual(self.box.json("train", "get", typed)["id"], run)
        error = self.box.fails("usage", 2, "train", "get", run[:3])
        self.assertIn("at least the first 4 digits", error["message"])
        self.box.cairn("train", "stop", holder)
        self.box.wait_state(run, "STOPPED")

    def test_ctrl_c_leaves_the_run(self):
        following = self.box.spawn("run", "--no-upload", "--", "echo started; sleep 3; echo finished")
        self.assertEqual(following.stdout.readline(), b"started\n")
        following.send_signal(signal.SIGINT)
        self.assertEqual(following.wait(20), 130)
        notes = following.stderr.read().decode()
        self.assertIn("train stop", notes)
        self.wait(self.box.json("train", "list")[0]["id"], 0)

    def test_agent_killed_while_a_run_goes_on(self):
        self.survives("agent")

    def test_server_killed_while_a_run_goes_on(self):
        self.survives("server")

    def survives(self, victim):
        volume = self.volume(f"survives-{victim}")
        run = self.detach("echo before; sleep 4; echo after | tee /volume/after", "--volume", volume)
        self.wait_for_line(run, "before")
        for pid in self.box.pids(victim):
            kill(pid, signal.SIGKILL)
        wait_until(lambda: self.box.cairn("version", expect=None) and self.box.pids(victim), 60, f"the {victim} is back")
        wait_until(lambda: self.box.cairn("train", "list", expect=None).code == 0, 60, "the server answers")
        ended = self.wait(run, 0)
        self.assertEqual((ended["state"], ended["attempt"]), ("COMPLETED", 1))
        self.assertEqual(self.cat(volume, "after"), b"after\n")
        self.assertIn("after", self.box.cairn("train", "logs", run).text)

    def test_executor_killed_saves_what_was_written(self):
        self.volume("executor")
        run = self.detach("echo early > /volume/early; echo written; sleep 60", "--volume", "executor")
        self.wait_for_line(run, "written")
        for pid in self.box.pids("executor"):
            kill(pid, signal.SIGKILL)
        self.box.wait_state(run, "FAILED")
        self.assertEqual(self.cat("executor", "early"), b"early\n")
        self.assertEqual(self.box.pids("bwrap"), [])

    def test_zz_down_drains_and_an_engine_is_added(self):
        self.volume("last")
        run = self.detach("trap 'echo d > /volume/drained; exit 0' TERM; echo ready; while :; do sleep 0.1; done", "--volume", "last")
        self.wait_for_line(run, "ready")
        self.box.down()
        with open(f"{self.box.data}/server.toml", "a") as file:
            file.write('\n[engines.echo]\ncommand = ["sh", "-c", "cat {config}; echo out > {output}/made; ls {volume}"]\n')
        self.box.start()
        self.assertEqual(self.box.state_of(run), "STOPPED")
        self.assertEqual(self.cat("last", "drained"), b"d\n")
        config = write(self.box.local("config.toml"), 'engine = "echo"\nvolume = "last"\nmode = "sft"\n[model]\nname = "tiny"\n')
        trained = self.box.json("train", config)["id"]
        self.wait(trained, 0)
        log = self.box.cairn("train", "logs", trained).text
        self.assertIn('name = "tiny"', log)
        self.assertIn("drained", log)
        self.assertEqual(self.cat("last", f"runs/{trained}/made"), b"out\n")
        self.assertIn("tiny", self.cat("last", f"runs/{trained}/configs/config.toml").decode())


if __name__ == "__main__":
    main()
