# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows of a table that data names, updated one after another: CUDA devices divide them among blocks by row, and have the bits of
processors, which update them in order.

The steps are those of test/Kernels/row_cases.py, on numbers of all bits, whose sums show their order.

FSDP_BIN names the folder of fsdp-compile, FSDP_LLVM that of LLVM's tools, FSDP_CUDA_LIBS that of the emulated driver.
Standard library only.
"""
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "Kernels"))
import row_cases  # noqa: E402
from step import count, make_data  # noqa: E402
from toolchain import Tools  # noqa: E402

BIN = pathlib.Path(os.environ["FSDP_BIN"])
NAMES = sorted(name for name in row_cases.get_cases() if name.startswith("rows_"))


def draw(step):
    rng = random.Random(2)
    state, inputs = make_data(step, 1, seed=1)
    for argument in step.args:
        if argument.value.is_float:
            numbers = [rng.uniform(-1, 1) for _ in range(count(argument.value.shape))]
            if argument.role == "input":
                inputs[argument.name] = [numbers]
            else:
                state[argument.name] = numbers
    return state, inputs


class Rows(unittest.TestCase):
    def test_bits(self):
        self.assertGreater(len(NAMES), 5)
        tools = Tools(BIN, pathlib.Path(os.environ["FSDP_LLVM"]))
        for name in NAMES:
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                folder = pathlib.Path(folder)
                step = row_cases.get_cases()[name]()
                state, inputs = draw(step)
                saved = tools.run_on(("cpu", "cuda"), step, state, inputs, folder)
                for tensor, values in saved["cpu"].items():
                    self.assertEqual(saved["cuda"][tensor], values, tensor)
                # By more blocks than columns need.
                code = subprocess.run([BIN / "fsdp-compile", next(folder.glob("*.mlir")), "--target", "cuda", "--mesh",
                                       "shard=1", "--optimizer", "sgd:lr=1", "--emit", "ir:L3", "-o", "-"],
                                      capture_output=True, text=True, check=True).stdout
                self.assertIn("nvvm.vote.sync", code)
                grids = [int(grid) for grid in re.findall(r"_for\w*, grid = (\d+)", code)]
                self.assertGreater(max(grids, default=0), 132)


if __name__ == "__main__":
    unittest.main()
