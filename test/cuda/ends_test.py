#!/usr/bin/env python3
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How long a run of several ranks with graphs takes to end, on every rank, once one of them has failed.

A run is one of all combinations of a launcher (threads, processes of the program by TCP or MPI, processes as torchrun,
srun and mpirun start them), a phase in which rank 1 fails (load, first exchange, capture, first step, a later step, a
checkpoint) and a way to fail: an error of NCCL or of the driver, or the end of the process by SIGKILL. The doubles of NCCL
and of the driver plant it; that of NCCL does not end a communicator while graphs hold its work, as NCCL does not. Counted
are the seconds from the line that tells of the fault to the end of the last process.

FSDP_TURN=all runs all of them and prints a table; without, each way to fail runs once, under one launcher after another,
beginning with one that FSDP_ENDS_SEED or the day chooses.
"""

import collections
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

PROGRAM = os.environ["FSDP_LINEAR_PROGRAM"]
HAS_MPI = os.environ.get("FSDP_HAS_MPI") == "1" and shutil.which("mpirun") is not None
RANKS, STEPS = 3, 6
SECONDS = 10
ALL = os.environ.get("FSDP_TURN") == "all"
SEED = int(os.environ.get("FSDP_ENDS_SEED") or time.time() // 86400)
AT_ONCE = 4
# A test under load; the table tells what it takes without.
LIMIT = SECONDS if ALL else 30

# (phase, name, how it is planted on rank 1, a pattern of what the run says). Of NCCL's groups on a device five connect the
# ranks, and five more are captured; of its work on the device five are of the former, and each step has five.
# The last copy to the host is of the last checkpoint, the last launch brings a run's results.
NCCL, DRIVER = "FSDP_NCCL_FAULT", "FSDP_EMULATOR_FAULT"
COPY, LAUNCH = "cuMemcpyDtoHAsync_v2", "cuLaunchKernel"
KILLED = "rank 1 |exited on signal 9"
FAULTS = (
    ("load", "communicator", NCCL, "ncclCommInitRankConfig:1:2:1", "ncclCommInitRankConfig"),
    ("load", "driver", DRIVER, "cuModuleGetFunction:1:209", "cuModuleGetFunction"),
    ("load", "memory", DRIVER, "cuMemCreate:1:2", "cuMemCreate"),
    ("connect", "by itself", NCCL, "async:3:6:1", "ncclCommGetAsyncError"),
    ("connect", "issue", NCCL, "ncclGroupEnd:2:1:1", "ncclGroupEnd"),
    ("connect", "killed", NCCL, "kill:2:1:1", KILLED),
    ("capture", "issue", NCCL, "ncclGroupEnd:6:1:1", "as one CUDA graph, .*ncclGroupEnd"),
    ("capture", "driver", DRIVER, "cuStreamEndCapture:1:901", "as one CUDA graph, .*cuStreamEndCapture"),
    ("capture", "memory", DRIVER, "cuGraphInstantiateWithFlags:1:2", "as one CUDA graph, .*cuGraphInstantiate"),
    ("capture", "upload", DRIVER, "cuGraphUpload:1:1", "as one CUDA graph, .*cuGraphUpload"),
    ("first step", "by itself", NCCL, "async:7:6:1", "ncclCommGetAsyncError"),
    ("first step", "driver", DRIVER, "cuGraphLaunch:1:719", "cuGraphLaunch"),
    ("first step", "killed", NCCL, "kill:8:1:1", KILLED),
    ("later step", "by itself", NCCL, "async:18:6:1", "ncclCommGetAsyncError"),
    ("later step", "driver", DRIVER, "cuGraphLaunch:4:719", "cuGraphLaunch"),
    ("later step", "results", DRIVER, LAUNCH + ":last:700", "the end of a run: " + LAUNCH),
    ("later step", "killed", NCCL, "kill:22:1:1", KILLED),
    ("save", "driver", DRIVER, COPY + ":last:700", "cannot save step 6: .*CUDA_ERROR_ILLEGAL_ADDRESS"),
)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Job:
    """The processes of a run, whose standard errors are read as they come."""

    def __init__(self, launcher, phase, fault, folder):
        self.told = self.ended = None
        self.lines = []
        variable, value = fault
        self.command = list(map(str, (PROGRAM, "--device", "cuda", "--graph", "on", "--init", "seed=0", "--data",
                                      "random:seed=3", "--lr", "0.001", "--steps", STEPS, "--quiet", "--save", folder,
                                      *(("--save-every", 2) if phase == "save" else ()))))
        base = {**os.environ, "LINEAR_MESH": str(RANKS), "LINEAR_CUDA": "1", "LINEAR_QUEUES": "1"}
        planted = {variable: value}
        # One process for each rank has variables of its own; else the fault names the device, or is any rank's.
        by_rank = {"torchrun": self.torchrun, "srun": self.srun}
        if launcher in by_rank:
            port = free_port()
            self.processes = [self.start(self.command, {**base, **by_rank[launcher](rank, port),
                                                        **(planted if rank == 1 else {})}) for rank in range(RANKS)]
        elif launcher == "mpirun":
            self.processes = [self.start(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(RANKS),
                                          *self.command], {**base, **planted})]
        else:
            backend = ["--backend", launcher] if launcher != "threads" else []
            self.processes = [self.start([*self.command, "-n", str(RANKS), *backend], {**base, **planted})]

    @staticmethod
    def torchrun(rank, port):
        return {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(RANKS),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "none"}

    @staticmethod
    def srun(rank, port):
        return {"SLURM_PROCID": str(rank), "SLURM_NTASKS": str(RANKS), "SLURM_STEP_NUM_TASKS": str(RANKS),
                "SLURM_LOCALID": str(rank), "SLURM_NODEID": "0", "SLURM_STEP_TASKS_PER_NODE": str(RANKS),
                "SLURM_JOB_ID": "1", "SLURM_STEP_ID": str(port), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}

    def start(self, command, environment):
        process = subprocess.Popen(command, env=environment, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   start_new_session=True)
        process.reader = threading.Thread(target=self.read, args=(process,))
        process.reader.start()
        return process

    def read(self, process):
        for line in process.stderr:
            if self.told is None and "FAULT asks" in line:
                self.told = time.monotonic()
            self.lines.append(line)

    def wait(self, limit):
        """Whether all processes have ended by themselves."""
        end = time.monotonic() + limit
        for process in self.processes:
            try:
                process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                break
        self.ended = time.monotonic()
        hung = [process for process in self.processes if process.poll() is None]
        for process in hung:
            os.killpg(process.pid, signal.SIGKILL)
        for process in self.processes:
            process.wait()
            process.reader.join()
            process.stderr.close()
        return not hung

    @property
    def text(self):
        return "".join(self.lines)


class EndsTest(unittest.TestCase):

    def runs(self):
        launchers = ["threads", "tcp", "torchrun", "srun", *(["mpi", "mpirun"] if HAS_MPI else [])]
        # SIGKILL ends all threads of a process.
        if ALL:
            return [(launcher, fault) for launcher in launchers for fault in FAULTS
                    if not (launcher == "threads" and fault[1] == "killed")]
        return [(launchers[1:] if fault[1] == "killed" else launchers, fault) for fault in FAULTS]

    def test_every_rank_ends(self):
        chosen = self.runs()
        if not ALL:
            chosen = [(launchers[(SEED + i) % len(launchers)], fault) for i, (launchers, fault) in enumerate(chosen)]
        rows = collections.deque(chosen)
        results, lock = [], threading.Lock()
        with tempfile.TemporaryDirectory() as root:
            threads, processes = (self.count_calls(launcher, pathlib.Path(root)) for launcher in ("threads", "tcp"))
            def work():
                while True:
                    with lock:
                        if not rows:
                            return
                        launcher, fault = rows.popleft()
                        folder = pathlib.Path(root, str(len(rows)))
                    # Rank 0's process makes more copies than the others, and is the last to do so.
                    function = fault[3].partition(":")[0]
                    of_ranks = processes.get(function, [0])
                    last = {"threads": sum(threads.get(function, [0])), "torchrun": min(of_ranks),
                            "srun": min(of_ranks)}.get(launcher, max(of_ranks))
                    results.append((launcher, fault, *self.run_one(launcher, fault, folder, last)))
            workers = [threading.Thread(target=work) for _ in range(AT_ONCE)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        self.assertEqual(len(results), len(chosen))
        for launcher, fault, has_ended, seconds, statuses, text in results:
            phase, name, _, value, message = fault
            with self.subTest(launcher=launcher, phase=phase, fault=value, seed=SEED):
                self.assertIn("FAULT asks", text)
                self.assertTrue(has_ended, text)
                self.assertLessEqual(seconds, LIMIT, text)
                self.assertTrue(all(statuses), text)
                self.assertRegex(text, message)
        in_time = [row for row in results if row[2] and row[3] is not None and row[3] <= SECONDS]
        if ALL:
            slowest = collections.defaultdict(float)
            for launcher, (phase, *_), _, seconds, *_ in results:
                slowest[phase, launcher] = max(slowest[phase, launcher], seconds or 0)
            launchers = sorted({row[0] for row in results})
            print(f"\nseconds, the slowest of each\n{'':12}", *(f"{launcher:>9}" for launcher in launchers))
            for phase in dict.fromkeys(fault[0] for fault in FAULTS):
                print(f"{phase:12}", *(f"{slowest[phase, launcher]:9.2f}" for launcher in launchers))
            print(f"{len(in_time)} of {len(results)} runs ended within {SECONDS} s of the fault")

    def count_calls(self, launcher, root):
        """Of each function of the driver, in each process of a run that does not fail."""
        stats = root / f"{launcher}.stats"
        job = Job(launcher, "save", ("FSDP_EMULATOR_STATS", str(stats)), root / launcher)
        self.assertTrue(job.wait(120), job.text)
        counts = collections.defaultdict(list)
        for row in map(json.loads, stats.read_text().splitlines()):
            if "call" in row:
                counts[row["call"]].append(row["count"])
        return counts

    @staticmethod
    def run_one(launcher, fault, folder, last):
        phase, _, variable, value, _ = fault
        # Another program may take a port before the job does.
        for _ in range(3):
            job = Job(launcher, phase, (variable, value.replace("last", str(last))), folder)
            has_ended = job.wait(120)
            if "Address already in use" not in job.text:
                break
        seconds = None if job.told is None else job.ended - job.told
        return has_ended, seconds, [process.returncode for process in job.processes], job.text


if __name__ == "__main__":
    unittest.main()
