"""PyTorch's step of a model of models.json, and the table of it beside ours (benchmarks/gpu/speed.sh).

  speed.py field MODEL NAME                          an entry's value; a config as fsdp-export takes it
  speed.py peer MODEL eager|compile STEPS DEVICE     one line of JSON (needs torch and transformers)
  speed.py table MODEL METRICS METRICS EAGER COMPILE times are medians, without the first WARM steps
"""
import json
import math
import pathlib
import statistics
import sys
import time

MODELS = json.loads((pathlib.Path(__file__).parent / "models.json").read_text())
# Steps in which code is compiled and memory is asked for.
WARM = 5
GIB = 1 << 30


def field(model, name):
    value = MODELS[model][name]
    print(",".join(f"{key}={of}" for key, of in value.items()) if isinstance(value, dict) else value)


def build(spec):
    import transformers
    config = transformers.AutoConfig.for_model(spec["arch"], **spec["config"])
    config.use_cache = False
    for name in ("attn_pdrop", "embd_pdrop", "resid_pdrop", "attention_dropout"):
        if hasattr(config, name):
            setattr(config, name, 0.0)
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").train()


def peer(model, mode, steps, device):
    """Parameters in f32, products in bf16 by autocast, AdamW in one kernel."""
    import torch
    spec = MODELS[model]
    on_card = device == "cuda"
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    module = build(spec).to(device)
    run = torch.compile(module) if mode == "compile" else module
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    tokens = torch.randint(0, module.config.vocab_size, (spec["batch"], spec["seq"]), device=device)
    times = []
    for _ in range(int(steps)):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16):
            loss = run(input_ids=tokens, labels=tokens).loss
        loss.backward()
        # Ours measures it in each step.
        torch.nn.utils.get_total_norm([p.grad for p in module.parameters()])
        optimizer.step()
        value = loss.item()
        times.append((time.perf_counter() - begin) * 1e3)
    if not math.isfinite(value):
        sys.exit(f"expected a finite loss, got {value}")
    print(json.dumps({"step_ms": times, "loss": value, "device": device, "torch": torch.__version__,
                      "allocated": torch.cuda.max_memory_allocated() if on_card else None,
                      "reserved": torch.cuda.max_memory_reserved() if on_card else None}))


def table(model, before, after, eager, compiled):
    tokens = MODELS[model]["batch"] * MODELS[model]["seq"]
    rows = []
    for name, path in (("ours", before), ("eager", eager), ("torch.compile", compiled), ("ours, again", after)):
        # A run that failed has left nothing, and the others still have a row.
        lines = [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()] if pathlib.Path(path).exists() else []
        if not lines:
            print(f"{name}: no numbers")
        elif path in (before, after):
            rows.append((name, [line["step_ms"] for line in lines], max(line["mem_bytes"] for line in lines), None))
        else:
            (run,) = lines
            rows.append((name, run["step_ms"], run["reserved"], run["allocated"]))
            print(f"{name}: torch {run['torch']} on {run['device']}")
    medians = {name: statistics.median(times[WARM:]) for name, times, _, _ in rows}
    ours = min((medians[name] for name in ("ours", "ours, again") if name in medians), default=math.nan)
    size = lambda value: f"{value / GIB:9.2f}" if value else f"{'-':>9}"
    print(f"{'':14} {'ms':>9} {'best':>9} {'tokens/s':>10} {'ours/it':>8} {'GiB':>9} {'tensors':>9}")
    for name, times, held, tensors in rows:
        print(f"{name:14} {medians[name]:9.2f} {min(times[WARM:]):9.2f} {tokens / medians[name] * 1e3:10.0f} "
              f"{ours / medians[name]:8.3f} {size(held)} {size(tensors)}")
    print("ms: median; GiB: what the process holds of the card, of PyTorch's without its context; tensors: the most at once")


if __name__ == "__main__":
    {"field": field, "peer": peer, "table": table}[sys.argv[1]](*sys.argv[2:])
