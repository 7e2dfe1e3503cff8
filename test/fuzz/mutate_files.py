#===- mutate_files.py - Tools survive broken files ------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Changes files of IR at random, as text and as bytecode, and gives them to
fsdp-compile and fsdp-opt. A tool must end with status 0, or with status 1 and a
line that says what is wrong: it may not crash (nor say that it did: status 2),
hang, or fill the memory.

The same seed makes the same files. Files that break a tool are kept.

Usage: mutate_files.py --bin DIR --fixtures DIR --docs DIR
                       [--rounds N] [--seed S] [--only NAME] [--keep DIR]
"""

import argparse
import random
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

SECONDS = 60
ADDRESS_SPACE = 6 << 30

TOKEN = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|[%#@!^]?[A-Za-z_][\w.$-]*'
    r"|[%#@!^]\d+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|->|::|\s+|.", re.DOTALL)
NUMBERS = ["0", "-1", "1", "2", "3", "64", "65", "2147483648", "4294967296",
           "9223372036854775807", "-9223372036854775808",
           "18446744073709551616", "1.0e308", "0x7FC00000", "0xFF800000"]
WORDS = {
    "types": ["f32", "f64", "f16", "bf16", "i1", "i8", "i32", "i64", "index",
              "i65", "i16777215", "f8E5M2", "none", "complex<f32>",
              "tensor<f32>", "tensor<4xf32>", "tensor<?xf32>", "tensor<*xf32>",
              "memref<4xf32>", "vector<4xf32>"],
    "iterators": ['"parallel"', '"reduction"', '"window"', '"other"', '""'],
    "attributes": ["unit", "true", "[]", "{}", '"text"', "dense<0> : tensor<2xi64>",
                   "array<i64: 1, 2>", "array<index: 1>", "@symbol", "1 : i8",
                   "dense_resource<blob> : tensor<4xf32>", "affine_map<() -> ()>",
                   'loc("/dev/zero":1:1)', "#fsdp.axis<\"shard\" = 2>"],
}
NAMES = ["arith.addf", "arith.mulf", "arith.divsi", "linalg.generic",
         "linalg.matmul", "linalg.transpose", "tensor.extract",
         "tensor.extract_slice", "tensor.empty", "scf.for", "scf.while",
         "func.call", "cf.assert", "llvm.inline_asm", "memref.alloc",
         "fsdp.all_gather", "fsdp.param", "fsdp.grad", "fsdp.kernel",
         "fsdp.offsets", "math.exp", "llvm.emit_c_interface"]


# What may stand in each other's place, so that the parser takes most of it.
LIKE = [
    ["arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.maximumf",
     "arith.minnumf", "arith.remf"],
    ["arith.addi", "arith.subi", "arith.muli", "arith.divsi", "arith.remsi",
     "arith.andi", "arith.xori", "arith.shli", "arith.maxsi"],
    ["math.exp", "math.log", "math.sqrt", "math.rsqrt", "math.tanh", "math.erf"],
    ["linalg.add", "linalg.mul", "linalg.sub", "linalg.div", "linalg.max"],
    ['"parallel"', '"reduction"', '"window"'],
    ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "uge", "olt", "oeq", "une"],
    ["f32", "f64", "f16", "bf16"],
    ["i1", "i8", "i32", "i64", "index"],
    ["true", "false"],
    ["for", "backward", "forward"],
    ["all_gather", "reduce_scatter", "all_reduce", "all_to_all"],
    ["fsdp.param", "fsdp.buffer", "fsdp.input"],
    ["fsdp.loss", "fsdp.loss_count", "fsdp.grad", "fsdp.buffer_update"],
]
FAMILY = {word: family for family in LIKE for word in family}


def exchange(text, rng):
    """One change after which a text can often still be parsed: a value for
    another, a word for one like it, a number, a type everywhere."""
    tokens = TOKEN.findall(text)
    kind = rng.randrange(6)
    if kind == 0:
        values = [i for i, token in enumerate(tokens) if token[0] == "%"]
        if len(values) > 1:
            i, j = rng.sample(values, 2)
            tokens[i] = tokens[j]
    elif kind in (1, 2):
        words = [i for i, token in enumerate(tokens) if token in FAMILY]
        if words:
            i = rng.choice(words)
            tokens[i] = rng.choice(FAMILY[tokens[i]])
    elif kind == 3:
        numbers = [i for i, token in enumerate(tokens) if token.isdigit()]
        if numbers:
            i = rng.choice(numbers)
            tokens[i] = rng.choice(NUMBERS[:9] + [str(int(tokens[i]) + 1)])
    elif kind == 4:
        # A dimension wherever it is.
        shapes = re.findall(r"<(\d+)x", text)
        if shapes:
            old, new = rng.choice(shapes), rng.choice(["0", "1", "2", "7", "64"])
            return re.sub(rf"(?<=[<x]){old}(?=x)", new, text)
    else:
        types = re.findall(r"x(f32|i64|i1|f64|bf16|i32)>", text)
        if types:
            old = rng.choice(types)
            new = rng.choice(FAMILY[old])
            return re.sub(rf"\b{old}\b", new,
                          re.sub(rf"(?<=x){old}(?=>)", new, text))
    return "".join(tokens)


def mutate_text(text, rng):
    """One or two exchanges, or one to four changes of any tokens or lines."""
    if rng.random() < 0.7:
        for _ in range(rng.randint(1, 2)):
            text = exchange(text, rng)
        return text
    for _ in range(rng.randint(1, 4)):
        if rng.random() < 0.2:
            lines = text.split("\n")
            i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
            kind = rng.randrange(4)
            if kind == 0:
                del lines[i]
            elif kind == 1:
                lines.insert(j, lines[i])
            elif kind == 2:
                lines[i], lines[j] = lines[j], lines[i]
            else:
                lines = lines[:i + 1]
            text = "\n".join(lines)
            continue
        tokens = TOKEN.findall(text)
        solid = [i for i, token in enumerate(tokens) if not token.isspace()]
        if not solid:
            return text
        i, j = rng.choice(solid), rng.choice(solid)
        kind = rng.randrange(8)
        if kind == 0:
            tokens[i] = ""
        elif kind == 1:
            tokens[i] += " " + tokens[i]
        elif kind == 2:
            tokens[i], tokens[j] = tokens[j], tokens[i]
        elif kind == 3:
            tokens[i] = tokens[j]
        elif kind == 4:
            numbers = [k for k in solid if tokens[k][0].isdigit()]
            if numbers:
                tokens[rng.choice(numbers)] = rng.choice(NUMBERS)
        elif kind == 5:
            words = [k for k in solid if re.match(r"[a-z_]+\.[a-z_.]+$", tokens[k])]
            if words:
                tokens[rng.choice(words)] = rng.choice(NAMES)
        elif kind == 6:
            tokens[i] = rng.choice(WORDS[rng.choice(sorted(WORDS))])
        else:
            braces = [k for k in solid if tokens[k] == "{"]
            if braces:
                k = rng.choice(braces)
                tokens[k] += (rng.choice(NAMES) + " = " +
                              rng.choice(WORDS["attributes"]) + ", ")
        text = "".join(tokens)
    return text


def mutate_bytes(data, rng):
    """One to eight changes of bytes, or an end that is missing."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        if not data:
            break
        i = rng.randrange(len(data))
        kind = rng.randrange(5)
        if kind == 0:
            data[i] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[i] = rng.choice([0, 1, 0x7F, 0x80, 0xFE, 0xFF])
        elif kind == 2:
            del data[i:i + rng.randint(1, 8)]
        elif kind == 3:
            data[i:i] = data[max(0, i - 8):i]
        elif rng.random() < 0.2:
            del data[i:]
    return bytes(data)


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(command):
    """The exit status (None: too long) and what went to stderr."""
    try:
        result = subprocess.run(command, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, timeout=SECONDS,
                                preexec_fn=limit, check=False)
    except subprocess.TimeoutExpired:
        return None, ""
    return result.returncode, result.stderr.decode(errors="replace")


