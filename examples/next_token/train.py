#!/usr/bin/env python3
"""Trains a small next-character model on the text below a folder, with NumPy alone.

The model reads 16 bytes, embeds them, and predicts the next byte through one hidden layer. Every --save-every steps it
writes a checkpoint to $CAIRN_OUTPUT_DIR/checkpoints/step_<N>/ : the weights first, the marker trainer/.metadata last, so
that a checkpoint is either complete or visibly not. It runs anywhere; in a Cairn run the text is below /volume.

    cairn run --volume research -- python3 train.py /volume/text --steps 300
"""

import argparse
import hashlib
import json
import os
import sys
import time

import numpy as np

CONTEXT, EMBEDDING, HIDDEN, VOCABULARY = 16, 24, 256, 256


def read_text(folder, limit_bytes):
    """The bytes of the files below `folder` in name order, up to `limit_bytes`."""
    pieces, total, files = [], 0, 0
    for root, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            with open(os.path.join(root, name), "rb") as file:
                pieces.append(file.read(limit_bytes - total))
            total += len(pieces[-1])
            files += 1
            if total >= limit_bytes:
                break
        if total >= limit_bytes:
            break
    if total < 10_000:
        sys.exit(f"{folder}: {total} bytes in {files} files are too little text to train on")
    print(f"text: {total:,} bytes from {files:,} files", flush=True)
    return np.frombuffer(b"".join(pieces), dtype=np.uint8)


class Model:
    def __init__(self, rng):
        scale = lambda *shape: (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
        self.weights = {
            "embedding": scale(VOCABULARY, EMBEDDING),
            "hidden": scale(CONTEXT * EMBEDDING, HIDDEN),
            "hidden_bias": np.zeros(HIDDEN, np.float32),
            "output": scale(HIDDEN, VOCABULARY),
            "output_bias": np.zeros(VOCABULARY, np.float32),
        }
        self.first = {name: np.zeros_like(value) for name, value in self.weights.items()}
        self.second = {name: np.zeros_like(value) for name, value in self.weights.items()}

    def loss(self, context, target, gradients=None):
        """Mean cross-entropy in nats; with `gradients` (a dict) also fills it."""
        w = self.weights
        embedded = w["embedding"][context].reshape(len(context), -1)
        hidden = np.maximum(embedded @ w["hidden"] + w["hidden_bias"], 0)
        logits = hidden @ w["output"] + w["output_bias"]
        logits -= logits.max(axis=1, keepdims=True)
        probabilities = np.exp(logits)
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        rows = np.arange(len(target))
        loss = -np.log(probabilities[rows, target] + 1e-9).mean()
        if gradients is not None:
            probabilities[rows, target] -= 1
            d_logits = probabilities / len(target)
            d_hidden = (d_logits @ w["output"].T) * (hidden > 0)
            gradients["output"] = hidden.T @ d_logits
            gradients["output_bias"] = d_logits.sum(axis=0)
            gradients["hidden"] = embedded.T @ d_hidden
            gradients["hidden_bias"] = d_hidden.sum(axis=0)
            d_embedded = (d_hidden @ w["hidden"].T).reshape(-1, EMBEDDING)
            columns = [np.bincount(context.ravel(), weights=column, minlength=VOCABULARY) for column in d_embedded.T]
            gradients["embedding"] = np.stack(columns, axis=1).astype(np.float32)
        return float(loss)

    def adam(self, gradients, step, rate):
        for name, gradient in gradients.items():
            self.first[name] = 0.9 * self.first[name] + 0.1 * gradient
            self.second[name] = 0.99 * self.second[name] + 0.01 * gradient * gradient
            mean = self.first[name] / (1 - 0.9**step)
            variance = self.second[name] / (1 - 0.99**step)
            self.weights[name] -= (rate * mean / (np.sqrt(variance) + 1e-8)).astype(np.float32)


def save(model, output, step, loss):
    folder = os.path.join(output, "checkpoints", f"step_{step}")
    os.makedirs(os.path.join(folder, "trainer"), exist_ok=True)
    weights = os.path.join(folder, "weights.npz")
    with open(weights, "wb") as file:
        np.savez(file, step=step, **model.weights)
        file.flush()
        os.fsync(file.fileno())
    with open(weights, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    marker = {"step": step, "loss": loss, "files": {"weights.npz": {"size": os.path.getsize(weights), "sha256": digest}}}
    temporary = os.path.join(folder, "trainer", ".metadata.tmp")
    with open(temporary, "w") as file:
        json.dump(marker, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, os.path.join(folder, "trainer", ".metadata"))
    print(f"checkpoint step_{step}: sha256 {digest} weights.npz", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--save-every", type=int, default=100)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--text-bytes", type=int, default=8_000_000)
    parser.add_argument("--step-seconds", type=float, default=0, help="wait so long after each step (to watch a run)")
    arguments = parser.parse_args()
    output = os.environ.get("CAIRN_OUTPUT_DIR", "output")

    text = read_text(arguments.folder, arguments.text_bytes)
    split = len(text) - len(text) // 20
    rng = np.random.default_rng(1)
    windows = np.arange(CONTEXT + 1)
    held_out = text[split + rng.integers(0, len(text) - split - CONTEXT - 1, 2048)[:, None] + windows]
    model = Model(rng)
    print(f"held-out loss before training: {model.loss(held_out[:, :-1], held_out[:, -1]):.3f}", flush=True)

    started = time.time()
    for step in range(1, arguments.steps + 1):
        batch = text[rng.integers(0, split - CONTEXT - 1, arguments.batch)[:, None] + windows]
        gradients = {}
        loss = model.loss(batch[:, :-1], batch[:, -1], gradients)
        model.adam(gradients, step, arguments.rate)
        if step % 20 == 0 or step == arguments.steps:
            rate = step * arguments.batch / (time.time() - started)
            print(f"step {step} loss {loss:.3f} ({rate:,.0f} tokens/s)", flush=True)
        if step % arguments.save_every == 0 or step == arguments.steps:
            held = model.loss(held_out[:, :-1], held_out[:, -1])
            print(f"step {step} held-out loss {held:.3f}", flush=True)
            save(model, output, step, held)
        if arguments.step_seconds:
            time.sleep(arguments.step_seconds)


if __name__ == "__main__":
    main()
