"""Candidates of a tuning table (fsdp-tuning/1), and the table of those that were the fastest (benchmarks/gpu.sh tune).

  tune.py candidates FOLDER HEAD_SIZE [--quick]   writes tables NUMBER.json, one for each program of a model to compile;
                                                  quick: of each list of shapes the first
  tune.py table TABLES PROFILES FILE    of candidates TABLES/MODEL/NUMBER.json and profiles PROFILES/MODEL/NUMBER.profile

Standard library only. A candidate changes several things at once that are measured apart: forward is the attention's call,
dq or dkdv that of its backward pass, of which one candidate changes one; rows or columns are all other kernels together.
What no candidate beats by 2 % has no row, and so the shape that the compiler chooses.
"""
import ctypes
import json
import os
import pathlib
import sys

from libraries import load

# Rows, columns and stages of tiles, which shared memory has room for; heads over 64 have half as many registers left backward.
TILES = {"forward": ((16, 32, 2), (32, 32, 2), (32, 64, 2), (64, 32, 2), (64, 64, 2), (64, 64, 1), (128, 32, 2), (128, 64, 2)),
         "dq": ((16, 32, 2), (32, 32, 2), (64, 16, 2), (64, 32, 2), (64, 32, 1), (64, 64, 2), (128, 32, 2)),
         "dkdv": ((16, 32, 2), (32, 32, 2), (64, 16, 2), (64, 32, 2), (64, 32, 1), (64, 64, 2), (128, 32, 2))}
THREADS = {"rows": (64, 128, 256, 512), "columns": (64, 128, 512)}
# A candidate has to be faster by so much than the compiler's choice.
GAIN = 1.02


def write(path, table):
    path.write_text(json.dumps(table, indent=1) + "\n")


def make_table(device, capability, attention, reductions):
    return {"format": "fsdp-tuning/1", "device": device, "compute_capability": capability, "attention": attention,
            "reductions": reductions}


def candidates(folder, head, quick=None):
    tables = [{}]
    for first, second, third in (("forward", "dq", "columns"), (None, "dkdv", "rows")):
        for i in range(1 if quick else max(len(TILES.get(key) or THREADS.get(key) or ()) for key in (first, second, third))):
            chosen = {}
            for key in filter(None, (first, second, third)):
                values = TILES.get(key) or THREADS[key]
                if i < len(values):
                    chosen[key] = values[i]
            tables.append(chosen)
    for number, chosen in enumerate(tables):
        attention = [{"head_size": int(head), "dtype": "bf16", "direction": key, "rows": chosen[key][0],
                      "columns": chosen[key][1], "stages": chosen[key][2]} for key in TILES if key in chosen]
        reductions = [{"kind": key, "threads": chosen[key]} for key in THREADS if key in chosen]
        write(pathlib.Path(folder) / f"{number}.json", make_table("any", "8.0", attention, reductions))


def measure(profile):
    """The best time of each measure, in nanoseconds."""
    times = {"forward": 0, "backward": 0, "reductions": 0}
    for call in json.loads(profile.read_text())["calls"]:
        if call["kind"] not in ("launch", "attention", "attention_backward"):
            continue
        measured = ("backward" if "attention_backward" in call["name"] else
                    "forward" if "attention" in call["name"] else "reductions")
        times[measured] += call["best_ns"]
    return times


def pick(rows, key, measured, default):
    """Of (value, times), the fastest value, where it is faster than `default`."""
    rows = [(times[measured], value) for value, times in rows]
    for time, value in sorted(rows, key=lambda row: row[0]):
        print(f"  {key:8} {value!s:12} {time / 1e3:10.1f} us, {default[measured] / time:.3f} times as fast as the default")
    if rows and (best := min(rows, key=lambda row: row[0]))[0] * GAIN < default[measured]:
        return best[1]
    return None


def describe_card():
    """Name and capability of the first device."""
    cuda = load("libcuda.so.1")
    if not cuda or cuda.cuInit(0):
        sys.exit("expected a CUDA driver and a device, got none")
    device, numbers, name = ctypes.c_int(), [], ctypes.create_string_buffer(256)
    cuda.cuDeviceGet(ctypes.byref(device), 0)
    cuda.cuDeviceGetName(name, 256, device)
    # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR.
    for attribute in (75, 76):
        value = ctypes.c_int()
        cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        numbers.append(str(value.value))
    return os.environ.get("FSDP_GPU_DEVICE") or name.value.decode(), ".".join(numbers)


def table(tables, profiles, path):
    attention, threads = {}, {}
    for folder in sorted(pathlib.Path(tables).iterdir()):
        runs = {}
        for file in sorted(folder.glob("*.json"), key=lambda file: int(file.stem)):
            profile = pathlib.Path(profiles) / folder.name / f"{file.stem}.profile"
            # A run that failed has said so; what ran is measured all the same.
            if profile.exists():
                runs[int(file.stem)] = json.loads(file.read_text()), measure(profile)
        if 0 not in runs:
            sys.exit(f"{folder.name}: expected a profile of the shapes that the compiler chooses, got none")
        print(folder.name)
        default = runs.pop(0)[1]
        for direction, measured in (("forward", "forward"), ("dq", "backward"), ("dkdv", "backward")):
            rows = [((row["rows"], row["columns"], row["stages"]), times) for given, times in runs.values() for row in given["attention"]
                    if row["direction"] == direction]
            heads = {row["head_size"] for given, _ in runs.values() for row in given["attention"]}
            if best := pick(rows, direction, measured, default):
                attention.update({(head, direction): best for head in heads})
        for kind in THREADS:
            rows = [(row["threads"], times) for given, times in runs.values() for row in given["reductions"]
                    if row["kind"] == kind]
            # Of several models, the first one's.
            if best := pick(rows, kind, "reductions", default):
                threads.setdefault(kind, best)
    device, capability = describe_card()
    write(pathlib.Path(path), make_table(
        device, capability,
        [{"head_size": head, "dtype": "bf16", "direction": direction, "rows": rows, "columns": columns, "stages": stages}
         for (head, direction), (rows, columns, stages) in attention.items()],
        [{"kind": kind, "threads": count} for kind, count in threads.items()]))
    print(f"{path}: {len(attention)} rows of attentions and {len(threads)} of reductions, for {device}")


if __name__ == "__main__":
    {"candidates": candidates, "table": table}[sys.argv[1]](*sys.argv[2:])
