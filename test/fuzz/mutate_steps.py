#===- mutate_steps.py - Changed steps are refused or right ----------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Changes steps of all levels as structure (fsdp-mutate), files of JSON key by
key, and options, and looks for three kinds of faults:

  crash   a tool or a program ends by a signal, with status 2, without a word,
          or not at all (mutate_files.judge)
  equal   a change that computes the same is refused, or the losses of the
          program differ from those without it
  differ  two pipelines that mean the same (without a cluster and with one) give
          different losses for one changed step; a placed step that was
          accepted in another order or at other places gives other losses

The same seed makes the same files, whatever the number of rounds. What is found
is kept with its commands and, where it is IR that crashes, made smaller.

Usage: mutate_steps.py --bin DIR --fixtures DIR --clusters DIR --docs DIR
                       [--rounds N | --seconds S] [--seed S] [--only NAME]
                       [--jobs N] [--keep DIR]
"""

import argparse
import concurrent.futures
import functools
import json
import math
import random
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mutate_files import judge, read_example, run

BATCH = 16
RUN = ["-n", "2", "--threads", "1", "--init", "seed=0", "--data",
       "random:seed=0", "--lr", "0.001", "--steps", "2"]
# Sums in another order; the losses are printed with four digits or more.
TOLERANCE = 1e-3


def losses(path, options=()):
    """The losses that a run of the program writes as metrics, its exit status
    and its standard error."""
    metrics = Path(f"{path}.metrics")
    status, errors = run([str(path), *RUN, "--metrics", str(metrics), *options])
    values = []
    if metrics.exists():
        for line in metrics.read_text().splitlines():
            values.append(float(json.loads(line).get("loss", "nan")))
        metrics.unlink()
    return values, status, errors


def alike(a, b, tolerance):
    """Whether two lists of losses are the same but for rounding; what is not
    finite need only be so in both."""
    if len(a) != len(b):
        return False
    for x, y in zip(a, b):
        if not math.isfinite(x) or not math.isfinite(y):
            # Later steps of what overflowed say nothing.
            return math.isfinite(x) == math.isfinite(y)
        if abs(x - y) > tolerance * max(1.0, abs(x), abs(y)):
            return False
    return True


class Finding(Exception):
    """A fault, and the commands that show it; @isCrash: the last one alone."""

    def __init__(self, fault, *commands, is_crash=False):
        super().__init__(fault)
        self.commands = commands
        self.is_crash = is_crash


def check(command):
    """Runs a tool: raises what is wrong with its end, else returns whether it
    took the file."""
    status, errors = run(command)
    fault = judge(status, errors)
    if fault:
        raise Finding(f"{fault}: {errors.strip()[-600:]}", command,
                      is_crash=True)
    return status == 0


def check_run(program, compiled, options=()):
    """Runs a program that was compiled by `compiled`; its losses, or None where
    it said why not."""
    values, status, errors = losses(program, options)
    fault = judge(status, errors)
    if fault:
        raise Finding(f"{fault}: {errors.strip()[-600:]}", compiled,
                      [str(program), *RUN, *options])
    return values if status == 0 else None


def fill(command, path, out):
    return [{"FILE": str(path), "OUT": str(out)}.get(word, word)
            for word in command]


class Subject:
    """A file, how it is changed and what is then to hold. `source`: the file,
    or what makes it when it is wanted."""

    def __init__(self, name, weight, source):
        self.name, self.weight, self.given = name, weight, source

    @property
    def source(self):
        if callable(self.given):
            self.given = self.given()
        return self.given

    def make(self, tools, seed, batch):
        """The changed files of a batch, by number."""
        raise NotImplementedError

    def test(self, path, rng):
        raise NotImplementedError


class Ir(Subject):
    changes = "any"

    def make(self, tools, seed, batch):
        prefix = tools.scratch / f"{self.name}-{seed}-{batch}-"
        subprocess.run([tools.mutate, self.source, "--seed",
                        str(seed * 100003 + batch), "--count", str(BATCH),
                        "--changes", self.changes, "--prefix", prefix],
                       check=True, stderr=subprocess.DEVNULL)
        paths = [Path(f"{prefix}{i}.mlir") for i in range(BATCH)]
        for path in paths:
            # Where the changes broke the mutator: the file as it is.
            if not path.exists() or not path.stat().st_size:
                path.write_bytes(Path(self.source).read_bytes())
        return paths


class Stages(Ir):
    """Each of some commands either takes the file or says why not."""

    def __init__(self, name, weight, source, commands):
        super().__init__(name, weight, source)
        self.commands = commands

    def test(self, path, rng):
        command = rng.choice(self.commands)
        check(fill(command, path, path.with_suffix(".out")))


class Runs(Ir):
    """What compiles runs, and without a cluster as with one."""

    def __init__(self, name, weight, source, compiles):
        super().__init__(name, weight, source)
        self.compiles = compiles

    def test(self, path, rng):
        seen = []
        for i, command in enumerate(self.compiles):
            program = path.with_suffix(f".{i}")
            command = fill(command, path, program)
            if not check(command):
                return
            values = check_run(program, command)
            program.unlink()
            if values is None:
                return
            seen.append((values, command))
        for values, command in seen[1:]:
            if not alike(seen[0][0], values, TOLERANCE):
                raise Finding(f"expected losses {seen[0][0]}, got {values}",
                              seen[0][1], command)


class Same(Ir):
    """What compiles gives the losses of the file as it was. What computes the
    same must compile."""

    def __init__(self, name, weight, source, compiles, changes):
        super().__init__(name, weight, source)
        self.compiles, self.changes = compiles, changes
        self.must_compile = changes == "equal"
        # Other kernels may add up in another order.
        self.tolerance = 1e-5 if self.must_compile else 0.0
        self.wanted = None

    def prepare(self, scratch):
        program = scratch / f"{self.name}.original"
        command = fill(self.compiles[0], self.source, program)
        if not check(command):
            raise Finding("expected the file as it is to compile", command)
        self.wanted = check_run(program, command)

    def test(self, path, rng):
        program = path.with_suffix(".exe")
        command = fill(rng.choice(self.compiles), path, program)
        if not check(command):
            if self.must_compile:
                raise Finding("expected what computes the same to compile",
                              command)
            return
        values = check_run(program, command)
        program.unlink()
        if values is None or not alike(self.wanted, values, self.tolerance):
            raise Finding(f"expected the losses {self.wanted} of the file "
                          f"without its changes, got {values}", command,
                          [str(program), *RUN])


def change_json(value, rng):
    """One change somewhere in a value of JSON."""
    places = []

    def collect(node):
        keys = (list(node) if isinstance(node, dict) else
                range(len(node)) if isinstance(node, list) else ())
        for key in keys:
            places.append((node, key))
            collect(node[key])

    collect(value)
    if not places:
        return
    node, key = rng.choice(places)
    old, kind = node[key], rng.randrange(6)
    if isinstance(old, (int, float)) and not isinstance(old, bool) and kind < 4:
        node[key] = rng.choice([0, -1, 1, 2, 0.5, old * 2, old / 2, 1e-30, 1e30,
                                1 << 31, 1 << 62, -old])
    elif isinstance(old, str) and kind < 4:
        texts = [n[k] for n, k in places if isinstance(n[k], str)]
        node[key] = rng.choice(texts + ["", "x", "\x00", "%s", "../x"])
    elif kind == 4:
        del node[key]
    elif kind == 5 and isinstance(node, dict):
        node[rng.choice(["x", key + "s", key.upper()])] = old
    elif isinstance(node, list):
        node.append(old)
    else:
        node[key] = rng.choice([None, [], {}, [old], {"x": old}, True, "", 1])


class Json(Subject):

    def __init__(self, name, weight, source, commands):
        super().__init__(name, weight, source)
        self.commands = commands

    def make(self, tools, seed, batch):
        paths = []
        for i in range(BATCH):
            rng = random.Random(f"{self.name}-{seed}-{batch}-{i}")
            value = json.loads(Path(self.source).read_text())
            for _ in range(rng.randint(1, 3)):
                change_json(value, rng)
            paths.append(tools.scratch / f"{self.name}-{seed}-{batch}-{i}.json")
            paths[-1].write_text(json.dumps(value))
        return paths

    def test(self, path, rng):
        check(fill(rng.choice(self.commands), path, path.with_suffix(".out")))


class Options(Subject):
    """Any options together: they are taken or refused."""

    def __init__(self, name, weight, source, command, options):
        super().__init__(name, weight, source)
        self.command, self.options = command, options

    def make(self, tools, seed, batch):
        paths = []
        for i in range(BATCH):
            paths.append(tools.scratch / f"{self.name}-{seed}-{batch}-{i}.mlir")
            paths[-1].write_bytes(Path(self.source).read_bytes())
        return paths

    def test(self, path, rng):
        command = fill(self.command, path, path.with_suffix(".out"))
        for name in rng.sample(sorted(self.options), rng.randint(1, 6)):
            values = self.options[name]
            command += [name] if values is None else [name, rng.choice(values)]
        check(command)


OPTIONS = {
    "--mesh": ["shard=1", "shard=2", "shard=3,replicate=2", "shard=64",
               "replicate=2", "shard=0", "shard=99999999999"],
    "--strategy": ["full_shard", "shard_grad_op", "no_shard", "hybrid_shard"],
    "--wrap": ["none", "blocks", "size:1", "size:1e9", "pieces", "auto"],
    "--ignore": ["*", "*.bias", "*weight", "none", "["],
    "--replicate": ["*", "*.bias", "none"],
    "--unit": ["*:strategy=no_shard", "root:param-dtype=bf16", "*0:reshard-after-forward=false", "root", "[:strategy=no_shard",
               "*:param-dtype=f16,reduce-dtype=f32", "root:reshard-after-forward=true", "none:strategy=no_shard"],
    "--param-dtype": ["bf16", "f16", "f32", "f64", "i8"],
    "--reduce-dtype": ["bf16", "f32", "f64"],
    "--buffer-dtype": ["bf16", "f32"],
    "--output-dtype": ["bf16", "f32"],
    "--accumulate-in": ["shard", "whole", "auto", "both"],
    "--optimizer": ["adamw", "sgd", "sgd:lr=nan", "adamw:beta1=2", "none", "radam", "rmsprop:centered=true", "muon"],
    "--optimizer-scalars": ["weight_decay", "eps,lr", "beta1,beta2"],
    "--clip-norm": None,
    "--skip-nonfinite": None,
    "--loss-scale": ["dynamic", "1024", "dynamic:init=4,min=2", "dynamic:growth=0.5", "0x"],
    "--offload-optimizer": None,
    "--offload-parameters": None,
    "--optimizer-in-backward": None,
    "--eval-full-precision": None,
    "--cluster": ["cpu-2core", "h100-sxm", "a100-sxm", "none"],
    "--memory-budget": ["1", "100KB", "1MiB", "1e30GiB", "80GiB"],
    "--order": ["scheduled", "fsdp", "in_order"],
    "--recompute": ["none", "full", "auto"],
    "--offload": ["none", "auto"],
    "--bucket": ["none", "auto", "all"],
    "--reshard-after-forward": ["true", "false", "auto"],
    "--forward-prefetch": None,
    "--backward-prefetch": ["pre", "post", "none"],
    "--target": ["cpu", "cuda", "cpu,cuda", "cuda,cuda"],
    "--guard": None,
    "--march": ["x86-64-v3", "native", "x86-64"],
}


class Tools:

    def __init__(self, args, scratch):
        self.scratch = scratch
        self.bin = args.bin
        self.mutate = str(args.bin / "fsdp-mutate")
        self.opt = str(args.bin / "fsdp-opt")
        self.compile = str(args.bin / "fsdp-compile")
        self.plan = str(args.bin / "fsdp-plan")

    def emit(self, source, level, *options):
        path = self.scratch / f"{len(list(self.scratch.iterdir()))}.{level}.mlir"
        subprocess.run([self.compile, str(source), "--emit", f"ir:{level}", "-o",
                        str(path), *options], check=True,
                       stderr=subprocess.DEVNULL)
        return path


def collect(args, tools):
    """All subjects."""
    example = tools.scratch / "example.mlir"
    example.write_text(read_example(args.docs))
    compiler, opt, plan = tools.compile, tools.opt, tools.plan
    mesh = ["--mesh", "shard=2"]
    cluster = ["--cluster", "h100-sxm"]
    mixed = args.fixtures / "mixed" / "model.mlir"
    attention = args.fixtures / "gpt2" / "model.mlir"
    subjects = []
    for name, source in (("example", example), ("mixed", mixed)):
        emit = functools.partial(functools.partial, tools.emit, source)
        l1, l2, l3 = (emit(level, *mesh) for level in ("L1", "L2", "L3"))
        planned = emit("L3", *mesh, *cluster, "--clip-norm", "--accumulate-in",
                       "shard")
        sums = emit("L1", *mesh, "--accumulate-in", "whole",
                    "--skip-nonfinite")
        subjects += [
            Stages(f"{name}-l0", 4, source, [
                [compiler, "FILE", *mesh, "--emit", "llvm", "-o", "OUT"],
                [compiler, "FILE", *mesh, *cluster, "--clip-norm",
                 "--accumulate-in", "whole", "--emit", "ir:L3", "-o", "OUT"],
                [compiler, "FILE", *mesh, "--target", "cuda", "--emit", "ptx",
                 "-o", "OUT"],
                [plan, "FILE", *mesh, *cluster, "--json"]]),
            Stages(f"{name}-l1", 3, l1, [
                [compiler, "--from", "L1", "FILE", "--emit", "llvm", "-o", "OUT"],
                [compiler, "--from", "L1", "FILE", *cluster, "--emit", "ir:L3",
                 "-o", "OUT"],
                [opt, "FILE", "--fsdp-insert-reshards", "-o", "OUT"],
                [opt, "FILE", "--fsdp-collectives", "--fsdp-kernels", "-o",
                 "OUT"]]),
            Stages(f"{name}-sums", 2, sums, [
                [compiler, "--from", "L1", "FILE", *cluster, "--emit", "ir:L3",
                 "-o", "OUT"]]),
            Stages(f"{name}-l2", 4, l2, [
                [compiler, "--from", "L2", "FILE", "--emit", "llvm", "-o", "OUT"],
                [compiler, "--from", "L2", "FILE", *cluster, "--emit", "ir:L3",
                 "-o", "OUT"],
                [opt, "FILE", "--fsdp-cpu-kernels", "--fsdp-arena", "-o", "OUT"],
                [opt, "FILE", "--fsdp-cuda-kernels", "-o", "OUT"],
                [opt, "FILE", "--fsdp-kernels", "-o", "OUT"]]),
            Stages(f"{name}-l3", 4, planned, [
                [compiler, "--from", "L3", "FILE", "--emit", "llvm", "-o", "OUT"],
                [opt, "FILE", "--fsdp-verify-schedule", "-o", "OUT"],
                [opt, "FILE", "--convert-fsdp-to-runtime", "-o", "OUT"],
                [opt, "FILE", "--fsdp-lower", "-o", "OUT"]]),
            Runs(f"{name}-runs-l0", 2, source, [
                [compiler, "FILE", *mesh, "-o", "OUT"],
                [compiler, "FILE", *mesh, "--cluster", "cpu-2core", "--wrap",
                 "size:1", "--recompute", "full", "-o", "OUT"]]),
            Runs(f"{name}-runs-l2", 1, l2,
                 [[compiler, "--from", "L2", "FILE", "-o", "OUT"]]),
            Runs(f"{name}-runs-l3", 1, l3,
                 [[compiler, "--from", "L3", "FILE", "-o", "OUT"]]),
            Same(f"{name}-equal", 1, source, [
                [compiler, "FILE", *mesh, "-o", "OUT"],
                [compiler, "FILE", *mesh, "--cluster", "cpu-2core", "-o",
                 "OUT"]], "equal"),
            Same(f"{name}-places", 1, emit("L3", *mesh, *cluster),
                 [[compiler, "--from", "L3", "FILE", "-o", "OUT"]], "schedule"),
            Options(f"{name}-options", 2, source,
                    [compiler, "FILE", "--emit", "ir:L3", "-o", "OUT"], OPTIONS),
        ]
    subjects += [
        Stages("attention-l0", 1, attention, [
            [compiler, "FILE", *mesh, "--emit", "ir:L3", "-o", "OUT"],
            [compiler, "FILE", *mesh, "--target", "cuda", "--emit", "ir:L3",
             "-o", "OUT"]]),
    ]
    for path in sorted(args.clusters.glob("*.json")):
        subjects.append(Json(f"cluster-{path.stem}", 1, path, [
            [plan, str(example), "--mesh", "shard=4", "--json", "--cluster",
             "FILE"],
            [compiler, str(example), *mesh, "--emit", "ir:L3", "-o", "OUT",
             "--cluster", "FILE"]]))
    return [subject for subject in subjects if args.only in subject.name]


def shrink(tools, path, finding):
    """A smaller file that still ends the tool as it did."""
    command = [word for word in finding.commands[0] if word != str(path)]
    try:
        at = finding.commands[0].index(str(path))
    except ValueError:
        return None
    script = path.with_suffix(".sh")
    words = [shlex.quote(word) for word in command]
    words.insert(at, '"$1"')
    script.write_text(f"timeout 60 {' '.join(words)} >/dev/null 2>&1\n"
                      "[ $? -gt 1 ]\n")
    prefix = path.with_suffix(".reduced")
    done = subprocess.run([tools.mutate, str(path), "--reduce",
                           f"bash {script}", "--prefix", str(prefix)],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          check=False)
    reduced = Path(f"{prefix}.mlir")
    return reduced if done.returncode == 0 and reduced.exists() else None


def report(args, tools, subject, path, finding):
    text = f"{path.name}: {finding}\n"
    text += "".join(f"  {shlex.join(command)}\n" for command in finding.commands)
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
        (args.keep / path.name).write_bytes(path.read_bytes())
        (args.keep / f"{path.name}.txt").write_text(text)
        if finding.is_crash and isinstance(subject, Ir):
            smaller = shrink(tools, path, finding)
            if smaller:
                (args.keep / smaller.name).write_bytes(smaller.read_bytes())
                text += f"  reduced: {args.keep / smaller.name}\n"
    print(text, end="", flush=True)


def fuzz(args, tools):
    """Rounds go through the subjects by their weights; a batch of a subject is
    made when its first file is wanted."""
    subjects = collect(args, tools)
    if not subjects:
        sys.exit(f"expected a subject with '{args.only}' in its name, got none")
    findings = 0
    for subject in subjects:
        if isinstance(subject, Same):
            subject.prepare(tools.scratch)
    order = [s for s in subjects for _ in range(s.weight)]
    random.Random(args.seed).shuffle(order)
    made = {subject.name: 0 for subject in subjects}
    batches = {}

    def next_file(subject):
        number = made[subject.name]
        made[subject.name] += 1
        batch = number // BATCH
        if (subject.name, batch) not in batches:
            batches[subject.name, batch] = subject.make(tools, args.seed, batch)
        return batches[subject.name, batch][number % BATCH], number

    def test(subject, path, number):
        rng = random.Random(f"{subject.name}-{args.seed}-{number}")
        try:
            subject.test(path, rng)
        except Finding as finding:
            return finding
        return None

    start, rounds, pending = time.monotonic(), 0, {}
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        while True:
            isOpen = (rounds < args.rounds and
                      (not args.seconds or
                       time.monotonic() - start < args.seconds))
            if isOpen and len(pending) < args.jobs + 1:
                subject = order[rounds % len(order)]
                path, number = next_file(subject)
                pending[pool.submit(test, subject, path, number)] = (subject,
                                                                     path)
                rounds += 1
                continue
            if not pending:
                break
            done, _ = concurrent.futures.wait(
                pending, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                subject, path = pending.pop(future)
                if finding := future.result():
                    findings += 1
                    report(args, tools, subject, path, finding)
                for rest in path.parent.glob(f"{path.stem}.*"):
                    rest.unlink()
    return rounds, findings


def main():
    parser = argparse.ArgumentParser()
    for name in ("bin", "fixtures", "clusters", "docs"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=1 << 30)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    if args.rounds == 1 << 30 and not args.seconds:
        args.rounds = 200
    with tempfile.TemporaryDirectory(prefix="fsdp-fuzz-") as scratch:
        rounds, findings = fuzz(args, Tools(args, Path(scratch)))
    print(f"{rounds} rounds, {findings} findings")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
