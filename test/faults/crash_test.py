#!/usr/bin/env python3
"""Ends runs at random moments, or fails their writes, and goes on from what they left.

Each round trains test/data's hand-written program with --save-every 1 --keep 2 --metrics into a new
directory, and does one of these to it at a random moment:
  kill     SIGKILL to the process, whose threads are the ranks
  mpi      SIGKILL to one of the processes of an MPI job: a rank, mpirun, or what started it
  full     from the Nth change of a file on, M of them fail with "no space left on device"
  readonly the same with "read-only file system"
  error    the same with "input/output error"
Then every checkpoint in the directory is resumed on a mesh drawn at random and trained to the end, which must
give the parameters, optimizer states and losses of a run that nothing happened to, bit for bit. `latest` must
be there as soon as there is a checkpoint, and the next run must be able to take the directory over.
Prints how many rounds of each kind ended so, and fails at the first that did not (--seed repeats it).
"""

import argparse
import ctypes
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

STEPS = 30
DELAY = 0.003  # seconds of a step, beside its save
MESHES = ("1", "2", "4", "2x2")
ERRORS = {"full": 28, "readonly": 30, "error": 5}
PR_SET_CHILD_SUBREAPER = 36


class Failure(Exception):
    pass


def write_batches(path):
    """Equal for four ranks, so that every mesh computes the same bits."""
    steps, ranks, row = 7, 4, 20
    def rows(a, b):
        return [(step * a + i * b) % 128 for step in range(steps) for _ in range(ranks) for i in range(row)]
    data = struct.pack(f"<{steps * ranks * row}q", *rows(31, 7))
    data += struct.pack(f"<{steps * ranks * row}q", *rows(17, 3))
    half = len(data) // 2
    header = json.dumps({
        "input_ids": {"dtype": "I64", "shape": [steps, ranks, 4, 5], "data_offsets": [0, half]},
        "labels": {"dtype": "I64", "shape": [steps, ranks, 4, 5], "data_offsets": [half, 2 * half]},
    }).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)


def descendants(pid):
    """Processes that `pid` started, and theirs; those of dead ones belong to this one, a subreaper."""
    children = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            text = pathlib.Path("/proc", entry, "stat").read_text()
        except OSError:
            continue
        fields = text[text.rindex(")") + 2:].split()
        if fields[0] != "Z":
            children.setdefault(int(fields[1]), []).append(int(entry))
    found, pending = [], [pid]
    while pending:
        for child in children.get(pending.pop(), []):
            found.append(child)
            pending.append(child)
    return found


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


