#!/usr/bin/env python3
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention of compiled programs by cuDNN, whose double computes the graphs that the device composes, on the emulated
driver: losses beside those of our kernels, what takes over where the library refuses, and what is kept of `auto`.

The environment is compiled.py's.
"""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

from compiled import Program

LIBRARIES = pathlib.Path(os.environ["FSDP_CUDA_LIBS"])
# Losses of two steps, whose attentions round other numbers to bf16.
TOLERANCE = 2e-3
GPT2 = "BF16 4 x 128 x 128, head 64, causal"
TIMES = re.compile(rf"note: attention: 2 of {GPT2}: ([0-9.]+) ms by cuDNN, ([0-9.]+) ms by our kernels\n")


class CudnnAttention(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="fsdp-cudnn-")
        cls.gpt2 = Program(cls.folder.name, "gpt2-head64-bf16", "--mesh", "shard=1")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_program(self, program, *arguments, fails=False, steps=None, **environment):
        """What it wrote, and the bytes of what it saved."""
        with tempfile.TemporaryDirectory() as folder:
            saved = pathlib.Path(folder, "saved")
            outcome = program.run("--save", saved, "--metrics", saved.with_suffix(".jsonl"), *arguments, quiet=False,
                                  steps=steps, **environment)
            self.assertEqual(outcome.returncode, 1 if fails else 0, outcome.stderr)
            if fails:
                return outcome, None, None
            newest = saved / (saved / "latest").read_text().strip()
            files = {path.name: path.read_bytes() for path in newest.iterdir() if path.suffix == ".safetensors"}
            losses = [json.loads(line)["loss"] for line in saved.with_suffix(".jsonl").read_text().splitlines()]
        return outcome, files, losses

    def check_losses(self, program, told, *arguments):
        _, ours, want = self.run_program(program, *arguments, steps=2)
        outcome, theirs, got = self.run_program(program, "--attention", "cudnn", *arguments, steps=2)
        self.assertIn(told, outcome.stdout)
        self.assertEqual(len(got), 2)
        for a, b in zip(got, want):
            self.assertLessEqual(abs(a - b), TOLERANCE * abs(b))
        self.assertNotEqual(ours, theirs)
        # A rerun, and issued call by call.
        for graph in ("on", "off"):
            _, again, _ = self.run_program(program, "--attention", "cudnn", "--graph", graph, *arguments,
                                           steps=2)
            self.assertEqual(again, theirs)

    def test_views_of_one_buffer(self):
        self.check_losses(self.gpt2, "note: attention: 2 of 2 by cuDNN 9.19.0\n")

    def test_two_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            program = Program(folder, "gpt2-head64-bf16", "--mesh", "shard=2")
            self.check_losses(program, "note: attention: 2 of 2 by cuDNN 9.19.0\n", "-n", "2")

    def test_dependent_launch(self):
        """A kernel after cuDNN's begins when those have ended."""
        saved = []
        for launch in ("on", "off"):
            outcome, files, _ = self.run_program(self.gpt2, "--attention", "cudnn", "--dependent-launch", launch,
                                                 FSDP_EMULATOR_CAPABILITY="10.0")
            self.assertIn(f"note: dependent launch: {launch}", outcome.stdout)
            self.assertIn("note: attention: 2 of 2 by cuDNN 9.19.0\n", outcome.stdout)
            saved.append(files)
        self.assertEqual(*saved)

    def test_heads_that_share_keys(self):
        program = Program(self.folder.name, "llama-bf16", "--mesh", "shard=1")
        _, _, want = self.run_program(program)
        outcome, _, got = self.run_program(program, "--attention", "cudnn")
        self.assertIn("note: attention: 4 of 4 by cuDNN 9.19.0\n", outcome.stdout)
        self.assertLessEqual(abs(got[0] - want[0]), TOLERANCE * want[0])

    def test_statistics_on_their_way(self):
        """Computed again, and kept on the host between forward and backward."""
        _, _, want = self.run_program(self.gpt2, steps=2)
        for option, count in (("--recompute", 3), ("--offload", 2)):
            with self.subTest(option=option), tempfile.TemporaryDirectory() as folder:
                program = Program(folder, "gpt2-head64-bf16", "--mesh", "shard=1", "--cluster", "h100-sxm", option, "full")
                outcome, _, got = self.run_program(program, "--attention", "cudnn", steps=2)
                self.assertIn(f"note: attention: {count} of {count} by cuDNN 9.19.0\n", outcome.stdout)
                for a, b in zip(got, want):
                    self.assertLessEqual(abs(a - b), TOLERANCE * abs(b))

    def test_recorded_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            profile = pathlib.Path(folder, "profile.json")
            _, recorded, _ = self.run_program(self.gpt2, "--attention", "cudnn", "--profile", profile)
            told = json.loads(profile.read_text())
        _, plain, _ = self.run_program(self.gpt2, "--attention", "cudnn")
        self.assertEqual(recorded, plain)
        self.assertIn("attention: 2 of 2 by cuDNN 9.19.0", told["remarks"])
        # What the scores' gradients and the rows' sums take, in pages of the device.
        self.assertGreaterEqual(told["memory"]["workspace of attention"], 4 * 128 * 128 * 2)
        names = sorted(re.sub("^k[0-9]+_", "", call["name"]) for call in told["calls"])
        self.assertLess({"attention", "attention_backward"}, set(names))

    def test_refusals_are_told_once(self):
        """Backward passes alone are refused: their forward passes stay ours, too."""
        _, ours, _ = self.run_program(self.gpt2)
        for refused, environment in (("backward: no engine is proposed", {"FSDP_CUDNN_REFUSE": "backward"}),
                                     ("forward: no engine is proposed", {"FSDP_CUDNN_REFUSE": "all"}),
                                     ("backward: expected the workspace of cuDNN's attention that fits the [0-9]+ free bytes",
                                      {"FSDP_CUDNN_WORKSPACE": str(1 << 50)})):
            with self.subTest(refused=refused):
                outcome, saved, _ = self.run_program(self.gpt2, "--attention", "cudnn", **environment)
                self.assertEqual(saved, ours)
                lines = [line for line in (outcome.stdout + outcome.stderr).splitlines() if "attention" in line]
                self.assertEqual(len(lines), 2, lines)
                self.assertEqual(lines[0], "note: attention: 0 of 2 by cuDNN 9.19.0, the others by our kernels")
                self.assertRegex(lines[1], f"note: attention: cuDNN 9.19.0 does not take 2 of {GPT2}: {refused}")

    def test_scores_that_are_not_plain(self):
        """BERT's mask is a tensor."""
        program = Program(self.folder.name, "bert", "--mesh", "shard=1", "--param-dtype", "bf16")
        outcome, _, _ = self.run_program(program, "--attention", "cudnn")
        self.assertIn("note: attention: 0 of 4 by cuDNN 9.19.0, the others by our kernels\n", outcome.stdout)
        self.assertIn("expected scores that are only scaled and masked behind the query, got a score function\n",
                      outcome.stdout)

    def test_without_the_library(self):
        _, ours, _ = self.run_program(self.gpt2)
        with tempfile.TemporaryDirectory() as folder:
            for library in LIBRARIES.glob("lib*.so*"):
                shutil.copy(library, folder)
            pathlib.Path(folder, "libcudnn.so.9").write_text("no library")
            outcome, _, _ = self.run_program(self.gpt2, "--attention", "cudnn", fails=True, FSDP_CUDA_LIBS=folder)
            self.assertRegex(outcome.stderr, "error: .*--attention cudnn: cannot open cuDNN, which computes attention: ")
            outcome, saved, _ = self.run_program(self.gpt2, "--attention", "auto", FSDP_CUDA_LIBS=folder)
        self.assertEqual(saved, ours)
        self.assertIn("note: attention: by our kernels; cannot open cuDNN, which computes attention: ", outcome.stdout)

    def train(self, *arguments, **environment):
        """What steps say, and what the newest checkpoint in the folder that --save names says of the device."""
        command = [self.gpt2.path, "--device", "cuda", "--data", self.gpt2.fixture / "batches.safetensors", "--lr", "0.001",
                   *arguments]
        outcome = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, **environment})
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        saved = pathlib.Path(arguments[arguments.index("--save") + 1])
        return outcome, json.loads((saved / (saved / "latest").read_text().strip() / "meta.json").read_text())["device"]

    def test_the_default_and_what_a_checkpoint_keeps_of_it(self):
        start = ("--init", "seed=0", "--steps", "1")
        with tempfile.TemporaryDirectory() as folder:
            saved = pathlib.Path(folder, "saved")
            outcome, device = self.train(*start, "--save", saved)
            self.assertRegex(outcome.stdout, TIMES)
            self.assertEqual(device, {"name": "cuda", "choices": {"attention": "2 of 2 by cuDNN 9.19.0"}})
            go_on = ("--resume", saved, "--steps", "2", "--save", pathlib.Path(folder, "on"))
            outcome, _ = self.train(*go_on)
            self.assertNotIn("--attention", outcome.stderr)
            outcome, device = self.train(*go_on[:4], "--save", pathlib.Path(folder, "own"), "--attention", "own")
            self.assertEqual(device["choices"], {"attention": "own"})
            self.assertIn("warning: --resume: " + str(saved / "step-00000001") + ": --attention: expected 2 of 2 by cuDNN 9.19.0, "
                          "as when the state was saved, got own: sums have another order\n", outcome.stderr)

    def test_a_rank_without_the_library(self):
        """auto: all have our kernels; cudnn: refused."""
        with tempfile.TemporaryDirectory() as folder:
            program = Program(folder, "gpt2-head64-bf16", "--mesh", "shard=2")
            for library in LIBRARIES.glob("lib*.so*"):
                shutil.copy(library, folder)
            pathlib.Path(folder, "libcudnn.so.9").write_text("no library")
            for attention, message in (("auto", "note: attention: by our kernels; rank 0 has cuDNN 9.19.0, and no cuDNN on "
                                                "rank 1 "),
                                       ("cudnn", "error: rank 1: .*--attention cudnn: cannot open cuDNN")):
                with socket.socket() as listener:
                    listener.bind(("127.0.0.1", 0))
                    port = listener.getsockname()[1]
                command = program.command("--attention", attention)
                command.remove("--quiet")
                ranks = [subprocess.Popen(
                    command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                    env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2",
                         "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **({"FSDP_CUDA_LIBS": folder} if rank else {})})
                         for rank in (0, 1)]
                text = "".join(process.communicate(timeout=120)[0] for process in ranks)
                self.assertEqual([process.returncode for process in ranks], [0, 0] if attention == "auto" else [1, 1], text)
                self.assertRegex(text, message)

    def test_versions_that_are_not_taken(self):
        outcome, _, _ = self.run_program(self.gpt2, "--attention", "cudnn", FSDP_CUDNN_VERSION="91001")
        self.assertIn("forward: expected a version of 9.8.0 or later but 9.10.0 and 9.10.1, got 9.10.1\n", outcome.stdout)

    def test_what_auto_keeps(self):
        with tempfile.TemporaryDirectory() as cache:
            auto = lambda **more: self.run_program(self.gpt2, "--attention", "auto", FSDP_CUDA_CACHE=cache, **more)
            _, ours, _ = self.run_program(self.gpt2)
            slow, saved, _ = auto(FSDP_CUDNN_SLOW="300")
            theirs, own = map(float, TIMES.search(slow.stdout).groups())
            self.assertGreater(theirs, own)
            self.assertGreater(theirs, 300)
            self.assertIn("note: attention: 0 of 2 by cuDNN 9.19.0, the others by our kernels\n", slow.stdout)
            self.assertEqual(saved, ours)
            self.assertNotIn("workspace of attention", slow.stdout)
            # Nothing is timed again.
            fast, again, _ = auto()
            self.assertEqual(TIMES.search(fast.stdout).group(), TIMES.search(slow.stdout).group())
            self.assertEqual(again, saved)
            (kept,) = pathlib.Path(cache).glob("cudnn-9.19.0-*.txt")
            self.assertIn("\ncuDNN 9.19.0\n", kept.read_text())
            kept.write_text(kept.read_text().replace("cuDNN", "cuDMM"))
            damaged, _, _ = auto()
            self.assertIn("expected algorithms of earlier runs, got a file that is damaged", damaged.stderr)

    def test_what_is_faster(self):
        """The double takes a tenth of what the emulator takes for our kernels."""
        outcome, saved, _ = self.run_program(self.gpt2, "--attention", "auto")
        theirs, own = map(float, TIMES.search(outcome.stdout).groups())
        _, by_cudnn, _ = self.run_program(self.gpt2, "--attention", "cudnn")
        _, ours, _ = self.run_program(self.gpt2)
        self.assertEqual(saved, by_cudnn if theirs < own else ours)

    def test_plans_that_are_kept(self):
        """Another knob is another order of sums, and a plan of an earlier run stays."""
        with tempfile.TemporaryDirectory() as cache:
            run = lambda knobs, **more: self.run_program(self.gpt2, "--attention", "cudnn", FSDP_CUDNN_KNOBS=knobs,
                                                         **more)
            _, seven, _ = run("7", FSDP_CUDA_CACHE=cache)
            _, eight, _ = run("8")
            self.assertNotEqual(seven, eight)
            outcome, kept, _ = run("8,7", FSDP_CUDA_CACHE=cache)
            self.assertEqual(kept, seven)
            outcome, gone, _ = run("8", FSDP_CUDA_CACHE=cache)
            self.assertEqual(gone, eight)
            self.assertIn("cuDNN 9.19.0 does not propose what an earlier run has used", outcome.stderr)

    def test_calls_that_fail(self):
        """The second memory that the device maps is the workspace."""
        _, ours, _ = self.run_program(self.gpt2)
        outcome, saved, _ = self.run_program(self.gpt2, "--attention", "cudnn", FSDP_EMULATOR_FAULT="cuMemCreate:2:2")
        self.assertEqual(saved, ours)
        self.assertIn(f"does not take 2 of {GPT2}: backward: ", outcome.stdout)
        self.assertIn("cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY", outcome.stdout)
        outcome, saved, _ = self.run_program(self.gpt2, "--attention", "auto", FSDP_CUDNN_FAIL="1")
        self.assertEqual(saved, ours)
        failure = "cudnnBackendExecute: CUDNN_STATUS_EXECUTION_FAILED (as the environment says)"
        self.assertIn(f"does not take 2 of {GPT2}: forward: {failure}\n", outcome.stdout)
        outcome, _, _ = self.run_program(self.gpt2, "--attention", "cudnn", fails=True, FSDP_CUDNN_FAIL="1")
        self.assertRegex(outcome.stderr, r"error: .*attention 'k[0-9]+_attention'.*" + re.escape(failure))
        for call in ("cuEventElapsedTime", "cuEventSynchronize"):
            outcome, _, _ = self.run_program(self.gpt2, "--attention", "auto", fails=True, FSDP_EMULATOR_FAULT=call + ":1:1")
            self.assertRegex(outcome.stderr, f"error: .*attention of {GPT2}: {call}: CUDA_ERROR_INVALID_VALUE")

    def test_settings(self):
        outcome, _, _ = self.run_program(self.gpt2, "--attention", "maybe", fails=True)
        self.assertIn("--attention: expected own, cudnn or auto, got 'maybe'", outcome.stderr)


if __name__ == "__main__":
    unittest.main()
