#!/usr/bin/env python3
"""Published step times beside fsdp-plan's, for models traced at full size (needs torch to trace them).

  published.py [pr106080] [steps] [--rows Y1 Y3 ...] [--whole] [--only-traced]

pr106080: the four totals of pytorch/pytorch#106080 (6 + 6 layers of d_model 8192 on 4 nodes of 8 A100).
The batch was never published: how long compute takes, as a multiple of 4 x 128 tokens, is fitted to
two totals, the other two are predicted. Exits 1 where one of those is off by more than 5 %.

steps: the rows of published.csv, in FSDP's order. Each model is traced with 4 and with 8 of its layers, and
the step is extended linearly to all of them: blocks are alike. --whole traces all layers, which takes a
minute for a small model and ten for a large one. Rows marked `fit` set one number each (published.csv
says which, CLUSTERS holds it), all of llm-foundry's together EAGER; the others are predicted. Exits 1 where those
are off by more than 10 % on average or 25 % at worst. --only-traced skips rows whose trace is not in
build/benchmarks/published yet.
"""
import argparse
import csv
import json
import os
import pathlib
import sys
import tempfile

from common import CACHE, HERE, ROOT, run

TRACES = CACHE / "published"
CLUSTER_DIR = ROOT / "lib" / "Cost" / "clusters"
MODELS = json.loads((HERE / "published-models.json").read_text())

# The column fsdp says how it was set up where that is not FSDP's default. Composer, which llm-foundry runs on,
# prefetches late (BACKWARD_POST), which changes nothing on the device: gathers and reductions are on one stream of
# NCCL, their order is the same, and a gather waits for no kernel (torch/distributed/fsdp/_runtime_utils.py).
# Clusters of the rows: a ready file and what differs from it, as factors. `nic` is of the bandwidth
# between nodes, `memory` of the device's, `products` of its matrix units.
CLUSTERS = {
    "a100-80g": ("a100-80g-sxm", {}),
    # Data sheet: 1555 of 2039 GB/s. Nodes are said to have 1600 Gb/s, but M2 got about what one NIC of 200 gives.
    "a100-40g-roce": ("a100-80g-sxm", {"memory": 1555 / 2039, "nic": 0.148}),
    # One NIC of 400 Gb/s for a node instead of 8 of 200.
    "a100-80g-400g": ("a100-80g-sxm", {"nic": 0.25}),
    "a100-yafsdp": ("a100-80g-sxm", {"nic": 0.36}),
    "h100-80g": ("h100-sxm", {}),
    # Two NICs of 400 Gb/s for a node instead of 8.
    "h100-80g-800g": ("h100-sxm", {"nic": 0.25}),
    # 96 GB of HBM2e: six stacks, where the 80 GB card with 2 TB/s has five.
    "h100-500w": ("h100-sxm", {"memory": 2400 / 3350, "products": 0.9}),
    "h100-deepcompile": ("h100-sxm", {"nic": 0.69}),
}

# Our elementwise kernels are fused; those of the rows ran one by one and moved more bytes. So much of the
# memory's bandwidth is left for ours to take as long: fitted to the mean of llm-foundry's rows.
EAGER = 0.55


def cluster_file(base, changes, folder):
    cluster = json.loads((CLUSTER_DIR / f"{base}.json").read_text())
    for name, factor in changes.items():
        if name == "nic":
            cluster["links"]["inter"]["gb_per_s"] *= factor
        elif name == "memory":
            cluster["device"]["memory"]["gb_per_s"] *= factor
        elif name == "products":
            for unit in cluster["device"]["matmul"].values():
                if isinstance(unit, dict):
                    unit["peak_tflops"] *= factor
        elif name == "no_contention_of":
            cluster["contention"] = [c for c in cluster["contention"] if c["of"] != factor]
        else:
            sys.exit(f"error: expected a known change of a cluster, got '{name}'")
    cluster["device"]["memory"]["gb_per_s"] *= EAGER
    # Whether a step fits says the planner elsewhere; here every row was run.
    cluster["device"]["memory_gib"] = 4096
    path = pathlib.Path(folder) / "cluster.json"
    path.write_text(json.dumps(cluster))
    return path


