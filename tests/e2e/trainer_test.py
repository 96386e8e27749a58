#!/usr/bin/python3
"""cairn-trainer by hand, without a Cairn around it: text to tokenizer, shards, a pretrained model, an exported one, a fine-tuned
one; several processes; stops, kills and resumes; and every kind of wrong input.

The program comes from $CAIRN_TRAINER_BINARY, else build/dev/bin/cairn-trainer. Needs Python's standard library only."""

import json
import os
import random
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

from local_files import write

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.environ.get("CAIRN_TRAINER_BINARY") or os.path.join(ROOT, "build/dev/bin/cairn-trainer")
MODEL = {"architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "head_dim": 16, "hidden_act": "silu", "hidden_size": 48,
         "initializer_range": 0.02, "intermediate_size": 96, "max_position_embeddings": 256, "model_type": "qwen3",
         "num_attention_heads": 3, "num_hidden_layers": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-6, "rope_theta": 10000,
         "tie_word_embeddings": True}
STEPS = 12
PRETRAIN = """mode = "pretrain"
max_steps = {steps}
[model]
name = "model"
dtype = "float32"
[data]
paths = ["shards"]
seq_len = 64
batch_size = 8
micro_batch_size = 2
[val]
interval = 6
num_samples = 8
[val.data]
paths = ["held-out"]
seq_len = 64
[optim]
lr = 3e-3
{more}
"""
SFT = """max_steps = {steps}
[model]
name = "{model}"
dtype = "float32"
[data]
name = "chats.jsonl"
seq_len = 96
batch_size = 4
[renderer]
name = "qwen3"
[optim]
lr = 1e-3
{more}
"""
WORDS = "the sea and a ship went over long slow waves while gulls cried above it nobody spoke until evening came down".split()


def sentences(seed, count):
    rng = random.Random(seed)
    return [" ".join(rng.choice(WORDS) for _ in range(rng.randint(4, 14))) + "." for _ in range(count)]


def text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def load(path):
    return json.loads(text(path))


class Ran:
    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    def __str__(self):
        return f"exit code {self.code}\n{self.out}\n{self.err}"


class TrainerTest(unittest.TestCase):
    """One volume with everything on it, made once by the program itself; an output folder for each test."""

    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.mkdtemp(prefix="cairn-trainer-test-")
        cls.volume = os.path.join(cls.top, "volume")
        lines = sentences(1, 3000)
        write(f"{cls.volume}/text/train.txt", "\n\n".join(lines))
        write(f"{cls.volume}/text/held-out.txt", "\n\n".join(sentences(2, 300)))
        cls.good("tokenizer", "train", "--vocab-size", "320", "--output", f"{cls.volume}/model", f"{cls.volume}/text/train.txt")
        vocabulary = cls.vocabulary(f"{cls.volume}/model")
        for name, source in (("shards", "train"), ("held-out", "held-out")):
            cls.good("tokenize", "--tokenizer", f"{cls.volume}/model", "--output", f"{cls.volume}/{name}",
                     f"{cls.volume}/text/{source}.txt")
        tokens = load(f"{cls.volume}/model/tokenizer.json")["added_tokens"]
        eos = next(token["id"] for token in tokens if token["content"] == "<|endoftext|>")
        write(f"{cls.volume}/model/config.json", json.dumps(MODEL | {"vocab_size": vocabulary, "eos_token_id": eos}))
        rows = [{"messages": [{"role": "user", "content": f"Go on from: {line[:20]}"}, {"role": "assistant", "content": line}]}
                for line in sentences(3, 60)]
        write(f"{cls.volume}/chats.jsonl", "".join(json.dumps(row) + "\n" for row in rows))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.top, ignore_errors=True)

    def setUp(self):
        self.output = tempfile.mkdtemp(dir=self.top)

    @staticmethod
    def vocabulary(folder):
        tokenizer = load(f"{folder}/tokenizer.json")
        return max([*tokenizer["model"]["vocab"].values(), *(token["id"] for token in tokenizer["added_tokens"])]) + 1

    @staticmethod
    def run_program(*args, timeout=300, **options):
        return Ran(subprocess.run([BINARY, *args], capture_output=True, text=True, timeout=timeout, **options))

    @classmethod
    def good(cls, *args):
        ran = cls.run_program(*args)
        assert ran.code == 0, f"{args}: {ran}"
        return ran

    def config(self, body, more="", steps=STEPS, **values):
        return write(os.path.join(self.output, f"config-{random.getrandbits(32)}.toml"), body.format(steps=steps, more=more, **values))

    def args(self, config, *options, output="run"):
        return (config, "--volume-root", self.volume, "--output-dir", os.path.join(self.output, output), "--threads", "1", *options)

    def train(self, config, *options, output="run", expect=0):
        ran = self.run_program(*self.args(config, *options, output=output))
        self.assertEqual(ran.code, expect, str(ran))
        return ran

    def pretrain(self, more="", *options, steps=STEPS, output="run", expect=0):
        return self.train(self.config(PRETRAIN, more, steps), *options, output=output, expect=expect)

    def refused(self, code, *words, config=None, more=""):
        ran = self.train(config or self.config(PRETRAIN, more), expect=code)
        for word in words:
            self.assertIn(word, ran.err)
        self.assertIn("hint:", ran.err)
        return ran.err

    def metric(self, name, output="run"):
        values = {}
        for line in text(f"{self.output}/{output}/monitors/file/metrics.jsonl").splitlines():
            row = json.loads(line)
            if name in row:
                values[row["step"]] = row[name]
        return values

    def steps(self, output="run"):
        folder = f"{self.output}/{output}/checkpoints"
        found = [name for name in os.listdir(folder) if os.path.exists(f"{folder}/{name}/trainer/.metadata")]
        return sorted(int(name.removeprefix("step_")) for name in found)

    def weights(self, step, output="run"):
        with open(f"{self.output}/{output}/checkpoints/step_{step}/trainer/model.safetensors", "rb") as file:
            return file.read()


