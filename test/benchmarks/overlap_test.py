# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""overlap.py compares a run with the simulator; how near they are depends on the machine, and is not asked here."""
import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Overlap(unittest.TestCase):
    def test_of_slow_and_fast_links(self):
        outcome = subprocess.run(
            [sys.executable, "-B", ROOT / "benchmarks" / "overlap.py", ROOT / "test" / "fixtures" / "gpt2", "--bin",
             os.environ["FSDP_BIN"], "--speed", "5e6,1e-3", "1e9,0", "--order", "scheduled", "--steps", "4", "--rounds",
             "1", "--tolerance", "1000"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100)
        self.assertEqual((outcome.returncode, outcome.stderr), (0, ""))
        rows = re.findall(r"(?m)^gpt2 +scheduled +(\d+) +(\S+) ms +([\d.]+) ms +([\d.]+) ms", outcome.stdout)
        self.assertEqual([row[:2] for row in rows], [("5", "1"), ("1000", "0")], outcome.stdout)
        # Exposed, simulated and measured: a link 200 times as slow is not hidden.
        for slow, fast in zip(rows[0][2:], rows[1][2:]):
            self.assertGreater(float(slow), float(fast))
