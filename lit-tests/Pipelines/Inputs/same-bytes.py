"""same-bytes.py COMPILE OPT MLIR_OPT PLUGIN MODEL OPTION...: fails unless fsdp-opt, and MLIR_OPT with PLUGIN where it is not empty, make of MODEL,
by the pipeline that fsdp-compile prints for these options, what fsdp-compile makes of it: at L1, L2, L3 and in LLVM."""
import os, subprocess, sys, tempfile

compiler, opt, mlir_opt, plugin, model, *options = sys.argv[1:]
# What has an effect from a level on.
LATER = {"L1": ["--attention", "--offload-optimizer", "--guard"]}
LATER["L2"] = ["--guard"]
PLANNING = ["--cluster", "--memory-budget", "--order", "--backward-prefetch", "--offload", "--bucket"]


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stderr}")
    return done.stdout


def expand(words):
    """Each option with its value, as one list; files of options are read."""
    found = []
    for word in words:
        if word.startswith("@"):
            with open(word[1:]) as file:
                found += [[text] for text in file.read().split()]
        elif word.startswith("-") or not found:
            found.append([word])
        else:
            found[-1].append(word)
    return found


def choose(level):
    """The options that have an effect before @level."""
    dropped = LATER.get(level, []) + (PLANNING if level in LATER else [])
    return [word for option in expand(options) if option[0].split("=")[0] not in dropped for word in option]


wants_plan = any("auto" in option for option in expand(options))
with tempfile.TemporaryDirectory() as folder:
    source, direct, other = (os.path.join(folder, name) for name in ("l0", "direct", "other"))
    files = [word for option in expand(options) if option[0] == "--optimizer-file" for word in option]
    run(compiler, model, *files, "--emit", "ir:L0", "-o", source)
    for level in ("L3", "llvm") if wants_plan else ("L1", "L2", "L3", "llvm"):
        words = [compiler, model, *choose(level), "--emit", f"ir:{level}"]
        run(*words, "-o", direct)
        pipeline = run(*words, "--print-pipeline").strip()
        tools = [[opt]] + ([[mlir_opt, f"--load-dialect-plugin={plugin}"]] if plugin else [])
        for tool in tools:
            run(*tool, source, f"--pass-pipeline={pipeline}", "-o", other)
            with open(direct, "rb") as a, open(other, "rb") as b:
                if a.read() != b.read():
                    sys.exit(f"expected {' '.join(tool)} to make the same of {model} at {level}, got another")
