#!/usr/bin/env python3
#===- nanogpt.py - A nanoGPT script moved over, beside PyTorch ------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Trains a small GPT as nanoGPT's train.py does: dropout of 0.1, two groups of AdamW, warm-up and cosine, accumulation
over 4, clipping; 80 steps of 2 ranks, in f32 and under autocast to bf16, PyTorch with the masks that the program draws. Prints how far losses and norms
of gradients are from those of one PyTorch process with the same batches, and whether a run resumed at step 40 differs.

  v/bin/python benchmarks/nanogpt.py [build/bin]

with torch, torch-mlir and fsdp-export in v. Exits 1 where losses in f32 are off by over 1e-6, those under autocast by
over 4 times PyTorch's own distance from f32, where the resumed run differs, or where the mean loss of 10 seeds is over 3
standard errors from PyTorch's with masks of its own.
"""
import contextlib
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
from fsdp_export import draws
from safetensors.torch import load_file, save_file
from torch import nn

V, T, D, LAYERS, HEADS, BATCH = 65, 32, 48, 2, 3, 4
STEPS, MICRO, RANKS, RATE, DROPOUT, SEEDS = 80, 4, 2, 1e-3, 0.1, 10
SCHEDULE = f"cosine:warmup=10,start={1 / 11},steps={STEPS},min=0.1"


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.proj = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.up, self.down = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)
        self.resid_dropout, self.dropout = nn.Dropout(DROPOUT), nn.Dropout(DROPOUT)

    def forward(self, x):
        q, k, v = (t.view(-1, T, HEADS, D // HEADS).transpose(1, 2) for t in self.qkv(self.ln_1(x)).split(D, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=DROPOUT if self.training else 0, is_causal=True)
        x = x + self.resid_dropout(self.proj(y.transpose(1, 2).reshape(-1, T, D)))
        return x + self.dropout(self.down(F.gelu(self.up(self.ln_2(x)))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe, self.drop = nn.Embedding(V, D), nn.Embedding(T, D), nn.Dropout(DROPOUT)
        self.h = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f, self.lm_head = nn.LayerNorm(D), nn.Linear(D, V, bias=False)
        self.lm_head.weight = self.wte.weight
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, idx):
        x = self.drop(self.wte(idx) + self.wpe(torch.arange(T)))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def make_optimizer(model):
    every = list(model.parameters())
    return torch.optim.AdamW([{"params": [p for p in every if p.dim() >= 2], "weight_decay": 0.1},
                              {"params": [p for p in every if p.dim() < 2], "weight_decay": 0.0, "name": "no_decay"}],
                             lr=RATE, betas=(0.9, 0.95))


def loss_in(narrow):
    """The loss of a model, in f32 or under autocast."""
    def loss(model, idx, targets):
        with torch.autocast("cpu", torch.bfloat16) if narrow else contextlib.nullcontext():
            return F.cross_entropy(model(idx).view(-1, V), targets.view(-1))
    return loss


def build(narrow=False):
    """What fsdp-export py:nanogpt:build reads."""
    torch.manual_seed(0)
    model = GPT()
    tokens = torch.randint(0, V, (BATCH, T + 1))
    return (model, (tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()), loss_in(narrow), make_optimizer(model))


def build_narrow():
    return build(narrow=True)


def ratio(step):
    """nanoGPT's get_lr, which counts steps from 0, by the rate."""
    if step < 10:
        return (step + 1) / 11
    return 0.1 + 0.45 * (1 + math.cos(math.pi * (step - 10) / (STEPS - 10)))


def train_in_pytorch(params, data, narrow, seed=None):
    """(loss, norm) of each step; with a seed PyTorch draws itself."""
    if seed is not None:
        torch.manual_seed(seed)
    model, loss = GPT(), loss_in(narrow)
    model.load_state_dict(load_file(params), strict=False)
    optimizer, steps = make_optimizer(model), []
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = RATE * ratio(step)
        total = 0.0
        for micro in range(MICRO):
            for rank in range(RANKS):
                idx, targets = (data[name][step * MICRO + micro, rank] for name in ("idx", "targets"))
                with draws.drawing(step, rank, micro) if seed is None else contextlib.nullcontext():
                    part = loss(model, idx, targets) / (MICRO * RANKS)
                    part.backward()
                total += part.item()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
        optimizer.step()
        optimizer.zero_grad()
        steps.append((total, norm))
    return steps


