"""Measures kernels that fsdp-compile made, on the card at hand, and writes its device table (docs/cluster.md).

  calibrate.py steps CALIBRATE FOLDER [--quick]   where the compiler is: steps of the sizes to measure, by calibrate/steps.py
  calibrate.py table HERE WORK TABLE              where the card is: runs programs/calibrate-*; standard library only

matmul      x @ w and both gradients by cuBLASLt, as the runtime calls it, by type
memory      products by elements with their update, by bytes read and written: the largest kernel of each step
attention   causal, forward and backward, in bf16
launch      by how much one more small kernel lengthens a step: issued call by call (launch_us), as a graph (graph_launch_us)

Each kernel's fastest call counts, timed by events on its stream. A table needs all of it: where a program fails, or a
kernel is not among those that it called, nothing is written.
"""
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys

from libraries import load

STEPS = 6
LAUNCH_STEPS = 30
# Kernels that one step of the two for launches has more than the other.
FEW, MANY = 8, 72


def write_steps(calibrate, folder, quick):
    sys.path.insert(0, str(calibrate))
    import steps
    if quick:
        widths, tokens, counts, shapes = [(64, 64)], [32, 64], [1 << 10, 1 << 14], [(2, 32, 16)]
    else:
        widths = [(768, 768), (768, 2304), (768, 3072), (2048, 2048), (2048, 8192), (4096, 4096)]
        tokens, counts = [512, 2048, 8192], [1 << power for power in range(10, 27, 2)]
        shapes = [(heads, sequence, size) for heads in (16, 64) for sequence in (512, 2048) for size in (64, 128)]
    texts = {f"launch-{count}": steps.products_of_elements([64] * count) for count in (FEW, MANY)}
    for dtype in ("f32", "bf16"):
        for inner, columns in widths:
            texts[f"matmul-{dtype}-{inner}-{columns}"] = steps.matmuls([(rows, inner, columns) for rows in tokens], dtype)
    for count in counts:
        texts[f"memory-{count}"] = steps.products_of_elements([count])
    for heads, sequence, size in shapes:
        texts[f"attention-{heads}-{sequence}-{size}"] = steps.attention(heads, sequence, size, "bf16")
    for name, text in texts.items():
        (folder / name).mkdir()
        (folder / name / "model.mlir").write_text(text)


