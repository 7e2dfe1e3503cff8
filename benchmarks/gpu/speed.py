"""Steps of models by the clock, ours and PyTorch's.

  speed.py export MODEL                        an entry of models.json, as fsdp-export's words, one a line
  speed.py run FILE FOLDER COMMAND..           runs a program, prints what it says, and leaves times, clocks and power in
                                               FILE; FOLDER is for a pipe
  speed.py peer FILE MODEL eager|compile STEPS DEVICE    the same of PyTorch (needs torch and transformers)
  speed.py table LOG MODEL                     LOG/MODEL.HOW.json of all ways that were measured, one below the other
  speed.py profile FILE                        a profile's calls, those that take longest first
  speed.py longest FILE COUNT                  names of the kernels of our own among them

A step's time is that between lines of metrics, by the wall clock: with what lies between two runs of the program, as
PyTorch's loop has it. `step` is what the runtime measures, without. Both leave out the first WARM steps.
"""
import json
import math
import os
import pathlib
import re
import select
import shutil
import statistics
import subprocess
import sys
import time

MODELS = json.loads((pathlib.Path(__file__).parent / "models.json").read_text())
# Steps in which code is compiled and memory is asked for.
WARM = 5
GIB = 1 << 30
# Of kernels, which are the most of a step's time.
ROWS = 40


def export(model):
    spec = MODELS[model]
    config = ",".join(f"{key}={value}" for key, value in spec["config"].items())
    print(f"hf:{spec['arch']}", *(["--config", config] if config else []), "--batch", spec["batch"], "--seq", spec["seq"], sep="\n")


