#!/usr/bin/env python3
#===- sweep.py - Do models that nobody has seen train as in PyTorch? -----===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Exports, compiles and trains many small models, and compares each with
PyTorch: losses and gradient norms of 20 steps, per mesh, and the gradient of
each parameter on two ranks. The reference is for 1, 2 and 4 ranks; of other
meshes every rank trains on the first one's batches.

  sweep.py [PATTERN..] [--bin build/bin] [--mesh shard=1 ..] [--work DIR]
  sweep.py llama gpt2 --dtype bf16      # hf: models in another type
  sweep.py vit t5 --device cuda         # on a GPU, or an emulated one

With `--device cuda` the libraries of FSDP_CUDA_LIBS, or where there is no such
variable the doubles of BIN/../lib/fsdp-emulator, which execute a step in
tenths of a second: `--steps 2` is enough then.

Needs what fsdp-export needs (torch, torch-mlir, transformers); without it the
script says so and is skipped (exit status 77). Prints one row per model; exits
1 if one falls short. Models run one after the other, each export in a process
of its own; `--work` keeps the exports, and a second run uses them again.
"""

import argparse
import contextlib
import fnmatch
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MESHES = ["shard=1", "shard=2", "shard=2,replicate=2"]
SKIPPED = 77


def world(mesh):
    """Ranks of a mesh."""
    ranks = 1
    for axis in mesh.split(","):
        ranks *= int(axis.partition("=")[2])
    return ranks


def relative(got, want):
    """The largest relative difference of two lists."""
    return max(abs(g - w) / max(abs(w), 1e-12) for g, w in zip(got, want))


def first_error(text):
    """The line of a tool's output that says what is wrong."""
    lines = text.strip().splitlines() or ["no message"]
    errors = [line for line in lines if "error:" in line]
    return (errors or lines[-1:])[0]


def run(command, timeout):
    """Runs a command; returns None or why it failed, and the seconds."""
    start = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True,
                              timeout=timeout)
    except subprocess.TimeoutExpired:
        return f"longer than {timeout:.0f} s", timeout
    seconds = time.perf_counter() - start
    if done.returncode:
        return f"exit {done.returncode}: {first_error(done.stderr)}", seconds
    return None, seconds


class Exporter:
    """fsdp-export in forked processes: PyTorch is imported once."""

    def __init__(self, steps, timeout, dtype):
        import torch
        import transformers  # noqa: F401
        from fsdp_export import exporter, huggingface  # noqa: F401
        torch.set_num_threads(1)
        self.steps, self.timeout, self.dtype = steps, timeout, dtype

    def export(self, case, target):
        """None, or why the export failed."""
        shutil.rmtree(target, ignore_errors=True)
        with tempfile.TemporaryFile("w+") as log:
            status = self._fork(lambda: self._export(case, target), log)
            if status is None:
                return f"longer than {self.timeout:.0f} s"
            if status:
                log.seek(0)
                return first_error(log.read())
        return None

    def _fork(self, action, log):
        pid = os.fork()
        if pid == 0:
            status = 2
            # Ends the process if it hangs; the parent sees the signal.
            signal.alarm(int(self.timeout))
            try:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
                status = action()
            except BaseException:  # An exit of the process, whatever it is.
                traceback.print_exc()
            with contextlib.suppress(BaseException):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)
        status = os.waitpid(pid, 0)[1]
        if not os.WIFSIGNALED(status):
            return status
        if os.WTERMSIG(status) == signal.SIGALRM:
            return None
        log.seek(0, os.SEEK_END)
        log.write(f"error: ended by signal {os.WTERMSIG(status)}\n")
        return status

    def _export(self, case, target):
        from fsdp_export.cli import main
        arguments = list(case.arguments)
        if self.dtype and arguments[0].startswith("hf:"):
            arguments += ["--dtype", self.dtype]
        trains = "--optimizer" not in arguments or "none" not in arguments
        # Times are compared with PyTorch's, which draws in its own way.
        arguments += ["--no-dropout"]
        arguments += ["--reference", str(self.steps)] if trains else [
            "--with-params"]
        status = main([*arguments, "-o", str(target)])
        if status == 0:
            seconds = eager_seconds(case)
            (target / "eager.json").write_text(json.dumps(seconds))
        return status


