#!/usr/bin/env python3
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""walls.py ROOT: the walls between the rooms of this repository.

Every room, a directory, says what it may include of this project (`ours`),
what it must not include of others (`never`) and what its code must not say
(`words`). Beyond that: no file over 800 lines, one pass in one file of its
name, and half of the passes under 200 lines. A header include/fsdp/ROOM/X.h is
implemented by lib/ROOM/X.cpp, where there is an X.cpp in lib, and so is one of
tools/lib/include/fsdp in tools/lib.

A room's rule holds for files below it, unless a longer path has a rule of its
own. Prints each breach as FILE:LINE: expected X, got Y; exits with 1 if any.
"""

import re
import statistics
import sys
from pathlib import Path, PurePosixPath

MAX_LINES = 800
MEDIAN_PASS_LINES = 200

DIALECT = r"fsdp/Dialect/"
# Four rooms without IR, each of which may know those before it.
COSTS = r"fsdp/Cost/"
SCHEDULE = r"fsdp/Schedule/"
ARENA = r"fsdp/Arena/"
PLANNING = r"fsdp/Planning/"
# A graph algorithm, which knows nothing of plans.
MIN_CUT = r"fsdp/Planning/MinCut\.h"
# Five rooms that look at IR, each of which may know those before it; the second,
# which looks at kernels' code for devices, knows no contract.
CONTRACT = r"fsdp/Analysis/Contract/"
DEVICE_CODE = r"fsdp/Analysis/Code/"
STEP = r"fsdp/Analysis/Step/"
KERNELS = r"fsdp/Analysis/Kernels/"
ATTENTION = r"fsdp/Analysis/Attention/"
PASSES = r"fsdp/Passes/"
TOOL = r"fsdp/Tool/"
TARGET = r"fsdp/Target/"
REPORT = r"fsdp/Plan/Report/"
DRIVER = r"fsdp/Driver/"
PLAN = r"fsdp/Plan/"
# Kinds of transfers and queues, for those who know no runtime; their table.
TRANSFERS = r"fsdp/ABI/Transfers\.h"
TRANSFER_TABLE = r"fsdp-rt/transfers\.def"
# Kinds of programs, and scalars by name, to both.
PROGRAMS = r"fsdp-rt/programs\.h"
SCALARS = r"fsdp-rt/scalars\.h"
# What a step's random numbers are a function of, to both.
RANDOM = r"fsdp-rt/random\.h"
# Words of options, beside the enumerations that they stand for.
SUPPORT = r"fsdp/Support/"
# What the compiler knows of the runtime.
ABI = r"fsdp/ABI/"
# Codes of the runtime, and the table of its calls and descriptors.
CODES = r"fsdp-rt/abi\.h"
ABI_TABLE = r"fsdp-rt/(abi\.(h|def)|calls\.def)"
# What a tile function is, to those who write and who call it.
DEPENDENT = r"fsdp-rt/dependent-launch\.h"
TILES = r"fsdp-rt/cpu-attention\.h"
# What a thread takes, to those who leave room and who start them.
MEMORY = r"fsdp-rt/(memory|reductions)\.h"
# What sums over ranks send and take, to those who say what it costs.
SUMS = r"fsdp-rt/reductions\.h"
BESIDE = r"[^/]+$"  # in the same directory

# What tells how long anything takes.
COST = r"fsdp/Cost/|fsdp/.*Cost[^/]*\.h"
# Structs, LLVM's containers and what parses text: no IR.
IR = r"mlir/|mlir-c/|llvm/(IR|CodeGen|Target|MC)/|llvm/Support/CommandLine"
CODE = (r"mlir/Dialect/(LLVMIR|GPU|NVGPU|AMDGPU)/|mlir/(Conversion|Target)/"
        r"|llvm/(IR|CodeGen|Target|MC)/")
PASS_ROOM = r"mlir/(Pass|Transforms|Conversion|Target|Tools)/"
# What those who only look do without: options, passes, code.
LOOKS = r"llvm/Support/CommandLine|mlir/Pass/|" + CODE
LOOKS_AT_CODE = (r"llvm/Support/CommandLine|mlir/Pass/"
                 r"|mlir/(Conversion|Target)/|llvm/(IR|CodeGen|Target|MC)/")
DEVICES = r"mlir[-/]|llvm[-/]|cuda|nccl|mpi\.h|cublas|cudnn"
# Stores into IR: ops made, moved, erased or renamed.
CHANGES = (r"\b(OpBuilder|IRRewriter|PatternRewriter|ImplicitLocOpBuilder)\b"
           r"|->erase\(\)|\.replaceAllUsesWith\(|->moveBefore\(|->moveAfter\("
           r"|->setAttr\(|->removeAttr\(|\bset(Arg|Result)Attr\("
           r"|->replaceUsesOfWith\(|\.replaceAllUsesExcept\("
           r"|\.replaceUsesWithIf\(|->setOperands?\(|->insertOperands\("
           r"|->eraseOperands?\(")
# Ops that communicate.
COLLECTIVES = r"\b(AllGather|ReduceScatter|AllReduce|AllToAll)\w*Op\b"
EXCEPTIONS = r"\bthrow\b(?! *\()"


class Room:

    def __init__(self, path, ours, never="", words=""):
        self.path = path
        self.ours = re.compile("|".join(ours) if ours else r"(?!)")
        self.never = re.compile(never or r"(?!)")
        self.words = re.compile(words or r"(?!)")


ROOMS = [
    # Words of options: tables beside enumerations, and their one parser.
    Room("lib/Support", [SUPPORT], r"mlir/"),
    Room("include/fsdp/Support", [SUPPORT], r"mlir/"),
    # The dialect knows neither analyses nor passes.
    Room("lib/Dialect", [DIALECT, TRANSFERS, TRANSFER_TABLE, PROGRAMS, RANDOM, BESIDE],
         PASS_ROOM + "|mlir/Analysis/"),
    Room("include/fsdp/Dialect", [DIALECT, TRANSFERS, PROGRAMS],
         PASS_ROOM + "|mlir/Analysis/"),
    # The bridge: nothing else of the compiler expands the runtime's calls.
    Room("lib/ABI", [ABI, ABI_TABLE, TRANSFER_TABLE, BESIDE],
         PASS_ROOM + "|" + CODE),
    Room("include/fsdp/ABI", [ABI], PASS_ROOM + "|" + CODE),
    # Rooms without IR read it.
    Room("include/fsdp/ABI/Transfers.h", [TRANSFER_TABLE], IR),
    # Costs, orders, places and plans are decided over plain structs.
    Room("lib/Cost", [TRANSFERS, COSTS, SUMS, BESIDE], IR),
    Room("include/fsdp/Cost", [TRANSFERS, COSTS], IR),
    Room("lib/Schedule", [COSTS, SCHEDULE, BESIDE], IR),
    Room("include/fsdp/Schedule", [COSTS, SCHEDULE, SUPPORT], IR),
    Room("lib/Arena", [COSTS, SCHEDULE, ARENA, BESIDE], IR),
    Room("include/fsdp/Arena", [COSTS, SCHEDULE, ARENA], IR),
    Room("lib/Planning", [COSTS, SCHEDULE, ARENA, PLANNING, BESIDE], IR),
    Room("include/fsdp/Planning", [COSTS, SCHEDULE, ARENA, PLANNING, SUPPORT], IR),
    # Analyses look, and take no options. Step alone makes structs of IR and
    # knows costs; kernels are formed without.
    Room("lib/Analysis/Contract", [DIALECT, CONTRACT, RANDOM, BESIDE], LOOKS, CHANGES),
    Room("include/fsdp/Analysis/Contract", [DIALECT, CONTRACT, SCALARS, SUPPORT],
         LOOKS, CHANGES),
    Room("lib/Analysis/Code", [DIALECT, COSTS, DEVICE_CODE, BESIDE],
         LOOKS_AT_CODE, CHANGES),
    Room("include/fsdp/Analysis/Code", [DIALECT, COSTS, DEVICE_CODE],
         LOOKS, CHANGES),
    Room("lib/Analysis/Step",
         [DIALECT, COSTS, SCHEDULE, ARENA, CONTRACT, DEVICE_CODE, STEP, MEMORY,
          BESIDE],
         LOOKS, CHANGES),
    Room("include/fsdp/Analysis/Step",
         [DIALECT, COSTS, SCHEDULE, ARENA, CONTRACT, STEP, SUPPORT], LOOKS, CHANGES),
    Room("lib/Analysis/Kernels", [DIALECT, CONTRACT, STEP, KERNELS, BESIDE],
         LOOKS + "|" + COST, CHANGES),
    Room("include/fsdp/Analysis/Kernels", [DIALECT, CONTRACT, STEP, KERNELS],
         LOOKS + "|" + COST, CHANGES),
    Room("lib/Analysis/Attention",
         [DIALECT, CONTRACT, KERNELS, ATTENTION, BESIDE], LOOKS + "|" + COST,
         CHANGES),
    Room("include/fsdp/Analysis/Attention",
         [DIALECT, CONTRACT, KERNELS, ATTENTION], LOOKS + "|" + COST, CHANGES),
    # Passes up to L2 know no runtime, no streams and no LLVM.
    Room("passes/Partition", [DIALECT, CONTRACT, STEP, PASSES, RANDOM, BESIDE],
         CODE + "|mlir/Dialect/(MemRef|Vector|Async|Bufferization)/",
         r"\bLLVM::|fsdp_rt_|\bstream"),
    Room("passes/Optimize",
         [DIALECT, COSTS, SCHEDULE, PLANNING, CONTRACT, STEP, KERNELS, PASSES,
          BESIDE],
         CODE + "|mlir/Dialect/(MemRef|Vector|Async|Bufferization)/",
         r"\bLLVM::|fsdp_rt_"),
    # Kernels neither communicate nor weigh costs.
    Room("passes/Kernels",
         [DIALECT, CONTRACT, STEP, KERNELS, ATTENTION, PASSES, BESIDE],
         CODE + "|" + COST,
         r"\bLLVM::|fsdp_rt_|" + COLLECTIVES),
    Room("passes/Kernels/Common",
         [DIALECT, CONTRACT, STEP, KERNELS, ATTENTION, MIN_CUT, PASSES,
          r"Kernels/Common/", BESIDE],
         CODE + "|" + COST,
         r"\bLLVM::|fsdp_rt_|" + COLLECTIVES),
    # What one target makes of them knows no other target.
    Room("passes/Kernels/CPU",
         [DIALECT, CONTRACT, STEP, KERNELS, ATTENTION, PASSES, TILES,
          r"Kernels/Common/", BESIDE],
         CODE + "|" + COST,
         r"\bLLVM::|fsdp_rt_|" + COLLECTIVES),
    # (NVVM's dialect, for names of its attributes.)
    Room("passes/Kernels/CUDA",
         [DIALECT, CONTRACT, STEP, KERNELS, ATTENTION, PASSES,
          r"Kernels/Common/", BESIDE],
         r"mlir/(Conversion|Target)/|llvm/(IR|CodeGen|Target|MC)/|" + COST,
         r"\bLLVM::|fsdp_rt_|" + COLLECTIVES),
    # Products of a warp, for which no dialect above NVVM has a lowering.
    Room("passes/Kernels/CUDA/MatrixInstructions.cpp", [BESIDE],
         r"mlir/(Conversion|Target)/|llvm/(IR|CodeGen|Target|MC)/|" + COST,
         r"fsdp_rt_|" + COLLECTIVES),
    # The schedule orders and places.
    Room("passes/Schedule",
         [DIALECT, COSTS, SCHEDULE, ARENA, CONTRACT, STEP, PASSES, BESIDE],
         CODE + "|mlir/Dialect/(Linalg|Vector|MemRef|Bufferization)/",
         r"\bLLVM::|fsdp_rt_|->setType\("),
    Room("passes/Lower",
         [DIALECT, ABI, CODES, TILES, DEPENDENT, RANDOM, SCHEDULE, ARENA, CONTRACT, STEP,
          ATTENTION,
          r"Lower/Math/", PASSES, BESIDE],
         COST),
    # Functions of numbers know nothing of steps.
    Room("passes/Lower/Math", [r"Lower/Math/", BESIDE], CODE + "|" + COST,
         r"\bLLVM::|fsdp_rt_"),
    # This looks at everything and changes nothing.
    Room("passes/Verify",
         [DIALECT, SCHEDULE, CONTRACT, STEP, KERNELS, PASSES, BESIDE], "",
         CHANGES),
    Room("passes", [DIALECT, CONTRACT, STEP, PASSES]),
    Room("include/fsdp/Passes", [DIALECT, SCHEDULE, PASSES, SUPPORT]),
    # Enumerations of all rooms, as options take them.
    Room("include/fsdp/Passes/OptionTypes.h",
         [DIALECT, SCHEDULE, PLANNING, STEP, SUPPORT]),
    # What fsdp-plan-step decides, for those who compare plans.
    Room("include/fsdp/Passes/ProgramPlan.h",
         [DIALECT, COSTS, SCHEDULE, PLANNING]),
    # What all tools share: crashes, files, text for a terminal.
    Room("tools/lib/Tool", [TOOL, SUPPORT, BESIDE], CODE),
    Room("tools/lib/include/fsdp/Tool", [TOOL, SUPPORT], CODE),
    Room("tools/lib/Target",
         [DIALECT, ABI, SCHEDULE, CONTRACT, STEP, PASSES, TOOL, SUPPORT, TARGET,
          DEPENDENT, BESIDE],
         COST),
    Room("tools/lib/include/fsdp/Target",
         [DIALECT, ABI, SCHEDULE, CONTRACT, STEP, PASSES, TOOL, SUPPORT, TARGET], COST),
    # Reports are made of plain structs, of any tool's step.
    Room("tools/lib/Plan/Report",
         [COSTS, SCHEDULE, ARENA, PLANNING, REPORT, BESIDE], IR),
    Room("tools/lib/include/fsdp/Plan/Report",
         [COSTS, SCHEDULE, ARENA, PLANNING, REPORT], IR),
    # From files to a program: fsdp-compile, and what fsdp-plan reads with.
    Room("tools/lib/Driver",
         [DIALECT, COSTS, SCHEDULE, PLANNING, CONTRACT, STEP, PASSES, TOOL, SUPPORT,
          TARGET, REPORT, DRIVER, BESIDE]),
    Room("tools/lib/include/fsdp/Driver",
         [DIALECT, COSTS, SCHEDULE, PLANNING, CONTRACT, STEP, PASSES, TOOL, SUPPORT,
          TARGET, REPORT, DRIVER]),
    # fsdp-plan: makes no code.
    Room("tools/lib/Plan",
         [DIALECT, COSTS, SCHEDULE, ARENA, PLANNING, CONTRACT, STEP, PASSES,
          TOOL, SUPPORT, DRIVER, PLAN, BESIDE], CODE),
    Room("tools/lib/include/fsdp/Plan",
         [DIALECT, COSTS, SCHEDULE, ARENA, PLANNING, CONTRACT, STEP, PASSES,
          TOOL, SUPPORT, DRIVER, PLAN], CODE),
    # The runtime, which builds without the compiler.
    Room("include/fsdp-rt", [r"fsdp-rt/"], DEVICES),
    # What all rooms of the runtime share: status, types, threads, sums.
    Room("runtime/core", [r"core/", r"fsdp-rt/"], DEVICES, EXCEPTIONS),
    # Interfaces of devices and channels: no implementation.
    Room("runtime/hal", [r"core/(Status|Dtype|Group|Reduce)\.h", r"hal/", r"fsdp-rt/"],
         DEVICES, EXCEPTIONS),
    # How ranks come to be and agree: the host only.
    Room("runtime/control", [r"core/", r"hal/", r"control/", r"fsdp-rt/"],
         DEVICES, EXCEPTIONS),
    # Each device and channel is alone.
    Room("runtime/devices/cpu",
         [r"core/", r"hal/", r"devices/cpu/", r"fsdp-rt/"], DEVICES,
         EXCEPTIONS),
    # Above the driver each library is alone; what runs programs knows all.
    *[Room(f"runtime/devices/cuda/{name}",
           [r"core/", r"hal/", r"devices/cuda/driver/",
            rf"devices/cuda/{name}/", r"fsdp-rt/"], DEVICES, EXCEPTIONS)
      for name in ("driver", "blas", "dnn", "nccl", "kernels")],
    Room("runtime/devices/cuda/run",
         [r"core/", r"hal/", r"devices/cuda/", r"fsdp-rt/"], DEVICES,
         EXCEPTIONS),
    Room("runtime/channels/local",
         [r"core/", r"hal/", r"control/", r"channels/local/", r"fsdp-rt/",
          BESIDE], DEVICES, EXCEPTIONS),
    Room("runtime/channels/mpi",
         [r"core/", r"hal/", r"control/", r"channels/mpi/", r"fsdp-rt/",
          BESIDE], DEVICES.replace(r"|mpi\.h", ""), EXCEPTIONS),
    Room("runtime/channels/tcp",
         [r"core/", r"hal/", r"control/", r"channels/tcp/", r"fsdp-rt/",
          BESIDE], DEVICES, EXCEPTIONS),
    # Names them all, by their definitions.
    Room("runtime/registry", [r"core/", r"hal/", r"control/", r"registry/"],
         DEVICES, EXCEPTIONS),
    # What uses devices through the interfaces knows none of them.
    Room("runtime/program", [r"core/", r"hal/", r"program/", r"fsdp-rt/"],
         DEVICES, EXCEPTIONS),
    Room("runtime/data", [r"core/", r"hal/", r"control/", r"data/",
                          r"fsdp-rt/"], DEVICES, EXCEPTIONS),
    Room("runtime/trace",
         [r"core/", r"hal/", r"data/", r"program/", r"trace/", r"fsdp-rt/"],
         DEVICES, EXCEPTIONS),
    Room("runtime/abi", [r"hal/", r"fsdp-rt/"], DEVICES, EXCEPTIONS),
    Room("runtime/main",
         [r"core/", r"hal/", r"control/", r"program/", r"data/", r"trace/",
          r"registry/", r"main/", r"fsdp-rt/"], DEVICES, EXCEPTIONS),
    # Tools: thin, over lib and passes; those that run, over the runtime's ABI.
    Room("tools", [r"fsdp/", BESIDE], r"core/|main/|devices/|channels/|fsdp-rt/"),
    # What a program says of itself is read by its reader before it is written.
    Room("tools/fsdp-compile/ManifestFault.cpp", [r"data/Manifest\.h", BESIDE]),
    Room("tools/fsdp-run", [r"fsdp-rt/"], DEVICES + "|fsdp/"),
    # The emulated driver knows nothing of this project, and no toolkit: text
    # of PTX, what executes it, instructions, calls; its tests ask the calls.
    # Doubles of libraries compute on streams, by what the driver has for them.
    Room("tools/fsdp-emulator", [r"driver/", BESIDE]),
    Room("tools/fsdp-emulator/ptx", [r"ptx/"], DEVICES),
    Room("tools/fsdp-emulator/execution", [r"ptx/", r"execution/"], DEVICES),
    Room("tools/fsdp-emulator/instructions",
         [r"ptx/", r"execution/", r"instructions/"], DEVICES),
    Room("tools/fsdp-emulator/driver",
         [r"execution/", r"instructions/", r"driver/"], DEVICES),
    Room("tools/fsdp-emulator/libraries",
         [r"instructions/FloatFormats\.h", r"driver/Extension\.h",
          r"libraries/", BESIDE], DEVICES),
]

SOURCES = {".c", ".cpp", ".h", ".td", ".def", ".inc", ".cu"}
# Programs as users write them: they include what is installed.
FREE = {"test", "lit-tests", "benchmarks", "docs", "cmake"}
TEXTS = SOURCES | {".py", ".md", ".cmake", ".txt", ".mlir", ".test", ".sh",
                   ".map", ".in", ".toml"}
SKIPPED = {"build", ".git", "fixtures", "__pycache__", "node_modules"}

INCLUDE = re.compile(r'^\s*(?:#\s*include|include)\s*([<"])([^>"]+)[>"]')
PASS_DEF = re.compile(r"^#define GEN_PASS_DEF_(\w+)", re.MULTILINE)


def list_files(root):
    for path in sorted(root.iterdir()):
        if path.is_dir():
            if (path.name not in SKIPPED and not path.name.startswith(".") and
                    not (path / "CMakeCache.txt").exists()):
                yield from list_files(path)
        elif path.suffix in TEXTS:
            yield path


def find_room(relative):
    """The room with the longest path, or the file's own; null outside of all."""
    rooms = [room for room in ROOMS
             if (relative + "/").startswith(room.path + "/")]
    return max(rooms, key=lambda room: len(room.path), default=None)


