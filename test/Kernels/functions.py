"""Functions of the math dialect, and what exporters compose of them: compiled,
run on arguments of all exponents, subnormal and special ones, and compared with
long double's.

  functions.py --bin build/bin                          # all, on processors
  functions.py --bin build/bin --device cuda            # on the emulated device
  functions.py --bin build/bin --device cpu cuda --table      # largest errors
  functions.py --bin build/bin --mutant build/bin/fsdp-upstream-functions
  functions.py --bin build/bin --fast --table    # --math fast, all arguments

An error is counted in units in the last place of the exact result; 0.5 is what
rounding makes. Each result for an argument that the file holds twice, once where
whole vectors are computed and once in the remainder, has to be the same bits.
--mutant names a compiler with MLIR's own polynomials: those of FOUND have to be
found wrong.

--fast computes functions whose results are rounded to 16 bits, on the emulated
device and for all numbers of 16 bits, by approximate instructions, whose results
are rounded, or as far off on either side as PTX allows."""

import argparse
import itertools
import json
import os
import pathlib
import re
import shutil
import struct
import sys
import tempfile

from step import SAFETENSORS, Step, element_bytes
from toolchain import Failure, Tools, run

UNARY = ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cos",
         "cosh", "erf", "erfc", "exp", "exp2", "expm1", "log", "log10",
         "log1p", "log2", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh"]
BINARY = ["atan2", "powf"]
# Bodies of one argument, %x, whose result is %r; T is the type.
COMPOSED = {
    "sigmoid": ["%o = arith.constant 1.0 : T", "%n = arith.negf %x : T",
                "%e = math.exp %n : T", "%s = arith.addf %e, %o : T",
                "%r = arith.divf %o, %s : T"],
    "silu": ["%o = arith.constant 1.0 : T", "%n = arith.negf %x : T",
             "%e = math.exp %n : T", "%s = arith.addf %e, %o : T",
             "%q = arith.divf %o, %s : T", "%r = arith.mulf %x, %q : T"],
    "softplus": ["%c = arith.constant 20.0 : T", "%e = math.exp %x : T",
                 "%l = math.log1p %e : T", "%b = arith.cmpf ogt, %x, %c : T",
                 "%r = arith.select %b, %x, %l : T"],
    "sinc": ["%z = arith.constant 0.0 : T", "%o = arith.constant 1.0 : T",
             "%p = arith.constant 3.1415926535897931 : T",
             "%t = arith.mulf %x, %p : T", "%s = math.sin %t : T",
             "%q = arith.divf %s, %t : T", "%b = arith.cmpf oeq, %x, %z : T",
             "%r = arith.select %b, %o, %q : T"],
    "gelu": ["%o = arith.constant 1.0 : T", "%h = arith.constant 0.5 : T",
             "%c = arith.constant 0.70710678118654757 : T",
             "%t = arith.mulf %x, %c : T", "%e = math.erf %t : T",
             "%s = arith.addf %e, %o : T", "%y = arith.mulf %x, %h : T",
             "%r = arith.mulf %y, %s : T"],
    "gelu_tanh": ["%o = arith.constant 1.0 : T", "%h = arith.constant 0.5 : T",
                  "%c = arith.constant 0.044715 : T",
                  "%k = arith.constant 0.79788456080286541 : T",
                  "%2 = arith.mulf %x, %x : T", "%3 = arith.mulf %2, %x : T",
                  "%4 = arith.mulf %3, %c : T", "%5 = arith.addf %x, %4 : T",
                  "%6 = arith.mulf %5, %k : T", "%e = math.tanh %6 : T",
                  "%s = arith.addf %e, %o : T", "%y = arith.mulf %x, %h : T",
                  "%r = arith.mulf %y, %s : T"],
    "reciprocal": ["%o = arith.constant 1.0 : T",
                   "%r = arith.divf %o, %x : T"],
    "third": ["%c = arith.constant 3.0 : T", "%r = arith.divf %x, %c : T"],
}
ONLY_FAST = ["gelu_tanh", "reciprocal", "third"]
FUNCTIONS = UNARY + BINARY + [name for name in COMPOSED
                             if name not in ONLY_FAST]
# What --math fast approximates, alone and in what exporters compose.
FAST = ["erf", "exp", "exp2", "tanh", "sigmoid", "silu", "gelu", "gelu_tanh",
        "reciprocal", "third", "quotient"]
SIDES = ["low", "rounded", "high"]
# Arguments for each exponent; of 16 bits, the distance of numbers.
DENSITY = {"cpu": {"f32": 80, "f64": 6, "f16": 1, "bf16": 1},
           "cuda": {"f32": 12, "f64": 1, "f16": 61, "bf16": 61}}