def eager_seconds(case):
    """Seconds of one step, forward and backward, in PyTorch on one thread."""
    import torch
    from fsdp_export import huggingface, userfunction
    from fsdp_export.cli import HF_ONLY, make_parser
    from fsdp_export.recorder import InitRecorder
    from fsdp_export.step import remove_dropout
    args = make_parser().parse_args([*case.arguments, "-o", "unused"])
    kind, _, target = args.source.partition(":")
    torch.manual_seed(0)
    if kind == "hf":
        settings = HF_ONLY | {k: v for k, v in vars(args).items()
                              if k in HF_ONLY and v is not None}
        settings["config"] = huggingface.parse_config(settings["config"])
        if settings["inputs"] is not None:
            settings["inputs"] = tuple(settings["inputs"].split(","))
        step = huggingface.build(target, huggingface.HFOptions(**settings),
                                 InitRecorder())
    else:
        step = userfunction.build(target, InitRecorder())
    remove_dropout(step.module)
    best = float("inf")
    for _ in range(5):
        step.module.zero_grad(set_to_none=True)
        start = time.perf_counter()
        step.loss(step.module, *step.inputs.values()).backward()
        best = min(best, time.perf_counter() - start)
    return best


def repeat_batches(directory, ranks, target):
    """The first rank's batches, for every rank: what one rank expects."""
    from safetensors.torch import load_file, save_file
    batches = load_file(directory / "batches.safetensors")
    save_file({name: b[:, :1].repeat_interleave(ranks, 1).contiguous()
               for name, b in batches.items()}, target)