def without_comments(lines):
    """The code of each line: no //, no /* */ and no text in quotes."""
    text = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', "\n".join(lines))
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text,
                  flags=re.DOTALL)
    return text.split("\n")


def is_ours(quote, target):
    """The project's headers, and MLIR's, are in quotes: a path of ours begins
    with a directory of ours, or has none."""
    return quote == '"' and not re.match(r"(mlir|llvm)(-c)?/", target)


def check_includes(relative, lines, room):
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, target = match.groups()
        where = f"{relative}:{number}: "
        if room.never.match(target):
            yield where + f"expected no {target} in {room.path}, got it"
        elif is_ours(quote, target) and not room.ours.match(target):
            yield where + (f"expected {room.path} to include only what it may "
                           f"know, got {target}")


def check_words(relative, lines, room):
    for number, line in enumerate(without_comments(lines), 1):
        match = room.words.search(line)
        if match:
            yield (f"{relative}:{number}: expected {room.path} to do without "
                   f"this, got '{match.group()}'")


def check_passes(relative, text):
    names = PASS_DEF.findall(text)
    stem = Path(relative).stem
    if len(names) > 1:
        yield f"{relative}:1: expected one pass in a file, got {len(names)}"
    for name in names:
        if name != stem.upper():
            yield (f"{relative}:1: expected the file to be called like its "
                   f"pass, got {stem} and {name}")


