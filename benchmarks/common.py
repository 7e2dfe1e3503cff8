"""What the benchmarks share: models, exporting, compiling and running them."""
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
MODELS = json.loads((HERE / "models.json").read_text())
CACHE = ROOT / "build" / "benchmarks"


MEASURED = ["gpt2-tiny", "llama-20m", "gpt2-124m"]


def add_models(parser, models=MEASURED):
    """Adds what each benchmark of steps is given: models of models.json, and the build's folder."""
    parser.add_argument("models", nargs="*", default=models, help="default: %(default)s")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "bin")


def run(command, **kwargs):
    """The command's standard output; ends the benchmark with its errors if it fails."""
    result = subprocess.run([str(c) for c in command], text=True, capture_output=True, **kwargs)
    if result.returncode:
        sys.exit(f"error: {' '.join(map(str, command))}\n{result.stderr.strip()}")
    return result.stdout


def exported(name, *options, shape="", params=True):
    """The folder of the traced model, made once (needs torch); `options` are the exporter's. `shape`: batch x sequence,
    instead of the model's own; without `params`, parameters that no memory has to hold are not drawn."""
    folder = CACHE / "".join([name, shape, "" if params else "-empty", *map(str, options)])
    if not (folder / "model.mlir").exists():
        spec = MODELS[name]
        batch, seq = shape.split("x") if shape else (spec["batch"], spec["seq"])
        config = ",".join(f"{k}={v}" for k, v in spec["config"].items())
        env = os.environ | {"PYTHONPATH": str(ROOT / "tools" / "fsdp-export" / "src")}
        run([sys.executable, "-m", "fsdp_export", f"hf:{spec['arch']}", *(["--config", config] if config else []),
             "--no-dropout", "--batch", batch, "--seq", seq, *(["--with-params"] if params else ["--skip-init", "--no-verify"]), *options,
             "-o", folder],
            env=env)
    return folder


def compiled(folder, world, bin_dir, *options):
    """The executable for `world` ranks."""
    exe = CACHE / f"{folder.name}-{world}{''.join(o.replace('/', '_') for o in options)}"
    run([bin_dir / "fsdp-compile", folder / "model.mlir", "--optimizer-file", folder / "optimizer.mlir",
         "--mesh", f"shard={world}", *options, "-o", exe])
    return exe


def train(exe, world, steps, *options, seed=0):
    """The metrics of each step of a run on random data from random parameters."""
    metrics = exe.with_suffix(".jsonl")
    run([exe, "-n", world, "--init", f"seed={seed}", "--data", f"random:seed={seed}", "--steps", steps,
         "--lr", "0.001", "--metrics", metrics, "--quiet", *options])
    return [json.loads(line) for line in metrics.read_text().splitlines()]
