#!/usr/bin/env python3
"""The other side of trainer_bench.py: the model of src/trainer/trainer_bench.cc in PyTorch, as one would write it there: eager
operations, autocast for bf16, torch.optim.AdamW. Same arguments, same protocol; reads the initial weights that the other side wrote
(weights=FILE), so that both must show the same losses. capability=avx512, malloc=1 and foreach=1 give it what ours sets itself."""

import ctypes
import json
import math
import os
import resource
import sys
import time

ARGS = dict(argument.split("=", 1) for argument in sys.argv[1:])


def number(key, fallback):
    return int(ARGS.get(key, fallback))


if "capability" in ARGS:
    os.environ["ATEN_CPU_CAPABILITY"] = ARGS["capability"]
if number("malloc", 0):
    libc = ctypes.CDLL("libc.so.6")
    libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
    libc.mallopt(-1, 2147483647)  # M_TRIM_THRESHOLD
    libc.mallopt(-2, 64 << 20)  # M_TOP_PAD

import torch  # noqa: E402  (reads the environment)
import torch.nn.functional as F  # noqa: E402

HIDDEN, LAYERS, HEADS, KV_HEADS = number("hidden", 256), number("layers", 6), number("heads", 8), number("kv_heads", 4)
DIM, INNER, VOCAB = number("head_dim", 64), number("inner", 1536), number("vocab", 8192)
TOKENS, ROWS = number("tokens", 256), number("rows", 8)
BFLOAT16 = ARGS.get("dtype") == "bfloat16"
EPS, THETA = 1e-6, 1e6


class RMSNorm(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(size))

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPS)).to(x.dtype) * self.weight


def linear(size_in, size_out):
    return torch.nn.Linear(size_in, size_out, bias=False)


def rotate(x, cos, sin):
    half = x.size(-1) // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj = linear(HIDDEN, HEADS * DIM), linear(HIDDEN, KV_HEADS * DIM)
        self.v_proj, self.o_proj = linear(HIDDEN, KV_HEADS * DIM), linear(HEADS * DIM, HIDDEN)
        self.q_norm, self.k_norm = RMSNorm(DIM), RMSNorm(DIM)

    def forward(self, x, cos, sin, mask):
        rows, tokens, _ = x.shape
        q = rotate(self.q_norm(self.q_proj(x).view(rows, tokens, HEADS, DIM)).transpose(1, 2), cos, sin)
        k = rotate(self.k_norm(self.k_proj(x).view(rows, tokens, KV_HEADS, DIM)).transpose(1, 2), cos, sin)
        v = self.v_proj(x).view(rows, tokens, KV_HEADS, DIM).transpose(1, 2)
        k, v = (t[:, :, None].expand(-1, -1, HEADS // KV_HEADS, -1, -1).reshape(rows, HEADS, tokens, DIM) for t in (k, v))
        scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(DIM) + mask
        weights = torch.softmax(scores, -1, dtype=torch.float32).to(q.dtype)
        return self.o_proj(torch.matmul(weights, v).transpose(1, 2).reshape(rows, tokens, HEADS * DIM))


class MLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = linear(HIDDEN, INNER), linear(HIDDEN, INNER), linear(INNER, HIDDEN)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(HIDDEN), RMSNorm(HIDDEN)
        self.self_attn, self.mlp = Attention(), MLP()

    def forward(self, x, cos, sin, mask):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = torch.nn.Embedding(VOCAB, HIDDEN)
        self.layers = torch.nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = RMSNorm(HIDDEN)
        frequencies = 1.0 / THETA ** (torch.arange(0, DIM, 2).float() / DIM)
        angles = torch.outer(torch.arange(TOKENS).float(), frequencies)
        angles = torch.cat([angles, angles], -1)
        dtype = torch.bfloat16 if BFLOAT16 else torch.float32
        self.cos, self.sin = angles.cos().to(dtype), angles.sin().to(dtype)
        self.mask = torch.full((TOKENS, TOKENS), -math.inf).triu(1).to(dtype)

    def forward(self, ids):
        x = self.embed_tokens(ids)
        if BFLOAT16:
            x = x.bfloat16()
        for layer in self.layers:
            x = layer(x, self.cos, self.sin, self.mask)
        return F.linear(self.norm(x), self.embed_tokens.weight)


def load_weights(model, path):
    data = open(path, "rb").read()
    header_size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + header_size])
    for name, parameter in model.named_parameters():
        entry = header["model." + name]
        begin, end = (8 + header_size + offset for offset in entry["data_offsets"])
        parameter.data = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32).view(entry["shape"])


def main():
    torch.set_num_threads(number("threads", 2))
    model = Model()
    load_weights(model, ARGS["weights"])
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1,
                                  foreach=bool(number("foreach", 0)))
    stream = torch.tensor([i * i * 7919 % 1000003 % VOCAB for i in range(ROWS * TOKENS + 1)])
    ids, targets = stream[:-1].view(ROWS, TOKENS), stream[1:]
    print("ready", flush=True)
    for line in sys.stdin:
        seconds, processor = [], time.process_time()
        for _ in range(int(line)):
            start = time.perf_counter()
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=BFLOAT16):
                logits = model(ids)
            loss = F.cross_entropy(logits.view(-1, VOCAB).float(), targets)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            value = loss.item()
            del logits, loss
            seconds.append(time.perf_counter() - start)
        print(json.dumps({"seconds": seconds, "cpu_seconds": time.process_time() - processor, "loss": value,
                          "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}), flush=True)


if __name__ == "__main__":
    main()
