# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the cost model counts in kernels' code is what the emulated driver executes.

Launches are equal. Bytes that threads load and store differ by at most 2 %, of each kernel that moves more than 10 KiB and
of all together. Instructions of threads, which LLVM simplifies after they are counted, are between 2/3 and 3/2 of those
executed, of each kernel with more than 50,000 and of all together.

FSDP_BIN names the folder of fsdp-compile, FSDP_FIXTURES that of the fixtures, FSDP_BENCHMARKS that of kernels.py,
FSDP_CUDA_LIBS that of the emulated driver. Standard library only.
"""
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.environ["FSDP_BENCHMARKS"])
import kernels  # noqa: E402

BIN = pathlib.Path(os.environ["FSDP_BIN"])
FIXTURES = pathlib.Path(os.environ["FSDP_FIXTURES"])
EMULATOR = os.environ["FSDP_CUDA_LIBS"]
KEYS = {"loaded_bytes": "bytes_loaded", "stored_bytes": "bytes_stored", "instructions": "lane_instructions"}


def run(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, timeout=120).stdout


def count(fixture, folder):
    """By kernel (counted, executed) of a step, by the keys of KEYS and "launches"."""
    model, options = FIXTURES / fixture / "model.mlir", ["--mesh", "shard=1", "--target", "cuda"]
    run(BIN / "fsdp-compile", model, *options, "-o", folder / "step")
    profile, stats = kernels.measure(folder / "step", folder, EMULATOR, 1)
    plan = json.loads(run(BIN / "fsdp-plan", model, *options, "--cluster", "h100-sxm", "--json"))
    planned = {kernel["name"]: kernel.get("launches") for kernel in plan["kernels"]}
    calls = {call["name"]: call["calls"] for call in profile["calls"]}
    result = {}
    for kernel, functions in kernels.functions_of(profile, stats).items():
        executed = {"launches": sum(stats[name]["launches"] for name in functions)}
        counted = {"launches": calls[kernel] * len(planned[kernel])}
        for key, executed_key in KEYS.items():
            executed[key] = sum(stats[name][executed_key] for name in functions)
            counted[key] = calls[kernel] * sum(launch[key] for launch in planned[kernel])
        result[kernel] = counted, executed
    return result


# Of a large card; and of 1000 iterations, each of which waits for an index and for what that names.
MULTIPROCESSORS, MOST_WAITS = 132, 2000


def find_chains(plan):
    """Launches that leave multiprocessors without a block, while a thread waits for load after load."""
    return [(kernel["name"], launch["blocks"], launch["waits"]) for kernel in plan["kernels"]
            for launch in kernel.get("launches", ())
            if launch["blocks"] < MULTIPROCESSORS and launch["waits"] > MOST_WAITS]


class Counts(unittest.TestCase):
    def expect_near(self, counted, executed, key, most):
        self.assertLessEqual(max(counted[key], executed[key]), most * min(counted[key], executed[key]),
                             f"{key}: expected {executed[key]} by a factor of {most}, got {counted[key]}")

    def test_fixtures(self):
        for fixture in ("gpt2", "gpt2-head64-bf16"):
            with tempfile.TemporaryDirectory() as name:
                by_kernel = count(fixture, pathlib.Path(name))
            self.assertGreater(len(by_kernel), 20)
            totals = collections.Counter(), collections.Counter()
            for kernel, (counted, executed) in by_kernel.items():
                with self.subTest(fixture=fixture, kernel=kernel):
                    self.assertEqual(counted["launches"], executed["launches"])
                    if executed["loaded_bytes"] + executed["stored_bytes"] > 10240:
                        self.expect_near(counted, executed, "loaded_bytes", 1.02)
                        self.expect_near(counted, executed, "stored_bytes", 1.02)
                    if executed["instructions"] > 50_000:
                        self.expect_near(counted, executed, "instructions", 1.5)
                for total, part in zip(totals, (counted, executed)):
                    total.update(part)
            with self.subTest(fixture=fixture):
                self.expect_near(*totals, "loaded_bytes", 1.02)
                self.expect_near(*totals, "stored_bytes", 1.02)
                self.expect_near(*totals, "instructions", 1.5)

    def test_no_launch_of_few_blocks_waits_for_load_after_load(self):
        fixtures = sorted(path.parent.name for path in FIXTURES.glob("*/model.mlir"))
        self.assertGreater(len(fixtures), 10)
        for fixture in fixtures:
            with self.subTest(fixture=fixture):
                plan = json.loads(run(BIN / "fsdp-plan", FIXTURES / fixture / "model.mlir", "--mesh", "shard=1", "--target",
                                      "cuda", "--cluster", "h100-sxm", "--json"))
                self.assertTrue(any(kernel.get("launches") for kernel in plan["kernels"]))
                self.assertEqual(find_chains(plan), [])

    def test_such_a_launch_is_found(self):
        launches = [{"blocks": 6, "waits": 16384}, {"blocks": 132, "waits": 16384}, {"blocks": 6, "waits": 2000}]
        self.assertEqual(find_chains({"kernels": [{"name": "k", "launches": launches}, {"name": "product"}]}),
                         [("k", 6, 16384)])


if __name__ == "__main__":
    unittest.main()
