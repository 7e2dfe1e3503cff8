"""scratch-budget.py COMPILE CLUSTER MODEL OPTION...: fails unless an executable is refused the budget that is enough for
the arena alone, where the cluster reserves nothing, and takes the one that is named instead."""
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

    arena = least(compile_with(1024, "ir:L3"))
    compile_with(arena, "ir:L3").check_returncode()
    done = compile_with(arena, "llvm")
    enough = least(done)
    print(done.stderr, end="")
    if compile_with(enough - 1, "llvm").returncode != 1:
        sys.exit(f"expected {enough - 1} bytes to be refused")
    compile_with(enough, "llvm").check_returncode()