def train_here(bin_folder, folder, data, function):
    """(loss, norm) of each step, and how many of a run resumed at half differ."""
    def run(*words):
        subprocess.run([str(word) for word in words], check=True, cwd=folder, stdout=subprocess.DEVNULL,
                       env={**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).parent) + os.pathsep +
                            os.environ.get("PYTHONPATH", "")})

    def read(file):
        return [json.loads(line) for line in (folder / file).read_text().splitlines()]
    export, program = folder / function, folder / f"train-{function}"
    run(sys.executable, "-m", "fsdp_export", f"py:nanogpt:{function}", "--with-params", "-o", export)
    run(bin_folder / "fsdp-compile", export / "model.mlir", "--mesh", f"shard={RANKS}", "--accumulate-in", "shard",
        "--clip-norm", "-o", program)
    common = ["--params", export / "params.safetensors", "--data", data, "--accumulate", MICRO, "--clip-norm", 1,
              "--lr-schedule", SCHEDULE, "--quiet"]
    run(program, *common, "--steps", STEPS, "--metrics", "whole.jsonl")
    run(program, *common, "--steps", STEPS // 2, "--save", f"half-{function}")
    run(program, "--resume", f"half-{function}", "--steps", STEPS, "--quiet", "--metrics", "rest.jsonl")
    whole, rest = read("whole.jsonl"), read("rest.jsonl")
    differ = sum(a["loss"] != b["loss"] for a, b in zip(whole[STEPS // 2:], rest))
    ends = []
    for seed in range(1, SEEDS + 1):
        run(program, *common, "--steps", STEPS, "--random-seed", seed, "--metrics", "seed.jsonl")
        ends.append(end_of([line["loss"] for line in read("seed.jsonl")]))
    return [(line["loss"], line["grad_norm"]) for line in whole], differ + abs(len(rest) - STEPS // 2), ends


def end_of(losses):
    """The mean of the last tenth."""
    return statistics.mean(losses[-len(losses) // 10:])


def standard_errors(some, others):
    """How many of them lie between the means of two samples."""
    error = math.sqrt(sum(statistics.variance(sample) / len(sample) for sample in (some, others)))
    return abs(statistics.mean(some) - statistics.mean(others)) / error


def distance(steps, others):
    """The largest relative difference of losses, and of norms."""
    return tuple(max(abs(a[i] - b[i]) / b[i] for a, b in zip(steps, others, strict=True)) for i in range(2))


def main():
    torch.set_num_threads(1)
    bin_folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build/bin").resolve()
    with tempfile.TemporaryDirectory(prefix="fsdp-nanogpt-") as name:
        folder = pathlib.Path(name)
        torch.manual_seed(1)
        tokens = torch.randint(0, V, (STEPS * MICRO, RANKS, BATCH, T + 1))
        batches = {"idx": tokens[..., :-1].contiguous(), "targets": tokens[..., 1:].contiguous()}
        save_file(batches, folder / "batches.safetensors")
        ours, differ, ends = train_here(bin_folder, folder, folder / "batches.safetensors", "build")
        narrow, differ_narrow, _ = train_here(bin_folder, folder, folder / "batches.safetensors", "build_narrow")
        params = folder / "build" / "params.safetensors"
        exact, rounded = (train_in_pytorch(params, batches, is_narrow) for is_narrow in (False, True))
        others = [end_of([loss for loss, _ in train_in_pytorch(params, batches, False, seed)]) for seed in range(SEEDS)]
    between = standard_errors(ends, others)
    wide, autocast, pytorch = distance(ours, exact), distance(narrow, exact), distance(rounded, exact)
    print(f"{STEPS} steps beside PyTorch in f32: largest relative difference of losses, of norms")
    print(f"f32           {wide[0]:.1e}  {wide[1]:.1e}  resumed at {STEPS // 2}: {differ} losses differ")
    print(f"bf16          {autocast[0]:.1e}  {autocast[1]:.1e}  resumed at {STEPS // 2}: {differ_narrow} losses differ")
    print(f"PyTorch bf16  {pytorch[0]:.1e}  {pytorch[1]:.1e}")
    print(f"{SEEDS} seeds: mean of the last losses {statistics.mean(ends):.4f}, PyTorch with its own masks "
          f"{statistics.mean(others):.4f}: {between:.1f} standard errors apart")
    sys.exit(between > 3 or wide[0] > 1e-6 or autocast[0] > 4 * pytorch[0] or differ + differ_narrow > 0)


if __name__ == "__main__":
    main()
