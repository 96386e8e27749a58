#!/usr/bin/env python3
"""Makes the golden files of the decoder with transformers and torch (neither is needed to run the tests).

Each case is a folder: config.json and model.safetensors as Hugging Face writes them, expected.safetensors with input_ids,
target_ids, loss_mask, logits, the summed cross-entropy over the targets that count, and the gradient of that sum for every
parameter. `sharded_bf16` is the first case saved in bf16 in several shards, with `bf16.*` its weights as fp32.

Run: python3 make_goldens.py   (made with torch 2.6.0 and transformers 4.57.1)"""

import json
import os
import shutil

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
BASE = dict(vocab_size=51, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=64, attn_implementation="eager", bos_token_id=1, eos_token_id=2)
CASES = {
    "qwen3_tied": (Qwen3Config, Qwen3ForCausalLM,
                   dict(num_key_value_heads=2, head_dim=8, tie_word_embeddings=True, rope_theta=1e6)),
    "qwen3_untied": (Qwen3Config, Qwen3ForCausalLM,
                     dict(num_key_value_heads=1, head_dim=10, tie_word_embeddings=False, rope_theta=1e4, rms_norm_eps=1e-5,
                          attention_bias=True)),
    "llama": (LlamaConfig, LlamaForCausalLM,
              dict(num_key_value_heads=4, tie_word_embeddings=False, rope_theta=5e5, rms_norm_eps=1e-5)),
    "llama_biased": (LlamaConfig, LlamaForCausalLM,
                     dict(num_key_value_heads=2, head_dim=6, tie_word_embeddings=True, attention_bias=True, mlp_bias=True)),
}


def fill(model, generator):
    """Weights large enough for every part of the model to show in the logits."""
    for name, parameter in model.named_parameters():
        values = torch.randn(parameter.shape, generator=generator)
        parameter.data = 1 + 0.2 * values if "norm" in name else 0.25 * values


def tidy_config(folder):
    path = os.path.join(folder, "config.json")
    config = json.load(open(path))
    config.pop("transformers_version", None)
    json.dump(config, open(path, "w"), indent=2, sort_keys=True)
    generation = os.path.join(folder, "generation_config.json")
    if os.path.exists(generation):
        os.remove(generation)


def make(name, config_class, model_class, settings, seed):
    folder = os.path.join(HERE, name)
    shutil.rmtree(folder, ignore_errors=True)
    generator = torch.Generator().manual_seed(seed)
    model = model_class(config_class(**BASE, **settings)).float()
    fill(model, generator)
    model.tie_weights()
    ids = torch.randint(BASE["vocab_size"], (1, 17), generator=generator)
    mask = torch.rand(16, generator=generator) < 0.7
    mask[0], mask[1] = True, False
    logits = model(input_ids=ids[:, :16]).logits[0]
    losses = torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="none")
    loss = losses[mask].sum()
    loss.backward()
    model.save_pretrained(folder, safe_serialization=True)
    tidy_config(folder)
    expected = {"input_ids": ids[0, :16].to(torch.int32), "target_ids": ids[0, 1:].to(torch.int32),
                "loss_mask": mask.to(torch.uint8), "logits": logits.detach(), "loss": loss.detach()}
    for parameter_name, parameter in model.named_parameters():
        expected["grad." + parameter_name] = parameter.grad
    save_file({key: value.contiguous() for key, value in expected.items()}, os.path.join(folder, "expected.safetensors"))
    return model


def make_sharded(model):
    folder = os.path.join(HERE, "sharded_bf16")
    shutil.rmtree(folder, ignore_errors=True)
    half = model.to(torch.bfloat16)
    half.save_pretrained(folder, safe_serialization=True, max_shard_size=8000)
    tidy_config(folder)
    save_file({"bf16." + name: value.float().contiguous() for name, value in half.named_parameters()},
              os.path.join(folder, "expected.safetensors"))


if __name__ == "__main__":
    torch.set_num_threads(1)
    models = [make(name, *case, seed) for seed, (name, case) in enumerate(CASES.items(), 1)]
    make_sharded(models[0])
