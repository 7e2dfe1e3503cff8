#===- mutate_steps_test.py - What mutate_steps.py finds --------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""That the test can fail: a compiler with planted faults is found out. Beside
it, how losses are compared, and that a seed makes the same files again.

FSDP_BIN names the folder of the tools, FSDP_SOURCE that of the sources.
"""

import argparse
import contextlib
import io
import json
import os
import random
import sys
import tempfile
import unittest
from pathlib import Path

import mutate_steps

BIN = Path(os.environ["FSDP_BIN"])
SOURCE = Path(os.environ["FSDP_SOURCE"])

# Of a changed file, which begins with a comment: dies (planted "crash") or
# takes another constant (planted "wrong").
BROKEN = """#!{python}
import os, re, sys
path = next((word for word in sys.argv[1:] if re.search(r"-\\d+-\\d+-\\d+.mlir$", word)), None)
if path:
    text = open(path).read()
    if "{fault}" == "crash" and text.startswith("//"):
        os.kill(os.getpid(), 11)
    if "{fault}" == "wrong":
        text = text.replace("1.250000e-01", "2.500000e-01")
    open(path, "w").write(text)
os.execv("{compiler}", ["{compiler}"] + sys.argv[1:])
"""


class Planted(unittest.TestCase):

    def fuzz(self, fault, only, rounds):
        """What is said, and how much is found, of a compiler with the fault."""
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            tools = folder / "bin"
            tools.mkdir()
            for path in BIN.iterdir():
                if path.name != "fsdp-compile":
                    (tools / path.name).symlink_to(path)
            compiler = tools / "fsdp-compile"
            compiler.write_text(BROKEN.format(python=sys.executable, fault=fault,
                                              compiler=BIN / "fsdp-compile"))
            compiler.chmod(0o755)
            args = argparse.Namespace(
                bin=tools, fixtures=SOURCE / "test/fixtures",
                clusters=SOURCE / "lib/Cost/clusters", docs=SOURCE / "docs",
                rounds=rounds, seconds=0, seed=1, jobs=2, only=only,
                keep=folder / "keep")
            scratch = folder / "scratch"
            scratch.mkdir()
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                _, findings = mutate_steps.fuzz(
                    args, mutate_steps.Tools(args, scratch))
            kept = [path.name for path in args.keep.glob("*")]
            return said.getvalue(), findings, kept

    def test_no_fault(self):
        said, findings, kept = self.fuzz("none", "example-equal", 2)
        self.assertEqual((findings, kept), (0, []), said)

    def test_crash(self):
        said, findings, kept = self.fuzz("crash", "example-l1", 12)
        self.assertGreater(findings, 0)
        self.assertIn("expected exit status 0 or 1, got -11", said)
        self.assertTrue(any(name.endswith(".mlir.txt") for name in kept), kept)

    def test_wrong(self):
        said, findings, _ = self.fuzz("wrong", "example-equal", 2)
        self.assertGreater(findings, 0)
        self.assertIn("expected the losses", said)


class Parts(unittest.TestCase):

    def test_alike(self):
        nan, inf = float("nan"), float("inf")
        alike = mutate_steps.alike
        self.assertTrue(alike([1.0, 2.0], [1.0, 2.0], 0))
        self.assertTrue(alike([1.0, nan, 3.0], [1.0, inf, 4.0], 0))
        self.assertFalse(alike([1.0, nan], [1.0, 2.0], 1e-3))
        self.assertFalse(alike([1.0], [1.01], 1e-3))
        self.assertFalse(alike([1.0], [1.0, 2.0], 0))

    def test_json(self):
        value = {"a": [1, 2.5, "x"], "b": {"c": True, "d": None}}

        def change(seed):
            copy = json.loads(json.dumps(value))
            mutate_steps.change_json(copy, random.Random(seed))
            return json.dumps(copy)

        made = [change(seed) for seed in range(200)]
        self.assertEqual(made, [change(seed) for seed in range(200)])
        self.assertGreater(len(set(made)), 30)


if __name__ == "__main__":
    unittest.main()