class Sampler:
    """What nvidia-smi says of clocks and power while something runs; nothing where there is none."""

    NAMES = ("clocks.sm", "clocks.mem", "power.draw", "temperature.gpu")

    def __enter__(self):
        self.run = None
        if shutil.which("nvidia-smi"):
            self.run = subprocess.Popen(["nvidia-smi", "-i", "0", f"--query-gpu={','.join(self.NAMES)}", "-lms", "100",
                                         "--format=csv,noheader,nounits"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return self

    def __exit__(self, *_):
        self.samples = []
        if self.run:
            self.run.terminate()
            for line in self.run.communicate()[0].splitlines():
                try:
                    self.samples.append([float(word) for word in line.split(",")])
                except ValueError:
                    pass  # "[N/A]", or half a line
        self.samples = [sample for sample in self.samples if len(sample) == len(self.NAMES)]


def read_lines(pipe, command):
    """((time, line) of what is written to the pipe, exit status); what the command prints is printed."""
    rest, lines = b"", []
    with subprocess.Popen(command) as run:
        while True:
            ended = run.poll() is not None
            ready, _, _ = select.select([pipe], [], [], 0 if ended else 0.05)
            now = time.perf_counter()
            if ready:
                *whole, rest = (rest + os.read(pipe, 1 << 16)).split(b"\n")
                lines += [(now, line) for line in whole]
            elif ended:
                return lines, run.returncode


def run(path, folder, *command):
    fifo = pathlib.Path(folder) / "metrics"
    os.mkfifo(fifo)
    # Open for both, it never ends.
    pipe = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    with Sampler() as sampler:
        lines, status = read_lines(pipe, [*command, "--metrics", str(fifo)])
    if status:
        sys.exit(f"expected a run, got exit {status}")
    steps = [json.loads(line) for _, line in lines]
    write(path, {"wall_ms": [1e3 * (after - before) for (before, _), (after, _) in zip(lines, lines[1:])],
                 "step_ms": [step["step_ms"] for step in steps], "loss": [step["loss"] for step in steps],
                 "tokens": steps[-1]["tokens_per_s"] * steps[-1]["step_ms"] / 1e3,
                 "held": max(step["mem_bytes"] for step in steps), "samples": sampler.samples})
    show_row(pathlib.Path(path).stem.partition(".")[2], json.loads(pathlib.Path(path).read_text()))


def write(path, values):
    pathlib.Path(path).write_text(json.dumps(values) + "\n")


def build(spec):
    import transformers
    config = transformers.AutoConfig.for_model(spec["arch"], **spec["config"])
    config.use_cache = False
    for name in ("attn_pdrop", "embd_pdrop", "resid_pdrop", "attention_dropout"):
        if hasattr(config, name):
            setattr(config, name, 0.0)
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").train()


def peer(path, model, mode, steps, device):
    """Parameters in f32, products in bf16 by autocast, AdamW in one kernel."""
    import torch
    spec = MODELS[model]
    on_card = device == "cuda"
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    begin = time.perf_counter()
    # Drawn on the card: on a processor half a billion numbers take tens of seconds.
    with torch.device(device):
        module = build(spec)
    print(f"{model}: torch {torch.__version__} on {device}, built in {time.perf_counter() - begin:.1f} s", flush=True)
    run = torch.compile(module) if mode == "compile" else module
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    tokens = torch.randint(0, module.config.vocab_size, (spec["batch"], spec["seq"]), device=device)
    times = []
    with Sampler() as sampler:
        for _ in range(int(steps)):
            begin = time.perf_counter()
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device, torch.bfloat16):
                loss = run(input_ids=tokens, labels=tokens).loss
            loss.backward()
            # Ours measures it in each step.
            torch.nn.utils.get_total_norm([p.grad for p in module.parameters()])
            optimizer.step()
            value = loss.item()
            times.append((time.perf_counter() - begin) * 1e3)
    print(f"{mode}: first step {times[0] / 1e3:.1f} s", flush=True)
    if not math.isfinite(value):
        sys.exit(f"expected a finite loss, got {value}")
    write(path, {"wall_ms": times[1:], "step_ms": times, "loss": [value], "tokens": spec["batch"] * spec["seq"],
                 "held": torch.cuda.max_memory_reserved() if on_card else None,
                 "tensors": torch.cuda.max_memory_allocated() if on_card else None, "samples": sampler.samples})
    show_row(pathlib.Path(path).stem.partition(".")[2], json.loads(pathlib.Path(path).read_text()))


def wall(values):
    """The mean: all that happens between the first of these steps and the last. A short run has no warm steps to leave out;
    where lines of one came at once, the runtime's own time stands."""
    times = values["wall_ms"]
    return statistics.mean(times[WARM:] or times[-1:] or [0]) or statistics.mean(values["step_ms"])


def show_row(name, values, best=None):
    times = values["step_ms"][WARM:] or values["step_ms"]
    size = lambda value: f"{value / GIB:8.2f}" if value else f"{'-':>8}"
    # The second half, when clocks have settled.
    samples = [statistics.median(column) for column in zip(*values["samples"][len(values["samples"]) // 2:])]
    print(f"{name:16} {wall(values):9.3f} {statistics.median(times):9.3f} {min(times):9.3f} "
          f"{values['tokens'] / wall(values) * 1e3:10.0f} " + (f"{wall(values) / best:7.3f} " if best else "")
          + f"{size(values['held'])} {size(values.get('tensors'))}"
          + (" {:6.0f} MHz {:6.0f} MHz {:5.0f} W {:3.0f} C".format(*samples) if samples else ""), flush=True)


def table(log, model):
    paths = sorted(pathlib.Path(log).glob(f"{model}.*.json"), key=lambda path: path.stat().st_mtime)
    runs = {path.stem: json.loads(path.read_text()) for path in paths if not path.stem.endswith(".profile")}
    if not runs:
        sys.exit(f"expected times of {model}, got none")
    best = min(map(wall, runs.values()))
    print(f"{'':16} {'ms':>9} {'step':>9} {'least':>9} {'tokens/s':>10} {'/least':>7} {'GiB':>8} {'tensors':>8}  clocks, power")
    for name, values in runs.items():
        show_row(name.removeprefix(f"{model}."), values, best)
    print("ms: mean by the wall clock; step: median of what the runtime measures; GiB: what the process holds of the card, of "
          "PyTorch's without its context; tensors: the most at once")


def profile(path):
    of = json.loads(pathlib.Path(path).read_text())
    calls, steps = of["calls"], of["steps"]
    whole = sum(call["ns"] for call in calls) / steps
    print(f"{of['device']}: {whole / 1e6:.3f} ms of calls a step, of {steps}, each timed by itself")
    kinds = {}
    for call in calls:
        kinds[call["kind"]] = kinds.get(call["kind"], 0) + call["ns"] / steps
    print(*(f"{kind} {ns / 1e6:.3f} ms" for kind, ns in sorted(kinds.items(), key=lambda item: -item[1])), sep=", ")
    print(f"{'us a step':>10} {'share':>6} {'calls':>6} {'us each':>9} {'best':>9} {'GB/s':>8} {'TFLOP/s':>8}  name")
    for call in calls[:ROWS]:
        each = call["ns"] / call["calls"]
        # best_ns adds up, over the places that call it, the fastest call of each.
        print(f"{call['ns'] / steps / 1e3:10.1f} {call['ns'] / steps / whole:6.1%} {call['calls'] // steps:6} {each / 1e3:9.2f} "
              f"{call['best_ns'] * steps / call['calls'] / 1e3:9.2f} {call['gb_per_s'] or 0:8.0f} "
              f"{(call['gflops_per_s'] or 0) / 1e3:8.1f}  {call['name']}")
    if calls[ROWS:]:
        print(f"{sum(call['ns'] for call in calls[ROWS:]) / steps / 1e3:10.1f}  in {len(calls) - ROWS} more")


def longest(path, count):
    calls = json.loads(pathlib.Path(path).read_text())["calls"]
    names = [call["name"] for call in calls if call["kind"] in ("launch", "attention", "attention_backward")]
    print(*(re.sub(r"\W", ".", name) for name in names[:int(count)]), sep="\n")


if __name__ == "__main__":
    modes = {"export": export, "run": run, "peer": peer, "table": table, "profile": profile, "longest": longest}
    sys.exit(modes[sys.argv[1]](*sys.argv[2:]))
