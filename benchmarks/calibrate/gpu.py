#!/usr/bin/env python3
"""Measures a GPU and writes its device table (docs/cluster.md), needs torch and, for baselines, transformers.

  gpu.py -o TABLE.json [--quick] [--no-baselines]
  gpu.py --dry -o TABLE.json       tiny sizes on the CPU: shows that the script works, says nothing of a device

matmul      x @ w for the products of transformers, forward and both gradients, by type
memory      y.copy_(x) by bytes read and written
attention   scaled_dot_product_attention, causal, forward and backward
launch      the time by which one more empty kernel lengthens a stream that is never idle
baselines   training steps in eager and under torch.compile: gpt2-124m at 8 x 1024 and a Llama of 1B
            parameters at 1 x 2048, bf16 autocast and AdamW (fused), with their peak memory
"""
import argparse
import json
import math
import os
import platform
import statistics
import tempfile
import time

import torch

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


class Timer:
    """Microseconds of a call: the median of several samples, each over enough calls to be long."""

    def __init__(self, device, sample_us, samples):
        self.cuda, self.sample_us, self.samples = device == "cuda", sample_us, samples

    def _run(self, call, count):
        if self.cuda:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            begin.record()
            for _ in range(count):
                call()
            end.record()
            end.synchronize()
            return begin.elapsed_time(end) * 1e3 / count
        begin = time.perf_counter()
        for _ in range(count):
            call()
        return (time.perf_counter() - begin) * 1e6 / count

    def __call__(self, call):
        self._run(call, 2)
        count = max(1, min(10_000, math.ceil(self.sample_us / max(self._run(call, 3), 1e-3))))
        return statistics.median(self._run(call, count) for _ in range(self.samples))


def matmuls(timer, device, tokens, widths, dtypes):
    rows, seen = [], set()
    for name in dtypes:
        for t in tokens:
            for n_in, n_out in widths:
                # Forward, gradient of the input, gradient of the weight.
                for m, n, k in ((t, n_out, n_in), (t, n_in, n_out), (n_in, n_out, t)):
                    if (name, m, n, k) in seen:
                        continue
                    seen.add((name, m, n, k))
                    a = torch.randn(m, k, device=device).to(DTYPES[name])
                    b = torch.randn(k, n, device=device).to(DTYPES[name])
                    out = torch.empty(m, n, device=device, dtype=DTYPES[name])
                    us = timer(lambda: torch.mm(a, b, out=out))
                    rows.append({"dtype": name, "m": m, "n": n, "k": k, "us": round(us, 3)})
    return rows


def memory(timer, device, sizes):
    points = []
    for size in sizes:
        x = torch.ones(size // 8, device=device)
        y = torch.empty_like(x)
        # x is read and y written: 4 bytes each.
        points.append([8 * x.numel(), round(timer(lambda: y.copy_(x)), 3)])
    return {"us_by_bytes": points}


def attention(timer, device, dtype, shapes):
    rows = []
    for batch, heads, kv_heads, sequence, head in shapes:
        def make(count):
            return torch.randn(batch, count, sequence, head, device=device).to(dtype).requires_grad_()
        q, k, v = make(heads), make(kv_heads), make(kv_heads)
        call = lambda: torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=heads != kv_heads)
        with torch.no_grad():
            forward = timer(call)
        out = call()
        gradient = torch.randn_like(out)
        backward = timer(lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True))
        rows.append({"dtype": next(n for n, t in DTYPES.items() if t == dtype), "batch": batch, "heads": heads,
                     "kv_heads": kv_heads, "queries": sequence, "head_size": head, "causal": True,
                     "forward_us": round(forward, 3), "backward_us": round(backward, 3)})
    return rows


def launch(timer, device):
    x = torch.zeros(1, device=device)
    if device != "cuda":
        return round(timer(lambda: x.add_(1)), 3)
    # Inside a graph the host's cost is gone and the stream never idles.
    few, many = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    for graph, count in ((few, 10), (many, 1010)):
        with torch.cuda.graph(graph):
            for _ in range(count):
                x.add_(1)
    return round((timer(many.replay) - timer(few.replay)) / 1000, 3)