class Whole(TrainerTest):
    def test_from_text_to_a_fine_tuned_model(self):
        self.pretrain("[ckpt]\ninterval = 6", steps=40)
        losses = self.metric("loss/mean")
        self.assertLess(losses[40], losses[1] - 1)
        held_out = self.metric("val/loss")
        self.assertEqual(sorted(held_out), [6, 12, 18, 24, 30, 36])
        self.assertLess(held_out[36], held_out[6] - 1)
        run = f"{self.output}/run"
        resolved = load(f"{run}/configs/pretrain.json")
        self.assertEqual(resolved["data"]["shuffle"], True)
        self.assertIn("Pretrain trainer finished!", text(f"{run}/logs/latest/trainer.log"))
        self.assertTrue(os.listdir(f"{run}/monitors/tensorboard")[0].startswith("events.out.tfevents."))

        exported = os.path.join(self.volume, "exported")
        self.good("export", run, exported)
        self.assertEqual(sorted(os.listdir(exported)), ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"])
        with open(f"{exported}/model.safetensors", "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        self.assertEqual({entry["dtype"] for name, entry in header.items() if name != "__metadata__"}, {"BF16"})
        self.assertNotIn("lm_head.weight", header)

        ran = self.train(self.config(SFT, model="exported", steps=20), output="sft")
        self.assertIn("SFT trainer finished!", ran.out)
        tuned = self.metric("loss/mean", "sft")
        self.assertLess(tuned[20], tuned[1])
        # It began with the pretrained weights, not with random ones.
        shutil.copytree(f"{self.volume}/model", f"{self.volume}/untrained", dirs_exist_ok=True)
        self.train(self.config(SFT, "[model.debug]\nrandom_init = true", model="untrained", steps=1), output="random")
        self.assertLess(tuned[1], self.metric("loss/mean", "random")[1] - 0.5)

    def test_a_resumed_run_is_the_uninterrupted_one(self):
        self.pretrain("[ckpt]\ninterval = 6", output="whole")
        self.assertEqual(self.steps("whole"), [6, 12])
        self.pretrain("[ckpt]", steps=6, output="parts")
        self.assertNotIn("the config is not", self.pretrain("[ckpt]\n[resume]", output="parts").out)
        for name in ("loss/mean", "optim/grad_norm", "val/loss"):
            self.assertEqual(self.metric(name, "whole"), self.metric(name, "parts"), name)
        self.assertEqual(self.weights(12, "whole"), self.weights(12, "parts"))
        # From another run's folder, copying nothing.
        shutil.copytree(f"{self.output}/whole/checkpoints/step_6", f"{self.volume}/elsewhere/step_6", dirs_exist_ok=True)
        self.pretrain('[ckpt]\n[resume]\ndir = "elsewhere/step_6"', output="third")
        self.assertEqual(self.steps("third"), [12])
        self.assertEqual(self.weights(12, "whole"), self.weights(12, "third"))
        self.assertIn("up to step 12", self.pretrain("[ckpt]\n[resume]\nstep = 6", output="whole", expect=6).err)
        ran = self.pretrain("weight_decay = 0.02\n[ckpt]\n[resume]", steps=13, output="parts")
        self.assertIn("the config is not the one that the checkpoint was made with: optim.weight_decay was 0.01 and is 0.02", ran.out)
        # A used folder is not trained over by accident, and its config stays.
        with open(f"{self.output}/whole/configs/pretrain.json") as file:
            before = file.read()
        self.assertIn("[resume]", self.pretrain(steps=7, output="whole", expect=6).err)
        with open(f"{self.output}/whole/configs/pretrain.json") as file:
            self.assertEqual(file.read(), before)

    def test_what_is_not_as_it_was_when_a_run_resumes(self):
        shutil.copytree(f"{self.volume}/model", f"{self.volume}/changed")
        self.addCleanup(shutil.rmtree, f"{self.volume}/changed")
        original = text(f"{self.volume}/changed/config.json")
        body = PRETRAIN.replace('name = "model"', 'name = "changed"')
        config = self.config(body, "[ckpt]\ninterval = 2", steps=4)
        resumed = self.config(body, "[ckpt]\n[resume]", steps=5)
        self.train(config)
        for key, value in (("rope_theta", 5e5), ("rms_norm_eps", 0.1)):
            write(f"{self.volume}/changed/config.json", json.dumps(json.loads(original) | {key: value}))
            self.assertIn(key, self.train(resumed, expect=3).err)
        write(f"{self.volume}/changed/config.json", original)
        with open(f"{self.volume}/changed/tokenizer.json", "a") as file:
            file.write("\n")
        os.remove(f"{self.output}/run/checkpoints/step_4/trainer/.metadata")
        said = self.train(resumed).out
        self.assertIn("step_4 is not complete: it has no marker trainer/.metadata; it was removed", said)
        self.assertIn("Resuming from", said)
        self.assertIn("the tokenizer is not the one", said)
        self.assertIn("there is nothing left to train", self.train(resumed).out)

    def test_fine_tuning_resumes_exactly(self):
        config = self.config(SFT, "[model.debug]\nrandom_init = true\n[ckpt]\ninterval = 4", model="model", steps=8)
        self.train(config, output="whole")
        shutil.copytree(f"{self.output}/whole/checkpoints/step_4", f"{self.output}/parts/checkpoints/step_4")
        config = self.config(SFT, "[model.debug]\nrandom_init = true\n[ckpt]\ninterval = 4\n[resume]", model="model", steps=8)
        self.train(config, output="parts")
        self.assertEqual(self.weights(8, "whole"), self.weights(8, "parts"))

    def test_two_processes_learn_as_one(self):
        self.pretrain(output="one")
        ran = self.pretrain("", "--processes", "2", output="two")
        self.assertIn("in 2 processes", ran.out)
        one, two = self.metric("loss/mean", "one"), self.metric("loss/mean", "two")
        self.assertEqual(sorted(one), sorted(two))
        for step, loss in one.items():
            self.assertLess(abs(two[step] - loss), 1e-5 * loss, step)
        self.assertIn("cannot be shared by 3 processes", self.pretrain("", "--processes", "3", output="three", expect=3).err)


class Ends(TrainerTest):
    """Signals and deaths."""

    def start(self, config, *options, preexec_fn=None, **environment):
        process = subprocess.Popen([BINARY, *self.args(config, *options)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=os.environ | environment, preexec_fn=preexec_fn)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def wait_for(self, process, words):
        for line in process.stdout:
            if words in line:
                return line
        self.fail(f"ended without saying '{words}': {process.stderr.read()}")

    def test_sigterm_saves_and_resume_goes_on(self):
        for processes in ("1", "2"):
            with self.subTest(processes=processes):
                shutil.rmtree(f"{self.output}/run", ignore_errors=True)
                config = self.config(PRETRAIN.replace("max_steps = {steps}\n", ""))
                process = self.start(config, "--processes", processes)
                self.wait_for(process, "Step 3 ")
                process.send_signal(signal.SIGTERM)
                rest, _ = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 130)
                self.assertIn("stopped on request", rest)
                saved = self.steps()
                self.assertEqual(len(saved), 1)
                self.pretrain("[resume]", "--processes", processes, steps=saved[0] + 2)
                self.assertEqual(max(self.metric("loss/mean")), saved[0] + 2)

    def test_sigterm_at_the_very_start(self):
        for processes in ("1", "2"):
            with self.subTest(processes=processes):
                shutil.rmtree(f"{self.output}/run", ignore_errors=True)
                config = self.config(PRETRAIN.replace("max_steps = {steps}\n", ""))
                # Held back until the program lets it in, which is when it can handle it.
                process = self.start(config, "--processes", processes,
                                     preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]))
                process.send_signal(signal.SIGTERM)
                said, errors = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 130, said)
                self.assertIn("stopped on request", said)

    def test_sigterm_during_a_long_validation_saves_at_once(self):
        body = PRETRAIN.replace("interval = 6\nnum_samples = 8", "interval = 2").replace('["held-out"]\nseq_len = 64', '["shards"]\nseq_len = 2')
        for processes in ("1", "2"):
            with self.subTest(processes=processes):
                shutil.rmtree(f"{self.output}/run", ignore_errors=True)
                process = self.start(self.config(body, '[log]\nlevel = "debug"'), "--processes", processes)
                self.wait_for(process, "Step 2 | measuring")
                process.send_signal(signal.SIGTERM)
                rest, _ = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 130)
                self.assertIn("stopped on request after step 1", rest)
                self.assertEqual(self.steps(), [1])
                # Resumed, the step is made again, with its validation.
                self.pretrain("[resume]", "--processes", processes, steps=2)
                self.assertEqual(max(self.metric("loss/mean")), 2)

    def test_a_second_signal_ends_at_once(self):
        config = self.config(PRETRAIN.replace("max_steps = {steps}\n", "").replace("batch_size = 8", "batch_size = 2048"))
        process = self.start(config)
        self.wait_for(process, "rows of")
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=10), 130)

    @staticmethod
    def children(process):
        return text(f"/proc/{process.pid}/task/{process.pid}/children").split()

    def test_env_vars_reach_every_process_and_yield_to_what_the_run_was_started_with(self):
        body = PRETRAIN.replace("max_steps = {steps}\n", "")
        config = self.config(body, '[env_vars]\nSEA = "from the config"\nSHIP = "from the config"')
        process = self.start(config, "--processes", "2", SHIP="from outside")
        self.wait_for(process, "Step 1 ")
        children = self.children(process)
        self.assertEqual(len(children), 2)
        for child in children:
            variables = text(f"/proc/{child}/environ").split("\0")
            self.assertIn("SEA=from the config", variables)
            self.assertIn("SHIP=from outside", variables)

    def test_one_process_that_dies_ends_the_run_and_is_named(self):
        process = self.start(self.config(PRETRAIN.replace("max_steps = {steps}\n", "")), "--processes", "2")
        self.wait_for(process, "Step 2 ")
        children = self.children(process)
        self.assertEqual(len(children), 2)
        os.kill(int(children[1]), signal.SIGKILL)
        rest, _ = process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("process 1 of 2 failed: killed by signal 9", rest)

    def test_one_trainer_in_an_output_folder(self):
        process = self.start(self.config(PRETRAIN, "[ckpt]\ninterval = 1\nkeep_last = 2", steps=100000))
        self.wait_for(process, "Saved checkpoint")
        refused = self.pretrain("[resume]", expect=8)
        self.assertIn("another process trains into", refused.err)
        process.kill()
        process.wait()
        self.pretrain("[ckpt]\n[resume]", steps=self.steps()[-1] + 1)

    def test_killed_while_it_saves_it_resumes_from_a_whole_checkpoint(self):
        rng = random.Random(4)
        config = self.config(PRETRAIN, "[ckpt]\ninterval = 1\nkeep_last = 2", steps=100000)
        resumed = self.config(PRETRAIN, "[ckpt]\ninterval = 1\nkeep_last = 2\n[resume]", steps=100000)
        for round_number in range(5):
            process = self.start(resumed if round_number else config)
            self.wait_for(process, "Saved checkpoint")
            time.sleep(rng.random() * 0.2)
            process.kill()
            process.wait()
            steps = self.steps()
            self.assertTrue(steps)
            self.assertLessEqual(len(steps), 3)
        last = self.steps()[-1]
        self.pretrain("[ckpt]\nkeep_last = 1\n[resume]", steps=last + 1)
        self.assertEqual(self.steps(), [last + 1])


