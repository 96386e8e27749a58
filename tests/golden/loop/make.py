#!/usr/bin/env python3
"""Writes curve.json: 20 steps of training the model in ../decoder/qwen3_tied with transformers and torch in fp32.

Each step has four rows of one sequence; loss = cross-entropy summed over the targets that count, over all rows, divided by their
number; gradients clipped to norm 0.5; AdamW; linear warm-up, then cosine. Not run by the tests (made with torch 2.15.0 and
transformers 5.24.0):

    python3 make.py
"""
import json
import pathlib

import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
from transformers import Qwen3ForCausalLM

HERE = pathlib.Path(__file__).parent
STEPS, ROWS, LENGTH, WARMUP = 20, 4, 16, 5
LR, MIN_LR, MAX_NORM = 1e-2, 1e-3, 0.5


def rows(vocabulary):
    generator = torch.Generator().manual_seed(7)
    for _ in range(STEPS * ROWS):
        x = int(torch.randint(vocabulary, (1,), generator=generator))
        ids = [x]
        for _ in range(LENGTH):
            x = (5 * x + 3 + int(torch.randint(2, (1,), generator=generator))) % vocabulary
            ids.append(x)
        mask = (torch.rand(LENGTH, generator=generator) < 0.8).int().tolist()
        mask[0] = 1
        yield {"ids": ids, "mask": mask}


model = Qwen3ForCausalLM.from_pretrained(HERE.parent / "decoder" / "qwen3_tied", dtype=torch.float32, attn_implementation="eager")
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=LR, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.05)
scheduler = SequentialLR(optimizer, [LinearLR(optimizer, MIN_LR / LR, 1.0, WARMUP), CosineAnnealingLR(optimizer, STEPS - WARMUP, MIN_LR)],
                         milestones=[WARMUP])
data = list(rows(model.config.vocab_size))
losses, norms, lrs = [], [], []
for step in range(STEPS):
    batch = data[step * ROWS:(step + 1) * ROWS]
    ids = torch.tensor([row["ids"] for row in batch])
    mask = torch.tensor([row["mask"] for row in batch]).bool()
    logits = model(ids[:, :-1]).logits.float()
    loss = torch.nn.functional.cross_entropy(logits[mask], ids[:, 1:][mask])
    loss.backward()
    norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)))
    lrs.append(optimizer.param_groups[0]["lr"])
    optimizer.step()
    optimizer.zero_grad()
    scheduler.step()
    losses.append(float(loss))
out = {"rows_per_step": ROWS, "lr": LR, "min_lr": MIN_LR, "max_norm": MAX_NORM, "warmup_steps": WARMUP, "losses": losses, "norms": norms,
       "lrs": lrs, "rows": data}
(HERE / "curve.json").write_text(json.dumps(out, separators=(",", ":")) + "\n")
