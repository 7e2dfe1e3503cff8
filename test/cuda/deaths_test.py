#!/usr/bin/env python3
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What happens to the other ranks when one is killed, or stopped, while its device communicates.

The double of NCCL ends a rank's process by SIGKILL when its n-th work begins (FSDP_NCCL_FAULT=kill:n:..), which is within a
graph that is running there, and on the ranks that wait for it. These have to end within seconds and to name it, and what
was saved has to lead to the state of a run that nothing happened to. A rank that is stopped by SIGSTOP keeps its
connections: the others have to end by --watchdog, and to tell where they waited and who was silent.
"""

import filecmp
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

PROGRAM = os.environ["FSDP_LINEAR_PROGRAM"]
MPIRUN = shutil.which("mpirun") if os.environ.get("FSDP_HAS_MPI") == "1" else None
STEPS, RANKS = 6, 3
SECONDS = 10
# Of the work of NCCL on one device in a run of 6 steps, from the first step to the last ones.
WORKS = (1, 8, 14, 21)


class DeathsTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        self.reference = self.train(self.root / "whole")

    def command(self, directory, *more, resume=None):
        start = ("--resume", resume) if resume else ("--init", "seed=0")
        return list(map(str, (PROGRAM, "--device", "cuda", *start, "--data", "random:seed=3", "--lr", "0.001", "--steps", STEPS,
                              "--quiet", "--save", directory, "--save-every", 1, *more)))

    @staticmethod
    def environment(**more):
        return {**os.environ, "LINEAR_MESH": str(RANKS), "LINEAR_CUDA": "1", "LINEAR_QUEUES": "1",
                **{name: str(value) for name, value in more.items()}}

    def train(self, directory, **more):
        done = subprocess.run(self.command(directory, **more), env=self.environment(), capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return directory / f"step-{STEPS:08}"

    def assert_leads_on(self, directory):
        """The newest checkpoint is whole, and its run comes to the same end. Whether there is one."""
        checkpoints = sorted(directory.glob("step-????????"))
        if not checkpoints:
            return False
        last = self.train(self.root / "on", resume=checkpoints[-1])
        for path in sorted(self.reference.iterdir()):
            self.assertTrue(filecmp.cmp(path, last / path.name, shallow=False), f"{checkpoints[-1].name}: {path.name}")
        shutil.rmtree(self.root / "on")
        return True

    def check(self, start, dead, graph, expected):
        """`start` gives the processes of a job, of which `dead` is one's rank. The jobs wait more than they compute, so all
        of them run at once."""
        jobs, saved = [], 0
        for work in WORKS:
            directory = self.root / f"{graph}-{dead}-{work}"
            jobs.append((work, directory, time.monotonic(), start(directory, graph, f"kill:{work}:1:{dead}")))
        for work, directory, begin, processes in jobs:
            with self.subTest(work=work, dead=dead, graph=graph):
                errors = [process.communicate(timeout=60)[1] for process in processes]
                self.assertLess(time.monotonic() - begin, SECONDS)
                self.assertIn(f"kill: call {work} on device {dead}", "".join(errors))
                for process in processes:
                    self.assertNotEqual(process.returncode, 0)
                self.assertRegex("".join(errors), expected)
        for work, directory, _, _ in jobs:
            with self.subTest(work=work, dead=dead, graph=graph):
                saved += self.assert_leads_on(directory)
        self.assertGreater(saved, 1)

    def popen(self, command, **environment):
        process = subprocess.Popen(command, env=self.environment(**environment), text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def start_by_torchrun(self, directory, graph, fault):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        return [self.popen(self.command(directory, "--graph", graph), RANK=rank, WORLD_SIZE=RANKS, LOCAL_RANK=rank,
                           LOCAL_WORLD_SIZE=RANKS, MASTER_ADDR="127.0.0.1", MASTER_PORT=port, TORCHELASTIC_RUN_ID="none",
                           FSDP_NCCL_FAULT=fault) for rank in range(RANKS)]

    def start_by_itself(self, backend):
        return lambda directory, graph, fault: [self.popen(
            self.command(directory, "--graph", graph, "-n", RANKS, "--backend", backend), FSDP_NCCL_FAULT=fault)]

    def start_by_mpirun(self, directory, graph, fault):
        return [self.popen([MPIRUN, "--allow-run-as-root", "--oversubscribe", "-n", str(RANKS),
                            *self.command(directory, "--graph", graph)], FSDP_NCCL_FAULT=fault)]

    def test_processes_of_torchrun(self):
        for dead in (1, 0):
            for graph in ("on", "off"):
                self.check(self.start_by_torchrun, dead, graph,
                           rf"error: .*rank {dead} \(process \d+ on .*\) to come to the end of the program, got the end of its")

    def test_processes_of_the_program(self):
        self.check(self.start_by_itself("tcp"), 1, "on", "error: .*rank 1 ")

    @unittest.skipUnless(MPIRUN, "expected mpirun")
    def test_processes_of_the_program_under_mpi(self):
        for dead in (1, 0):
            self.check(self.start_by_itself("mpi"), dead, "on", f"error: rank {dead} was killed by signal {signal.SIGKILL:d}")

    @unittest.skipUnless(MPIRUN, "expected mpirun")
    def test_processes_of_mpirun(self):
        self.check(self.start_by_mpirun, 2, "on", "process rank 2 .* exited on signal 9")

    def start_endless(self, *more, **environment):
        """No double gives up before the watchdog does."""
        return self.popen([PROGRAM, "--init", "seed=0", "--data", "random:seed=3", "--lr", "0.001", "--steps", "1000000",
                           "--quiet", "--watchdog", "2", "-n", str(RANKS), *more], FSDP_NCCL_TIMEOUT=1000,
                          FSDP_EMULATOR_TIMEOUT=1000, **environment)

    def check_stop(self, process, expected):
        begin = time.monotonic()
        errors = process.communicate(timeout=90)[1]
        self.assertLess(time.monotonic() - begin, 60)
        self.assertEqual(process.returncode, 1, errors)
        self.assertRegex(errors, expected)

    def stop_rank(self, rank, metrics, process):
        """SIGSTOP to a descendant of the job's process, once steps have been made."""
        end = time.monotonic() + 60
        while not metrics.exists() or metrics.read_text().count("\n") < 20:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
        found = [process.pid]
        for pid in found:
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
        for pid in found[1:]:
            variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if {b"RANK=%d" % rank, b"OMPI_COMM_WORLD_RANK=%d" % rank} & set(variables):
                os.kill(pid, signal.SIGSTOP)
                return
        self.fail(f"expected a process of rank {rank}")

    DEVICE = (r"rank [012]: expected progress of what the device runs within 2 s \(--watchdog\), got none, in a run of "
              r"program 'train': queue \w+ has .*")
    SILENT = r"; after it rank {} \(process \d+ on .*\) did not come to the end of the program"

    def test_a_rank_that_is_stopped(self):
        """Within a run, which the others tell of with the queues that wait; and in a collective of the host."""
        cases = [(graph, rank, self.start_endless("--backend", "tcp", "--device", "cuda", "--graph", graph,
                                                  FSDP_NCCL_FAULT=f"stop:9:1:{rank}"))
                 for graph, rank in (("on", 1), ("off", 0))]
        metrics = self.root / "cpu.jsonl"
        process = self.start_endless("--backend", "tcp", "--device", "cpu", "--metrics", str(metrics))
        self.stop_rank(1, metrics, process)
        for graph, rank, job in cases:
            with self.subTest(graph=graph, rank=rank):
                self.check_stop(job, self.DEVICE + self.SILENT.format(rank))
        self.check_stop(process, r"rank \d: expected rank \d .* to go on in the \w+ in which rank \d waits within 2 s "
                                 r"\(--watchdog\), got no sign of it" + self.SILENT.format(1))

    @unittest.skipUnless(MPIRUN, "expected mpirun")
    def test_a_rank_that_is_stopped_under_mpi(self):
        job = self.start_endless("--backend", "mpi", "--device", "cuda", FSDP_NCCL_FAULT="stop:9:1:1")
        metrics = self.root / "cpu.jsonl"
        process = self.start_endless("--backend", "mpi", "--device", "cpu", "--metrics", str(metrics))
        self.stop_rank(1, metrics, process)
        self.check_stop(job, self.DEVICE)
        self.check_stop(process, "expected other ranks to go on in a collective in which rank [02] waits within 2 s")

    def test_work_that_does_not_end(self):
        """A launch is held for copies that nobody makes; its process ends, since no call of the driver that frees would."""
        done = subprocess.run([PROGRAM, "--device", "cuda", "--init", "seed=0", "--data", "random:seed=3", "--lr", "0.001",
                               "--steps", "6", "--quiet", "--watchdog", "2"], capture_output=True, text=True, timeout=60,
                              env=self.environment(LINEAR_MESH=1, FSDP_EMULATOR_TIMEOUT=1000,
                                                   FSDP_EMULATOR_HOLD="cuGraphLaunch:1:1000:512"))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "error: rank 0: expected progress of what the device runs within 2 s .*, got none.*; its "
                                      "device does not end the work that it has: the process ends at once")


if __name__ == "__main__":
    unittest.main()
