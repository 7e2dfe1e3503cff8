#!/usr/bin/env python3
#===- touched.py - How many files a change touches ------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Prints the files that commits touch outside tests, documentation and the new thing's own folders, and how many they
are: what adding one more collective, device, target or pass costs in places that have to know of it.

  touched.py HEAD^..HEAD
  touched.py main..device --own runtime/devices/new
  touched.py HEAD^..HEAD --at-most 10     exit 1 where there are more
"""
import argparse
import subprocess
import sys
from collections import Counter

TESTS = ("test/", "lit-tests/", "tools/fsdp-emulator/")
DOCUMENTS = ("docs/",)


def is_apart(path, own):
    """Whether `path` is a test, documentation or one of the change's own files."""
    return path.startswith(TESTS + DOCUMENTS) or path.endswith(".md") or "/tests/" in path or any(
        path == folder or path.startswith(folder.rstrip("/") + "/") for folder in own)


def changes(commits, directory):
    """(status, path) of every file that differs between the ends of the range; a rename is both its names."""
    if ".." not in commits:
        commits += "..HEAD"
    command = ["git", "-C", directory, "diff", "--name-status", "--no-renames", "-z", commits, "--"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"expected a range of commits, got {commits}: {done.stderr.strip()}")
    fields = done.stdout.split("\0")[:-1]
    return list(zip(fields[::2], fields[1::2]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commits", metavar="COMMIT..", help="what git diff takes; COMMIT.. ends at HEAD")
    parser.add_argument("--own", metavar="PATHPREFIX", action="append", default=[], help="a folder or file of the new thing")
    parser.add_argument("--at-most", metavar="N", type=int, help="exit 1 where more files are touched")
    parser.add_argument("-C", dest="directory", metavar="DIRECTORY", default=".", help="of the repository")
    args = parser.parse_args()
    all_of_them = changes(args.commits, args.directory)
    touched = [(status, path) for status, path in all_of_them if not is_apart(path, args.own)]
    for status, path in touched:
        print(status, path)
    rooms = Counter(path.split("/")[0] for _, path in touched)
    print(f"{len(touched)} files" + (f" ({', '.join(f'{room} {n}' for room, n in rooms.items())})" if touched else "") +
          f", and {len(all_of_them) - len(touched)} of tests, documentation and its own")
    if args.at_most is not None and len(touched) > args.at_most:
        sys.exit(f"expected at most {args.at_most} files, got {len(touched)}")


if __name__ == "__main__":
    main()
