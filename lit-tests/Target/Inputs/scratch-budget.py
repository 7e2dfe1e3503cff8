"""scratch-budget.py COMPILE CLUSTER MODEL OPTION...: prints why a step is refused a small budget, where the cluster reserves
nothing; fails unless L3 and the executable take the one that is named instead, and nothing less."""
import json, os, re, subprocess, sys, tempfile

compile_tool, cluster, model, *options = sys.argv[1:]

with tempfile.TemporaryDirectory() as folder:
    with open(cluster) as file:
        description = json.load(file)
    description["device"]["reserved_gib"] = 0
    bare = os.path.join(folder, "bare.json")
    with open(bare, "w") as file:
        json.dump(description, file)

    def compile_with(budget, emit):
        return subprocess.run([compile_tool, model, *options, "--cluster", bare, "--memory-budget", str(budget),
                               "--emit", emit, "-o", os.path.join(folder, "step")], capture_output=True, text=True)

    def least(done):
        if done.returncode != 1:
            sys.exit(f"expected exit status 1, got {done.returncode}: {done.stderr}")
        return int(re.search(r"budget of at least (\d+) bytes", done.stderr)[1])

    done = compile_with(1024, "ir:L3")
    enough = least(done)
    print(done.stderr, end="")
    for emit in ("ir:L3", "llvm"):
        if least(compile_with(enough - 1, emit)) != enough:
            sys.exit(f"expected {enough - 1} bytes to be refused with {enough}")
        compile_with(enough, emit).check_returncode()