def baseline_models(dry):
    from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig
    if dry:
        yield "gpt2-tiny", AutoModelForCausalLM.from_config(
            GPT2Config(n_layer=1, n_embd=32, n_head=2, vocab_size=64, n_positions=16)), 2, 16
        return
    yield "gpt2-124m", AutoModelForCausalLM.from_config(GPT2Config()), 8, 1024
    yield "llama-1b", AutoModelForCausalLM.from_config(LlamaConfig(
        hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
        num_key_value_heads=8, vocab_size=128256, max_position_embeddings=2048, tie_word_embeddings=True)), 1, 2048


def baselines(timer, device, dry):
    rows = []
    for name, model, batch, sequence in baseline_models(dry):
        model = model.to(device).train()
        ids = torch.randint(0, model.config.vocab_size, (batch, sequence), device=device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device == "cuda")

        for mode in ("eager", "torch.compile"):
            if dry and mode != "eager":
                continue  # needs minutes and a C++ compiler on the CPU
            run = model if mode == "eager" else torch.compile(model)

            def step():
                with torch.autocast(device, dtype=torch.bfloat16):
                    loss = run(input_ids=ids, labels=ids, use_cache=False).loss
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()

            if device == "cuda":
                torch.cuda.reset_peak_memory_stats()
            us = timer(step)
            rows.append({"model": name, "batch": batch, "sequence": sequence, "mode": mode, "step_ms": round(us / 1e3, 3),
                         "parameters": sum(p.numel() for p in model.parameters()),
                         "peak_bytes": torch.cuda.max_memory_allocated() if device == "cuda" else None})
        del model, optimizer
        if device == "cuda":
            torch.cuda.empty_cache()
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--quick", action="store_true", help="fewer sizes")
    parser.add_argument("--no-baselines", action="store_true")
    parser.add_argument("--dry", action="store_true", help="tiny sizes on the CPU")
    args = parser.parse_args()
    if not args.dry and not torch.cuda.is_available():
        parser.error("expected a CUDA device, got none; --dry runs tiny sizes on the CPU")

    device = "cpu" if args.dry else "cuda"
    timer = Timer(device, sample_us=200 if args.dry else 20_000, samples=3 if args.dry else 5)
    if args.dry:
        tokens, widths, dtypes = [16], [(8, 8), (8, 32)], ["f32", "bf16"]
        sizes, shapes = [1 << 12, 1 << 14], [(1, 2, 2, 16, 8), (1, 4, 2, 16, 8)]
    else:
        tokens = [1024, 4096, 16384] if args.quick else [512, 1024, 2048, 4096, 8192, 16384]
        widths = [(1024, 1024), (4096, 4096), (4096, 14336), (8192, 8192)]
        if not args.quick:
            widths += [(768, 768), (768, 2304), (768, 3072), (768, 50257), (2048, 2048), (2048, 8192), (2048, 128256),
                       (4096, 1024), (4096, 128256), (8192, 1024), (8192, 28672)]
        dtypes = ["bf16", "f32"]
        sizes = [1 << p for p in range(14, 33 if not args.quick else 31, 2)]
        shapes = [(b, h, kv, s, d) for b, s in ((1, 2048), (2, 2048), (8, 1024), (1, 8192))
                  for h, kv, d in ((12, 12, 64), (32, 8, 64), (32, 8, 128), (64, 8, 128))]

    table = {
        "format": "fsdp-device-table/1",
        "device": platform.processor() or "cpu" if args.dry else torch.cuda.get_device_name(),
        "source": f"benchmarks/calibrate/gpu.py, torch {torch.__version__}" + (" (dry run)" if args.dry else ""),
        "launch_us": launch(timer, device),
        "matmul": matmuls(timer, device, tokens, widths, dtypes),
        "memory": memory(timer, device, sizes),
        "attention": attention(timer, device, torch.bfloat16, shapes),
    }
    if not args.no_baselines:
        table["baselines"] = baselines(timer, device, args.dry)
    folder = os.path.dirname(os.path.abspath(args.output))
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
        json.dump(table, file, indent=1)
        file.write("\n")
    os.chmod(file.name, 0o644)  # a temporary file is its owner's alone
    os.replace(file.name, args.output)


if __name__ == "__main__":
    main()
