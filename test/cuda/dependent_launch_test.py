#!/usr/bin/env python3
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programmatic dependent launch of compiled programs on the emulated driver.

A run with it has the bits of one without, as a graph and call by call. Where the wait of a kernel is overwritten with
blanks in the PTX that a program carries, the emulated driver has to find that, if any launch of the kernel may begin
before the one before it has ended. FSDP_TEST_SEED chooses which waits are deleted; FSDP_TEST_DELETIONS, how many of
them (all: each).
"""
import collections
import json
import os
import pathlib
import random
import re
import tempfile
import unittest
from unittest import mock

from compiled import Program

SEED = int(os.environ.get("FSDP_TEST_SEED", "1"))
DELETIONS = os.environ.get("FSDP_TEST_DELETIONS", "8")
KERNEL = re.compile(rb"\.entry (k\d+_\w+)\(.*?\n}", re.DOTALL)
WAIT = b"// sm_90: griddepcontrol.wait;"
LAUNCH = b"// sm_90: griddepcontrol.launch_dependents;"
MEMORY = re.compile(rb"\b(ld|st|atom|red|cp\.async)\.(?!param|shared)")
# The emulated card has no machine code of the program's, which is for 9.0.
CARD = "10.0"


def environment(**variables):
    return mock.patch.dict(os.environ, {f"FSDP_EMULATOR_{key}": value for key, value in variables.items()})


class DependentLaunchTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_program(self, program, *arguments, **variables):
        """Files of the checkpoint that a run saves, and what the driver counted: dependent launches by kernel, and calls."""
        saved, stats = (pathlib.Path(tempfile.mkdtemp(dir=self.folder)) / name for name in ("saved", "stats"))
        with environment(CAPABILITY=CARD, STATS=str(stats), **variables):
            done = program.run(*arguments, "--save", saved)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [json.loads(line) for line in stats.read_text().splitlines()]
        files = {path.relative_to(saved): path.read_bytes() for path in sorted(saved.rglob("*.safetensors"))}
        self.assertTrue(files)
        kernels = collections.Counter()
        for row in rows:
            if "kernel" in row:
                kernels[row["kernel"]] += row["dependent_launches"]
        return files, kernels, {row["call"]: row["count"] for row in rows if "call" in row}

    def test_equal_bits(self):
        for fixture, ranks, options in (("gpt2", 1, ()), ("gpt2-head64-bf16", 1, ()), ("resnet", 1, ()),
                                        ("mixed", 2, ("--cluster", "h100-sxm"))):
            program = Program(self.folder, fixture, "--mesh", f"shard={ranks}", *options)
            expected, kernels, calls = self.run_program(program, "-n", str(ranks), "--dependent-launch", "off")
            self.assertEqual(sum(kernels.values()), 0)
            self.assertNotIn("cuLaunchKernelEx", calls)
            for graph in ("on", "off"):
                with self.subTest(fixture=fixture, graph=graph):
                    files, kernels, calls = self.run_program(program, "-n", str(ranks), "--graph", graph)
                    self.assertEqual(files, expected)
                    # Most kernels come after kernels.
                    self.assertGreater(calls["cuLaunchKernelEx"], calls["cuLaunchKernel"] // 2)
                    self.assertEqual(sum(kernels.values()), calls["cuLaunchKernelEx"])

    def test_a_profile(self):
        """Events lie between the calls of a run that is recorded: launches of one call alone are dependent."""
        program = Program(self.folder, "gpt2", "--mesh", "shard=1")
        expected, kernels, _ = self.run_program(program, "--graph", "off")
        files, recorded, _ = self.run_program(program, "--profile", self.folder / "profile")
        self.assertEqual(files, expected)
        self.assertLess(sum(recorded.values()), sum(kernels.values()) // 2)

    def test_earlier_cards_and_drivers(self):
        program = Program(self.folder, "gpt2", "--mesh", "shard=1")
        told = "dependent launch: off, it needs a device of sm_90 or later, got sm_80"
        old = "a driver of CUDA 12.3 or later for graphs, got a driver of CUDA 12.2"
        loud = [word for word in program.command() if word != "--quiet"]
        with mock.patch.object(program, "command", lambda *more: [*loud, *more]):
            for variables, graph, line in (({"CAPABILITY": "8.0"}, "on", told), ({"CAPABILITY": "8.0"}, "off", told),
                                           ({"DRIVER": "12020"}, "on", "dependent launch: off, it needs " + old),
                                           ({"DRIVER": "12020"}, "off", "dependent launch: on"),
                                           ({}, "on", "dependent launch: on")):
                with environment(**{"CAPABILITY": CARD, **variables}):
                    done = program.run("--graph", graph)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(f"note: {line}\n", done.stdout)
            with environment(CAPABILITY=CARD):
                self.assertIn("note: dependent launch: off, --dependent-launch off\n",
                              program.run("--dependent-launch", "off").stdout)
        for variables, message in (({"CAPABILITY": "8.0"}, "expected a device of sm_90 or later, got sm_80"),
                                   ({"DRIVER": "12020"}, "expected " + old)):
            with environment(**{"CAPABILITY": CARD, **variables}):
                done = program.run("--dependent-launch", "on")
            self.assertEqual(done.returncode, 1)
            self.assertIn("error: --dependent-launch on: " + message, done.stderr)

    def test_missing_waits(self):
        program = Program(self.folder, "gpt2", "--mesh", "shard=1")
        _, dependent, _ = self.run_program(program)
        image = program.read()
        kernels = list(KERNEL.finditer(image))
        # (Marks and checks are of the runtime's own code.)
        self.assertGreaterEqual({kernel[1].decode() for kernel in kernels},
                                {name for name, n in dependent.items() if n} - {"fsdp_mark", "fsdp_check"})
        for kernel in kernels:
            self.assertEqual(kernel[0].count(WAIT), 1)
            self.assertEqual(kernel[0].count(LAUNCH), 1)
            self.assertLess(kernel[0].index(LAUNCH), kernel[0].index(WAIT))
            self.assertIsNone(MEMORY.search(kernel[0].split(WAIT)[0]), kernel[1])
        chosen = [kernel for kernel in kernels if dependent.get(kernel[1].decode())]
        self.assertGreater(len(chosen), len(kernels) // 2)
        if DELETIONS != "all":
            chosen = random.Random(SEED).sample(chosen, int(DELETIONS))
        for kernel in chosen:
            begin = kernel.start() + kernel[0].index(WAIT)
            program.write(image[:begin] + b" " * len(WAIT) + image[begin + len(WAIT):])
            with self.subTest(kernel=kernel[1].decode(), seed=SEED), environment(CAPABILITY=CARD):
                done = program.run()
                self.assertNotEqual(done.returncode, 0)
                self.assertRegex(done.stdout + done.stderr, f"kernel {kernel[1].decode()}(, .*)?: .*expected "
                                                            "griddepcontrol.wait (before accesses|in a kernel)")
                # Without dependent launch nothing needs the wait.
                self.assertEqual(program.run("--dependent-launch", "off").returncode, 0)


if __name__ == "__main__":
    unittest.main()
