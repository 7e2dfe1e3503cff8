#===- policy.py - What FSDP's mixed precision does to gradients ----------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""python -m fsdp_export.policy SOURCE .. -o DIR, with the arguments that made
DIR: writes DIR/policy.json, how far PyTorch's own FSDP is from the exact
gradients under MixedPrecisionPolicy(param_dtype=bf16, reduce_dtype=f32).

The step runs on as many gloo processes as DIR/gradients.safetensors is an
average over, each with its part of DIR/batches.safetensors. Each outermost
entry of a ModuleList is a unit of fully_shard, and so is the whole. FSDP does
not cast buffers. Batch norms, which refuse narrow parameters beside wide
statistics, are units in f32, as those of FullyShardedDataParallel are by
default; --buffers bf16 casts the buffers of a module that multiplies by them.
"""

import argparse
import json
import math
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from .cli import build_step, make_parser
from .dropout import silence_functions
from .errors import ExportError
from .step import Step, buffers_of, parameters_of, remove_dropout

PARAM, REDUCE = torch.bfloat16, torch.float32


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = make_parser()
    parser.prog = "python -m fsdp_export.policy"
    parser.add_argument("--buffers", choices=["f32", "bf16"], default="f32",
                        help="type of buffers of floats")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Runs the command and returns its exit status."""
    args = _parse(argv)
    if args.dropout and (places := _silence(build_step(args)[0])):
        raise ExportError("expected --no-dropout, since FSDP draws other "
                          f"numbers, got a model with dropout in {places[0]}")
    folder = args.output
    exact = load_file(folder / "gradients.safetensors")
    ranks = json.loads(
        (folder / "expect.json").read_text())["gradients"]["ranks"]
    with tempfile.TemporaryDirectory() as scratch:
        torch.multiprocessing.spawn(_run, (argv, ranks, scratch), ranks)
        got = torch.load(Path(scratch) / "gradients")
    distance = {}
    for name, gradient in exact.items():
        norm = gradient.double().norm().item()
        off = (got["gradients"].get(name, torch.zeros(()))
               - gradient.double()).norm().item()
        # As in gradients.py: one of exactly zero has none.
        distance[name] = float(f"{off / norm:.4g}") if norm else 0.0
        if not math.isfinite(distance[name]):
            raise ExportError(f"expected finite gradients of {name}")
    policy = {"param_dtype": "bf16", "reduce_dtype": "f32",
              "buffers": args.buffers}
    text = json.dumps({"torch": torch.__version__, "policy": policy,
                       "ranks": ranks, "distance": distance}, indent=1)
    (folder / "policy.json").write_text(text + "\n", encoding="utf-8")
    print(f"{folder}: {got['units']} units, loss {got['loss']}")
    return 0


def _silence(step: Step) -> list[str]:
    """Sets dropout to 0; returns the modules that had it."""
    silence_functions(step)
    return remove_dropout(step.module)


def _run(rank: int, argv: list[str], ranks: int, scratch: str) -> None:
    """One process of FSDP; the first one saves the gradients."""
    from torch import distributed
    args = _parse(argv)
    # Sums of other threads come in another order.
    torch.set_num_threads(1)
    step, _ = build_step(args)
    _silence(step)
    values = load_file(args.output / "params.safetensors")
    with torch.no_grad():
        for held in (*parameters_of(step.module), *buffers_of(step.module)):
            held.tensor.copy_(values[held.fqn])
    for held in buffers_of(step.module) if args.buffers == "bf16" else ():
        if held.tensor.is_floating_point():
            held.tensor.data = held.tensor.data.to(PARAM)
    distributed.init_process_group(
        "gloo", init_method=f"file://{scratch}/store", rank=rank,
        world_size=ranks)
    units = _shard(step, ranks)
    batches = load_file(args.output / "batches.safetensors")
    loss = step.loss(step.module, *(batches[name][0, rank].clone()
                                    for name in step.inputs))
    step.differentiate(loss)
    gradients = {h.fqn: h.tensor.grad.full_tensor().double()
                 for h in parameters_of(step.module)
                 if h.tensor.grad is not None}
    if rank == 0:
        torch.save({"gradients": gradients, "units": units,
                    "loss": loss.item()}, Path(scratch) / "gradients")
    distributed.destroy_process_group()


def _shard(step: Step, ranks: int) -> int:
    """Applies FSDP to the module; returns the number of units."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    mesh = init_device_mesh("cpu", (ranks,))
    policy = MixedPrecisionPolicy(param_dtype=PARAM, reduce_dtype=REDUCE)
    wide = MixedPrecisionPolicy(param_dtype=REDUCE, reduce_dtype=REDUCE,
                                output_dtype=PARAM)
    for unit in step.module.modules():
        if isinstance(unit, _BatchNorm):
            fully_shard(unit, mesh=mesh, mp_policy=wide)
    units = _blocks(step.module)
    for unit in (*units, step.module):
        fully_shard(unit, mesh=mesh, mp_policy=policy)
    return len(units) + 1


def _blocks(module: nn.Module) -> list[nn.Module]:
    found = []
    for child in module.children():
        found += child if isinstance(child, nn.ModuleList) else _blocks(child)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
