# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps within exactly the memory that FSDP's own order takes, packed: none is refused, slower than that, or below a
bound. FSDP_BIN holds the tools, FSDP_FIXTURES the models."""
import itertools
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ["FSDP_BIN"])
MODELS = sorted(pathlib.Path(os.environ["FSDP_FIXTURES"]).glob("*/model.mlir"))
CLUSTERS = BIN.parent / "share" / "fsdp" / "clusters"
MESHES = ("shard=2", "shard=8", "shard=8,replicate=2")
UNPLANNED = ["--bucket", "none", "--recompute", "none", "--offload", "none", "--reshard-after-forward", "true"]


class Step:
    def __init__(self, model, *words):
        with tempfile.TemporaryDirectory() as folder:
            command = [BIN / "fsdp-compile", model, "--emit", "ir:L3", "-o", f"{folder}/step.mlir", *words]
            outcome = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60)
            if outcome.returncode:
                raise AssertionError(outcome.stderr)
            text = pathlib.Path(f"{folder}/step.mlir").read_text()
        self.bytes = int(re.search(r"fsdp\.arena = {bytes = (\d+)", text)[1])
        # Picoseconds.
        schedule = re.search(r"fsdp\.schedule = {bound = (\d+) .*?step = (\d+)", text)
        self.bound, self.time = int(schedule[1]), int(schedule[2])


class AsMuchMemoryAsFSDP(unittest.TestCase):
    def check(self, model, cluster, *words, options=()):
        asked = [model, "--cluster", cluster, *words]
        fsdp = Step(*asked, "--order", "fsdp")
        reserved = json.loads((CLUSTERS / f"{cluster}.json").read_text())["device"]["reserved_gib"]
        budget = ["--memory-budget", fsdp.bytes + round(reserved * 2**30)]
        ours = Step(*asked, *budget, *options)
        self.assertLessEqual(ours.bytes, fsdp.bytes)
        self.assertLessEqual(ours.time, fsdp.time)
        self.assertLessEqual(ours.bound, min(ours.time, fsdp.time))
        again = Step(*asked, *budget, "--order", "fsdp")
        self.assertEqual((again.time, again.bytes), (fsdp.time, fsdp.bytes))
        self.assertLessEqual(again.bound, fsdp.time)

    def test_fixtures(self):
        self.assertTrue(MODELS)
        for model, mesh, clip in itertools.product(MODELS, MESHES, ([], ["--clip-norm"])):
            for cluster in ("h100-sxm", "a100-80g-pcie"):
                with self.subTest(model=model.parent.name, mesh=mesh, clip=bool(clip), cluster=cluster):
                    self.check(model, cluster, "--mesh", mesh, *clip)

    def test_where_nothing_is_planned(self):
        for model, clip in itertools.product(MODELS, ([], ["--clip-norm"])):
            with self.subTest(model=model.parent.name, clip=bool(clip)):
                self.check(model, "a100-80g-pcie", "--mesh", "shard=5", *clip, options=UNPLANNED)


if __name__ == "__main__":
    unittest.main()