def traced(name, arguments, only_traced=False):
    """The traced model, made once."""
    folder = TRACES / name
    if not (folder / "model.mlir").exists():
        if only_traced:
            return None
        env = os.environ | {"PYTHONPATH": f"{ROOT}/tools/fsdp-export/src:{HERE}"}
        run([sys.executable, "-m", "fsdp_export", *arguments, "--no-dropout", "--skip-init", "--no-locations", "-o", folder], env=env)
    return folder


def plan(bin_dir, folder, cluster, mesh, fsdp, *options):
    """FSDP's order of a step, set up as `fsdp` says: its JSON and the events of its timeline."""
    if fsdp:
        options += ("--fsdp", fsdp)
    with tempfile.TemporaryDirectory() as temporary:
        timeline = pathlib.Path(temporary) / "t.json"
        data = json.loads(run([bin_dir / "fsdp-plan", folder / "model.mlir", "--optimizer-file",
                               folder / "optimizer.mlir", "--mesh", mesh, "--cluster", cluster, "--json", "--timeline",
                               timeline, "--order", "fsdp", *options]))
        events = [e for e in json.loads(timeline.read_text())["traceEvents"] if e.get("cat") == "kernel"]
    return data, next(o for o in data["orders"] if o["order"] == "fsdp"), events


# ---------------------------------------------------------------------------
# pytorch/pytorch#106080


def pr106080(bin_dir):
    folder = traced("encoder-decoder", ["py:encoder_decoder:build_step"])
    # What was measured, how the step was set up, and what is special about its machine. What
    # NCCL_CROSS_NIC=1 changes is not published; taken here as that transfers inside a node no longer slow
    # down those between nodes.
    totals = [("full_shard, 32 ranks", 1160, "shard=32", "", {}),
              ("hybrid 8 x 4, one stream", 665, "shard=8,replicate=4", "all_reduce_stream=false", {}),
              ("hybrid 8 x 4", 597, "shard=8,replicate=4", "", {}),
              ("hybrid 8 x 4, NCCL_CROSS_NIC=1", 556, "shard=8,replicate=4", "", {"no_contention_of": "inter"})]
    fitted = (1, 2)

    def predict(row, scale):
        _, _, mesh, fsdp, changes = totals[row]
        # Twice the tokens take twice the time: as slower units and memory.
        changes = changes | {"products": 1 / scale, "memory": 1 / scale}
        with tempfile.TemporaryDirectory() as temporary:
            cluster = cluster_file("a100-40g-sxm-efa", changes, temporary)
            return plan(bin_dir, folder, cluster, mesh, fsdp)[1]["step_ms"]

    # Steps grow with the scale, so the sum of the relative errors has one root.
    low, high = 1.0, 4.0
    for _ in range(7):
        middle = (low + high) / 2
        if sum(predict(row, middle) / totals[row][1] - 1 for row in fitted) > 0:
            high = middle
        else:
            low = middle
    scale = (low + high) / 2
    print(f"pytorch/pytorch#106080: compute of {scale:.2f} x 4 x 128 tokens fitted to two totals")
    print(f"{'step':34} {'published':>9} {'planned':>9} {'error':>7}")
    worst = 0
    for row, (name, published, *_) in enumerate(totals):
        step = predict(row, scale)
        error = step / published - 1
        if row not in fitted:
            worst = max(worst, abs(error))
        print(f"{name:34} {published:6} ms {step:6.0f} ms {error:+7.1%}{' fit' if row in fitted else ''}", flush=True)
    print(f"predicted rows: worst {worst:.1%}\n")
    return worst <= 0.05


# ---------------------------------------------------------------------------
# published.csv


