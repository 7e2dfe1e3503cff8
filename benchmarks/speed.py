#!/usr/bin/env python3
"""Time of a training step beside PyTorch's, in turn on one machine (needs torch).

  speed.py [MODEL...] [--rounds 3] [--steps 20]

Every round runs ours and each of PyTorch's ways once, so that a change of the machine's speed
meets all of them; a row gives the fastest step of all rounds. `ratio` is ours over PyTorch's
(one rank: over the better of eager and torch.compile). Exits 1 where a ratio is above its target.
"""
import argparse
import json
import sys

from common import HERE, add_models, compiled, exported, run, train

TARGETS = {  # one rank with all cores; two ranks against FSDP2
    "gpt2-tiny": (1.1, 0.4),
    "llama-20m": (1.1, 0.65),
    "gpt2-124m": (1.1, 0.55),
}


def peer(model, mode, world, steps):
    return json.loads(run([sys.executable, HERE / "baseline.py", model, mode, "--world", world,
                           "--steps", steps]))["step_ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_models(parser, list(TARGETS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    print(f"{'model':12} {'ranks':>5} {'ours':>9} {'eager':>9} {'compile':>9} {'fsdp2':>9} {'ratio':>6} {'target':>6}")
    slow = 0
    for model in args.models:
        folder = exported(model)
        for world, modes, target in ((1, ("eager", "compile"), TARGETS[model][0]), (2, ("fsdp2",), TARGETS[model][1])):
            exe = compiled(folder, world, args.bin)
            best = {}
            for _ in range(args.rounds):
                rows = {"ours": [m["step_ms"] for m in train(exe, world, args.steps)]}
                rows |= {mode: peer(model, mode, world, args.steps) for mode in modes}
                for name, times in rows.items():
                    best[name] = min([best.get(name, float("inf")), *times])
            ratio = best["ours"] / min(best[m] for m in modes)
            slow += ratio > target
            cells = " ".join(f"{best[n]:9.1f}" if n in best else f"{'':9}" for n in ("ours", "eager", "compile", "fsdp2"))
            print(f"{model:12} {world:5} {cells} {ratio:6.2f} {target:6.2f}", flush=True)
    sys.exit(1 if slow else 0)


if __name__ == "__main__":
    main()
