#!/usr/bin/env python3
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs that are compiled with tuning tables: other shapes of kernels, the same numbers but for the order of sums."""
import json
import math
import pathlib
import re
import tempfile
import unittest

from compiled import Program

FIXTURE = "gpt2-head64-bf16"
# Rows and columns of all attentions, threads of rows and columns: the least, the most, and shapes between.
SHAPES = ((16, 16, 32, 32), (16, 32, 64, 64), (32, 64, 128, 1024), (128, 16, 512, 512), (128, 64, 1024, 128),
          (128, 128, 256, 256))
# Of losses and norms in bf16, whose sums come in another order.
TOLERANCE = 2e-3
BLOCK = re.compile(rb"\.entry (k\d+_(?:attention|reduce)\w*)\(.*?\.maxntid (\d+)", re.DOTALL)


class TuningTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def train(self, *options):
        """Losses and norms, and the threads of each attention's and reduction's functions."""
        program = Program(self.folder, FIXTURE, "--mesh", "shard=1", *options)
        metrics = self.folder / "metrics"
        metrics.unlink(missing_ok=True)
        done = program.run("--metrics", metrics)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
        blocks = {name.decode(): int(threads) for name, threads in BLOCK.findall(program.read())}
        return [line[name] for line in lines for name in ("loss", "grad_norm")], blocks

    def test_stages(self):
        """Tiles arrive while others are multiplied, or before: the same sums in the same order."""
        losses, bytes_ = [], []
        for stages in (1, 2):
            table = self.folder / "tuning.json"
            table.write_text(json.dumps({
                "format": "fsdp-tuning/1", "device": "any", "compute_capability": "9.0",
                "attention": [{"head_size": 64, "dtype": "bf16", "direction": direction, "rows": 32, "columns": 16,
                               "stages": stages} for direction in ("forward", "dq", "dkdv")]}))
            losses.append(self.train("--tuning", table)[0])
            bytes_.append(Program(self.folder, FIXTURE, "--mesh", "shard=1", "--tuning", table).read().count(b"cp.async.cg"))
        self.assertEqual(losses[0], losses[1])
        self.assertEqual(bytes_[0], 0)
        self.assertGreater(bytes_[1], 0)

    def test_another_card(self):
        table = self.folder / "tuning.json"
        for capability in ("8.0", "9.0"):
            table.write_text(json.dumps({"format": "fsdp-tuning/1", "device": "a card", "compute_capability": capability,
                                         "reductions": [{"kind": "rows", "threads": 64}]}))
            done = Program(self.folder, FIXTURE, "--mesh", "shard=1", "--tuning", table).run(quiet=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            told = "those that were fast on a card (--tuning), a GPU of 9.0; this one is of 8.0" in done.stdout + done.stderr
            self.assertEqual(told, capability == "9.0", done.stderr)

    def test_shapes(self):
        expected, plain = self.train()
        for rows, columns, row_threads, column_threads in SHAPES:
            table = self.folder / "tuning.json"
            table.write_text(json.dumps({
                "format": "fsdp-tuning/1", "device": "any", "compute_capability": "9.0",
                "attention": [{"head_size": 64, "dtype": "bf16", "direction": direction, "rows": rows, "columns": columns}
                              for direction in ("forward", "dq", "dkdv")],
                "reductions": [{"kind": "rows", "threads": row_threads}, {"kind": "columns", "threads": column_threads}]}))
            with self.subTest(rows=rows, columns=columns):
                numbers, blocks = self.train("--tuning", table)
                self.assertNotEqual(blocks, plain)
                attentions = {threads for name, threads in blocks.items() if "attention" in name}
                self.assertEqual(attentions, {2 * rows})
                self.assertTrue(all(math.isclose(x, y, rel_tol=TOLERANCE) for x, y in zip(numbers, expected, strict=True)),
                                (numbers, expected))


if __name__ == "__main__":
    unittest.main()