def with_selective(order, events):
    """The step in ms, with half of the products and all that is cheap in blocks computed again.

    That is torchtitan's selective checkpointing, which the planner does not know as a rule. It runs beside
    the gathers and reductions of backward: it first fills what compute waits for there, except at the end,
    behind the last block.
    """
    blocks = [e for e in events if e["args"]["stream"] == 0 and e["args"]["phase"] == "forward" and
              e["args"].get("unit") != "root"]
    products = sum(e["args"]["alone_us"] for e in blocks if "matmul" in e["name"] or "attention" in e["name"]) / 1e3
    cheap = sum(e["args"]["alone_us"] for e in blocks) / 1e3 - products
    again = products / 2 + cheap
    interior = [c for c in order["collectives"] if c["exposed_ms"] and c["backward"] and c["unit"] != "root" and
                "slower beside" not in c["cause"]]
    last = max((c["end_ms"] for c in interior), default=0)
    waits = sum(c["exposed_ms"] for c in interior if c["end_ms"] < last)
    return order["step_ms"] + again - min(again, waits)


def second_gathers(order):
    """What backward waits longer, in ms, where checkpoints lie outside of FSDP's units.

    transformers checkpoints what FSDP has wrapped. So a unit is gathered for its recomputation, freed as behind
    any forward, and gathered again for its backward; prefetching knows of neither.
    """
    return sum(c["alone_ms"] for c in order["collectives"] if c["backward"] and c["kind"] == "all_gather" and
               c["unit"] != "root")


def copies(order, api, bandwidth):
    """What FSDP copies and our program does not, in ms: passes over whole units, counted in PyTorch's source.

    FSDP1: gradients are concatenated (SplitWithSizesBackward), cast where they are reduced in f32, and divided
    before the reduction (_div_if_needed). FSDP2: split_with_sizes_copy behind a gather, chunk_cat before a reduction.
    """
    moved = 0
    for c in order["collectives"]:
        size = {"bf16": 2, "f32": 4}[c["dtype"]]
        if c["kind"] == "all_gather" and api == "fsdp2":
            moved += 2 * c["bytes"]
        elif c["kind"] == "reduce_scatter":
            passes = 2 + size if api == "fsdp2" else 2 + 2 + (2 + size if size > 2 else 0) + 2 * size
            moved += passes * c["bytes"] / size
    return moved / bandwidth * 1e3


# Passes over a layer's scores where attention is not fused: forward, twice with recomputation, the products
# write and read them, and scaling, mask, softmax and dropout read and write them; backward the same in reverse, where
# two products more read and softmax reads both.
SCORE_PASSES = {"forward": 10, "backward": 13}


def unfused_attention(row, events, layers, bandwidth):
    """What attention takes longer, in ms, in a model that stores its scores and computes those that are masked, too."""
    heads = MODELS[row["model"]]["config"]["n_head"]
    scores = 2 * heads * int(row["seq"]) ** 2 * int(row["batch"])
    passes = SCORE_PASSES["forward"] * (2 if row["recompute"] == "full" else 1) + SCORE_PASSES["backward"]
    masked = sum(e["args"]["alone_us"] for e in events if e["args"]["stream"] == 0 and "attention" in e["name"]) / 1e3
    return layers * passes * scores / bandwidth * 1e3 + masked


def plan_row(bin_dir, row, layers, recompute, only_traced):
    """Seconds of the step and of its compute with so many layers; nothing where it is not traced."""
    spec = MODELS[row["model"]]
    config = dict(spec["config"])
    name = f"{row['model']}-s{row['seq']}-b{row['batch']}" + (f"-l{layers}" if layers != layers_of(row) else "")
    config["num_hidden_layers" if spec["arch"] == "llama" else "n_layer"] = layers
    if spec["arch"] == "llama":
        config["max_position_embeddings"] = int(row["seq"])
    folder = traced(name, [f"hf:{spec['arch']}", "--config", ",".join(f"{k}={v}" for k, v in config.items()),
                           "--dtype", "bf16", "--batch", row["batch"], "--seq", row["seq"]], only_traced)
    if not folder:
        return None
    gpus, shard = int(row["gpus"]), int(row["shard"])
    mesh = f"shard={shard}" + (f",replicate={gpus // shard}" if gpus != shard else "")
    base, changes = CLUSTERS[row["cluster"]]
    with tempfile.TemporaryDirectory() as temporary:
        cluster = cluster_file(base, changes, temporary)
        memory = json.loads(cluster.read_text())["device"]["memory"]
        bandwidth = memory["gb_per_s"] * 1e9 / EAGER * memory["efficiency"][-1][1]
        _, order, events = plan(bin_dir, folder, cluster, mesh, row["fsdp"], "--reduce-dtype", row["reduce_dtype"],
                                "--strategy", row["strategy"] or "auto",
                                "--recompute", "full" if recompute in ("full", "outside") else "none")
    step = order["step_ms"]
    if recompute == "selective":
        step = with_selective(order, events)
    elif recompute == "outside":
        step += second_gathers(order)
    step += copies(order, row["api"], bandwidth)
    if spec.get("attention") == "unfused":
        step += unfused_attention(row, events, layers, bandwidth)
    return step / 1e3, order["compute_ms"] / 1e3


