"""profile.py PLAN COMPILE MODEL OPTION...: fails unless plans and compilations take kernels' times from a profile,
which is made up here: each call takes 3 ms."""
import json, os, re, subprocess, sys, tempfile

plan_tool, compile_tool, *options = sys.argv[1:]


def plan(*more):
    done = subprocess.run([plan_tool, *options, "--json", *more], capture_output=True, text=True)
    done.check_returncode()
    return json.loads(done.stdout)


with tempfile.TemporaryDirectory() as folder:
    calls = [{"name": k["name"], "kind": "launch", "calls": k["calls"], "best_ns": 3e6 * k["calls"], "flops": 0,
              "bytes": k["bytes"] * k["calls"]} for k in plan()["kernels"] if k["bytes"] and "product" not in k["kind"]]
    profile = os.path.join(folder, "profile.json")
    with open(profile, "w") as file:
        json.dump({"steps": 1, "calls": calls, "products": []}, file)
    profiled = plan("--profile", profile)
    for call in calls:
        kernel = next(k for k in profiled["kernels"] if k["name"] == call["name"])
        if abs(kernel["ms"] - 3 * kernel["calls"]) > 1e-3:
            sys.exit(f"expected 3 ms a call of {kernel['name']}, got {kernel['ms'] / kernel['calls']}")
    print(*profiled["notes"], sep="\n")
    output = os.path.join(folder, "step.mlir")
    done = subprocess.run([compile_tool, *options, "--profile", profile, "--emit", "ir:L3", "-o", output],
                          capture_output=True, text=True)
    done.check_returncode()
    compiled = float(re.search(r"step ([\d.]+) ms", done.stderr)[1])
    planned = profiled["orders"][-1]["step_ms"]
    if abs(compiled - planned) > 1e-3:
        sys.exit(f"expected a step of {planned} ms, got {compiled}")