class Threads(TrainerTest):
    def test_the_environment_says_how_many_and_the_option_goes_over_it(self):
        own = [arg for arg in self.args(self.config(PRETRAIN, steps=1)) if arg not in ("--threads", "1")]
        from_config = [arg for arg in self.args(self.config(PRETRAIN, '[env_vars]\nOMP_NUM_THREADS = "4"', steps=1))
                       if arg not in ("--threads", "1")]
        without = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        for number, (args, environment, threads) in enumerate(((own, {"OMP_NUM_THREADS": "3,2"}, 3),
                                                               ([*own, "--threads", "2"], {"OMP_NUM_THREADS": "3"}, 2),
                                                               (from_config, {}, 4),
                                                               (from_config, {"OMP_NUM_THREADS": "2"}, 2))):
            with self.subTest(number=number):
                shutil.rmtree(f"{self.output}/run", ignore_errors=True)
                ran = self.run_program(*args, env=without | environment)
                self.assertEqual(ran.code, 0, str(ran))
                self.assertIn(f", {threads} threads,", ran.out)


class WrongInput(TrainerTest):
    def copy(self, name):
        """A part of the volume under another name, to be spoilt."""
        target = os.path.join(self.volume, f"{name}-{self._testMethodName}")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(os.path.join(self.volume, name), target)
        return target, os.path.basename(target)

    def test_a_truncated_model(self):
        self.pretrain("[ckpt]", steps=1, output="first")
        exported = os.path.join(self.volume, "short")
        shutil.rmtree(exported, ignore_errors=True)
        self.good("export", f"{self.output}/first", exported)
        weights = f"{exported}/model.safetensors"
        size = os.path.getsize(weights)
        os.truncate(weights, size - 1)
        self.assertIn("model.safetensors", self.refused(3, config=self.config(SFT, model="short")))
        with open(weights, "wb") as file:
            file.write(struct.pack("<Q", 1 << 30) + b"{}")
        self.assertIn("model.safetensors", self.refused(3, config=self.config(SFT, model="short")))

    def test_a_shard_whose_index_disagrees(self):
        folder, name = self.copy("shards")
        index = next(file for file in os.listdir(folder) if file.endswith(".index"))
        with open(f"{folder}/{index}", "r+b") as file:
            file.seek(-8, os.SEEK_END)
            file.write(struct.pack("<Q", 10**9))
        ran = self.train(self.config(PRETRAIN.replace('["shards"]', f'["{name}"]')), expect=9)
        self.assertIn(index, ran.err)

    def test_a_tokenizer_of_another_model(self):
        folder, name = self.copy("model")
        config = load(f"{folder}/config.json")
        write(f"{folder}/config.json", json.dumps(config | {"vocab_size": 200, "eos_token_id": 0}))
        for config in (self.config(SFT, "[model.debug]\nrandom_init = true", model=name),
                       self.config(PRETRAIN.replace('name = "model"', f'name = "{name}"'))):
            ran = self.train(config, expect=3)
            self.assertIn("tokenizer.json", ran.err)
            self.assertIn("200", ran.err)

    def test_a_tokenizer_that_is_not_needed(self):
        folder, name = self.copy("model")
        write(f"{folder}/tokenizer.json", json.dumps({"version": "1.0", "model": {"type": "Unigram", "vocab": []}}))
        body = PRETRAIN.replace('name = "model"', f'name = "{name}"')
        self.assertIn("the tokenizer was not compared with the model", self.train(self.config(body, steps=1)).out)
        # Named, or needed, it must be one that can be read.
        self.train(self.config(body, f'[tokenizer]\nname = "{name}"', steps=1), output="named", expect=9)
        self.train(self.config(SFT, "[model.debug]\nrandom_init = true", model=name, steps=1), output="needed", expect=9)

    def test_no_data(self):
        empty = os.path.join(self.volume, "empty")
        os.makedirs(empty, exist_ok=True)
        self.assertIn("empty", self.train(self.config(PRETRAIN.replace('["shards"]', '["empty"]')), expect=3).err)
        self.assertIn("nowhere", self.train(self.config(PRETRAIN.replace('["shards"]', '["nowhere"]')), expect=3).err)
        write(f"{self.volume}/none.jsonl", "")
        body = SFT.replace("chats.jsonl", "none.jsonl")
        self.assertIn("none.jsonl", self.train(self.config(body, "[model.debug]\nrandom_init = true", model="model"), expect=3).err)

    def test_sequences_beyond_the_model(self):
        ran = self.train(self.config(PRETRAIN.replace("seq_len = 64\nbatch", "seq_len = 512\nbatch")), expect=3)
        self.assertIn("512", ran.err)

    def test_settings(self):
        self.assertIn("lrr", self.pretrain("lrr = 1", expect=3).err)
        self.assertIn("step_7", self.pretrain("[resume]\nstep = 7", expect=5).err)
        self.assertIn("no checkpoint", self.pretrain("[resume]", expect=5).err)
        self.assertEqual(self.run_program("no-such-command").code, 2)
        self.assertEqual(self.run_program("train", "--processes", "0", "x.toml").code, 2)
        self.assertEqual(self.run_program("train", "/nowhere/x.toml").code, 5)

    def test_a_gpu_that_is_not_there(self):
        config = self.config(PRETRAIN, steps=1)
        for options in ((), ("--processes", "2")):
            ran = self.run_program(*self.args(config, *options), env=os.environ | {"CUDA_VISIBLE_DEVICES": "97"})
            self.assertEqual(ran.code, 8, str(ran))
            self.assertIn("CUDA_VISIBLE_DEVICES=97", ran.err)
            self.assertIn("--gpu-type cpu", ran.err)

    def test_a_checkpoint_of_something_else(self):
        self.pretrain("[ckpt]", steps=2)
        other = "[ckpt]\n[resume]"
        self.assertIn("skip_optimizer", self.refused(3, more=other.replace("[ckpt]", 'type = "sgd"\n[ckpt]')))
        wider, name = self.copy("model")
        config = load(f"{wider}/config.json")
        write(f"{wider}/config.json", json.dumps(config | {"intermediate_size": 80}))
        self.refused(3, "another model", config=self.config(PRETRAIN.replace('name = "model"', f'name = "{name}"'), other))
        # Other data needs a word of consent.
        moved = self.config(PRETRAIN.replace('["shards"]', '["held-out"]'), other)
        self.refused(3, "skip_dataloader", config=moved)
        self.train(self.config(PRETRAIN.replace('["shards"]', '["held-out"]'), "[ckpt]\nskip_dataloader = true\n[resume]", steps=3))
        # A checkpoint whose bytes changed, one that is cut off, one without its marker.
        trainer = f"{self.output}/run/checkpoints/step_3/trainer"
        with open(f"{trainer}/optimizer.safetensors", "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"\x55")
        again = "[ckpt]\nskip_dataloader = true\n[resume]\nstep = 3"
        self.assertIn("optimizer.safetensors", self.pretrain(again, expect=9).err)
        os.truncate(f"{trainer}/optimizer.safetensors", 100)
        self.assertIn("not complete", self.pretrain(again, expect=6).err)

    def test_a_training_that_diverges(self):
        body = PRETRAIN.replace("lr = 3e-3", 'lr = 1000\ntype = "sgd"\nmax_norm = "none"\nweight_decay = 100')
        for processes in ("1", "2"):
            with self.subTest(processes=processes):
                shutil.rmtree(f"{self.output}/run", ignore_errors=True)
                ran = self.train(self.config(body, "[ckpt]\ninterval = 1", steps=40), "--processes", processes, expect=1)
                self.assertRegex(ran.err, r"step \d+ at a learning rate of \S+: the (loss|gradient norm) is .*so it was in the last 10 steps")
                self.assertIn("the last checkpoint is", ran.err)
                self.assertIn("lower optim.lr", ran.err)
                self.assertNotIn("finished", ran.out)
                self.assertGreaterEqual(len(self.steps()), 9, "the weights of steps passed over are those before")

    def test_a_link_that_leads_out_of_the_volume(self):
        shutil.copytree(f"{self.volume}/shards", f"{self.output}/shards")
        os.symlink(f"{self.output}/shards", f"{self.volume}/link")
        self.addCleanup(os.remove, f"{self.volume}/link")
        config = self.config(PRETRAIN.replace('["shards"]', '["link"]'))
        self.refused(3, "'link' leads out of the volume", f"{self.output}/shards", config=config)

    def test_a_full_disk_while_saving(self):
        small = os.path.join(self.output, "small")
        os.makedirs(small)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1200k", "none", small], capture_output=True).returncode != 0:
            self.skipTest("a file system of a size of its own wants the right to mount one")
        self.addCleanup(subprocess.run, ["umount", "-l", small])
        ran = self.train(self.config(PRETRAIN, "[ckpt]\ninterval = 2"), output="small/run", expect=7)
        self.assertIn("saving the checkpoint of step", ran.err)
        self.assertIn("the last complete one is step_", ran.err)
        saved = self.steps("small/run")
        self.assertTrue(saved)
        self.assertEqual(sorted(os.listdir(f"{small}/run/checkpoints")), sorted(f"step_{step}" for step in saved))


if __name__ == "__main__":
    unittest.main(verbosity=2)
