#!/usr/bin/env python3
"""20 models x clusters: the schedule beside FSDP as one wraps by hand (needs torch to trace the models).

  cases.py [--only-traced]

Hand wrapping is a unit per block, full_shard (hybrid_shard on a mesh with a replicate axis), each gather
one unit ahead. The same memory for both: the device's, or what hand wrapping may take (with any timing) if that is more.
`planned` has the same units, `auto` chooses them (--wrap auto: blocks, smaller pieces or one unit); what is kept,
repeated and issued together is the planner's choice in both. Communication dominates where compute waits for it for a
third of FSDP's step.

`gap`: of the slower of the two plans to its bound. Exits 1 where a plan is slower than FSDP, or where communication
dominates and plans are less than 5 % faster on average, or where it does not and a gap is over 2 %.
"""
import argparse
import json
import os
import pathlib
import sys

from common import CACHE, HERE, ROOT, exported, run

PUBLISHED = json.loads((HERE / "published-models.json").read_text())
MODELS = ["gpt2-124m", "encoder-decoder", "llama2-7b-s2048-b1", "llama2-13b-s4096-b1", "llama-405b-8"]
CLUSTERS = [("h100-sxm", "shard=8"), ("h100-sxm", "shard=64"), ("a100-40g-sxm-efa", "shard=32"),
            ("a100-80g-pcie", "shard=8")]
LLAMA_405B = {"hidden_size": 16384, "intermediate_size": 53248, "num_attention_heads": 128,
              "num_key_value_heads": 8, "vocab_size": 128256, "num_hidden_layers": 8}


def traced(name, only_traced):
    """The model's folder, traced once; without weights."""
    if name == "gpt2-124m":
        return exported(name)
    folder = CACHE / name if name.startswith("llama-405b") else CACHE / "published" / name
    if (folder / "model.mlir").exists() or only_traced:
        return folder if (folder / "model.mlir").exists() else None
    what = ["py:encoder_decoder:build_step"]
    if name != "encoder-decoder":
        model, _, seq = name.removesuffix("-b1").partition("-s")
        config = LLAMA_405B if name == "llama-405b-8" else PUBLISHED[model]["config"]
        what = ["hf:llama", "--config", ",".join(f"{k}={v}" for k, v in config.items()), "--dtype", "bf16", "--batch", 1,
                "--seq", seq or 2048]
    run([sys.executable, "-m", "fsdp_export", *what, "--skip-init", "--no-locations", "-o", folder],
        env=os.environ | {"PYTHONPATH": f"{ROOT}/tools/fsdp-export/src:{HERE}"})
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only-traced", action="store_true", help="skip models that were not traced yet")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "bin")
    args = parser.parse_args()
    print(f"{'model':19} {'cluster':17} {'mesh':9} {'compute':>9} {'FSDP':>9} {'planned':>9} {'':7} {'auto':>9} {'':7} "
          f"{'GiB':>7} {'gap':>6}  milliseconds")
    slower, gains, dominated, open_gaps = [], [], [], []
    for model in MODELS:
        folder = traced(model, args.only_traced)
        if not folder:
            continue
        for cluster, mesh in CLUSTERS:
            command = [args.bin / "fsdp-plan", folder / "model.mlir", "--optimizer-file", folder / "optimizer.mlir",
                       "--cluster", cluster, "--mesh", mesh]
            first = json.loads(run([*command, "--json"]))
            orders = {o["order"]: o for o in first["orders"]}
            hand = orders["fsdp"]
            budget = max(first["budget_bytes"], hand["peak_at_any_timing_bytes"]) + first["reserved_bytes"]
            points = json.loads(run([*command, "--json", "--memory-budget", budget, "--sweep",
                                     "wrap=blocks;auto"]))["points"]
            for point in points:
                if point["status"] != "fits":
                    sys.exit(f"error: expected {model} on {cluster} to fit where FSDP does, got: {point['reason']}")
            steps = [p["step_ms"] for p in points]
            if steps[0] > hand["step_ms"] * (1 + 1e-9):
                slower.append((model, cluster, mesh))
            gap = max(p["step_ms"] / p["bound_ms"] - 1 for p in points)
            change = [step / hand["step_ms"] - 1 for step in steps]
            gains.append(change)
            waits = hand["exposed_ms"] / hand["step_ms"]
            if waits >= 1 / 3:
                dominated.append(change)
            elif gap > 0.02:
                open_gaps.append((model, cluster, mesh))
            print(f"{model:19} {cluster:17} {mesh:9} {hand['compute_ms']:9.2f} {hand['step_ms']:9.2f} "
                  f"{steps[0]:9.2f} {change[0]:+7.1%} {steps[1]:9.2f} {change[1]:+7.1%} "
                  f"{budget / 2**30:7.1f} {gap:6.2%}{'  communication' if waits >= 1 / 3 else ''}", flush=True)

    def mean(rows, column):
        return sum(row[column] for row in rows) / max(1, len(rows))

    for rows, what in ((gains, "all cases"), (dominated, "where communication dominates")):
        print(f"{what}: {len(rows)}, planned {mean(rows, 0):+.1%}, auto {mean(rows, 1):+.1%} on average")
    for case in slower:
        print("slower than FSDP:", *case)
    for case in open_gaps:
        print("over 1.02 of the bound:", *case)
    sys.exit(1 if slower or open_gaps or (dominated and mean(dominated, 0) > -0.05) else 0)


if __name__ == "__main__":
    main()
