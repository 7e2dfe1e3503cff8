#!/usr/bin/env python3
#===- checkpointing.py - What checkpoints save of a step's memory ---------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Compiles a step with each rule of docs/checkpointing.md, without a cluster, and prints the bytes of its arena, with and
without states, and how many launches it has.

  checkpointing.py build/bin/fsdp-compile test/fixtures/gpt2/model.mlir [OPTION..]
"""
import re
import subprocess
import sys

RULES = ([], ["--recompute", "none"], ["--checkpoint", "every=2"], ["--checkpoint", "selective"],
         ["--checkpoint", "every=1"], ["--recompute", "full"])


def measure(compiler, model, options):
    """Bytes of the step's arena, those that are not its states', and its launches."""
    text = subprocess.run([compiler, model, *options, "--emit", "ir:L3", "-o", "-"], check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    program = text[text.index("fsdp.program @train"):]
    arena = dict(re.findall(r"(\w+) = (\d+)", re.search(r"#fsdp\.arena<([^>]*)>", program)[1]))
    return int(arena["bytes"]), int(arena["bytes"]) - int(arena.get("state", 0)), len(
        re.findall(r"fsdp\.launch ", re.split(r"\n\s*fsdp\.program ", program)[0]))


def main():
    compiler, model, *options = sys.argv[1:]
    print(f"{'rule':24} {'arena':>10} {'without states':>14} {'launches':>8}")
    for rule in RULES:
        arena, rest, launches = measure(compiler, model, options + rule)
        print(f"{' '.join(rule) or '(nothing)':24} {arena:10} {rest:14} {launches:8}")


if __name__ == "__main__":
    main()
