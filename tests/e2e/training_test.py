#!/usr/bin/python3
"""The built-in engine as its users see it: dry runs, refusals before a run is queued, and real trainings by cairn-trainer.

Needs the program cairn-trainer in the folder of cairn; tests that train are skipped where it was not built."""

import json
import os
import shutil
import subprocess
import unittest

from cairn_box import BINARY, BoxTest, main, wait_until, write

TRAINER = os.path.join(os.path.dirname(BINARY), "cairn-trainer")
TINY = {"architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "head_dim": 16, "hidden_act": "silu", "hidden_size": 32,
        "initializer_range": 0.02, "intermediate_size": 64, "max_position_embeddings": 512, "model_type": "qwen3",
        "num_attention_heads": 2, "num_hidden_layers": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-6, "rope_theta": 10000,
        "tie_word_embeddings": True, "vocab_size": 256}
FAKE = """mode = "pretrain"
max_steps = 4
[data]
type = "fake"
batch_size = 4
seq_len = 32
"""
SFT = """[model]
name = "models/tiny"
[data]
name = "datasets/rows.jsonl"
[renderer]
name = "qwen3"
"""


def trains():
    """Whether the trainer that was built can train."""
    if not os.access(TRAINER, os.X_OK):
        return False
    return "--output-dir" in subprocess.run([TRAINER, "--help"], capture_output=True, text=True, timeout=60).stdout


