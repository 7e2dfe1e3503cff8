#!/usr/bin/env python3
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What happens to a program on the device cuda when one of its waits is forgotten.

The emulated driver lets one call of cuStreamWaitEvent do nothing (FSDP_EMULATOR_SKIP). Whether a run is issued call
by call or captured as a graph, every wait has to be missed: by the race detector, or by the driver, which finds that
what was captured is no one graph. Waits that nothing has to wait for are named here, and why; of compiled programs,
the driver tells for each whether the stream's other waits imply it.
"""

import os
import re
import subprocess
import tempfile
import unittest

from compiled import Program

TESTS = os.environ["FSDP_CUDA_TEST"]
LINEAR = os.environ["FSDP_LINEAR_PROGRAM"]
FOUND = re.compile(r"expected an order between operations|CUDA_ERROR_STREAM_CAPTURE_(UNJOINED|ISOLATION)"
                   r"|expected bytes that were written before")
IMPLIED = "cuStreamWaitEvent: other waits imply the call that did nothing"


class WaitsTest(unittest.TestCase):

    def run_without(self, command, wait, **environment):
        """Whether the program missed the wait, or "implied" where others are enough; None: it made fewer."""
        wanted = {**os.environ, "FSDP_EMULATOR_SKIP": f"cuStreamWaitEvent:{wait}", **environment}
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=wanted)
        output = done.stdout + done.stderr
        if f"cuStreamWaitEvent: call {wait} does nothing" not in output:
            self.assertEqual(done.returncode, 0, output)
            return None
        if done.returncode == 0:
            return "implied" if IMPLIED in output else False
        self.assertRegex(output, FOUND)
        return True

    def missed(self, command, **environment):
        """For each wait of the program, whether it was missed."""
        answers = []
        while (answer := self.run_without(command, len(answers) + 1, **environment)) is not None:
            answers.append(answer)
        return answers

    def test_every_wait_of_a_program_whose_transfers_all_move(self):
        # Uploads before the run; four starts, one of them behind another, and four waits.
        command = [TESTS, "--gtest_filter=CudaGraph.OneRunOfTheProgram"]
        for graph in ("on", "off"):
            self.assertEqual(self.missed(command, FSDP_TEST_GRAPH=graph), 10 * [True], graph)

    def test_every_wait_of_an_upload_buffer(self):
        # Twice the copies to their places after the bytes, between them the next bytes after the copies.
        self.assertEqual(self.missed([TESTS, "--gtest_filter=CudaDevice.UploadBuffersAreSentAgain"]), 3 * [True])

    def test_every_wait_of_a_program_of_one_rank(self):
        # The collectives of one rank move nothing but the parameter and its gradient; other sums are in place.
        command = [LINEAR, "--device", "cuda", "--init", "seed=0", "--data", "random:seed=3", "--lr", "0.001",
                   "--steps", "1", "--quiet"]
        waits = (
            ("gathered begins", True),      # the parameter has been uploaded
            ("reload begins", True),        # its mark holds the number that the run began with
            ("gathered", True),
            ("scattered begins", True),
            ("replicated begins", "implied"),
            ("replicated after scattered", False),  # moves nothing
            ("loss begins", "implied"),
            ("replicated", False),          # the wait for "scattered" follows; only a mark lies between
            ("scattered", "implied"),       # by "replicated", which comes after it
            ("norm begins", False),         # moves nothing
            ("norm after replicated", "implied"),
            ("loss", "implied"),
            ("norm", "implied"),
            ("reloaded", True),
            ("offload begins", True),
            ("offloaded", False),           # the run's end waits for every stream
        )
        environment = {"LINEAR_MESH": "1", "LINEAR_CUDA": "1", "LINEAR_QUEUES": "1", "LINEAR_HOST": "1",
                       "LINEAR_FLAW": "noeval"}
        eager = self.missed(command + ["--graph", "off"], **environment)
        self.assertIs(eager.pop(0), True, "the batch, before its inputs' places")
        self.assertIs(eager.pop(0), True, "inputs and scalars, before the run")
        self.assertEqual(dict(zip([name for name, _ in waits], eager)), dict(waits))
        self.assertEqual(len(eager), len(waits))
        # A graph has one end, and one beginning: its streams have to be forked and joined, whatever they move.
        graph = self.missed(command + ["--graph", "on"], **environment)
        self.assertIs(graph.pop(), True, "inputs and scalars, before the launch")
        self.assertIs(graph.pop(), True, "the batch, before its inputs' places")
        self.assertEqual(len(graph), len(waits))
        for (name, _), wasMissed, isMissed in zip(waits, eager, graph):
            self.assertTrue(isMissed is True or wasMissed is not True, name)
        for name in ("gathered begins", "reload begins", "offloaded"):
            self.assertIs(graph[[name for name, _ in waits].index(name)], True, name)

    def check_compiled_program(self, mesh, *issues, **environment):
        """It is compiled for NCCL's sums, whose costs make a schedule with one bucket for each kind: as each transfer is
        after the one before on its communicator, or on another one of its device, waits for computation of transfers
        that are issued apart may be of no use. And the loss is waited for with the gradient norm, which compute reads.
        What runs are the runtime's sums."""
        with tempfile.TemporaryDirectory() as folder:
            program = Program(folder, "gpt2", "--mesh", mesh, "--cluster", "h100-sxm", "--reduction", "nccl")
            for graph in issues:
                missed = self.missed(program.command("--graph", graph, "--reduction", "exact"),
                                     FSDP_EMULATOR_CAPABILITY="8.0", **environment)
                with self.subTest(graph=graph):
                    self.assertNotIn(False, missed)
                    self.assertGreater(missed.count(True), missed.count("implied"))

    def test_every_wait_of_a_compiled_program(self):
        """Of two ranks, whose transfers run beside the computation: each is in order after the one before on its
        communicator, which the computation before it has mostly waited for."""
        self.check_compiled_program("shard=2", "off", "on")

    def test_every_wait_of_sums_over_nodes(self):
        """Of two nodes of two ranks: transfers are several exchanges with sums between them."""
        self.check_compiled_program("shard=4", "off", FSDP_NODE_RANKS="2")

    def test_communicators_without_an_order(self):
        """As it is compiled for the runtime's sums, transfers are issued apart, and those of one device on communicators
        that take turns: who forgets that is found, too."""
        with tempfile.TemporaryDirectory() as folder:
            program = Program(folder, "gpt2", "--mesh", "shard=2", "--cluster", "h100-sxm", "--reduction", "exact")
            command = program.command("--graph", "off")
            wanted = {**os.environ, "FSDP_EMULATOR_CAPABILITY": "8.0"}
            found, wait = "expected an order between operations that other ranks take part in, got none between nccl: send", 0
            while True:
                wait += 1
                done = subprocess.run(command, capture_output=True, text=True, timeout=120,
                                      env={**wanted, "FSDP_EMULATOR_SKIP": f"cuStreamWaitEvent:{wait}"})
                output = done.stdout + done.stderr
                if found in output:
                    break
                self.assertIn(f"cuStreamWaitEvent: call {wait} does nothing", output, "no forgotten wait was found")


if __name__ == "__main__":
    unittest.main()