def list_below(folder, suffix, files):
    """Those of `files` that lie in `folder`, as paths from there."""
    return [PurePosixPath(file).relative_to(folder) for file in files
            if file.startswith(folder + "/") and file.endswith(suffix)]


def check_mirrors(files):
    """Of headers and sources, by their stems."""
    for lib, include in (("lib", "include/fsdp"),
                         ("tools/lib", "tools/lib/include/fsdp")):
        sources = list_below(lib, ".cpp", files)
        for header in list_below(include, ".h", files):
            own = [s for s in sources if s.stem == header.stem]
            if own and header.with_suffix(".cpp") not in own:
                yield (f"{include}/{header.as_posix()}:1: expected the file to "
                       "lie as its implementation does, got "
                       f"{lib}/{own[0].as_posix()}")


def check(root):
    """All breaches below `root`."""
    breaches, passes, files = [], [], []
    for path in list_files(root):
        relative = path.relative_to(root).as_posix()
        text = path.read_text(encoding="utf-8", errors="replace")
        lines = text.splitlines()
        if len(lines) > MAX_LINES:
            breaches.append(f"{relative}:{MAX_LINES + 1}: expected at most "
                            f"{MAX_LINES} lines, got {len(lines)}")
        top = relative.split("/")[0]
        if path.suffix not in SOURCES or top in FREE:
            continue
        room = find_room(relative)
        if not room:
            breaches.append(f"{relative}:1: expected a file in one of the "
                            "rooms, got one in none")
            continue
        files.append(relative)
        breaches += check_includes(relative, lines, room)
        breaches += check_words(relative, lines, room)
        if relative.startswith("passes/"):
            breaches += check_passes(relative, text)
            if PASS_DEF.search(text):
                passes.append(len(lines))
    breaches += check_mirrors(files)
    if passes and statistics.median(passes) >= MEDIAN_PASS_LINES:
        breaches.append(f"passes:1: expected a median of under "
                        f"{MEDIAN_PASS_LINES} lines for a pass, got "
                        f"{statistics.median(passes):g}")
    if not files:
        breaches.append(f"{root}:1: expected source files, got none")
    return breaches


def main():
    if len(sys.argv) != 2:
        print("usage: walls.py ROOT", file=sys.stderr)
        return 2
    breaches = check(Path(sys.argv[1]).resolve())
    for breach in breaches:
        print(breach)
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
