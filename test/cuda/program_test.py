#!/usr/bin/env python3
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""test/data's hand-written program on the device cuda, which FSDP_CUDA_LIBS leads to, and on processors.

Both have the same bits in checkpoints, metrics and outputs, in any order of steps on either.
"""

import filecmp
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

PROGRAM = os.environ["FSDP_LINEAR_PROGRAM"]
DATA = "random:seed=3"
# Where the runtime has the mpi backend.
MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe") if (
    os.environ.get("FSDP_HAS_MPI") == "1" and shutil.which("mpirun")) else ()


class ProgramTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)

    def run_program(self, *arguments, fails=False, before=(), **environment):
        wanted = {**os.environ, "LINEAR_MESH": "1", "LINEAR_CUDA": "1", **environment}
        done = subprocess.run([*map(str, before), PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=120,
                              env={name: value for name, value in wanted.items() if value is not None})
        self.assertEqual(done.returncode != 0, fails, done.stderr)
        return done

    def train(self, device, name, steps=6, start=("--init", "seed=0"), more=(), before=(), **environment):
        """The checkpoint's directory."""
        directory = self.root / name
        self.run_program("--device", device, *start, "--data", DATA, "--lr", "0.001", "--steps", steps, "--quiet",
                         "--save", directory, "--metrics", f"{directory}.jsonl", *more, before=before, **environment)
        return directory / f"step-{steps:08}"

    def assert_same(self, one, other):
        names = sorted(path.name for path in one.iterdir())
        self.assertEqual(names, sorted(path.name for path in other.iterdir()))
        for name in names:
            self.assertTrue(filecmp.cmp(one / name, other / name, shallow=False), name)

    def losses(self, directory):
        lines = pathlib.Path(f"{directory.parent}.jsonl").read_text().splitlines()
        return [(json.loads(line)["loss"], json.loads(line)["grad_norm"]) for line in lines]

    def test_checkpoints_and_metrics_are_those_of_processors(self):
        for environment in ({}, {"LINEAR_QUEUES": "1"}, {"LINEAR_HOST": "1"},
                            {"LINEAR_QUEUES": "1", "LINEAR_HOST": "1"}):
            name = "-".join(environment) or "plain"
            cpu = self.train("cpu", f"cpu-{name}", **environment)
            for graph in ("on", "off"):
                cuda = self.train("cuda", f"cuda-{name}-{graph}", more=("--graph", graph), **environment)
                self.assert_same(cpu, cuda)
                self.assertEqual(self.losses(cpu), self.losses(cuda))

    def test_devices_take_turns(self):
        whole = self.train("cpu", "whole", 6)
        self.train("cuda", "turns", 2)
        self.train("cpu", "turns", 4, start=("--resume", self.root / "turns"))
        last = self.train("cuda", "turns", 6, start=("--resume", self.root / "turns"))
        self.assert_same(whole, last)

    def test_batches_arrive_while_a_step_runs(self):
        """A step is held until the batches of the two steps after it are on the device."""
        batch = 512
        cpu = self.train("cpu", "cpu", LINEAR_QUEUES="1")
        for graph, call in (("on", "cuGraphLaunch"), ("off", "cuLaunchKernel")):
            for copies in (2, 3):
                cuda = self.train("cuda", f"{graph}-{copies}", more=("--graph", graph), LINEAR_QUEUES="1",
                                  FSDP_EMULATOR_HOLD=f"{call}:1:{copies}:{batch}", FSDP_EMULATOR_TIMEOUT="30")
                self.assert_same(cpu, cuda)
            # There is no room for another one: the hold is what the step waits for.
            done = self.run_program("--device", "cuda", "--graph", graph, "--init", "seed=0", "--data", DATA, "--lr",
                                    "0.001", "--steps", "6", "--quiet", fails=True, LINEAR_QUEUES="1",
                                    FSDP_EMULATOR_HOLD=f"{call}:1:4:{batch}", FSDP_EMULATOR_TIMEOUT="2")
            self.assertIn("CUDA_ERROR_LAUNCH_TIMEOUT", done.stderr)

    def test_ranges_of_profilers(self):
        """They are balanced on each rank's thread, also where a run fails, and nothing is written without a profiler."""
        log = self.root / "log"
        attached = {"NVTX_INJECTION64_PATH": os.environ["FSDP_TEST_NVTX"], "FSDP_NVTX_LOG": str(log), "LINEAR_MESH": "2",
                    "LINEAR_QUEUES": "1"}
        start = ("--device", "cuda", "--init", "seed=0", "--data", DATA, "--lr", "0.001", "--steps", "3", "--quiet")
        for graph, more, fails in (("on", {}, False), ("off", {}, False),
                                   ("off", {"FSDP_EMULATOR_FAULT": "cuLaunchKernel:9:719"}, True)):
            log.unlink(missing_ok=True)
            self.run_program(*start, "--graph", graph, fails=fails, **attached, **more)
            stacks, names = {}, []
            for line in log.read_text().splitlines():
                what, thread, *name = line.split(" ", 2)
                if what == "push":
                    stacks.setdefault(thread, []).append(name[0])
                    names.append((len(stacks[thread]), name[0]))
                elif what == "pop":
                    stacks[thread].pop()
            self.assertEqual([stack for stack in stacks.values() if stack], [])
            if not fails:
                self.assertEqual(names.count((1, "train")), 6)
                self.assertIn((2, "transfer"), names)
        log.unlink()
        self.run_program(*start, FSDP_NVTX_LOG=str(log))
        self.assertFalse(log.exists())
        for path, why in ((self.root / "missing.so", "cannot open shared object file"),
                          (pathlib.Path(os.environ["FSDP_CUDA_LIBS"]) / "libnccl.so.2",
                           "expected a function InitializeInjectionNvtx2, found none")):
            done = self.run_program(*start[:-1], NVTX_INJECTION64_PATH=str(path))
            self.assertRegex(done.stdout + done.stderr, f"NVTX_INJECTION64_PATH: profilers see no ranges: .*{why}")

    def test_evaluation(self):
        for device in ("cpu", "cuda"):
            self.run_program("--device", device, "--init", "seed=0", "--eval-data", DATA, "--eval-steps", "3",
                             "--save-outputs", self.root / f"{device}.safetensors", "--quiet")
        self.assertTrue(filecmp.cmp(self.root / "cpu.safetensors", self.root / "cuda.safetensors", shallow=False))

    def test_profile_and_trace(self):
        self.train("cuda", "recorded", 2, more=("--profile", self.root / "profile.json", "--trace",
                                                self.root / "trace"), LINEAR_QUEUES="1", LINEAR_HOST="1")
        profile = (self.root / "profile.json").read_text()
        for name in ("forward_backward", "square", "update", "reload", "offload"):
            self.assertIn(name, profile)
        trace = json.loads((self.root / "trace" / "rank-0.json").read_text())
        self.assertIn("update", {event.get("name") for event in trace["traceEvents"]})

    def test_a_check_that_fails(self):
        for graph in ("on", "off"):
            done = self.run_program("--device", "cuda", "--graph", graph, "--init", "seed=0", "--data", DATA, "--lr",
                                    "0.001", "--steps", "6", fails=True, LINEAR_FLAW="check:4")
            self.assertIn("the data is flawed", done.stderr)
            self.assertIn("step 4", done.stderr)

    def test_what_does_not_fit(self):
        start = ("--init", "seed=0", "--data", DATA, "--lr", "0.001", "--steps", "1")
        done = self.run_program("--device", "cuda", *start, fails=True, LINEAR_CUDA=None)
        self.assertIn("device: expected a program compiled for cuda, which is what cuda runs, got cpu", done.stderr)
        for arguments, message in ((("--blas", "openblas"), "--blas: expected a setting of CUDA devices, graph, "
                                    "dependent-launch, algorithms, attention, channel or reduction, got 'blas'"),
                                   (("--reduction", "fast"), "--reduction: expected auto, exact or nccl, got 'fast'")):
            done = self.run_program("--device", "cuda", *start, *arguments, fails=True)
            self.assertIn(message, done.stderr)
        for arguments, message in (
            (("--link", "1e9"), "--link: expected a device whose transfers the host moves and can delay, got cuda"),
            (("--graph", "on", "--profile", self.root / "p"),
             "--graph: expected auto or off beside --profile, for which each call is timed, got on"),
            (("--graph", "on", "--trace", self.root / "t"),
             "--graph: expected auto or off beside --trace, for which each call is timed, got on")):
            done = self.run_program("--device", "cuda", *start, *arguments, fails=True)
            self.assertIn(message, done.stderr)
        note = "--threads 2 changes nothing on the device cuda: threads of the host only draw the parameters of --init"
        done = self.run_program("--device", "cuda", *start, "--threads", "2", "--save", self.root / "saved")
        self.assertNotIn(note, done.stdout + done.stderr)
        for device, count in (("cuda", 1), ("cpu", 0)):
            done = self.run_program("--device", device, "--resume", self.root / "saved", *start[2:-1], "2", "--threads", "2")
            self.assertEqual((done.stdout + done.stderr).count(note), count)
        done = self.run_program("--device", "cpu", *start, "--graph", "on", fails=True)
        self.assertIn("--graph: expected a setting of processors, queue-threads or blas, got 'graph'", done.stderr)
        done = self.run_program("--device", "cuda", *start, "--graph", "on", fails=True, CUDA_LAUNCH_BLOCKING="1")
        self.assertIn("--graph: expected auto or off beside CUDA_LAUNCH_BLOCKING=1", done.stderr)

    def test_failures_of_the_driver(self):
        start = ("--device", "cuda", "--init", "seed=0", "--data", DATA, "--lr", "0.001", "--steps", "6")
        for fault, message in (
            ("cuMemCreate:1:2", r"an arena of 2097152 bytes \(3840 in whole pages of 2097152\) on device 0 (.*): cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY"),
            ("cuLaunchKernel:6:719", "launch 'square': cuLaunchKernel: CUDA_ERROR_LAUNCH_FAILED"),
            ("cuEventQuery:3:700", "cuEventQuery: CUDA_ERROR_ILLEGAL_ADDRESS .* CUDA_LAUNCH_BLOCKING=1"),
            ("cuDevicePrimaryCtxRetain:1:801", "CUDA device 0: cuDevicePrimaryCtxRetain: CUDA_ERROR_NOT_SUPPORTED"),
        ):
            done = self.run_program(*start, "--graph", "off", fails=True, FSDP_EMULATOR_FAULT=fault)
            self.assertRegex(done.stderr, message)
        for fault, message in (
            ("cuGraphLaunch:3:1", "error: step 3: cuGraphLaunch: CUDA_ERROR_INVALID_VALUE"),
            # An error of the device is that of a run before, which is still pending.
            ("cuGraphLaunch:3:719", "error: step 2: cuEventQuery: CUDA_ERROR_LAUNCH_FAILED .*; the next run could not be "
                                    "issued: cuGraphLaunch: CUDA_ERROR_LAUNCH_FAILED"),
            ("cuEventQuery:3:700", "cuEventQuery: CUDA_ERROR_ILLEGAL_ADDRESS .* CUDA_LAUNCH_BLOCKING=1"),
        ):
            done = self.run_program(*start, fails=True, FSDP_EMULATOR_FAULT=fault)
            self.assertRegex(done.stderr, message)
        for variable, value, message in (
            ("MEMORY", "1048576", r"expected an arena that fits the 1048576 free bytes \(of 1048576\) of .*, got 2097152 bytes \(3840 in whole pages of 2097152\)"),
            ("CAPABILITY", "7.5", "expected a CUDA device of sm_80 or later, got sm_75"),
            ("DEVICES", "0", "CUDA_ERROR_NO_DEVICE|expected a CUDA device, got none"),
            ("DRIVER", "11080", "expected a driver of CUDA 12.0 or later, got 11.8"),
        ):
            done = self.run_program(*start, fails=True, **{f"FSDP_EMULATOR_{variable}": value})
            self.assertRegex(done.stderr, message)

    def test_captures_that_are_refused(self):
        """--graph on ends the run; auto issues calls one by one, on all ranks, and says so."""
        start = ("--init", "seed=0", "--data", DATA, "--lr", "0.001", "--steps", 4)
        faults = (("cuStreamBeginCapture_v2:1:801", "cuStreamBeginCapture: CUDA_ERROR_NOT_SUPPORTED"),
                  ("cuLaunchKernel:2:900", "launch 'forward_backward': cuLaunchKernel: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"),
                  ("cuStreamEndCapture:1:904", "cuStreamEndCapture: CUDA_ERROR_STREAM_CAPTURE_UNJOINED"),
                  ("cuGraphInstantiateWithFlags:1:2", "cuGraphInstantiate: CUDA_ERROR_OUT_OF_MEMORY"),
                  ("cuGraphUpload:1:1", "cuGraphUpload: CUDA_ERROR_INVALID_VALUE"))
        expected = self.train("cuda", "off", steps=4, more=("--graph", "off"))
        for i, (fault, message) in enumerate(faults):
            done = self.run_program("--device", "cuda", *start, "--graph", "on", fails=True, FSDP_EMULATOR_FAULT=fault)
            self.assertRegex(done.stderr,
                             "program 'train': as one CUDA graph, which --graph off does without: " + message)
            # The fault leaves the stream in its capture.
            if fault.startswith("cuStreamEndCapture"):
                continue
            saved = self.root / str(i)
            done = self.run_program("--device", "cuda", *start, "--save", saved, FSDP_EMULATOR_FAULT=fault)
            self.assertRegex(done.stderr, "warning: program 'train' is no CUDA graph, so that the host issues each of its "
                                          "calls: " + message)
            self.assert_same(expected, saved / expected.name)
        # Both ranks of two, or one after all of it was captured: all go on.
        ranks = {"LINEAR_MESH": "2", "LINEAR_QUEUES": "1"}
        calls = self.train("cuda", "calls", steps=4, more=("--graph", "off"), **ranks)
        for i, (fault, message) in enumerate((
                ("cuStreamBeginCapture_v2:1:801,cuStreamBeginCapture_v2:2:801", "cuStreamBeginCapture"),
                ("cuGraphInstantiateWithFlags:2:2", "(cuGraphInstantiate|rank 1 cannot)"))):
            saved = self.root / f"ranks-{i}"
            done = self.run_program("--device", "cuda", *start, "--save", saved, **ranks, FSDP_EMULATOR_FAULT=fault)
            self.assertRegex(done.stderr, "warning: program 'train' is no CUDA graph, .*: " + message)
            self.assert_same(calls, saved / calls.name)
        # One that does not come to what the other captures: both end.
        fault = "cuStreamBeginCapture_v2:2:801"
        begin = time.monotonic()
        done = self.run_program("--device", "cuda", *start, fails=True, **ranks, FSDP_EMULATOR_FAULT=fault)
        self.assertLess(time.monotonic() - begin, 60)
        self.assertRegex(done.stderr, "error: .*program 'train' is no CUDA graph on this rank, and others wait for it in their "
                                      "captures; run with --graph off, or NCCL_GRAPH_REGISTER=0: cuStreamBeginCapture: ")
        self.run_program("--device", "cuda", *start, **ranks, FSDP_EMULATOR_FAULT=fault, NCCL_GRAPH_REGISTER="0")

    def test_captures_make_no_call_that_waits(self):
        """The runtime's own; libraries load code that they launch first."""
        more = {"LINEAR_MESH": "2", "LINEAR_QUEUES": "1", "LINEAR_HOST": "1", "FSDP_EMULATOR_STRICT_CAPTURE": "1"}
        done = self.run_program("--device", "cuda", "--init", "seed=0", "--data", DATA, "--lr", "0.001", "--steps", 2,
                                "--graph", "on", **more)
        # Nor does it lose priorities of streams.
        self.assertNotIn("emulator: ", done.stderr)

    def test_drivers_that_lack_things(self):
        start = ("--device", "cuda", "--init", "seed=0", "--data", DATA, "--lr", "0.001", "--steps", 2)
        for variable, value, warning in (
            ("PRIORITIES", "0", "warning: streams have no priorities, so that transfers among ranks begin after kernels that "
                                "were there before: device 0 .* has none"),
            ("SHARING", "none", ""), ("SHARING", "file", ""), ("SHARING", "file,rdma,fabric", ""),
            ("SHARING", "file,fabric-denied", ""), ("PEERS", "0", ""),
        ):
            with self.subTest(variable=variable, value=value):
                done = self.run_program(*start, LINEAR_MESH="2", LINEAR_QUEUES="1", **{f"FSDP_EMULATOR_{variable}": value})
                self.assertRegex(done.stderr, warning or "^")
                self.assertEqual("warning" in done.stderr, bool(warning), done.stderr)
        # One rank has nobody to exchange with.
        self.assertNotIn("warning", self.run_program(*start, FSDP_EMULATOR_PRIORITIES="0").stderr)

    def test_settings_that_differ_between_ranks(self):
        if not MPIRUN:
            self.skipTest("expected mpirun")
        one = ("-n", "1", PROGRAM, "--device", "cuda", "--init", "seed=0", "--data", DATA, "--lr", "0.001", "--steps", "2")
        done = subprocess.run([*MPIRUN, *one, ":", *one, "--graph", "off"], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "LINEAR_MESH": "2", "LINEAR_CUDA": "1"})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("expected --graph auto, as on rank 0, got off on rank 1", done.stderr)

    def test_the_device_that_nobody_chose(self):
        """Processors are the default, also where there is a GPU, and it is told once."""
        start = ("--init", "seed=0", "--data", DATA, "--lr", "0.001", "--steps", "1")
        note = "runs on the device cpu, the default, though this host can run it with --device cuda"
        both = {"LINEAR_CUDA": "1", "LINEAR_MESH": "2"}
        done = self.run_program(*start, **both)
        self.assertEqual((done.stdout + done.stderr).count(note), 1)
        for arguments, environment in ((("--device", "cpu"), {}), ((), {"LINEAR_CUDA": None}),
                                       ((), {"FSDP_CUDA_LIBS": os.environ["FSDP_OLD_DRIVER"]})):
            done = self.run_program(*start, *arguments, **{**both, **environment})
            self.assertNotIn(note, done.stdout + done.stderr)

    def test_no_driver(self):
        done = self.run_program("--device", "cuda", "--init", "seed=0", "--data", DATA, "--lr", "0.001", "--steps",
                                "1", fails=True, FSDP_CUDA_LIBS=os.environ["FSDP_OLD_DRIVER"])
        self.assertIn("this program was compiled for CUDA devices of sm_80: ", done.stderr)
        self.assertIn("libcuda.so.1: expected a driver of CUDA 12.0 or later, got 11.8", done.stderr)

    def test_libraries_of_a_python_environment(self):
        """The driver is the system's, libraries are those that pip puts into a Python environment."""
        doubles = pathlib.Path(os.environ["FSDP_CUDA_LIBS"])
        system, wheel = self.root / "system", self.root / "lib/python3.11/site-packages/nvidia/nccl/lib"
        for directory, name in ((system, "libcuda.so.1"), (wheel, "libnccl.so.2")):
            directory.mkdir(parents=True)
            (directory / name).symlink_to(doubles / name)
        environment = {"LINEAR_MESH": "2", "FSDP_CUDA_LIBS": str(system)}
        more = ("-n", "2")
        wanted = self.train("cpu", "cpu", more=more, LINEAR_MESH="2")
        for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
            own = {"VIRTUAL_ENV": None, "CONDA_PREFIX": None, variable: str(self.root)}
            self.assert_same(wanted, self.train("cuda", variable, more=more, **own, **environment))
        # Else those of the python3 on PATH, which is never run: beside it, or beside what it is a link to.
        python, link = self.root / "bin/python3", self.root / "elsewhere/bin/python3"
        for path in (python, link):
            path.parent.mkdir(parents=True)
        python.write_text("#!/bin/false\n")
        python.chmod(0o755)
        link.symlink_to(python)
        for path in (python, link):
            self.assert_same(wanted, self.train("cuda", f"on-{path.parent.parent.name}", more=more, VIRTUAL_ENV=None,
                                                CONDA_PREFIX=None, PATH=f"{path.parent}:{os.environ['PATH']}", **environment))

    def test_ranks(self):
        """Threads with a device each: the bits of processors, whatever runs first."""
        for mesh in ("2", "3", "2x2", "4"):
            for environment in ({}, {"LINEAR_QUEUES": "1", "LINEAR_HOST": "1"}):
                name = f"{mesh}-{len(environment)}"
                cpu = self.train("cpu", f"cpu-{name}", LINEAR_MESH=mesh, **environment)
                for seed, graph in (("1", "on"), ("2", "on"), ("3", "off")):
                    with self.subTest(mesh=mesh, environment=environment, seed=seed, graph=graph):
                        cuda = self.train("cuda", f"cuda-{name}-{seed}", LINEAR_MESH=mesh, FSDP_EMULATOR_SEED=seed,
                                          more=("--graph", graph), **environment)
                        self.assert_same(cpu, cuda)
                        self.assertEqual(self.losses(cpu), self.losses(cuda))

    def test_several_nodes(self):
        """The bits of processors, whether nodes are subtrees of the sums or not, which is told with what it costs."""
        for environment in ({}, {"LINEAR_QUEUES": "1"}):
            name = f"{len(environment)}"
            cpu = self.train("cpu", f"cpu-{name}", LINEAR_MESH="4", **environment)
            for ranks, more in (("2", ("--graph", "on")), ("2", ("--graph", "off")), ("2", ("--backend", "tcp")), ("3", ())):
                with self.subTest(ranks=ranks, more=more, environment=environment):
                    cuda = self.train("cuda", f"cuda-{name}-{ranks}-{len(more) and more[1]}", LINEAR_MESH="4",
                                      FSDP_NODE_RANKS=ranks, more=more, **environment)
                    self.assert_same(cpu, cuda)
                    self.assertEqual(self.losses(cpu), self.losses(cuda))
        start = ("--device", "cuda", "--init", "seed=0", "--data", DATA, "--lr", "0.001", "--steps", "1")
        for ranks in ("1", "2", "3", "6"):
            done = self.run_program(*start, LINEAR_MESH="6", FSDP_NODE_RANKS=ranks)
            told = "sums over 6 ranks on 3 nodes (--reduction exact) send 1.6 times a ring's bytes between nodes"
            self.assertEqual(told in done.stdout + done.stderr, ranks == "2", done.stdout + done.stderr)

    @unittest.skipUnless(MPIRUN, "expected mpirun")
    def test_ranks_that_are_processes(self):
        for mesh, ranks in (("2", 2), ("2x2", 4)):
            for environment in ({}, {"LINEAR_QUEUES": "1"}):
                cpu = self.train("cpu", f"cpu-{mesh}-{len(environment)}", LINEAR_MESH=mesh, **environment)
                cuda = self.train("cuda", f"cuda-{mesh}-{len(environment)}", LINEAR_MESH=mesh,
                                  before=(*MPIRUN, "-n", ranks), **environment)
                self.assert_same(cpu, cuda)

    @unittest.skipUnless(MPIRUN, "expected mpirun")
    def test_libraries_of_processes_that_differ(self):
        start = ("--device", "cuda", "--init", "seed=0", "--data", DATA, "--lr", "0.001", "--steps", "1", "--quiet")
        begin = time.monotonic()
        done = self.run_program(*start, fails=True, LINEAR_MESH="2", before=(
            *MPIRUN, "-n", 1, "env", "FSDP_NCCL_VERSION=22703", PROGRAM, *start, ":", "-n", 1))
        self.assertLess(time.monotonic() - begin, 60)
        self.assertRegex(done.stderr, "expected NCCL 2.27.3 on all ranks, as on rank 0 .*, got NCCL 2.28.9 on rank 1 ")

    def test_order_that_nccl_keeps(self):
        """Or does not, where it is too old: then events do."""
        for version in ("22809", "21903"):
            cpu = self.train("cpu", f"cpu-{version}", LINEAR_MESH="2x2", LINEAR_QUEUES="1")
            cuda = self.train("cuda", f"cuda-{version}", LINEAR_MESH="2x2", LINEAR_QUEUES="1",
                              FSDP_NCCL_VERSION=version, more=("--graph", "off"),
                              NCCL_LAUNCH_ORDER_IMPLICIT="1" if version == "22809" else None)
            self.assert_same(cpu, cuda)

    def test_sums_of_nccl(self):
        for mesh in ("2", "2x2"):
            cpu = self.train("cpu", f"cpu-{mesh}", LINEAR_MESH=mesh)
            cuda = self.train("cuda", f"nccl-{mesh}", LINEAR_MESH=mesh, more=("--reduction", "nccl"))
            for mine, other in zip(self.losses(cpu), self.losses(cuda)):
                for a, b in zip(mine, other):
                    self.assertLess(abs(a - b), 1e-5 * abs(a))

    def test_failures_of_ranks(self):
        """All end within seconds, with the message of the one that failed."""
        start = ("--device", "cuda", "--init", "seed=0", "--data", DATA, "--lr", "0.001", "--steps", "6")
        for variable, value, message in (
            ("NCCL_FAULT", "ncclGetUniqueId:1:3:0", "rank 0: .*start '.*': the communicator of ranks 0, 1.*: "
                                                    "ncclGetUniqueId: internal error"),
            ("NCCL_FAULT", "ncclCommInitRankConfig:1:2:2", "rank 2: .*ncclCommInitRankConfig: unhandled system error"),
            ("NCCL_FAULT", "ncclGroupEnd:3:1:3", "rank 3: start '.*': ncclGroupEnd: unhandled"),
            ("NCCL_FAULT", "ncclGroupEnd:7:1:3", "rank 3: as one CUDA graph, .*: start '.*': ncclGroupEnd: unhandled"),
            ("NCCL_FAULT", "async:9:6:1", "step .*: rank 1: .*remote process exited or there was a network error"),
            ("EMULATOR_FAULT", "cuLaunchKernel:9:719", "rank .: .*cuLaunchKernel: CUDA_ERROR_LAUNCH_FAILED"),
            ("EMULATOR_DEVICES", "3", "rank [03]: .*expected NCCL 2.30.0 or later, which takes threads that share a GPU, got "
                                      "NCCL 2.28.9 and ranks 0 and 3 share device 0 .Emulated sm_90.: start each rank as a "
                                      "process .--backend tcp., give each rank a GPU of its own, or run with --channel host"),
            ("NCCL_VERSION", "21809", "expected NCCL 2.19.0 or later, got NCCL 2.18.9"),
        ):
            for before in ((), (*MPIRUN, "-n", 4)) if MPIRUN and variable == "NCCL_FAULT" else ((),):
                with self.subTest(fault=value, before=before):
                    begin = time.monotonic()
                    done = self.run_program(*start, fails=True, before=before, LINEAR_MESH="2x2",
                                            LINEAR_QUEUES="1", **{f"FSDP_{variable}": value})
                    self.assertLess(time.monotonic() - begin, 15)
                    self.assertRegex(done.stderr, message)

    def test_ranks_that_share_a_gpu(self):
        """NCCL is told to take them, or the host's memory carries what they exchange, if that is asked for."""
        for mesh, devices in (("2", "1"), ("2x2", "2"), ("4", "1")):
            cpu = self.train("cpu", f"cpu-{mesh}", LINEAR_MESH=mesh, LINEAR_QUEUES="1")
            for name, more, environment in (("new", (), {"FSDP_NCCL_VERSION": "23000"}), ("host", ("--channel", "host"), {})):
                with self.subTest(mesh=mesh, how=name):
                    cuda = self.train("cuda", f"{name}-{mesh}", LINEAR_MESH=mesh, LINEAR_QUEUES="1", more=more,
                                      FSDP_EMULATOR_DEVICES=devices, **environment)
                    self.assert_same(cpu, cuda)
                    self.assertEqual(self.losses(cpu), self.losses(cuda))

    def test_what_nccl_is_told(self):
        start = ("--device", "cuda", "--init", "seed=0", "--data", DATA, "--lr", "0.001", "--steps", "1")
        tell = {"LINEAR_MESH": "2", "FSDP_NCCL_TELL": "NCCL_CROSS_NIC"}
        for environment, told, warning in (({}, "NCCL_CROSS_NIC is not set", ""),
                                           ({"LINEAR_NCCL": "1"}, "NCCL_CROSS_NIC=1", ""),
                                           ({"LINEAR_NCCL": "1", "NCCL_CROSS_NIC": "0"}, "NCCL_CROSS_NIC=0",
                                            "the environment says NCCL_CROSS_NIC=0 to NCCL, where 1 is wanted")):
            done = self.run_program(*start, **tell, **environment)
            self.assertIn(told, done.stderr)
            self.assertEqual("where 1 is wanted" in done.stderr, bool(warning))
            self.assertIn(warning, done.stderr)
        self.assertIn('"NCCL_CROSS_NIC": "1"', self.run_program("--describe", LINEAR_NCCL="1").stdout)

    def test_what_is_told_of_ranks_that_share_a_gpu(self):
        start = ("--device", "cuda", "--init", "seed=0", "--data", DATA, "--lr", "0.001", "--steps", "1")
        done = self.run_program(*start, LINEAR_MESH="2", FSDP_EMULATOR_DEVICES="1", FSDP_NCCL_VERSION="23000")
        told = "ranks 0 and 1 share device 0 .Emulated sm_90., which NCCL 2.30.0 takes with NCCL_MULTI_RANK_GPU_ENABLE=1"
        self.assertRegex(done.stdout + done.stderr, told)
        # The variable's user has the last word.
        done = self.run_program(*start, fails=True, LINEAR_MESH="2", FSDP_EMULATOR_DEVICES="1", FSDP_NCCL_VERSION="23000",
                                NCCL_MULTI_RANK_GPU_ENABLE="0")
        self.assertRegex(done.stderr, "Duplicate GPU detected : rank . and rank . both on CUDA device 0.*: ranks 0 and 1 share "
                                      "device 0 .Emulated sm_90., which NCCL may refuse: give each rank a GPU of its own")

    def test_settings_beside_channel_host(self):
        start = ("--device", "cuda", "--init", "seed=0", "--data", DATA, "--lr", "0.001", "--steps", "1", "--channel", "host")
        for more, message in ((("--graph", "on"), "--graph: expected auto or off beside --channel host"),
                              (("--reduction", "nccl"), "--reduction: expected exact beside --channel host")):
            done = self.run_program(*start, *more, fails=True)
            self.assertIn(message, done.stderr)
        begin = time.monotonic()
        done = self.run_program(*start, fails=True, LINEAR_MESH="2x2", FSDP_EMULATOR_FAULT="cuMemcpyHtoDAsync_v2:5:700")
        self.assertLess(time.monotonic() - begin, 15)
        self.assertRegex(done.stderr, "rank .: .*cuMemcpyHtoDAsync: CUDA_ERROR_ILLEGAL_ADDRESS")

    @unittest.skipUnless(MPIRUN, "expected mpirun")
    def test_processes_that_share_a_gpu(self):
        """NCCL before 2.30 takes them for ranks of several hosts."""
        cpu = self.train("cpu", "cpu", LINEAR_MESH="2")
        for name, more in (("old", ()), ("host", ("--channel", "host"))):
            cuda = self.train("cuda", name, before=(*MPIRUN, "-n", 2), more=more, LINEAR_MESH="2", FSDP_EMULATOR_DEVICES="1")
            self.assert_same(cpu, cuda)

    def test_failures_of_calls_that_are_issued_one_by_one(self):
        done = self.run_program("--device", "cuda", "--init", "seed=0", "--data", DATA, "--lr", "0.001", "--steps",
                                "6", "--graph", "off", fails=True, LINEAR_MESH="2x2", LINEAR_QUEUES="1",
                                FSDP_NCCL_FAULT="ncclGroupEnd:7:1:3")
        self.assertRegex(done.stderr, "step 1: rank 3: .*; the next run could not be issued: start '.*': ncclGroupEnd: "
                                      "unhandled cuda error")

    def test_a_check_that_fails_on_all_ranks(self):
        done = self.run_program("--device", "cuda", "--init", "seed=0", "--data", DATA, "--lr", "0.001", "--steps",
                                "6", fails=True, LINEAR_FLAW="check:4", LINEAR_MESH="2")
        self.assertIn("the data is flawed", done.stderr)


if __name__ == "__main__":
    unittest.main()
