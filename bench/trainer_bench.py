#!/usr/bin/env python3
"""Tokens a second of cairn-trainer's model beside the same model in Debian's python3-torch: same shape, weights, batch, dtype,
optimizer and threads, on this machine, in one run.

Both sides stay alive and take turns, a few steps each, so that whatever else the machine does hits both; their losses must agree.
Printed: the median and the best tokens a second, the ratio of the medians and the spread of the rounds' own ratios, processor time
a step, the most resident memory, and the load while it ran.

  bench/trainer_bench.py [--binary build/release/bin/trainer_bench] [--rounds 8] [--steps 2] [--json FILE] [CASE...]
  cases: fp32 bf16 (hidden 256, 6 layers), wide_vocab_fp32 wide_vocab_bf16 (vocabulary 151,936), long_fp32 long_bf16 (2,048 tokens)
Build first: scripts/build.sh release trainer_bench"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
BASE = dict(hidden=256, layers=6, heads=8, kv_heads=4, head_dim=64, inner=1536, vocab=8192, tokens=256, rows=8)
CASES = {
    "fp32": dict(BASE, dtype="float32"),
    "bf16": dict(BASE, dtype="bfloat16"),
    "wide_vocab_fp32": dict(BASE, vocab=151936, rows=4, dtype="float32"),
    "wide_vocab_bf16": dict(BASE, vocab=151936, rows=4, dtype="bfloat16"),
    "long_fp32": dict(BASE, tokens=2048, rows=1, dtype="float32"),
    "long_bf16": dict(BASE, tokens=2048, rows=1, dtype="bfloat16"),
}


class Side:
    def __init__(self, name, command, settings):
        self.name, self.seconds, self.cpu_seconds, self.losses = name, [], 0.0, []
        arguments = [f"{key}={value}" for key, value in settings.items()]
        self.process = subprocess.Popen(command + arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "ready":
            sys.exit(f"{name} did not start")

    def run(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.name} ended with {self.process.wait()}")
        return json.loads(line)

    def measure(self, steps):
        answer = self.run(steps)
        self.seconds += answer["seconds"]
        self.cpu_seconds += answer["cpu_seconds"]
        self.losses.append(answer["loss"])
        self.rss_mib = answer["rss_mib"]
        return statistics.mean(answer["seconds"])

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def bench(case, args):
    settings = dict(CASES[case], threads=args.threads)
    tokens = settings["tokens"] * settings["rows"]
    with tempfile.TemporaryDirectory() as folder:
        settings["weights"] = os.path.join(folder, "weights.safetensors")
        ours = Side("cairn", [args.binary], settings)
        torch_settings = dict(settings, **dict(pair.split("=") for pair in args.torch))
        theirs = Side("python3-torch", ["/usr/bin/python3", os.path.join(HERE, "trainer_bench_torch.py")], torch_settings)
        for side in (ours, theirs):
            side.losses.append(side.run(1)["loss"])
        ratios, loads = [], []
        for round_number in range(args.rounds):
            order = (ours, theirs) if round_number % 2 == 0 else (theirs, ours)
            means = {side.name: side.measure(args.steps) for side in order}
            ratios.append(means["python3-torch"] / means["cairn"])
            loads.append(os.getloadavg()[0])
        for side in (ours, theirs):
            side.end()
    worst = max(abs(a - b) for a, b in zip(ours.losses, theirs.losses))
    result = {"case": case, "settings": CASES[case], "threads": args.threads, "torch_settings": args.torch,
              "median_ratio": statistics.median(ratios), "ratios": ratios, "best_ratio": min(theirs.seconds) / min(ours.seconds),
              "cpu_ratio": theirs.cpu_seconds / ours.cpu_seconds, "largest_loss_difference": worst, "loads": loads}
    for side in (ours, theirs):
        result[side.name] = {"median_tokens_per_s": tokens / statistics.median(side.seconds),
                             "best_tokens_per_s": tokens / min(side.seconds), "rss_mib": side.rss_mib,
                             "cpu_seconds_per_step": side.cpu_seconds / len(side.seconds), "losses": side.losses}
    return result


def show(result):
    print(f"{result['case']}: {result['threads']} threads, load {min(result['loads']):.1f} to {max(result['loads']):.1f}")
    for name in ("cairn", "python3-torch"):
        side = result[name]
        print(f"  {name:14} {side['median_tokens_per_s']:8.0f} tokens/s median {side['best_tokens_per_s']:8.0f} best"
              f"  {side['cpu_seconds_per_step']:6.2f} cpu s/step  {side['rss_mib']:6.0f} MiB  last loss {side['losses'][-1]:.4f}")
    print(f"  ratio of speeds: median {result['median_ratio']:.2f} ({min(result['ratios']):.2f} to {max(result['ratios']):.2f}),"
          f" of the best {result['best_ratio']:.2f}, of processor time {result['cpu_ratio']:.2f};"
          f" losses differ by {result['largest_loss_difference']:.1e} at most", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", default=["fp32", "bf16"], help=" ".join(CASES))
    parser.add_argument("--binary", default=os.path.join(HERE, "../build/release/bin/trainer_bench"))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=2, help="of each side a round")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--torch", nargs="*", default=[], metavar="KEY=VALUE", help="capability=avx512 malloc=1 foreach=1")
    parser.add_argument("--json", help="also write the figures here")
    args = parser.parse_args()
    unknown = [case for case in args.cases if case not in CASES]
    if unknown:
        parser.error(f"no such case: {' '.join(unknown)}")
    results = []
    for case in args.cases:
        results.append(bench(case, args))
        show(results[-1])
    if args.json:
        json.dump(results, open(args.json, "w"), indent=1)


if __name__ == "__main__":
    main()