def layers_of(row):
    config = MODELS[row["model"]]["config"]
    return config.get("num_hidden_layers") or config["n_layer"]


def extended(bin_dir, row, only_traced):
    """What a layer more takes is what four more of four take, by how it is checkpointed."""
    parts = row["recompute"].split()
    # (recompute, how many of the layers so): the first says how the traced layers are planned.
    kinds = [("none", layers_of(row) - int(parts[0])), ("full", int(parts[0]))] if parts[1:] == ["layers"] else \
        [(row["recompute"], layers_of(row))]
    total = None
    for recompute, count in kinds:
        few, more = (plan_row(bin_dir, row, n, recompute, only_traced) for n in (4, 8))
        if not (few and more):
            return None
        base = total or [b - 8 * (b - a) / 4 for a, b in zip(few, more)]
        total = [t + (b - a) / 4 * count for t, a, b in zip(base, few, more)]
    return total


def summary(what, errors):
    mean, worst = sum(map(abs, errors)) / len(errors), max(map(abs, errors))
    print(f"{what}: {len(errors)} rows, mean error {mean:.1%} (signed {sum(errors) / len(errors):+.1%}), "
          f"worst {worst:.1%}")
    return mean <= 0.10 and worst <= 0.25


def steps(bin_dir, only, whole, only_traced):
    print(f"{'row':4} {'model':11} {'GPUs':>4} {'published':>9} {'planned':>9} {'error':>7}")
    fitted, blind, errors = [], [], {}
    lines = (line for line in (HERE / "published.csv").open() if not line.startswith("#"))
    for row in csv.DictReader(lines):
        if only and row["id"] not in only:
            continue
        if whole and not row["recompute"].endswith("layers"):
            planned = plan_row(bin_dir, row, layers_of(row), row["recompute"], only_traced)
        else:
            planned = extended(bin_dir, row, only_traced)
        if not planned:
            continue
        seconds, compute = planned
        error = seconds / float(row["seconds"]) - 1
        if row["use"]:
            fitted.append(error)
        else:
            errors.setdefault(row["source"].split()[0], []).append(error)
        if row["blind"]:
            blind.append(error)
        print(f"{row['id']:4} {row['model']:11} {row['gpus']:>4} {float(row['seconds']):7.3f} s {seconds:7.3f} s "
              f"{error:+7.1%}  compute {compute:6.3f} s  {row['use'] or row['interconnect']}", flush=True)
    if fitted:
        summary("fitted", fitted)
    for source, of in errors.items():
        summary(f"predicted, {source}", of)
    if blind:
        summary("predicted, blind", blind)
    return not errors or summary("predicted, all", [error for of in errors.values() for error in of])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["pr106080", "steps"], metavar="pr106080|steps")
    parser.add_argument("--rows", nargs="+", default=[])
    parser.add_argument("--whole", action="store_true", help="trace all layers")
    parser.add_argument("--only-traced", action="store_true", help="skip what was not traced yet")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "bin")
    args = parser.parse_args()
    good = True
    for part in args.parts:
        if part == "pr106080":
            good &= pr106080(args.bin)
        elif part == "steps":
            good &= steps(args.bin, args.rows, args.whole, args.only_traced)
        else:
            sys.exit(f"error: expected pr106080 or steps, got '{part}'")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
