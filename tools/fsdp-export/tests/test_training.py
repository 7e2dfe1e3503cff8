#===- test_training.py - Twenty steps ------------------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Trains the repository's fixtures with nothing but their own files, and meets
PyTorch's losses in expect.json."""

import json
import math
import re
from pathlib import Path

import pytest
import torch
from common import needs_mlir
from fsdp_export.cli import main
from native import Native
from safetensors.torch import load_file

FIXTURES = Path(__file__).parents[3] / "test" / "fixtures"


def names(text: str, kind: str, key: str = "fqn") -> list[str]:
    """The names in the attributes of a kind, in order."""
    signature = text[text.index("func.func"):].split("\n", 1)[0]
    found = re.split(rf"fsdp\.{kind} = {{", signature)[1:]
    return [re.search(rf'\b{key} = "([^"]+)"', f).group(1) for f in found]


def train(folder: Path, scratch: Path, world: int) -> tuple[list, list]:
    text = (folder / "model.mlir").read_text()
    values = load_file(folder / "params.safetensors")
    batches = load_file(folder / "batches.safetensors")
    parameters, buffers = names(text, "param"), names(text, "buffer")
    gradients, updates = names(text, "grad"), names(text, "buffer_update")
    inputs = names(text, "input", "name")
    step = Native(folder / "model.mlir", scratch)
    update = Native(folder / "optimizer.mlir", scratch, "optimizer")
    states = names((folder / "optimizer.mlir").read_text(), "optimizer", "name")
    states = states[2:states.index("lr")]
    lr = torch.tensor(json.loads(
        (folder / "expect.json").read_text())["hyper"]["lr"])
    held = {n: values[n] for n in parameters}
    own = [{n: values[n] for n in buffers} for _ in range(world)]
    state = {n: [torch.zeros(()) if s == "step" else
                 torch.zeros(held[n].numel()) for s in states]
             for n in gradients}
    losses, norms = [], []
    for i in range(len(batches[inputs[0]])):
        total, loss = [torch.zeros_like(held[n]) for n in gradients], 0.0
        for rank in range(world):
            like = [torch.zeros(()), *(held[n] for n in gradients),
                    *(own[rank][n] for n in updates)]
            out = step([*held.values(), *own[rank].values(),
                        *(batches[n][i, rank] for n in inputs)], like)
            loss += out[0].item() / world
            for t, g in zip(total, out[1:]):
                t += g / world
            own[rank].update(zip(updates, out[1 + len(gradients):]))
        losses.append(loss)
        norms.append(math.sqrt(sum(
            t.double().square().sum().item() for t in total)))
        for name, gradient in zip(gradients, total):
            flat = held[name].flatten()
            new = update([flat, gradient.flatten(), *state[name], lr],
                         [flat, *state[name]])
            held[name], state[name] = new[0].view(held[name].shape), new[1:]
    return losses, norms


@needs_mlir
@pytest.mark.parametrize("name, world", [("mixed", 4), ("resnet", 2),
                                         ("gpt2", 1)])
def test_fixture_trains_as_pytorch_does(name, world, tmp_path):
    folder = FIXTURES / name
    if not folder.exists():
        pytest.skip(f"{folder} is not there")
    expect = json.loads((folder / "expect.json").read_text())
    for key, got in zip(("loss", "grad_norm"), train(folder, tmp_path, world)):
        tolerance = expect["rtol"][str(world)][key]
        assert got == pytest.approx(expect[key][str(world)], rel=tolerance)


def test_fixture_is_what_the_exporter_writes_now(tmp_path):
    folder = FIXTURES / "mixed"
    if not folder.exists():
        pytest.skip(f"{folder} is not there")
    expect = json.loads((folder / "expect.json").read_text())
    if expect["torch"] != torch.__version__:
        pytest.skip(f"made with torch {expect['torch']}, here is "
                    f"{torch.__version__}")
    assert main(["py:models:mixed", "--with-params", "--optimizer",
                 "adamw:lr=0.01,beta2=0.999,weight_decay=0", "-o",
                 str(tmp_path)]) == 0
    for file in ("model.mlir", "optimizer.mlir"):
        assert (tmp_path / file).read_text() == (folder / file).read_text()
