#!/usr/bin/env python3
"""Writes steps.json and schedules.json: what torch.optim and torch.optim.lr_scheduler do.

Needs torch >= 2.9 (for torch.optim.Muon). Not run by the tests; run it again only to change the cases:

    python3 make.py
"""
import json
import pathlib
import warnings

import torch
from torch.optim.lr_scheduler import ConstantLR, CosineAnnealingLR, LinearLR, SequentialLR

HERE = pathlib.Path(__file__).parent
SHAPES = {
    "model.embed_tokens.weight": (5, 4),
    "model.layers.0.self_attn.q_proj.weight": (6, 4),
    "model.layers.0.mlp.down_proj.weight": (4, 7),
    "model.layers.0.input_layernorm.weight": (4,),
    "lm_head.weight": (5, 4),
}
STEPS = 6
LRS = [1e-3, 2e-2, 1e-2, 5e-3, 1e-2, 1e-4]


def flat(tensors):
    return {name: [float(f"{x:.9g}") for x in t.detach().flatten().tolist()] for name, t in tensors.items()}


def hidden(name):
    return SHAPES[name].__len__() == 2 and "embed_tokens" not in name and "lm_head" not in name


class SignSGD(torch.optim.Optimizer):
    """Decoupled decay, then minus lr * sign(gradient), as its description says."""

    def __init__(self, params, lr, weight_decay):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(p.grad.sign(), alpha=-group["lr"])


def muon(params, s):
    # torch's Newton-Schulz runs in bf16, which no two machines round alike: the same code, kept in fp32.
    torch.bfloat16 = torch.float32
    matrices = [p for n, p in params.items() if hidden(n)]
    others = [p for n, p in params.items() if not hidden(n)]
    return [
        torch.optim.Muon(matrices, lr=1, weight_decay=s["weight_decay"], momentum=s["mu"], nesterov=True,
                         adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=1, betas=(s["betas1"], s["betas2"]), eps=s["eps"], weight_decay=s["weight_decay"]),
    ]


CASES = [
    {"kind": "adamw", "weight_decay": 0.01, "betas1": 0.9, "betas2": 0.999, "eps": 1e-8},
    {"kind": "adamw", "weight_decay": 0.3, "betas1": 0.8, "betas2": 0.95, "eps": 1e-3},
    {"kind": "sgd", "weight_decay": 0.1, "momentum": 0.9, "nesterov": True},
    {"kind": "sgd", "weight_decay": 0.0, "momentum": 0.9, "nesterov": False},
    {"kind": "sgd", "weight_decay": 0.1, "momentum": 0.0, "nesterov": False},
    {"kind": "sign_sgd", "weight_decay": 0.1},
    {"kind": "muon", "weight_decay": 0.1, "mu": 0.95, "betas1": 0.9, "betas2": 0.95, "eps": 1e-8},
]


def make(params, s):
    ps = list(params.values())
    if s["kind"] == "adamw":
        return [torch.optim.AdamW(ps, lr=1, betas=(s["betas1"], s["betas2"]), eps=s["eps"], weight_decay=s["weight_decay"])]
    if s["kind"] == "sgd":
        return [torch.optim.SGD(ps, lr=1, momentum=s["momentum"], nesterov=s["nesterov"], weight_decay=s["weight_decay"])]
    if s["kind"] == "sign_sgd":
        return [SignSGD(ps, lr=1, weight_decay=s["weight_decay"])]
    return muon(params, s)


def steps():
    torch.manual_seed(1)
    start = {n: torch.randn(s) for n, s in SHAPES.items()}
    gradients = [{n: torch.randn(s) * (0.1 + i) for n, s in SHAPES.items()} for i in range(STEPS)]
    out = {"shapes": SHAPES, "lrs": LRS, "start": flat(start), "gradients": [flat(g) for g in gradients], "cases": []}
    for settings in CASES:
        params = {n: t.clone().requires_grad_() for n, t in start.items()}
        optimizers = make(params, settings)
        after = []
        for lr, gradient in zip(LRS, gradients):
            for n, p in params.items():
                p.grad = gradient[n].clone()
            for o in optimizers:
                for group in o.param_groups:
                    group["lr"] = lr
                o.step()
            after.append(flat(params))
        out["cases"].append({"settings": settings, "after": [after[0], after[-1]]})
    (HERE / "steps.json").write_text(json.dumps(out, separators=(",", ":")) + "\n")


def schedule(kind, lr, warmup, decay, min_lr, max_steps):
    """The composition that prime-rl uses."""
    p = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([p], lr=lr)
    least = min_lr / lr if min_lr > 0 else 1e-8
    parts, milestones = [], []
    if kind != "constant" and warmup > 0:
        parts.append(LinearLR(optimizer, start_factor=least, end_factor=1.0, total_iters=warmup))
        milestones.append(warmup)
    if kind == "constant":
        parts.append(ConstantLR(optimizer, factor=1.0))
    elif kind == "cosine":
        parts.append(CosineAnnealingLR(optimizer, T_max=max_steps - warmup, eta_min=min_lr))
    elif decay > 0:
        start = max_steps - decay
        parts.append(LinearLR(optimizer, start_factor=1.0, end_factor=1.0, total_iters=start - warmup))
        parts.append(LinearLR(optimizer, start_factor=1.0, end_factor=least, total_iters=decay - 1))
        milestones.append(start)
    scheduler = parts[0] if len(parts) == 1 else SequentialLR(optimizer, parts, milestones=milestones)
    lrs = []
    for _ in range(max_steps):
        lrs.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return {"kind": kind, "lr": lr, "warmup_steps": warmup, "decay_steps": decay, "min_lr": min_lr, "max_steps": max_steps, "lrs": lrs}


def schedules():
    warnings.simplefilter("ignore")
    cases = [
        schedule("constant", 1e-3, 0, 0, 0, 5),
        schedule("linear", 1e-3, 10, 0, 0, 14),
        schedule("linear", 1e-3, 4, 5, 1e-5, 20),
        schedule("linear", 2e-2, 0, 10, 0, 12),
        schedule("linear", 1e-3, 3, 9, 0, 12),
        schedule("cosine", 1e-3, 4, 0, 1e-4, 20),
        schedule("cosine", 3e-4, 0, 0, 0, 11),
    ]
    (HERE / "schedules.json").write_text(json.dumps(cases, indent=1) + "\n")


steps()
schedules()
