#!/usr/bin/env python3
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What happens to a program on the device cuda when a call of the driver fails.

The emulated driver lets the n-th call of a function return an error (FSDP_EMULATOR_FAULT), for every function that
two ranks use and n = the first, the middle and the last of its calls. The program has to end within seconds, as a
failure that names the function. Functions that give something back are called when results are safe: their errors
change nothing.
"""

import collections
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

LINEAR = os.environ["FSDP_LINEAR_PROGRAM"]
ERROR, NAME = 1, "CUDA_ERROR_INVALID_VALUE"
SECONDS = 30
GIVES_BACK = re.compile(r"cu\w+(Destroy|Free|FreeHost|Release|Unmap|Unload)(_v2)?")
# Up to half of their calls belong to the end of a rank, after its last result. How often queries are made depends on
# time.
ENDS = ("cuCtxSetCurrent", "cuStreamSynchronize", "cuStreamQuery", "cuEventQuery")
# Without these a run goes on, and rank 0 says what is lacking.
LACKING = re.compile("(?m)^warning: (NCCL connects with other ranks while|streams have no priorities)")


class FaultsTest(unittest.TestCase):

    def run_program(self, graph, **environment):
        """What it returned and wrote to stderr."""
        wanted = {**os.environ, "LINEAR_MESH": "2", "LINEAR_CUDA": "1", "LINEAR_QUEUES": "1", "LINEAR_HOST": "1",
                  **environment}
        with tempfile.TemporaryDirectory() as saved:
            done = subprocess.run([LINEAR, "-n", "2", "--device", "cuda", "--graph", graph, "--init", "seed=0", "--data",
                                   "random:seed=3", "--lr", "0.001", "--steps", "2", "--quiet", "--save", saved],
                                  capture_output=True, text=True, timeout=SECONDS, env=wanted)
        return done.returncode, done.stderr

    def calls(self, graph):
        """How often each function of the driver is called."""
        counts = collections.Counter()
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "stats"
            self.assertEqual(self.run_program(graph, FSDP_EMULATOR_STATS=str(path)), (0, ""))
            # (Work that the double of NCCL issues is no function of the driver.)
            for line in path.read_text().splitlines():
                row = json.loads(line)
                if row.get("call", "fsdp").startswith("cu"):
                    counts[row["call"]] = row["count"]
        return counts

    def check(self, graph, function, n, count):
        status, errors = self.run_program(graph, FSDP_EMULATOR_FAULT=f"{function}:{n}:{ERROR}")
        # (A graph's first synchronisation belongs to memory that is given back. Runs are waited for by their events:
        # streams are asked at a rank's end, and before a graph is made.)
        if (GIVES_BACK.fullmatch(function) or (function in ENDS and n == count) or
                (function == "cuStreamQuery" and graph == "off") or
                (function == "cuStreamSynchronize" and n == 1)):
            self.assertIn(status, (0, 1), errors)
            return
        if LACKING.search(errors) or function == "cuCtxGetStreamPriorityRange":
            self.assertEqual(status, 0, errors)
            return
        self.assertEqual(status, 1, errors)
        if function == "cuStreamIsCapturing":
            # Which NCCL alone calls.
            self.assertRegex(errors, "(?m)^error: .*ncclGroupEnd: unhandled cuda error")
            return
        # An entry of the driver may have another name than the function has in its header.
        name = re.sub(r"_v\d$|WithFlags$", "", function)
        self.assertRegex(errors, rf"(?m)^error: .*{name}\w*: {NAME}")

    def check_all(self, graph):
        counts = self.calls(graph)
        self.assertGreater(len(counts), 30)
        for function, count in sorted(counts.items()):
            middle = (count + 3) // 4 if function in ENDS else (count + 1) // 2
            for n in sorted({1, middle, count}):
                with self.subTest(function=function, n=n):
                    self.check(graph, function, n, count)

    def test_calls_that_are_issued_one_by_one(self):
        self.check_all("off")

    def test_calls_beside_a_graph(self):
        self.check_all("on")


if __name__ == "__main__":
    unittest.main()