# Of 16 bits, one rounding of what f32 gives.
BOUND = {"f32": 2.0, "f64": 4.0, "f16": 0.501, "bf16": 0.501}
COMPOSED_BOUND = 4.0
FAST_BOUND = 0.502
# Functions that MLIR's polynomials compute wrongly, by type.
FOUND = {"f32": ["sin", "cos", "atan", "erfc", "exp", "log", "sinc"],
         "f64": ["expm1"]}


def has(name, dtype):
    """Composed of f16 and bf16, every op rounds."""
    return name not in COMPOSED or dtype in ("f32", "f64")


def is_binary(name):
    return name in BINARY or name == "quotient"


def write_raw(path, tensors):
    """safetensors; tensors: name -> (shape, dtype, bytes)."""
    header, offset = {}, 0
    for name, (shape, dtype, data) in tensors.items():
        header[name] = {"dtype": SAFETENSORS[dtype], "shape": list(shape),
                        "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text +
                     b"".join(data for _, _, data in tensors.values()))


def read_raw(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    return {name: data[8 + size + entry["data_offsets"][0]:
                       8 + size + entry["data_offsets"][1]]
            for name, entry in json.loads(data[8:8 + size]).items()
            if name != "__metadata__"}


class Sweep:
    """One step that computes functions of one type. Arguments and results are
    integers with the bits of the floats: no reader or writer may look at
    those that are not finite."""

    def __init__(self, tools, errors, dtype, names, density, directory,
                 is_wide=False):
        """is_wide: what is composed is computed in f32."""
        self.tools, self.errors, self.dtype = tools, errors, dtype
        self.directory, self.density = directory, density
        self.bits = f"i{8 * element_bytes(dtype)}"
        self.step, self.state, self.inputs = Step(), {}, {}
        self.files, self.buffers = {}, {}
        self.is_wide = is_wide
        names = [name for name in names if is_wide or has(name, dtype)]
        unary = [name for name in names if not is_binary(name)]
        binary = [name for name in names if is_binary(name)]
        if unary:
            self.add(unary, 1)
        if binary:
            self.add(binary, 2)
        self.step.param([1])
        self.step.finish()
        for arg in self.step.args:
            if arg.role == "param":
                self.state[arg.name] = ([1], "f32", bytes(4))
            elif arg.role == "input" and arg.name not in self.inputs:
                self.inputs[arg.name] = ([1, 1], "f32", bytes(4))

    def add(self, names, operands):
        file = self.directory / f"arguments{operands}"
        run([self.errors, "arguments", self.dtype, operands, self.density,
             file])
        data = file.read_bytes()
        n = len(data) // element_bytes(self.dtype) // operands
        values = []
        for i in range(operands):
            value = self.step.input([n], self.bits)
            part = data[i * len(data) // operands:
                        (i + 1) * len(data) // operands]
            self.inputs[value.name[1:]] = ([1, 1, n], self.bits, part)
            values.append(value)
        for name in names:
            result = self.map(name, values, n)
            buffer = self.step.argument("buffer", [n], self.bits)
            self.step.update(buffer, result)
            self.state[buffer.name[1:]] = (
                [n], self.bits, bytes(n * element_bytes(self.dtype)))
            self.files[name], self.buffers[name] = file, buffer.name[1:]

    def map(self, name, values, n):
        arguments = ["%x", "%y"][:len(values)]
        lines = COMPOSED.get(
            name, [f"%r = math.{name} {', '.join(arguments)} : T"])
        if name == "quotient":
            lines = ["%r = arith.divf %x, %y : T"]
        wide = "f32" if self.is_wide else self.dtype
        body = []
        for i, x in enumerate(arguments):
            narrow = f"%n{i}" if self.is_wide else x
            body.append(f"{narrow} = arith.bitcast %a{i} : {self.bits} to "
                        f"{self.dtype}")
            if self.is_wide:
                body.append(f"{x} = arith.extf {narrow} : {self.dtype} to f32")
        body += [line.replace(": T", f": {wide}") for line in lines]
        result = "%r"
        if self.is_wide:
            result = "%rounded"
            body.append(f"{result} = arith.truncf %r : f32 to {self.dtype}")
        body.append(f"%bits = arith.bitcast {result} : {self.dtype} to "
                    f"{self.bits}")
        return self.step.generic(
            1, [(value, ["d0"]) for value in values],
            [(self.step.empty([n], self.bits), ["d0"])],
            [([n], self.bits, 1.0)], lambda *args: (body, ["%bits"]))

    def find_approximations(self, *options):
        """Approximate instructions of the device's code."""
        ptx = self.directory / "step.ptx"
        (self.directory / "model.mlir").write_text(self.step.module())
        run([self.tools.compiler, self.directory / "model.mlir", "--optimizer",
             "sgd:lr=1.0", "--target", "cuda", "--emit", "ptx", "-o", ptx,
             *options])
        return set(re.findall(r"\b\w+\.(?:approx|full)\b", ptx.read_text()))

    def run(self, device, options):
        """By function: error, results that differ from others for the same
        argument, and what to say."""
        program = self.tools.compile(self.step, 1, self.directory, [device],
                                     options)
        write_raw(self.directory / "params", self.state)
        write_raw(self.directory / "data", self.inputs)
        save = self.directory / "saved"
        run([program, "-n", 1, "--params", self.directory / "params", "--data",
             self.directory / "data", "--steps", 1, "--device", device,
             "--threads", 2, "--save", save, "--quiet"])
        saved = read_raw(save / (save / "latest").read_text().strip() /
                         "params.safetensors")
        found = {}
        for name, buffer in self.buffers.items():
            results = self.directory / f"{name}-results"
            results.write_bytes(saved[buffer])
            line = run([self.errors, "errors", name, self.dtype,
                        self.files[name], results]).stdout
            error, different, words = line.strip().split(" ", 2)
            found[name] = float(error), int(different), words
        return found


def check_fast(tools, errors_tool, prints_table):
    """Of all numbers of 16 bits, in results of 16 bits."""
    errors, bad = {}, 0
    for dtype in ("bf16", "f16"):
        with tempfile.TemporaryDirectory(prefix="fsdp-functions-") as folder:
            folder = pathlib.Path(folder)
            sweep = Sweep(tools, errors_tool, dtype, FAST, 1, folder,
                          is_wide=True)
            for options, expected in (
                    ([], {"ex2.approx", "rcp.approx", "div.full"}),
                    (["--math", "exact"], set())):
                got = sweep.find_approximations(*options)
                if got != expected:
                    print(f"{dtype} {options}: expected {expected}, got {got}")
                    bad += 1
            for side in SIDES:
                os.environ["FSDP_EMULATOR_APPROXIMATIONS"] = side
                found = sweep.run("cuda", [])
                for name, (error, different, words) in found.items():
                    errors[name, side, dtype] = error
                    if error > FAST_BOUND or different:
                        bad += 1
                        print(f"{side} {dtype} {name}: {error} units, at {words}")
                    shutil.rmtree(folder / "saved", ignore_errors=True)
    if prints_table:
        print_table(errors, SIDES, ["bf16", "f16"], digits=3)
    print(f"{bad} errors of {len(errors)} functions" if bad else
          f"{len(errors)} functions are right")
    return 1 if bad else 0


def print_table(errors, devices, dtypes, digits=2):
    """In Markdown."""
    columns = [(device, dtype) for device in devices for dtype in dtypes]
    print("| | " + " | ".join(" ".join(c) for c in columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name in dict.fromkeys([*FUNCTIONS, *FAST]):
        cells = [errors.get((name, *column)) for column in columns]
        if any(cell is not None for cell in cells):
            print(f"| {name} | " + " | ".join(
                "" if cell is None else f"{cell:.{digits}f}" for cell in cells) +
                " |")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--functions", nargs="+", choices=FUNCTIONS,
                        default=FUNCTIONS)
    parser.add_argument("--dtypes", nargs="+", choices=list(BOUND),
                        default=list(BOUND))
    parser.add_argument("--device", nargs="+", default=["cpu"],
                        choices=["cpu", "cuda"])
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--mutant", type=pathlib.Path)
    parser.add_argument("--march", help="processor to compile for")
    parser.add_argument("--density", type=int,
                        help="times as many arguments, but of 16 bits",
                        default=1)
    parser.add_argument("--fast", action="store_true")
    args = parser.parse_args()
    tools = Tools(args.bin, "")
    if args.fast:
        return check_fast(tools, args.bin / "fsdp-function-errors", args.table)
    names, dtypes = args.functions, args.dtypes
    if args.mutant:
        tools.compiler = args.mutant
        dtypes = list(FOUND)
    options = ["--march", args.march] if args.march else []
    errors, bad = {}, 0
    for device, dtype in itertools.product(args.device, dtypes):
        density = DENSITY[device][dtype]
        if dtype in ("f32", "f64"):
            density *= args.density
        with tempfile.TemporaryDirectory(prefix="fsdp-functions-") as folder:
            try:
                sweep = Sweep(tools, args.bin / "fsdp-function-errors", dtype,
                              FOUND[dtype] if args.mutant else names, density,
                              pathlib.Path(folder))
                found = sweep.run(device, options)
            except Failure as failure:
                print(f"{device} {dtype}: {failure}")
                return 1
        for name, (error, different, words) in found.items():
            errors[name, device, dtype] = error
            bound = COMPOSED_BOUND if name in COMPOSED else BOUND[dtype]
            is_wrong = error > bound or different > 0
            if is_wrong != bool(args.mutant):
                bad += 1
                print(f"{device} {dtype} {name}: {error} units, at {words}; "
                      f"{different} results differ from others for the same "
                      "argument")
    if args.table:
        print_table(errors, args.device, dtypes)
    what = "found wrong" if args.mutant else "right"
    print(f"{len(errors) - bad} of {len(errors)} functions are {what}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