def train(directory, mesh, options):
    """One mesh: (why it fell short or None, compile seconds, step ms)."""
    ranks = world(mesh)
    has_optimizer = (directory / "optimizer.mlir").exists()
    with tempfile.TemporaryDirectory() as scratch:
        program, metrics = f"{scratch}/step", f"{scratch}/metrics.jsonl"
        compile_ = [str(options.bin / "fsdp-compile"),
                    str(directory / "model.mlir"), "--mesh", mesh,
                    "-o", program, *options.compile_arg]
        if has_optimizer:
            compile_ += ["--optimizer-file", str(directory / "optimizer.mlir")]
        why, compile_seconds = run(compile_, options.timeout)
        if why:
            return f"compile: {why}", compile_seconds, None
        launch = [program, "-n", str(ranks), "--threads", "1",
                  "--params", str(directory / "params.safetensors"),
                  "--steps", str(options.steps), "--metrics", metrics,
                  *options.run_arg]
        expect = None
        if (directory / "expect.json").exists():
            expect = json.loads((directory / "expect.json").read_text())
            batches, like = directory / "batches.safetensors", str(ranks)
            if like not in expect["loss"]:
                batches, like = f"{scratch}/batches.safetensors", "1"
                repeat_batches(directory, ranks, batches)
            launch += ["--data", str(batches),
                       "--lr", str(expect["hyper"]["lr"])]
        else:
            launch += ["--data", "random:seed=0"]
        why, _ = run(launch, options.timeout)
        if why:
            return f"run: {why}", compile_seconds, None
        rows = [json.loads(line) for line in open(metrics)]
        rows = [row for row in rows if "loss" in row]
        ms = sorted(row["step_ms"] for row in rows)[len(rows) // 2]
        if expect is None:
            return None, compile_seconds, ms
        for key in ("loss", "grad_norm"):
            want = expect[key][like]
            if len(rows) != len(want):
                return (f"expected {len(want)} steps, got {len(rows)}",
                        compile_seconds, ms)
            got = [row[key] for row in rows]
            if not all(isinstance(g, (int, float)) for g in got):
                return f"{key} is not a number", compile_seconds, ms
            tolerance = expect["rtol"][like][key]
            difference = relative(got, want)
            if not difference <= tolerance:
                return (f"{key} differs by {difference:.1e}, at most "
                        f"{tolerance:.1e} expected", compile_seconds, ms)
    return None, compile_seconds, ms


def compare_gradients(directory, options):
    """Why a gradient fell short, or None; None where there is no reference."""
    import gradients
    from steps import read_tensors
    if not (directory / "gradients.safetensors").exists():
        return None
    expect = json.loads((directory / "expect.json").read_text())["gradients"]
    ranks = expect["ranks"]
    with tempfile.TemporaryDirectory() as scratch:
        program, saved = f"{scratch}/step", pathlib.Path(scratch) / "saved"
        why, _ = run([str(options.bin / "fsdp-compile"),
                      str(directory / "model.mlir"), "--mesh",
                      f"shard={ranks}", "--optimizer", "sgd:lr=1", "-o",
                      program, *options.compile_arg], options.timeout)
        if why:
            return f"compile: {why}"
        params = directory / "params.safetensors"
        why, _ = run([program, "-n", str(ranks), "--threads", "1", "--params",
                      str(params), "--data",
                      str(directory / "batches.safetensors"), "--steps", "1",
                      "--lr", str(gradients.LR), "--save", str(saved),
                      *options.run_arg], options.timeout)
        if why:
            return f"run: {why}"
        wrong = gradients.describe_wrong(
            read_tensors(params),
            read_tensors(saved / "step-00000001" / "params.safetensors"),
            read_tensors(directory / "gradients.safetensors"), expect["rtol"])
    if not wrong:
        return None
    return f"gradients: {len(wrong)} of {len(expect['rtol'])}: {wrong[0]}"


def measure(case, directory, exporter, options):
    """One row of the table."""
    row = {"name": case.name, "export": "ok", "parity": "", "why": "",
           "compile_s": None, "ms": None, "eager_ms": None, "short": False}
    if (case.refused or options.again
            or not (directory / "model.mlir").exists()):
        why = exporter().export(case, directory)
        if case.refused:
            row["export"] = "refused"
            row["why"] = why or "expected a refusal, got an export"
            row["short"] = not why or case.refused not in why
            return row
        if why:
            return row | {"export": "failed", "why": why, "short": True}
    if (directory / "eager.json").exists():
        row["eager_ms"] = 1e3 * json.loads(
            (directory / "eager.json").read_text())
    for mesh in options.mesh:
        why, compile_seconds, ms = train(directory, mesh, options)
        row["compile_s"] = max(row["compile_s"] or 0, compile_seconds)
        row["ms"] = row["ms"] or ms
        if why:
            return row | {"parity": "no", "why": f"{mesh}: {why}",
                          "short": True}
    compared = (directory / "expect.json").exists()
    why = compare_gradients(directory, options)
    if why:
        return row | {"parity": "no", "why": why, "short": True}
    return row | {"parity": "yes" if compared else "ran"}


def cell(value, digits):
    return "" if value is None else f"{value:.{digits}f}"


def print_row(row):
    print(f"{row['name']:28} {row['export']:8} {row['parity']:7} "
          f"{cell(row['compile_s'], 1):>9} {cell(row['ms'], 2):>9} "
          f"{cell(row['eager_ms'], 2):>9}  {row['why'][:400]}", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("patterns", nargs="*", help="of names; default: all but op-* and step-*")
    add("--device", choices=["cpu", "cuda"], default="cpu")
    add("--bin", type=pathlib.Path, default=ROOT / "build/bin")
    add("--mesh", nargs="+", default=MESHES)
    add("--work", type=pathlib.Path, help="keeps the exports here")
    add("--dtype", choices=["f32", "bf16"], help="of hf: models")
    add("--again", action="store_true", help="exports again")
    add("--steps", type=int, default=20)
    add("--timeout", type=float, default=600)
    add("--compile-arg", action="append", default=[])
    add("--run-arg", action="append", default=[])
    add("--json", type=pathlib.Path, help="also writes the rows here")
    options = parser.parse_args()
    if options.device == "cuda":
        options.compile_arg.append("--target=cpu,cuda")
        options.run_arg += ["--device=cuda", "--attention=own"]
        doubles = options.bin.resolve().parent / "lib/fsdp-emulator"
        if "FSDP_CUDA_LIBS" not in os.environ:
            # A card for which a program holds PTX alone.
            os.environ.update(FSDP_CUDA_LIBS=str(doubles),
                              FSDP_CUDA_CACHE="none",
                              FSDP_EMULATOR_CAPABILITY="8.0")
    sys.path[:0] = [str(HERE), str(ROOT / "tools/fsdp-export/src"),
                    str(ROOT / "tools/fsdp-export/tests"),
                    str(ROOT / "test/parity")]
    try:
        import torch  # noqa: F401
        import torch_mlir  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        print(f"skipped: expected torch, torch-mlir and transformers, got "
              f"{error}")
        return SKIPPED
    import cases
    models = cases.HUGGING_FACE + cases.MODULES
    patterns = options.patterns or [model.name for model in models]
    chosen = [c for c in models + cases.operations() + cases.steps()
              if any(fnmatch.fnmatch(c.name, p) for p in patterns)]
    if not chosen:
        print(f"error: expected a name like one of {', '.join(patterns)}, "
              "found none")
        return 1
    made = []

    def exporter():
        if not made:
            made.append(Exporter(options.steps, options.timeout,
                                 options.dtype))
        return made[0]

    print(f"{'model':28} {'export':8} {'parity':7} {'compile s':>9} "
          f"{'ms/step':>9} {'eager ms':>9}")
    rows = []
    with contextlib.ExitStack() as stack:
        work = options.work or pathlib.Path(
            stack.enter_context(tempfile.TemporaryDirectory()))
        work.mkdir(parents=True, exist_ok=True)
        for case in chosen:
            rows.append(measure(case, work / case.name, exporter, options))
            print_row(rows[-1])
    short = sum(row["short"] for row in rows)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    print(f"{short} of {len(rows)} fall short" if short
          else f"all {len(rows)} as expected")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
