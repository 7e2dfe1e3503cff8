#!/usr/bin/env python3
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps of a program on the device cuda that are issued before the numbers of the step before are read (--run-ahead).

Bits are those of steps that are issued one after another, and so is what is told of a step that fails. The emulated
driver's log of calls (FSDP_EMULATOR_LOG) shows when a run is issued and when the host knows that it is over;
FSDP_CALLS=1 prints how many calls of the driver a step makes.
"""

import collections
import filecmp
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import unittest

PROGRAM = os.environ["FSDP_LINEAR_PROGRAM"]
STEPS = 6
START = ("--device", "cuda", "--init", "seed=0", "--lr", "0.001", "--quiet")
DATA = ("--data", "random:seed=3")
FOUND = re.compile(r"expected an order between operations|expected bytes that were written before")
NOT_READY = 600


class AheadTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)

    def run_program(self, *arguments, fails=False, steps=STEPS, data=DATA, start=START, **environment):
        wanted = {**os.environ, "LINEAR_MESH": "1", "LINEAR_CUDA": "1", **environment}
        done = subprocess.run([PROGRAM, *start, *data, *map(str, arguments), "--steps", str(steps)], capture_output=True,
                              text=True, timeout=120, env=wanted)
        self.assertEqual(done.returncode != 0, fails, done.stderr)
        return done

    def train(self, name, *arguments, **environment):
        """All files that a run saves, and its metrics but times."""
        saved, metrics = self.root / name, self.root / f"{name}.jsonl"
        self.run_program("--save", saved, "--metrics", metrics, *arguments, **environment)
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
        return saved, [{key: line.get(key) for key in ("step", "loss", "grad_norm", "eval_loss", "lr")} for line in lines]

    def assert_same(self, one, other):
        names = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
        self.assertEqual(names, sorted(path.relative_to(other) for path in other.rglob("*") if path.is_file()))
        self.assertTrue(names)
        for name in names:
            self.assertTrue(filecmp.cmp(one / name, other / name, shallow=False), name)

    def test_equal_bits(self):
        whole = {"LINEAR_QUEUES": "1", "LINEAR_HOST": "1"}
        ways = (
            ("plain", (), {}),
            ("queues", (), whole),
            ("two ranks", (), {"LINEAR_MESH": "2", **whole}),
            ("four ranks", (), {"LINEAR_MESH": "2x2", **whole}),
            ("evaluations", ("--eval-data", "random:seed=5", "--eval-steps", 2, "--eval-every", 3), whole),
            ("saves", ("--save-every", 2, "--keep", 2), {"LINEAR_MESH": "2", **whole}),
            ("a schedule", ("--lr-schedule", "cosine:steps=6,warmup=2"), {}),
            ("skipped updates", (), {"LINEAR_FLAW": "skip"}),
        )
        for i, (name, arguments, environment) in enumerate(ways):
            for graph in ("on", "off"):
                for seed in ("1", "2"):
                    with self.subTest(way=name, graph=graph, seed=seed):
                        results = [self.train(f"{i}-{graph}-{seed}-{ahead}", "--graph", graph, "--run-ahead", ahead,
                                              *arguments, FSDP_EMULATOR_SEED=seed, **environment)
                                   for ahead in ("on", "off")]
                        self.assert_same(results[0][0], results[1][0])
                        self.assertEqual(results[0][1], results[1][1])

    def test_runs_that_go_on(self):
        expected, _ = self.train("whole", "--run-ahead", "off", LINEAR_MESH="2")
        self.train("parts", LINEAR_MESH="2", steps=3)
        resumed = ("--device", "cuda", "--resume", str(self.root / "parts"), "--quiet")
        self.run_program("--save", self.root / "parts", start=resumed, data=(), LINEAR_MESH="2")
        step = f"step-{STEPS:08}"
        self.assert_same(expected / step, self.root / "parts" / step)

    def calls(self, *arguments, **environment):
        """(function, CUresult) of the thread of a rank, as they returned."""
        log = self.root / "log"
        self.run_program(*arguments, FSDP_EMULATOR_LOG=str(log), **environment)
        rows = [line.split() for line in log.read_text().splitlines()]
        rank = next(thread for thread, function, _ in rows if function in ("cuGraphLaunch", "cuLaunchKernel"))
        return [(function, int(answer)) for thread, function, answer in rows if thread == rank]

    def events(self, *arguments, **environment):
        """"issued" and "known" for each run of a program that is one graph, in their order."""
        return ["issued" if function == "cuGraphLaunch" else "known"
                for function, answer in self.calls(*arguments, "--graph", "on", **environment)
                if (function, answer) in (("cuGraphLaunch", 0), ("cuEventQuery", 0))]

    def test_order_of_calls(self):
        """The next run is issued before the last one is known to be over, unless something holds."""
        one, ahead = ["issued", "known"], ["issued"] + (STEPS - 1) * ["issued", "known"] + ["known"]
        self.assertEqual(self.events(), ahead)
        self.assertEqual(self.events(LINEAR_QUEUES="1"), ahead)
        self.assertEqual(self.events("--run-ahead", "off"), STEPS * one)
        self.assertEqual(self.events("--stop-on-nan"), STEPS * one)
        # A checkpoint of every second step needs its state, and the next step says whether it was finite.
        self.assertEqual(self.events("--save", self.root / "saved", "--save-every", 4),
                         ["issued"] + 3 * ["issued", "known"] + ["known"] + 2 * one)
        self.assertEqual(self.events("--eval-data", "random:seed=5", "--eval-steps", 1, "--eval-every", 3),
                         2 * (["issued"] + 2 * ["issued", "known"] + ["known"] + one))
        # Runs whose calls are timed.
        self.assertNotIn("cuGraphLaunch", {function for function, _ in self.calls("--profile", self.root / "profile")})

    def test_calls_of_a_step(self):
        """From one launch of the graph to another, six steps later."""
        def per_step(*arguments):
            calls = self.calls(*arguments, "--graph", "on", steps=12)
            begins = [i for i, (function, _) in enumerate(calls) if function == "cuGraphLaunch"]
            counts = collections.Counter(function for function, answer in calls[begins[3]:begins[9]] if answer != NOT_READY)
            return {function: count / 6 for function, count in counts.items()}
        ahead, off = per_step(), per_step("--run-ahead", "off")
        if os.environ.get("FSDP_CALLS"):
            for name, calls in (("ahead", ahead), ("off", off)):
                print(f"\n{name}: {sum(calls.values()) - calls.get('cuCtxSetCurrent', 0):g} calls a step:",
                      ", ".join(f"{function} {count:g}" for function, count in sorted(calls.items())))
        # One graph, a kernel before and after it, and for each of two inputs a copy.
        for calls in (ahead, off):
            self.assertEqual((calls["cuGraphLaunch"], calls["cuLaunchKernel"]), (1, 2))
            self.assertNotIn("cuMemcpyDtoHAsync_v2", calls)
            self.assertNotIn("cuMemcpyHtoDAsync_v2", calls)
            self.assertNotIn("cuStreamSynchronize", calls)
            self.assertNotIn("cuStreamQuery", calls)
        # The copies of inputs wait for the run before.
        self.assertEqual(ahead["cuStreamWaitEvent"], off["cuStreamWaitEvent"] + 1)

    def test_checks(self):
        """What fails in a step is told of that step, with its data, though the next one was issued; steps before are
        told of, and none after."""
        for graph in ("on", "off"):
            for step in (1, 2, 3, STEPS - 1, STEPS):
                for mesh in ("1", "2"):
                    told = []
                    for ahead in ("on", "off"):
                        metrics = self.root / f"{graph}-{step}-{mesh}-{ahead}.jsonl"
                        done = self.run_program("--graph", graph, "--run-ahead", ahead, "--metrics", metrics, fails=True,
                                                LINEAR_FLAW=f"check:{step}", LINEAR_MESH=mesh)
                        errors = re.search(r"(?m)^error: .*", done.stderr)[0]
                        self.assertRegex(errors, rf"^error: step {step}: .*the data is flawed")
                        lines = metrics.read_text().count("\n") if metrics.exists() else 0
                        told.append((errors if mesh == "1" else "", lines))
                    with self.subTest(graph=graph, step=step, mesh=mesh):
                        self.assertEqual(told[0], told[1])
                        self.assertEqual(told[0][1], step - 1)

    def test_a_kernel_that_fails(self):
        """The launch of a later run returns the error of the device."""
        for graph in ("on", "off"):
            done = self.run_program("--graph", graph, fails=True, FSDP_EMULATOR_FAULT="cuEventQuery:9:719")
            self.assertRegex(done.stderr, r"error: step \d: cuEventQuery: CUDA_ERROR_LAUNCH_FAILED .* in a run of program "
                                          "'train': queue compute has")

    def test_batches_are_not_overwritten(self):
        """The copies of the next inputs to their places are in order after the run before. Nothing else is: without the
        wait they are found beside it."""
        for graph in ("on", "off"):
            functions = [function for function, _ in self.calls("--graph", graph, steps=2)]
            # The first copy to a place of the second step's inputs, and the wait before it.
            copies = [i for i, function in enumerate(functions) if function == "cuMemcpyDtoDAsync_v2"]
            if graph == "on":
                begin = max(i for i, function in enumerate(functions) if function == "cuGraphLaunch")
                copies = [i for i in copies if i < begin and "cuGraphLaunch" in functions[:i]]
                waits = [functions[:i].count("cuStreamWaitEvent") for i in copies[:1]]
                numbers = range(waits[0] - 1, waits[0] + 2)
            else:
                numbers = range(1, functions.count("cuStreamWaitEvent") + 1)
            found = 0
            for number in numbers:
                done = subprocess.run([PROGRAM, *START, *DATA, "--steps", "2", "--graph", graph], capture_output=True,
                                      text=True, timeout=120,
                                      env={**os.environ, "LINEAR_MESH": "1", "LINEAR_CUDA": "1",
                                           "FSDP_EMULATOR_SKIP": f"cuStreamWaitEvent:{number}"})
                self.assertIn("does nothing, as FSDP_EMULATOR_SKIP asks", done.stderr)
                if "other waits imply" not in done.stderr:
                    self.assertNotEqual(done.returncode, 0, f"{graph}: wait {number}")
                    self.assertRegex(done.stderr, FOUND)
                    found += 1
            self.assertGreaterEqual(found, 2)

    def test_a_signal(self):
        """All ranks end with the same step, which is saved, with its bits."""
        for ahead in ("on", "off"):
            saved = self.root / ahead
            process = subprocess.Popen([PROGRAM, *START, *DATA, "--steps", "1000000", "--run-ahead", ahead, "--save",
                                        str(saved), "--metrics", f"{saved}.jsonl"], stderr=subprocess.PIPE, text=True,
                                       env={**os.environ, "LINEAR_MESH": "2", "LINEAR_CUDA": "1"})
            metrics, end = pathlib.Path(f"{saved}.jsonl"), time.monotonic() + 60
            while time.monotonic() < end and not (metrics.exists() and metrics.read_text().count("\n") > 3):
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            errors = process.communicate(timeout=60)[1]
            step = int(re.search(r"interrupted at step (\d+); saved step \1", errors)[1])
            self.assertEqual(metrics.read_text().count("\n"), step)
            expected = self.root / f"{ahead}-expected"
            self.run_program("--save", expected, "--run-ahead", "off", steps=step, LINEAR_MESH="2")
            for name in ("rank-0", "rank-1"):
                for path in (saved / f"step-{step:08}").glob(f"*{name}*.safetensors"):
                    self.assertTrue(filecmp.cmp(path, expected / f"step-{step:08}" / path.name, shallow=False), path)

    def test_refusals(self):
        for arguments, environment, message in (
            (("--stop-on-nan",), {}, "--run-ahead: expected auto or off beside --stop-on-nan, which looks at each step's "
                                     "numbers, got on"),
            (("--profile", self.root / "p"), {}, "--run-ahead: expected auto or off beside --profile, for which each call is "
                                                 "timed, got on"),
            (("--trace", self.root / "t"), {}, "--run-ahead: expected auto or off beside --trace, for which each call is "
                                               "timed, got on"),
            ((), {"CUDA_LAUNCH_BLOCKING": "1"}, "--run-ahead: expected auto or off where runs of the device cuda are waited "
                                                "for one by one, got on"),
            (("--channel", "host"), {"LINEAR_MESH": "2"}, "where runs of the device cuda are waited for one by one, got on"),
        ):
            done = self.run_program("--run-ahead", "on", *arguments, fails=True, **environment)
            self.assertIn(message, done.stderr)
            for ahead in ("auto", "off"):
                self.run_program("--run-ahead", ahead, *arguments, **environment)
        done = self.run_program("--run-ahead", "on", fails=True, start=("--device", "cpu", *START[2:]))
        self.assertIn("where runs of the device cpu are waited for one by one, got on", done.stderr)
        done = self.run_program("--run-ahead", "yes", fails=True)
        self.assertIn("--run-ahead: expected auto, off or on, got 'yes'", done.stderr)


@unittest.skipUnless("FSDP_BIN" in os.environ, "expected a compiler")
class CompiledTest(unittest.TestCase):

    def test_micro_batches(self):
        """Of a step whose micro-batches are not told what others counted, they follow each other as steps do."""
        from compiled import Program
        with tempfile.TemporaryDirectory() as folder:
            for mesh, where in (("shard=1", "shard"), ("shard=2", "whole")):
                program = Program(folder, "gpt2", "--mesh", mesh, "--accumulate-in", where)
                for graph in ("on", "off"):
                    files = []
                    for ahead in ("on", "off"):
                        saved = pathlib.Path(tempfile.mkdtemp(dir=folder))
                        log = saved / "log"
                        done = program.run("--graph", graph, "--run-ahead", ahead, "--accumulate", "2", "--save",
                                           saved / "state", steps=3, FSDP_EMULATOR_CAPABILITY="8.0",
                                           FSDP_EMULATOR_LOG=str(log))
                        self.assertEqual(done.returncode, 0, done.stderr)
                        files.append({path.name: path.read_bytes()
                                      for path in sorted((saved / "state").rglob("*.safetensors"))})
                        if graph == "on" and mesh == "shard=1":
                            events = [line.split()[1][2:7] for line in log.read_text().splitlines()
                                      if re.search(r"cuGraphLaunch 0|cuEventQuery 0", line)]
                            self.assertEqual(events, ["Graph"] + 5 * ["Graph", "Event"] + ["Event"] if ahead == "on"
                                             else 6 * ["Graph", "Event"])
                    self.assertTrue(files[0])
                    self.assertEqual(files[0], files[1])


if __name__ == "__main__":
    unittest.main()
