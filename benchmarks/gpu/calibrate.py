"""Measures kernels that fsdp-compile made, on the card at hand, and writes its device table (docs/cluster.md).

  calibrate.py steps CALIBRATE FOLDER [--quick]   where the compiler is: steps of the sizes to measure, by calibrate/steps.py
  calibrate.py table FOLDER TABLE                 where the card is: of profiles FOLDER/NAME.profile, and metrics of steps of
                                                  launches FOLDER/NAME.off and .on; standard library only

matmul      x @ w and both gradients by cuBLASLt, as the runtime calls it, by type
memory      products by elements with their update, by bytes read and written: the largest kernel of each step
attention   causal, forward and backward, in bf16
launch      by how much one more small kernel lengthens a step: issued call by call (launch_us), as a graph (graph_launch_us);
            of steps that take milliseconds, against which what the host does between two is small

Each kernel's fastest call counts, timed by events on its stream. A table needs all of it: where a kernel
is not among those that a program called, nothing is written.
"""
import ctypes
import json
import pathlib
import statistics
import sys

from libraries import load

# Of a step's launches, how many of the first steps are no measure.
WARM = 10


def write_steps(calibrate, folder, quick):
    sys.path.insert(0, str(calibrate))
    import steps
    if quick:
        widths, tokens, counts, shapes = [(64, 64)], [32, 64], [1 << 10, 1 << 14], [(2, 32, 16)]
        launches = 8, 72
    else:
        widths = [(768, 768), (768, 2304), (768, 3072), (2048, 2048), (2048, 8192), (4096, 4096)]
        tokens, counts = [512, 2048, 8192], [1 << power for power in range(10, 27, 2)]
        shapes = [(heads, sequence, size) for heads in (16, 64) for sequence in (512, 2048) for size in (64, 128)]
        launches = 1032, 2064
    texts = {f"launch-{count}": steps.products_of_elements([64] * count) for count in launches}
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


def read_profile(folder, name):
    return json.loads((folder / f"{name}.profile").read_text())


def count_launches(profile):
    """Of a step."""
    return sum(call["calls"] for call in profile["calls"] if call["kind"] == "launch") // profile["steps"]


def step_ms(path):
    return statistics.median([json.loads(line)["step_ms"] for line in path.read_text().splitlines()][WARM:])


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


def table(folder):
    matmul, points, attention, launches = {}, [], [], []
    for name in sorted(path.stem for path in folder.glob("*.profile")):
        kind, *rest = name.split("-")
        profile = read_profile(folder, name)
        if kind == "launch":
            launches.append((count_launches(profile), name))
            continue
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
    (few, short), (many, long) = min(launches), max(launches)
    more = many - few
    if more <= 0:
        sys.exit(f"expected more launches of {long} than of {short}, got {more}")
    launch = {graph: 1e3 * (step_ms(folder / f"{long}.{graph}") - step_ms(folder / f"{short}.{graph}")) / more
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
    folder, path = map(pathlib.Path, arguments)
    made = table(folder)
    path.write_text(json.dumps(made, indent=1) + "\n")
    largest = made["memory"]["us_by_bytes"][-1]
    print(f"{made['device']}: launch {made['launch_us']} us, in a graph {made['graph_launch_us']} us; "
          f"{largest[0] / largest[1] / 1e3:.1f} GB/s of {largest[0]} bytes; {len(made['matmul'])} products, "
          f"{len(made['attention'])} attentions; {path}")


if __name__ == "__main__":
    main(*sys.argv[1:])