class Tester:
    def __init__(self, options, root):
        self.options, self.root = options, root
        self.random = random.Random(options.seed)
        self.batches = root / "batches.safetensors"
        write_batches(self.batches)
        began = time.monotonic()
        self.whole = root / "whole"
        self.train(self.whole, "2")
        self.seconds = {"kill": time.monotonic() - began}
        self.state = self.state_of(self.whole)
        self.losses = self.losses_of(root / "whole.jsonl")
        if len(self.losses) != STEPS:
            raise Failure(f"expected {STEPS} lines of metrics, got {len(self.losses)}")

    def command(self, directory, resume=None, more=()):
        start = ["--resume", str(resume)] if resume else ["--init", "seed=0"]
        return [str(self.options.program), *start, "--data", str(self.batches), "--lr", "0.001", "--steps",
                str(STEPS), "--quiet", "--save", str(directory), "--save-every", "1", "--keep", "2", "--metrics",
                f"{directory}.jsonl", *more]

    def environment(self, mesh, **more):
        return {**os.environ, "LINEAR_MESH": mesh, "LINEAR_DELAY": str(int(DELAY * 1e6)), **more}

    def train(self, directory, mesh, resume=None):
        done = subprocess.run(self.command(directory, resume), env=self.environment(mesh), capture_output=True,
                              text=True, timeout=120)
        if done.returncode != 0:
            raise Failure(f"a run from {resume} on mesh {mesh} ended with {done.returncode}: {done.stderr}")
        return done.stderr

    def state_of(self, directory):
        path = directory / f"step-{STEPS:08d}"
        return tuple((path / name).read_bytes() for name in ("params.safetensors", "optimizer.safetensors"))

    def losses_of(self, path):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        # (The norm is a sum over shards, whose bits depend on the mesh.)
        return [(line["step"], line["loss"]) for line in lines]

    def wait_for_a_moment(self, process, directory, seconds):
        """Returns at a random moment: while the program starts, or within a random step or its save."""
        lines = self.random.randrange(STEPS + 1)
        metrics = pathlib.Path(f"{directory}.jsonl")
        if lines == 0:
            time.sleep(self.random.uniform(0, seconds / 4))
            return
        while process.poll() is None and not (metrics.exists() and metrics.read_bytes().count(b"\n") >= lines):
            time.sleep(0.001)
        time.sleep(self.random.uniform(0, 2 * DELAY))

    # What is done to a run. Each returns whether it got to its end all the same.

    def run_kill(self, directory):
        process = subprocess.Popen(self.command(directory), env=self.environment("2"), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        self.wait_for_a_moment(process, directory, self.seconds["kill"])
        process.kill()
        return process.wait() == 0

    def run_mpi(self, directory):
        if "mpi" not in self.seconds:
            began = time.monotonic()
            subprocess.run(self.command(self.root / "mpi", more=("--backend", "mpi")), env=self.environment("2"),
                           check=True, timeout=120, capture_output=True)
            self.seconds["mpi"] = time.monotonic() - began
        process = subprocess.Popen(self.command(directory, more=("--backend", "mpi")), env=self.environment("2"),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait_for_a_moment(process, directory, self.seconds["mpi"])
        kill(self.random.choice([process.pid, *descendants(process.pid)]))
        # The launchers end what is left; a job that lost its launcher alone may train on.
        end = time.monotonic() + 20
        status = None
        while descendants(os.getpid()) and time.monotonic() < end:
            status = process.poll() if status is None else status
            time.sleep(0.02)
        for pid in descendants(os.getpid()):
            kill(pid)
        status = process.wait()
        reap()
        return status == 0

    def run_fault(self, kind, directory):
        if "changes" not in self.seconds:
            self.seconds["changes"] = self.count_changes()
        begin = self.random.randrange(1, self.seconds["changes"] + 1)
        count = self.random.choice((1, 2, 5, 20, 100, 1 << 20))
        done = subprocess.run(
            self.command(directory), capture_output=True, text=True, timeout=120,
            env=self.environment("2", LD_PRELOAD=str(self.options.shim), FAULT_AT=str(begin), FAULT_COUNT=str(count),
                                 FAULT_ERRNO=str(ERRORS[kind])))
        if done.returncode not in (0, 1) or (done.returncode == 1 and "error: " not in done.stderr):
            raise Failure(f"failing calls {begin} to {begin + count - 1}: ended with {done.returncode}: {done.stderr}")
        if kind == "full":
            leaked = [name for name in self.entries(directory) if name.endswith(".tmp")]
            if leaked:
                raise Failure(f"failing calls {begin} to {begin + count - 1}: left {leaked}")
        return done.returncode == 0

    def count_changes(self):
        counted, directory = self.root / "counted", self.root / "count"
        subprocess.run(self.command(directory), check=True, timeout=120, env=self.environment(
            "2", LD_PRELOAD=str(self.options.shim), FAULT_COUNTED=str(counted)))
        return int(counted.read_text())

    # What must hold after it.

    def entries(self, directory):
        return sorted(os.listdir(directory)) if directory.exists() else []

    def check(self, directory, has_ended):
        steps = [name for name in self.entries(directory) if name.startswith("step-") and not name.endswith(".tmp")]
        latest = directory / "latest"
        # A kill may come between the first checkpoint's own name and its name in `latest`.
        if len(steps) > 1 and not latest.exists():
            raise Failure(f"expected a file latest beside {steps}, got none")
        if has_ended and self.losses_of(pathlib.Path(f"{directory}.jsonl")) != self.losses:
            raise Failure("the run ended well, with other metrics")
        if (has_ended or f"step-{STEPS:08d}" in steps) and self.state_of(directory) != self.state:
            raise Failure("the run came to its end with other state")
        for name in steps:
            if int(name[5:]) == STEPS:
                continue
            # A reader of its own: each checkpoint is whole and leads to the same end.
            other = self.root / "other"
            self.train(other, self.random.choice(MESHES), directory / name)
            if self.state_of(other) != self.state:
                raise Failure(f"{name} led to other state")
            shutil.rmtree(other)
            pathlib.Path(f"{other}.jsonl").unlink()
        self.go_on(directory, latest)

    def go_on(self, directory, latest):
        """The next run takes the directory over, cleans it, and writes on in the same file of metrics."""
        metrics = pathlib.Path(f"{directory}.jsonl")
        if latest.exists() and latest.read_text() == f"step-{STEPS:08d}\n":
            if len(self.losses_of(metrics)) > STEPS:
                raise Failure("the metrics have more lines than steps")
            return
        at = int(latest.read_text()[5:]) if latest.exists() else 0
        # Lines that a failing disk kept out are said to be missing; a run that was killed has all of its steps.
        had = len([line for line in metrics.read_text().splitlines() if line.endswith("}") and
                   json.loads(line)["step"] <= at]) if metrics.exists() else 0
        self.train(directory, self.random.choice(MESHES), directory if at else None)
        if self.state_of(directory) != self.state:
            raise Failure(f"to go on from {latest} led to other state")
        losses = self.losses_of(metrics)
        if losses[had:] != self.losses[at:] or any(a >= b for a, b in zip(losses, losses[1:])):
            raise Failure(f"expected metrics to go on after step {at}, got {losses}")
        left = [name for name in self.entries(directory) if name != "latest" and not name.startswith("step-")]
        if left or any(name.endswith(".tmp") for name in self.entries(directory)):
            raise Failure(f"the next run left {self.entries(directory)}")

    def round(self, kind, number):
        directory = self.root / f"{kind}-{number}"
        run = {"kill": self.run_kill, "mpi": self.run_mpi}.get(kind)
        has_ended = run(directory) if run else self.run_fault(kind, directory)
        self.check(directory, has_ended)
        shutil.rmtree(directory, ignore_errors=True)
        pathlib.Path(f"{directory}.jsonl").unlink(missing_ok=True)
        return has_ended


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, type=pathlib.Path, help="build/bin/linear-program")
    parser.add_argument("--shim", required=True, type=pathlib.Path, help="build/lib/libfault-shim.so")
    parser.add_argument("--rounds", type=int, default=100, help="of each kind; default: 100")
    parser.add_argument("--kinds", default="kill,mpi,full,readonly,error", help="some of kill,mpi,full,readonly,error")
    parser.add_argument("--seed", type=int, default=None, help="of the random moments; default: another each time")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = random.randrange(1 << 31)
    return options


def main():
    options = parse_arguments()
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        sys.exit("error: cannot become the parent of processes whose parent ends")
    print(f"seed {options.seed}", flush=True)
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="fsdp-crash-", dir=shared) as root:
        tester = Tester(options, pathlib.Path(root))
        for kind in options.kinds.split(","):
            if kind == "mpi" and not shutil.which("mpirun"):
                print("mpi: skipped, there is no mpirun on the path")
                continue
            ended = 0
            for number in range(options.rounds):
                try:
                    ended += tester.round(kind, number)
                except Failure as failure:
                    sys.exit(f"error: {kind}, round {number + 1}, seed {options.seed}: {failure}")
            print(f"{kind}: {options.rounds} of {options.rounds} rounds went on to the same end, bit for bit "
                  f"({ended} ended by themselves)", flush=True)


if __name__ == "__main__":
    main()