def judge(status, errors):
    """What is wrong with how a tool ended; empty where nothing is."""
    if status is None:
        return f"expected an end within {SECONDS} seconds, got none"
    if status not in (0, 1):
        return f"expected exit status 0 or 1, got {status}"
    if status == 1 and "error" not in errors:
        return "expected an error that is said beside exit status 1, got none"
    if "expected memory" in errors:
        return f"expected less than {ADDRESS_SPACE >> 30} GiB, got no memory"
    if "Stack dump" in errors:
        return "expected no stack dump, got one"
    return ""


def read_example(docs):
    text = (docs / "input-contract.md").read_text()
    return re.search(r"```mlir\n(.*?)```", text, re.DOTALL)[1]


class Subjects:
    """Files to change: name, bytes, how to change them, commands for them."""

    def __init__(self, args, scratch):
        self.args = args
        self.scratch = scratch
        self.opt = str(args.bin / "fsdp-opt")
        self.compile = str(args.bin / "fsdp-compile")
        self.all = []
        self.collect()

    def lower(self, source, name, *options):
        path = self.scratch / name
        subprocess.run([self.opt, str(source), *options, "-o", str(path)],
                       check=True)
        return path

    def add(self, name, path, mutate, *commands):
        if self.args.only and self.args.only not in name:
            return
        data = path.read_bytes()
        self.all.append((name, data.decode() if mutate is mutate_text else data,
                         mutate, commands))

    def collect(self):
        example = self.scratch / "example.mlir"
        example.write_text(read_example(self.args.docs))
        mixed = self.args.fixtures / "mixed" / "model.mlir"
        optimizer = self.args.fixtures / "mixed" / "optimizer.mlir"
        to_l3 = [self.compile, "FILE", "--mesh", "shard=2", "--clip-norm",
                 "--emit", "ir:L3", "-o", "-"]
        planned = [self.compile, "FILE", "--mesh", "shard=2", "--cluster",
                   "h100-sxm", "--emit", "ir:L3", "-o", "-"]
        code = [self.compile, "FILE", "--mesh", "shard=2", "--emit", "llvm",
                "-o", "-"]
        for name, path in (("example", example), ("mixed", mixed)):
            self.add(f"{name}-text", path, mutate_text, to_l3, planned, code)
            bytecode = self.lower(path, f"{name}.mlirbc", "--emit-bytecode")
            self.add(f"{name}-bytecode", bytecode, mutate_bytes, to_l3)
        self.add("optimizer-text", optimizer, mutate_text,
                 [self.compile, str(mixed), "--optimizer-file", "FILE", "--mesh",
                  "shard=2", "--emit", "ir:L3", "-o", "-"])
        l2 = self.lower(example, "l2.mlir", "--fsdp-partition=mesh=shard=2")
        kernels = self.lower(l2, "kernels.mlir", "--fsdp-kernels")
        placed = self.lower(kernels, "placed.mlir", "--fsdp-cpu-kernels",
                            "--fsdp-plan-arena")
        self.add("l2-text", l2, mutate_text,
                 [self.opt, "FILE", "--fsdp-kernels", "-o", "-"])
        self.add("kernels-text", kernels, mutate_text,
                 [self.opt, "FILE", "--fsdp-cpu-kernels", "--fsdp-plan-arena",
                  "-o", "-"])
        self.add("placed-text", placed, mutate_text,
                 [self.opt, "FILE", "--fsdp-verify-schedule",
                  "--convert-fsdp-to-runtime", "-o", "-"])


def fuzz(args, scratch):
    subjects = Subjects(args, scratch)
    findings = 0
    for index in range(args.rounds):
        rng = random.Random(f"{args.seed}-{index}")
        name, data, mutate, commands = rng.choice(subjects.all)
        changed = mutate(data, rng)
        path = scratch / f"{name}-{args.seed}-{index}.mlir"
        if isinstance(changed, str):
            changed = changed.encode(errors="surrogateescape")
        path.write_bytes(changed)
        command = [str(path) if word == "FILE" else word
                   for word in rng.choice(commands)]
        status, errors = run(command)
        fault = judge(status, errors)
        if not fault:
            path.unlink()
            continue
        findings += 1
        if args.keep:
            args.keep.mkdir(parents=True, exist_ok=True)
            (args.keep / path.name).write_bytes(changed)
        print(f"round {index}: {fault}\n  {' '.join(command)}\n"
              f"  {errors.strip()[-600:]}", flush=True)
    return findings


def main():
    parser = argparse.ArgumentParser()
    for name in ("bin", "fixtures", "docs"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fsdp-fuzz-") as scratch:
        findings = fuzz(args, Path(scratch))
    print(f"{args.rounds} rounds, {findings} findings")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