class Training(BoxTest):
    def config(self, text, name="train.toml"):
        return write(self.box.local(name), text)

    def say(self, text, *options, expect=0):
        return self.box.cairn("train", self.config(text), "--dry-run", *options, expect=expect)

    def losses(self, volume, run):
        rows = map(json.loads, self.cat(volume, f"runs/{run}/monitors/file/metrics.jsonl").splitlines())
        return {row["step"]: row["loss/mean"] for row in rows if "loss/mean" in row}

    def test_dry_run(self):
        before = len(self.box.json("train", "list"))
        text = self.say(FAKE).text
        self.assertIn("4 rows of 32 tokens a step (128 tokens)", text)
        self.assertIn("it runs without a volume", text)
        resolved = self.box.json("train", self.config(FAKE), "--dry-run")
        self.assertEqual((resolved["mode"], resolved["optim"]["lr"], resolved["data"]["seed"]), ("pretrain", 1e-3, 0))
        self.assertIn("/volume/datasets/rows.jsonl", self.say(SFT, "--volume", "any").text)
        self.box.fails("data_requires_volume", 3, "train", self.config(SFT), "--dry-run")
        wrong = self.box.json("train", self.config(SFT + "[optim]\nlrr = 1\n"), "--dry-run", "--volume", "any", expect=3)["error"]
        self.assertEqual((wrong["code"], wrong["hint"]), ("config_invalid", "did you mean 'optim.lr'?"))
        self.assertIn("line 8", wrong["message"])
        unbuilt = self.box.json("train", self.config(SFT + "[model.lora]\n"), "--dry-run", "--volume", "any", expect=3)["error"]
        self.assertEqual(unbuilt["code"], "config_unsupported")
        self.assertIn("'other'", self.say('engine = "other"\nanything = 1\n').text)
        self.assertEqual(len(self.box.json("train", "list")), before)

    def test_refused_before_it_is_queued(self):
        config = self.config(SFT)
        before = len(self.box.json("train", "list"))
        self.box.fails("data_requires_volume", 3, "train", config)
        self.assertIn("'fresh'", self.box.fails("data_missing_on_volume", 3, "train", config, "--volume", "fresh")["message"])
        self.box.fails("volume_not_found", 5, "volumes", "info", "fresh")
        self.volume("half", **{"config.json": json.dumps(TINY).encode()})
        missing = self.box.fails("data_missing_on_volume", 3, "train", config, "--volume", "half")
        self.assertIn("'models/tiny' is not there on volume 'half'", missing["message"])
        self.assertEqual(len(self.box.json("train", "list")), before)

    def test_other_programs_verbs(self):
        alone = os.path.join(self.box.folder, "alone")
        os.mkdir(alone)
        try:
            os.link(BINARY, f"{alone}/cairn")
        except OSError:
            shutil.copy(BINARY, f"{alone}/cairn")
        gone = subprocess.run([f"{alone}/cairn", "tokenize", "--help"], capture_output=True, text=True, timeout=60)
        self.assertEqual(gone.returncode, 5, gone)
        self.assertIn(f"there is no {alone}/cairn-trainer", gone.stderr)
        # A stand-in shows what is handed on, and whose exit code comes back.
        write(f"{alone}/cairn-trainer", '#!/bin/sh\nfor word in "$@"; do echo "<$word>"; done\nexit 7\n')
        os.chmod(f"{alone}/cairn-trainer", 0o755)
        for words in (["tokenize", "--help", "-o", "x y", "--", "z"], ["tokenizer", "train", "--vocab-size", "5"], ["tokenize"]):
            done = subprocess.run([f"{alone}/cairn", *words], capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout), (7, "".join(f"<{word}>\n" for word in words)))
        misplaced = subprocess.run([f"{alone}/cairn", "-o", "json", "tokenize", "x"], capture_output=True, text=True, timeout=60)
        self.assertEqual((misplaced.returncode, json.loads(misplaced.stdout)["error"]["code"]), (2, "usage"))
        self.assertIn("tokenize", self.box.cairn("--help").text)

    @unittest.skipUnless(trains(), f"{TRAINER} was not built, or cannot train yet")
    def test_fake_data_needs_no_volume(self):
        run = self.box.json("train", self.config(FAKE))["id"]
        ended = self.box.json("train", "wait", run, expect=0)
        self.assertEqual((ended["state"], ended["volume"]), ("COMPLETED", None))
        log = self.box.cairn("train", "logs", run).text
        for step in range(1, 5):
            self.assertRegex(log, rf"Step {step} \|.* Loss \d")

    @unittest.skipUnless(trains(), f"{TRAINER} was not built, or cannot train yet")
    def test_checkpoints_and_resume(self):
        files = self.box.local("lab-files")
        write(f"{files}/models/tiny/config.json", json.dumps(TINY).encode())
        self.box.cairn("volumes", "create", "lab", "--size", "1Gi")
        self.box.cairn("volumes", "put", "lab", f"{files}/", "/")
        config = FAKE + '[model]\nname = "models/tiny"\n[ckpt]\ninterval = 2\n'
        run = self.box.json("train", self.config(config), "--volume", "lab")["id"]
        self.box.json("train", "wait", run, expect=0)
        listed = self.box.json("train", "checkpoints", run)
        self.assertEqual([(checkpoint["step"], checkpoint["state"]) for checkpoint in listed], [(2, "COMPLETE"), (4, "COMPLETE")])
        self.assertLessEqual({"checkpoints", "configs", "logs", "monitors"}, self.names("lab", f"runs/{run}"))
        self.assertEqual(self.cat("lab", f"runs/{run}/configs/train.toml").decode(), config)
        resolved = json.loads(self.cat("lab", f"runs/{run}/configs/pretrain.json"))
        self.assertEqual(resolved, self.box.json("train", self.config(config), "--dry-run", "--volume", "lab"))
        losses = self.losses("lab", run)
        self.assertEqual(sorted(losses), [1, 2, 3, 4])

        resumed = self.box.json("train", self.config(config + f'[resume]\ndir = "runs/{run}/checkpoints/step_2"\n'), "--volume", "lab")["id"]
        self.box.json("train", "wait", resumed, expect=0)
        self.assertEqual(self.losses("lab", resumed), {step: losses[step] for step in (3, 4)})

    @unittest.skipUnless(trains(), f"{TRAINER} was not built, or cannot train yet")
    def test_stop_saves(self):
        self.box.cairn("volumes", "create", "stopped", "--size", "1Gi")
        config = self.config(FAKE.replace("max_steps = 4\n", "") + "[ckpt]\n")
        run = self.box.json("train", config, "--volume", "stopped")["id"]
        wait_until(lambda: "Step 3 |" in self.box.cairn("train", "logs", run).text, 90, "the third step")
        self.box.cairn("train", "stop", run)
        self.box.cairn("train", "wait", run, expect=None)
        self.assertEqual(self.box.state_of(run), "STOPPED")
        saved = self.box.json("train", "checkpoints", run)
        self.assertEqual([checkpoint["state"] for checkpoint in saved], ["COMPLETE"])
        self.assertEqual(self.box.json("train", "get", run)["saved"]["step"], saved[0]["step"])


if __name__ == "__main__":
    main()
