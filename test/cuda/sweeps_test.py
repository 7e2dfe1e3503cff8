# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows that are reduced and summed by columns in one kernel, in which a block goes over the rows of a chunk: as far from
processors, which have a kernel for each, as another order of the same sums may be.

The steps are those of test/Kernels/sweep_cases.py.

FSDP_BIN names the folder of fsdp-compile, FSDP_LLVM that of LLVM's tools, FSDP_CUDA_LIBS that of the emulated driver.
Standard library only.
"""
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "Kernels"))
import sweep_cases  # noqa: E402
from step import make_data  # noqa: E402
from toolchain import Tools  # noqa: E402

BIN = pathlib.Path(os.environ["FSDP_BIN"])
NAMES = sorted(name for name in sweep_cases.get_cases() if name.startswith("sweep_"))


def find_sweeps(model):
    """Kernels that write rows, and sums of as many chunks of these as they have blocks."""
    code = subprocess.run([BIN / "fsdp-compile", model, "--target", "cuda", "--mesh", "shard=1", "--optimizer", "sgd:lr=1",
                           "--emit", "ir:L3", "-o", "-"], capture_output=True, text=True, check=True).stdout
    sweeps = []
    for name, results, grid in re.findall(r"func\.func private @(k\d+_reduce)\(.*?\) -> \((.*?)\) attributes .*?grid = (\d+)", code):
        shapes = [list(map(int, shape.split("x"))) for shape in re.findall(r"tensor<([\dx]+)x\w+>", results)]
        rows = [math.prod(shape[:-1]) for shape in shapes]
        if rows.count(int(grid)) > 0 and max(rows) > int(grid):
            sweeps.append(name)
    return sweeps


class Sweeps(unittest.TestCase):
    def test_numbers(self):
        self.assertGreater(len(NAMES), 5)
        tools = Tools(BIN, pathlib.Path(os.environ["FSDP_LLVM"]))
        for name in NAMES:
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                folder = pathlib.Path(folder)
                step = sweep_cases.get_cases()[name]()
                state, inputs = make_data(step, 1, seed=1)
                saved = tools.run_on(("cpu", "cuda"), step, state, inputs, folder)
                for tensor, values in saved["cpu"].items():
                    error = max(abs(a - b) / max(1, abs(b)) for a, b in zip(saved["cuda"][tensor], values, strict=True))
                    self.assertLess(error, 2e-5, tensor)
                self.assertEqual(len(find_sweeps(folder / "model.mlir")), 1)


if __name__ == "__main__":
    unittest.main()
