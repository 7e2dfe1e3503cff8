#!/usr/bin/env python3
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The hand-written program as processes that torchrun or srun would start, with the variables that these set.

Neither torchrun nor srun is needed. On the devices of FSDP_TEST_DEVICES, of which FSDP_CUDA_LIBS leads to emulated ones.
"""

import filecmp
import os
import pathlib
import resource
import signal
import socket
import subprocess
import tempfile
import time
import unittest

PROGRAM = os.environ["FSDP_LINEAR_PROGRAM"]
TRAINING = ("--init", "seed=0", "--data", "random:seed=3", "--lr", "0.001")
DEVICES = os.environ.get("FSDP_TEST_DEVICES", "cpu").split(",")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def torchrun(ranks, port, **more):
    """What each of its processes has."""
    return [{"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1",
             "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "none", **more} for rank in range(ranks)]


def srun(ranks, step, **more):
    return [{"SLURM_PROCID": rank, "SLURM_NTASKS": ranks, "SLURM_STEP_NUM_TASKS": ranks, "SLURM_LOCALID": rank,
             "SLURM_NODEID": 0, "SLURM_STEP_TASKS_PER_NODE": ranks, "SLURM_STEP_NODELIST": "localhost",
             "SLURM_JOB_ID": os.getpid(), "SLURM_STEP_ID": step, **more} for rank in range(ranks)]


class LaunchersTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)

    def start(self, places, *arguments, device="cpu", steps=4, mesh=None, prepare=None):
        processes = []
        for place in places:
            environment = {**os.environ, "LINEAR_MESH": str(mesh or len(places)), "LINEAR_CUDA": "1", "LINEAR_QUEUES": "1",
                           "FSDP_CONNECT_TIMEOUT": "20", **{name: str(value) for name, value in place.items()}}
            command = [PROGRAM, "--device", device, *TRAINING, "--steps", str(steps), *map(str, arguments)]
            process = subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       preexec_fn=prepare)
            self.addCleanup(self.end, process)
            processes.append(process)
        return processes

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def finish(self, processes, fails=False, within=60):
        """What they said on stderr, each."""
        begin, errors = time.monotonic(), []
        for process in processes:
            _, error = process.communicate(timeout=within)
            errors.append(error)
        self.assertLess(time.monotonic() - begin, within)
        for process, error in zip(processes, errors):
            self.assertEqual(process.returncode != 0, fails, error)
        return errors

    def checkpoint(self, name, places, *arguments, device="cpu", **more):
        directory = self.root / name
        self.finish(self.start(places, "--quiet", "--save", directory, *arguments, device=device, **more))
        return directory / "step-00000004"

    def assert_same(self, one, other):
        names = sorted(path.name for path in one.iterdir())
        self.assertEqual(names, sorted(path.name for path in other.iterdir()))
        for name in names:
            self.assertTrue(filecmp.cmp(one / name, other / name, shallow=False), name)

    def reference(self, ranks):
        return self.checkpoint(f"threads-{ranks}", [{}], mesh=ranks)

    def test_bits_are_those_of_threads(self):
        for ranks in (2, 4):
            threads = self.reference(ranks)
            for device in DEVICES:
                for name, places in (("torchrun", torchrun(ranks, free_port())), ("srun", srun(ranks, ranks + len(device)))):
                    with self.subTest(ranks=ranks, device=device, launcher=name):
                        self.assert_same(threads, self.checkpoint(f"{name}-{device}-{ranks}", places, device=device))

    def test_one_rank_starts_no_process(self):
        done = subprocess.run([PROGRAM, "--backend", "tcp", "--init", "seed=0", "--data", "random:seed=3", "--lr", "0.001",
                               "--steps", "1"], capture_output=True, text=True, timeout=20,
                              env={**os.environ, "LINEAR_MESH": "1"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("--backend tcp: expected a program of several ranks, got one of 1", done.stderr)

    def test_a_mesh_of_two_axes(self):
        threads = self.checkpoint("threads", [{}], mesh="2x2")
        for device in DEVICES:
            self.assert_same(threads, self.checkpoint(device, torchrun(4, free_port()), device=device, mesh="2x2"))

    def test_ranks_that_the_program_starts(self):
        threads = self.reference(2)
        self.assert_same(threads, self.checkpoint("processes", [{}], "--backend", "tcp", mesh=2))

    def test_an_interrupt_of_ranks_that_the_program_starts(self):
        process, = self.start([{}], "--backend", "tcp", "--save", self.root / "saved", steps=10**9, mesh=2)
        for line in process.stdout:
            if "step: 3 " in line:
                break
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        self.assertTrue((self.root / "saved" / "latest").exists())

    def test_ends_of_processes_that_a_parent_ignores(self):
        """A SIGCHLD that is ignored takes their exit statuses away."""
        self.finish(self.start([{}], "--backend", "tcp", mesh=2, prepare=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)))

    def test_limits_of_open_files(self):
        def limit(soft, hard):
            return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

        self.finish(self.start(torchrun(2, free_port()), prepare=limit(32, 1024)))
        errors = self.finish(self.start(torchrun(2, free_port()), prepare=limit(32, 64)), fails=True)
        for error in errors:
            self.assertRegex(error, r"connections of 2 ranks: expected a limit of at least \d+ open files \(ulimit -n\), got 64")

    @unittest.skipUnless("cuda" in DEVICES, "expected an emulated driver")
    def test_devices_of_ranks(self):
        """A rank has one of those that it sees: all of the host's, or its own."""
        threads = self.reference(2)
        own = [{**place, "CUDA_VISIBLE_DEVICES": str(3 - rank)} for rank, place in enumerate(srun(2, 50))]
        self.assert_same(threads, self.checkpoint("own", own, device="cuda"))
        same = [{**place, "CUDA_VISIBLE_DEVICES": "1"} for place in torchrun(2, free_port())]
        errors = self.finish(self.start(same, device="cuda", steps=1))
        self.assertIn("ranks 0 and 1 share device 0", errors[0])

    @unittest.skipUnless("cuda" in DEVICES, "expected an emulated driver")
    def test_devices_of_ranks_that_are_told_no_place(self):
        """Their places are those among the ranks of their host."""
        untold = [{name: value for name, value in place.items() if not name.startswith("LOCAL_")}
                  for place in torchrun(2, free_port())]
        errors = self.finish(self.start(untold, device="cuda", steps=1))
        self.assertNotIn("share device", errors[0])

    def test_an_agent_that_has_the_port(self):
        """torchrun's own store listens at MASTER_PORT."""
        with socket.socket() as agent:
            agent.bind(("127.0.0.1", 0))
            agent.listen()
            places = torchrun(2, agent.getsockname()[1], TORCHELASTIC_USE_AGENT_STORE="True")
            self.assert_same(self.reference(2), self.checkpoint("agent", places))

    def test_a_port_that_is_taken(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            errors = self.finish(self.start(torchrun(2, port, FSDP_CONNECT_TIMEOUT=2)), fails=True)
            self.assertIn(f"rank 0 at 127.0.0.1:{port}: cannot listen at port {port}: Address already in use", errors[0])

    def test_jobs_beside_each_other(self):
        """Steps whose ports may be the same find their own ranks."""
        jobs = [self.start(srun(2, step, MASTER_ADDR="127.0.0.1"), "--quiet") for step in range(60, 64)]
        for processes in jobs:
            self.finish(processes)

    def test_a_rank_that_is_missing(self):
        for missing, message in ((3, "expected 4 ranks within 2 s, got 0, 1 and 2 and not 3 (FSDP_CONNECT_TIMEOUT"),
                                 (0, "expected rank 0 at 127.0.0.1:")):
            places = [place for place in torchrun(4, free_port(), FSDP_CONNECT_TIMEOUT=2) if place["RANK"] != missing]
            errors = self.finish(self.start(places, mesh=4), fails=True, within=15)
            for error in errors:
                self.assertIn(message, error)

    def test_a_rank_that_is_late(self):
        """After five seconds those that have come say who has not."""
        for late in (1, 0):
            places = torchrun(2, free_port())
            for place in places:
                place["LOCAL_RANK"] = 0
            first = self.start([places[1 - late]], mesh=2)
            time.sleep(6)
            errors = self.finish(first + self.start([places[late]], mesh=2), within=15)
            self.assertRegex(errors[0], rf"^note: rank {1 - late} waits for rank {late} .*, for up to 20 s \(FSDP_CONNECT_TIMEOUT\)\n$")

    def test_two_that_are_the_same_rank(self):
        places = torchrun(3, free_port())
        places[2]["RANK"] = 1
        errors = self.finish(self.start(places), fails=True, within=15)
        self.assertRegex(errors[0], r"expected each rank once, got rank 1 twice: rank 1 \(process \d+ on .*\) and process \d+ on")

    def test_numbers_of_ranks_that_differ(self):
        places = torchrun(2, free_port())
        places[1].update(RANK=2, WORLD_SIZE=3, LOCAL_WORLD_SIZE=3, LINEAR_MESH=3)
        errors = self.finish(self.start(places), fails=True, within=15)
        self.assertIn("expected rank 1 to 1 of 2, got rank 2 of 3 in process", errors[0])

    def test_another_program(self):
        places = torchrun(2, free_port())
        places[1]["LINEAR_FLAW"] = "other"
        errors = self.finish(self.start(places), fails=True, within=15)
        self.assertIn("rank 1: program: expected fingerprint abc as on rank 0, got fingerprint abd", errors[0])

    def test_settings_that_differ(self):
        places = torchrun(2, free_port())
        first = self.start(places[:1], mesh=2)
        second = self.start(places[1:], mesh=2, steps=5)
        errors = self.finish(first + second, fails=True, within=15)
        self.assertIn("--steps", errors[0])

    def test_a_rank_that_dies(self):
        """The others end within seconds, and say who it was; where it was rank 0, another tells."""
        for device in DEVICES:
            for dies in (1, 0):
                with self.subTest(device=device, dies=dies):
                    processes = self.start(torchrun(3, free_port()), device=device, steps=10**9)
                    # The last to begin has come through its first steps.
                    for line in processes[0].stdout:
                        if "step: 3 " in line:
                            break
                    victim = processes.pop(dies)
                    victim.send_signal(signal.SIGKILL)
                    victim.communicate()
                    errors = self.finish(processes, fails=True, within=15)
                    self.assertRegex(errors[0], rf"expected rank {dies} \(process {victim.pid} on .*\) to come to the end of the "
                                                "program, got the end of its process")

    def test_a_rank_that_fails(self):
        for device in DEVICES:
            places = torchrun(2, free_port())
            places[1]["LINEAR_FLAW"] = "check:3"
            errors = self.finish(self.start(places, device=device, steps=100), fails=True, within=20)
            self.assertRegex(errors[0], "rank 1: .*the data is flawed")
            self.assertNotIn("error:", errors[1])

    def test_what_no_backend_connects(self):
        environments = (({"RANK": 0, "WORLD_SIZE": 2}, "expected MASTER_ADDR, the host of rank 0, and MASTER_PORT"),
                        ({"PMI_RANK": 0, "PMI_SIZE": 2}, "processes of a PMI launcher such as mpiexec.hydra"),
                        ({"RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "localhost", "MASTER_PORT": "x"},
                         "expected MASTER_PORT to be a port from 1 to 65535, got 'x'"),
                        ({"RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "no.such.host.invalid", "MASTER_PORT": "29500"},
                         "cannot find the host 'no.such.host.invalid'"),
                        ({**torchrun(2, free_port())[0], "FSDP_CONNECT_TIMEOUT": "soon"},
                         "expected FSDP_CONNECT_TIMEOUT to be a number of seconds above 0, got 'soon'"))
        for place, message in environments:
            errors = self.finish(self.start([place], mesh=2), fails=True, within=15)
            self.assertIn(message, errors[0])


    @unittest.skipUnless("cuda" in DEVICES, "expected CUDA devices")
    def test_libraries_that_differ(self):
        """Ranks compare NCCL's version before it is used; drivers of other versions are told."""
        places = torchrun(3, free_port())
        places[2]["FSDP_NCCL_VERSION"] = 22703
        begin = time.monotonic()
        errors = self.finish(self.start(places, device="cuda"), fails=True)
        self.assertRegex("".join(errors), r"expected NCCL 2.28.9 on all ranks, as on rank 0 \(host .*\), got NCCL 2.27.3 on rank 2 \(host")
        self.assertLess(time.monotonic() - begin, 10)
        places = torchrun(2, free_port())
        places[1]["FSDP_EMULATOR_DRIVER"] = 12040
        error = self.finish(self.start(places, device="cuda"))[0]
        self.assertRegex(error, r"ranks have a driver of CUDA 13.0 on rank 0 \(host .*\) and a driver of CUDA 12.4 on rank 1 \(host")


if __name__ == "__main__":
    unittest.main()