class Card:
    def __init__(self, here, work):
        self.here, self.work = here, work
        self.programs = sorted(path.stem[len("calibrate-"):] for path in (here / "programs").glob("calibrate-*.so"))

    def run(self, name, steps, *options):
        libraries = os.pathsep.join(filter(None, [str(self.here / "lib"), os.environ.get("LD_LIBRARY_PATH")]))
        command = [self.here / "bin" / "fsdp-run", self.here / "programs" / f"calibrate-{name}.so", "--device", "cuda",
                   "--init", "seed=1", "--data", "random:seed=1", "--steps", steps, "--quiet", *options]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                              env={**os.environ, "LD_LIBRARY_PATH": libraries})
        if done.returncode:
            sys.exit(f"calibrate-{name}: exit {done.returncode}: {done.stderr.strip()[-500:]}")

    def profile(self, name):
        path = self.work / "profile.json"
        self.run(name, STEPS, "--profile", path)
        return json.loads(path.read_text())

    def launches(self, name):
        """Of a step."""
        profile = self.profile(name)
        return sum(call["calls"] for call in profile["calls"] if call["kind"] == "launch") // profile["steps"]

    def step_ms(self, name, graph):
        path = self.work / "metrics.jsonl"
        path.unlink(missing_ok=True)
        self.run(name, LAUNCH_STEPS, "--metrics", path, "--graph", graph)
        times = [json.loads(line)["step_ms"] for line in path.read_text().splitlines()]
        return statistics.median(times[LAUNCH_STEPS // 3:])


def card_name():
    driver = load("libcuda.so.1")
    if not driver:
        sys.exit("expected libcuda.so.1, got none")
    name, device = ctypes.create_string_buffer(256), ctypes.c_int()
    for call, *arguments in (("cuInit", 0), ("cuDeviceGet", ctypes.byref(device), 0),
                             ("cuDeviceGetName", name, len(name), device)):
        if status := getattr(driver, call)(*arguments):
            sys.exit(f"{call}: expected 0, got {status}")
    return name.value.decode()


def microseconds(nanoseconds):
    return max(round(nanoseconds / 1e3, 4), 1e-4)


def best(profile, ending):
    """(bytes, nanoseconds) of a call of the kernel that moves most among those whose names end so."""
    found = [(call["bytes"] // call["calls"], call["best_ns"] * profile["steps"] / call["calls"])
             for call in profile["calls"] if call["kind"] == "launch" and call["name"].endswith(ending)]
    if not found:
        names = ", ".join(call["name"] for call in profile["calls"])
        sys.exit(f"expected a kernel whose name ends with {ending}, got {names}")
    return max(found)


def table(card):
    matmul, points, attention = {}, [], []
    for name in card.programs:
        kind, *rest = name.split("-")
        if kind == "launch":
            continue
        profile = card.profile(name)
        if kind == "matmul":
            for product in profile["products"]:
                key = product["dtype"].lower(), product["m"], product["n"], product["k"]
                matmul[key] = min(product["best_ns"], matmul.get(key, product["best_ns"]))
        elif kind == "memory":
            size, ns = best(profile, "")
            points.append([size, microseconds(ns)])
        else:
            heads, sequence, size = map(int, rest)
            attention.append({"dtype": "bf16", "batch": 1, "heads": heads, "queries": sequence, "head_size": size,
                              "causal": True, "forward_us": microseconds(best(profile, "_attention")[1]),
                              "backward_us": microseconds(best(profile, "_attention_backward")[1])})
    points.sort()
    # More bytes never take less time: what says so was disturbed.
    for smaller, larger in reversed(list(zip(points, points[1:]))):
        smaller[1] = min(smaller[1], larger[1])
    more = card.launches(f"launch-{MANY}") - card.launches(f"launch-{FEW}")
    if more <= 0:
        sys.exit(f"expected more launches of {MANY} parameters than of {FEW}, got {more}")
    launch = {graph: 1e3 * (card.step_ms(f"launch-{MANY}", graph) - card.step_ms(f"launch-{FEW}", graph)) / more
              for graph in ("off", "on")}
    for graph, us in launch.items():
        if us <= 0:
            sys.exit(f"--graph {graph}: expected that {more} more kernels take longer, got {us:.3f} us each")
    return {"format": "fsdp-device-table/1", "device": card_name(),
            "source": "benchmarks/gpu.sh calibrate: kernels of fsdp-compile, products by cuBLASLt",
            "launch_us": round(launch["off"], 3), "graph_launch_us": round(launch["on"], 3),
            "matmul": [{"dtype": dtype, "m": m, "n": n, "k": k, "us": microseconds(ns)}
                       for (dtype, m, n, k), ns in sorted(matmul.items())],
            "memory": {"us_by_bytes": points}, "attention": attention}


def main(mode, *arguments):
    if mode == "steps":
        write_steps(*map(pathlib.Path, arguments[:2]), "--quick" in arguments)
        return
    here, work, path = map(pathlib.Path, arguments)
    made = table(Card(here, work))
    path.write_text(json.dumps(made, indent=1) + "\n")
    largest = made["memory"]["us_by_bytes"][-1]
    print(f"{made['device']}: launch {made['launch_us']} us, in a graph {made['graph_launch_us']} us; "
          f"{largest[0] / largest[1] / 1e3:.1f} GB/s of {largest[0]} bytes; {len(made['matmul'])} products, "
          f"{len(made['attention'])} attentions; {path}")


if __name__ == "__main__":
    main(*sys.argv[1:])
