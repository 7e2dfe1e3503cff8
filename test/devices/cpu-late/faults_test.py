# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A device that fails when it is made, in an upload and in a program ends all ranks, and tells which and why.

Standard library only. FSDP_BIN names the folder of an fsdp-compile whose programs run on cpu-late.
"""
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

FIXTURE = pathlib.Path(__file__).resolve().parents[2] / "fixtures" / "gpt2"
BACKENDS = ["local"] + (["mpi"] if os.environ.get("FSDP_HAS_MPI") == "1" else [])
SECONDS = 30  # of a busy machine; waiting for a rank that is gone would take for ever


class Faults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.program = pathlib.Path(cls.folder.name) / "train"
        for name, options in (("train", []), ("queues", ["--cluster", "h100-sxm"])):
            subprocess.run([pathlib.Path(os.environ["FSDP_BIN"]) / "fsdp-compile", FIXTURE / "model.mlir",
                            "--optimizer-file", FIXTURE / "optimizer.mlir", "--mesh", "shard=2", *options,
                            "-o", cls.program.with_name(name)], check=True, capture_output=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_with(self, fault, *options, program="train"):
        begin = time.monotonic()
        outcome = subprocess.run(
            [self.program.with_name(program), "-n", "2", "--params", FIXTURE / "params.safetensors", "--data",
             FIXTURE / "batches.safetensors", "--data-ranks", "first", "--steps", "3", "--lr", "0.1", "--threads", "1", *options],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100,
            env={**os.environ, "FSDP_LATE_FAULT": fault})
        self.assertLess(time.monotonic() - begin, SECONDS)
        return outcome

    def test_each_place_on_each_backend(self):
        for backend in BACKENDS:
            for program in "train", "queues":
                for fault, place in (("create:1", "create"), ("upload:1:3", "upload"), ("call:1:40", "call")):
                    with self.subTest(backend=backend, program=program, fault=fault):
                        outcome = self.run_with(fault, "--backend", backend, program=program)
                        self.assertEqual(outcome.returncode, 1, outcome.stderr)
                        self.assertRegex(outcome.stderr,
                                         rf"\Aerror: (step 1: )?rank 1: the device was lost at a {place}\n\Z")

    def test_runs_without(self):
        outcome = self.run_with("none")
        self.assertEqual((outcome.returncode, outcome.stderr), (0, ""))

    def test_other_devices(self):
        outcome = self.run_with("none", "--device", "tpu")
        self.assertEqual(outcome.returncode, 1)
        self.assertIn("error: --device: expected cpu-late or cpu, got 'tpu'", outcome.stderr)
        # This one knows no faults.
        outcome = self.run_with("call:1:40", "--device", "cpu")
        self.assertEqual((outcome.returncode, outcome.stderr), (0, ""))

    @unittest.skipUnless("mpi" in BACKENDS, "the mpi backend was not built")
    def test_ranks_on_other_devices(self):
        words = [str(self.program), "--params", str(FIXTURE / "params.safetensors"), "--data",
                 str(FIXTURE / "batches.safetensors"), "--steps", "3", "--lr", "0.1", "--threads", "1"]
        mpirun = ["mpirun", "--oversubscribe", "--bind-to", "none", "--allow-run-as-root"]
        outcome = subprocess.run([*mpirun, "-n", "1", *words, "--device", "cpu", ":", "-n", "1", *words],
                                 stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100)
        self.assertNotEqual(outcome.returncode, 0)
        self.assertRegex(outcome.stderr, r"error: .*--device.*cpu.*cpu-late")


if __name__ == "__main__":
    unittest.main()
