#!/usr/bin/env python3
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What docs/developing.md says of an addition, held against the sources.

  recipes.py ROOT count          Each patch applies and touches no more files than its recipe says; so do the commits of
                                 the history that added a collective, and the files that name a device.
  recipes.py ROOT build FOLDER   Applies all patches to a copy of the sources in FOLDER, builds what they change there, and
                                 runs the tests that see it (20 minutes on 2 cores).

A patch is an addition that nobody needs, made as its recipe says: a new option, call and kind of program. Where one does
not apply any more, make the same change to the sources by hand and keep `git diff`.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
# Files that an addition may touch, tests included.
PATCHES = {"option": 3, "call": 8, "program-kind": 3}
# What a patch of the copy changes: programs to build, and tests to run.
TARGETS = ["fsdp-compile", "fsdp-runtime-test", "data-tests", "dialect-tests", "fsdp-plan-test"]
TESTS = r"^(runtime\.Abi|Manifest\.|ProgramKinds|plan\.PipelineOptions)"
# The commit that added one, by the begin of its message, and the files that it may touch beside tests and documents.
COMMITS = {"all_to_all: each rank": 10}
# Files outside of a device's folder that may name it.
DEVICE_FILES = 3


class Refused(Exception):
    pass


def run(*words, cwd=None):
    done = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise Refused(f"{' '.join(map(str, words))}: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout


def count_patches(root):
    for name, most in PATCHES.items():
        patch = HERE / f"{name}.patch"
        run("git", "apply", "--check", patch, cwd=root)
        files = re.findall(r"^diff --git a/(\S+)", patch.read_text(), re.MULTILINE)
        print(f"{name}: {len(files)} files")
        if not 0 < len(files) <= most:
            raise Refused(f"expected {patch.name} to touch 1 to {most} files, got {len(files)}")


def count_commits(root):
    for message, most in COMMITS.items():
        found = subprocess.run(["git", "log", "--format=%H", f"--grep=^{message}"], cwd=root, capture_output=True, text=True)
        commit = found.stdout.split()[:1]
        if not commit:
            print(f"'{message}': not in this history")
            continue
        counted = run(sys.executable, root / "benchmarks/touched.py", f"{commit[0]}^..{commit[0]}", "--at-most", most,
                      "-C", root)
        print(f"'{message}': {counted.splitlines()[-1]}")


def count_devices(root):
    folders = [folder for folder in sorted((root / "runtime/devices").iterdir()) if folder.is_dir()]
    if not folders:
        raise Refused("expected devices in runtime/devices, got none")
    for folder in folders:
        name = re.compile(rf"devices/{folder.name}\b|fsdp_rt_{folder.name}\b|\b{folder.name}Device\b")
        files = [path for path in sorted((root / "runtime").rglob("*"))
                 if path.is_file() and folder not in path.parents and name.search(path.read_text())]
        print(f"device {folder.name}: {len(files)} files outside of its folder")
        if not 0 < len(files) <= DEVICE_FILES:
            listed = ", ".join(str(path.relative_to(root)) for path in files)
            raise Refused(f"expected 1 to {DEVICE_FILES} files that name device {folder.name}, got {len(files)}: {listed}")


def build(root, folder):
    shutil.rmtree(folder, ignore_errors=True)
    copy = folder / "sources"
    copy.mkdir(parents=True)
    # Tracked files, and new ones that are not ignored, as they are now.
    files = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=root).split("\0")
    for name in filter(None, files):
        if (root / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, copy / name)
    # The copy may lie in the repository, where git would take the patches' paths as the repository's.
    os.environ["GIT_CEILING_DIRECTORIES"] = str(folder)
    for name in PATCHES:
        run("git", "apply", HERE / f"{name}.patch", cwd=copy)
    run("cmake", "--preset", "ci", cwd=copy)
    run("ninja", "-C", "build", *TARGETS, cwd=copy)
    print(run("ctest", "--test-dir", "build", "--output-on-failure", "--no-tests=error", "-R", TESTS, cwd=copy)[-600:])
    run("/usr/lib/llvm-22/bin/lit", "-q", "build/lit-tests", "--filter", "keep-duplicates", cwd=copy)
    train(copy, folder)


def train(copy, folder):
    """Two steps of a model by the patched compiler, whose program makes the new call."""
    fixture = copy / "test/fixtures/gpt2"
    program = folder / "train"
    run(copy / "build/bin/fsdp-compile", fixture / "model.mlir", "--mesh", "shard=2", "--keep-duplicates", "-o", program)
    profile = folder / "profile.json"
    print(run(program, "-n", 2, "--params", fixture / "params.safetensors", "--data", fixture / "batches.safetensors",
              "--data-ranks", "first", "--steps", 2, "--lr", 0.001, "--profile", profile)[-300:])
    if "clear padding" not in profile.read_text():
        raise Refused(f"expected a call 'clear padding' in {profile}, got none")


def main():
    if len(sys.argv) < 3 or sys.argv[2:3] not in (["count"], ["build"]) or len(sys.argv) != 3 + (sys.argv[2] == "build"):
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1]).resolve()
    try:
        if sys.argv[2] == "build":
            build(root, pathlib.Path(sys.argv[3]).resolve())
        else:
            count_patches(root)
            count_commits(root)
            count_devices(root)
    except Refused as refusal:
        sys.exit(f"error: {refusal}")


if __name__ == "__main__":
    main()
