# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Machine code of sm_90, and what a thread of a kernel executes of it, without a card.

`assemble` has ptxas make machine code of PTX and nvdisasm print it; `Kernel.follow` steps through what one thread executes.
Integers are computed, so that loops and branches by indices are taken as on a card; what comes from memory, floating-point
numbers and other lanes is unknown. A branch by an unknown predicate is not taken, or taken where a subroutine would be
called otherwise, as the slow path of a division is. Parameters are addresses at multiples of 2^32.
"""
import collections
import functools
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

MASK = (1 << 32) - 1
# A kernel that a thread executes more of is taken for one that does not end.
MOST = 20_000_000
# Parameters in constant bank 0, and where blockDim and gridDim lie.
PARAMETERS, BLOCK_DIM = 0x210, 0x0

# By mnemonic: the unit of one of a multiprocessor's four quarters that executes it, for how many cycles an instruction of
# a warp occupies that, and cycles until its result can be used. CUDA C++ Programming Guide, "Arithmetic Instructions",
# results per clock cycle of compute capability 9.0: 128 of f32, 64 of integers, comparisons and conversions to narrower
# floats, 16 of special functions and of conversions between integers and floats; 32 lanes of loads and stores.
# HMMA.16816: 4096 operations by a quarter's 1024 a cycle at 0.62 of wgmma's rate, as mma.sync has. Latencies:
# arXiv:2402.13499 and arXiv:2208.11174, from memory.
UNITS = {}
for names, unit in ((("FFMA", "FADD", "FMUL"), ("fma", 1, 4)),
                    (("IMAD", "HFMA2", "HADD2", "HMUL2"), ("fma", 2, 5)),
                    (("MUFU", "F2I", "I2F", "FRND", "F2F", "FCHK", "POPC", "FLO", "I2FP"), ("special", 8, 22)),
                    (("DFMA", "DADD", "DMUL", "DSETP"), ("double", 2, 16)),
                    (("HMMA",), ("tensor", 6.5, 33)),
                    (("LDS", "STS", "LDSM", "SHFL", "LDG", "STG", "LDGSTS", "LD", "ST", "LDL", "STL", "ATOM", "ATOMG",
                      "RED", "REDUX"), ("memory", 4, 30)),
                    (("S2R", "S2UR", "CS2R", "LDC", "R2UR", "BAR"), ("other", 2, 25)),
                    (("BRA", "EXIT", "BSSY", "BSYNC", "NOP", "CALL", "RET", "WARPSYNC", "LDGDEPBAR", "DEPBAR", "ACQBULK",
                      "PREEXIT", "YIELD", "MEMBAR", "ERRBAR", "CCTL", "BREAK", "ULDC", "BMOV"), ("other", 1, 4))):
    UNITS.update(dict.fromkeys(names, unit))
# Everything else: integers, comparisons, selections, moves.
ALU = ("alu", 2, 5)
# Of 128 bits beside 32, in the unit of loads and stores.
WIDTHS = {"64": 2, "128": 4, "M88": 1, "4": 4, "2": 2, "U8": 1, "U16": 1}


def find_tool(name):
    """ptxas or nvdisasm: on PATH, in a toolkit, or of the wheels nvidia-cuda-nvcc and nvidia-cuda-nvdisasm."""
    folders = ["/usr/local/cuda/bin"]
    for path in sys.path:
        folders += map(str, pathlib.Path(path).glob("nvidia/cu*/bin"))
    found = shutil.which(name) or shutil.which(name, path=":".join(folders))
    if not found:
        sys.exit(f"error: expected {name} on PATH, in {', '.join(folders)}, got none (pip install nvidia-cuda-nvcc "
                 "nvidia-cuda-nvdisasm)")
    return found


@functools.lru_cache(maxsize=None)
def assemble(ptx):
    """By name the kernels of a file of PTX."""
    with tempfile.TemporaryDirectory() as folder:
        cubin = pathlib.Path(folder) / "step.cubin"
        said = subprocess.run([find_tool("ptxas"), "-v", "-arch=sm_90", "-o", cubin, ptx], capture_output=True, text=True,
                              check=True).stderr
        text = subprocess.run([find_tool("nvdisasm"), "-c", cubin], capture_output=True, text=True, check=True).stdout
    kernels = {name: Kernel(name, body) for name, body in
               re.findall(r"^\s*\.section\s+\.text\.(\w+),.*?\n(.*?)(?=^\s*\.section|\Z)", text, re.DOTALL | re.MULTILINE)}
    for name, rest in re.findall(r"Compiling entry function '(\w+)'(.*?)(?=Compiling entry|\Z)", said, re.DOTALL):
        kernels[name].registers = int(re.search(r"Used (\d+) registers", rest)[1])
    return kernels


class Thread:
    """Registers by name: a number, None where unknown, and the cycle from which on each can be read."""

    def __init__(self, constants, special):
        self.constants, self.special = constants, special
        self.values = collections.defaultdict(lambda: None)
        self.ready = {}
        self.calls = []
        self.jump = None
        self.ended = False


class Path:
    """What a thread executed: instructions of its warp by unit, cycles that each unit is occupied by them, cycles from the
    first to the end where nothing else runs, and how often it waited for a load of global memory."""

    def __init__(self):
        self.instructions, self.cycles, self.length, self.waits, self.unknown = 0, collections.Counter(), 0, 0, 0


def add_pair(name):
    return re.sub(r"\d+$", lambda number: str(int(number[0]) + 1), name)


def parse(text):
    """(name, whether it is negated, inverted or absolute) of a register; or (None, number); or None: unknown."""
    text = text.strip().replace(".reuse", "")
    negated, inverted = text.startswith("-"), text.startswith(("~", "!"))
    text = text.lstrip("-~!").strip("|")
    if match := re.fullmatch(r"(UR|R|UP|P)(\d+)(\.64|\.H\d_H\d|\.H\d|\.B\d|\.X\d+)*", text):
        return match[1] + match[2], negated, inverted
    if text in ("RZ", "URZ", "SRZ"):
        return 0, negated, inverted
    if text in ("PT", "UPT"):
        return 1, negated, inverted
    if match := re.fullmatch(r"c\[0x0\]\[(0x[0-9a-f]+)\]", text):
        return "c" + str(int(match[1], 16)), negated, inverted
    if re.fullmatch(r"0x[0-9a-f]+|\d+", text):
        return int(text, 0), negated, inverted
    return None


class Operand:
    def __init__(self, text):
        self.text, self.parsed = text, parse(text)
        self.is_predicate = bool(re.match(r"!?U?P[0-9T]", text))

    def registers(self):
        """Whose values the operand needs."""
        return re.findall(r"\b(?:UR|R|UP|P)\d+\b", self.text)

    def get(self, thread, wide=False):
        if self.parsed is None:
            return None
        name, negated, inverted = self.parsed
        if isinstance(name, int):
            value = name
        elif name[0] == "c":
            value = thread.constants.get(int(name[1:]))
            if wide and value is not None:
                value |= thread.constants.get(int(name[1:]) + 4, 0) << 32
        else:
            value = thread.values[name]
            if wide:
                high = thread.values[add_pair(name)]
                value = None if value is None or high is None else value | high << 32
        if value is None:
            return None
        if self.is_predicate:
            return 1 - value if inverted else value
        bits = 64 if wide else 32
        if inverted:
            return ~value & ((1 << bits) - 1)
        # The carry of what is subtracted counts.
        return (~value & ((1 << bits) - 1)) + 1 if negated else value


def signed(value, bits=32):
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def known(*values):
    return all(value is not None for value in values)


COMPARE = {"EQ": lambda a, b: a == b, "NE": lambda a, b: a != b, "LT": lambda a, b: a < b, "LE": lambda a, b: a <= b,
           "GT": lambda a, b: a > b, "GE": lambda a, b: a >= b}


def logic(table, a, b, c):
    """Each bit by its place in the table of three bits."""
    result = 0
    for place in range(8):
        if table >> place & 1:
            part = MASK
            for value, bit in ((a, 4), (b, 2), (c, 1)):
                part &= value if place & bit else ~value
            result |= part
    return result & MASK


class Instruction:
    def __init__(self, text):
        match = re.fullmatch(r"(?:@(!?U?P[0-9T]) +)?([A-Z0-9_.a-z]+) *(.*?) *;?", text.strip())
        self.text = text.strip()
        self.guard = Operand(match[1]) if match[1] else None
        self.name, *self.flags = match[2].split(".")
        self.operands = [Operand(word) for word in re.split(r", *(?![^[(]*[\])])", match[3])] if match[3] else []
        # Of the uniform datapath: the same, one result a warp.
        self.kind = self.name[1:] if re.match(r"U(?!NDEF)[A-Z]", self.name) else self.name
        self.target = re.search(r"`\((.*?)\)", text)
        self.target = self.target[1] if self.target else None
        self.unit, cycles, self.latency = UNITS.get(self.name, ALU)
        if self.unit == "memory" and self.name != "SHFL":
            cycles *= max((WIDTHS.get(flag, 1) for flag in self.flags), default=1)
        self.cycles = cycles
        self.is_load = self.name in ("LDG", "LD", "ATOMG", "ATOM")
        self.waits_for_copies = self.name == "DEPBAR" or self.name == "LDGDEPBAR"
        self.execute = getattr(self, "do_" + self.kind, None)
        stores = self.name in ("STG", "STS", "ST", "STL", "LDGSTS", "RED")
        self.results = [] if stores else self.find_results()
        self.sources = sorted({register for i, operand in enumerate(self.operands) if stores or i >= self.first_source
                               for register in operand.registers()} | set(self.guard.registers() if self.guard else []))

    def find_results(self):
        """Registers that it writes; sets the place of the first operand that it only reads."""
        self.first_source = 0
        if self.kind in ("BRA", "EXIT", "BAR", "BSSY", "BSYNC", "CALL", "RET", "NOP", "WARPSYNC", "DEPBAR") or not self.operands:
            return []
        names = []
        if self.kind in ("ISETP", "FSETP", "PLOP3", "DSETP", "HSETP2", "FCHK"):
            self.first_source = 1 if self.kind == "FCHK" else 2
            return [name for operand in self.operands[:self.first_source] for name in operand.registers()]
        place = 0
        # A predicate before the result (LOP3, SHFL), or carries behind it (IADD3, LEA).
        if self.operands[0].is_predicate and len(self.operands) > 1:
            names += self.operands[0].registers()
            place = 1
        for name in self.operands[place].registers():
            names.append(name)
            count = 1
            if any(flag in ("64", "WIDE") for flag in self.flags) or self.kind in ("CS2R", "DFMA", "DADD", "DMUL"):
                count = 2
            if self.name in ("LDG", "LDS", "LD", "LDSM", "HMMA", "ATOM") or "128" in self.flags:
                count = max([4 if self.name == "HMMA" else 1, *(WIDTHS.get(flag, 1) for flag in self.flags)])
            for _ in range(count - 1):
                names.append(add_pair(names[-1]))
        place += 1
        if self.kind in ("IADD3", "LEA", "IMAD"):
            while place < len(self.operands) - 2 and self.operands[place].is_predicate:
                names += self.operands[place].registers()
                place += 1
        self.first_source = place
        return names

    # What results are, by mnemonic: a list beside `results`.

    def set(self, thread, *values):
        for name, value in zip(self.results, values):
            thread.values[name] = value

    def arguments(self, thread, wide=()):
        return [operand.get(thread, i in wide) for i, operand in enumerate(self.operands[self.first_source:])]

    def do_MOV(self, thread):
        self.set(thread, *[value if value is None else value & MASK for value in self.arguments(thread)[:1]])

    do_R2UR = do_MOV

    def do_S2R(self, thread):
        self.set(thread, thread.special.get(self.operands[-1].text))

    do_S2UR = do_2UR = do_S2R

    def do_CS2R(self, thread):
        self.set(thread, *[0 if self.operands[-1].text == "SRZ" else None] * 2)

    def do_LDC(self, thread):
        value = self.operands[1].get(thread, "64" in self.flags)
        self.set(thread, *([None] * 2 if value is None else [value & MASK, value >> 32]))

    def do_IADD3(self, thread):
        values = self.arguments(thread)
        if "X" not in self.flags:
            values = values[:3]
        self.add(thread, values)

    do_VIADD = do_IADD3

    def add(self, thread, values):
        if not known(*values):
            return self.set(thread, *[None] * len(self.results))
        total = sum(values)
        carries = [name for name in self.results if "P" in name]
        registers = [name for name in self.results if "P" not in name]
        for name in registers:
            thread.values[name] = total & MASK
        for i, name in enumerate(carries):
            thread.values[name] = int((total >> 32) > i)

    def do_IMAD(self, thread):
        wide, is_signed = "WIDE" in self.flags, "U32" not in self.flags
        values = self.arguments(thread, wide=(2,) if wide else ())
        if not known(*values):
            # What is multiplied by 0 may be unknown.
            if not (known(*values[2:]) and 0 in values[:2]):
                return self.set(thread, *[None] * len(self.results))
            values = [0, 0, *values[2:]]
        a, b = ((signed(value & MASK) if is_signed and (wide or "HI" in self.flags) else value & MASK) for value in values[:2])
        total = a * b
        if "HI" in self.flags:
            total >>= 32
        if not wide:
            return self.add(thread, [total & MASK, *values[2:]])
        total = (total & ((1 << 64) - 1)) + values[2]
        registers = [name for name in self.results if "P" not in name]
        for name, value in zip(registers, (total & MASK, total >> 32 & MASK)):
            thread.values[name] = value
        for name in self.results:
            if "P" in name:
                thread.values[name] = total >> 64 & 1

    def do_LOP3(self, thread):
        a, b, c, table = self.arguments(thread)[:4]
        # With a 0 in an AND nothing else matters.
        if not known(a, b, c):
            if table == 0xc0 and 0 in (a, b):
                a, b, c = 0, 0, 0
            else:
                return self.set(thread, *[None] * len(self.results))
        value = logic(table, a & MASK, b & MASK, c & MASK)
        for name in self.results:
            thread.values[name] = int(value != 0) if "P" in name else value

    def do_PLOP3(self, thread):
        *values, first, second = self.arguments(thread)
        unknown = [place for place in range(8) if all(value is None or value == (place >> 2 - i & 1)
                                                      for i, value in enumerate(values[:3]))]
        for name, table in zip([operand.text for operand in self.operands[:2]], (first, second)):
            found = {table >> place & 1 for place in unknown}
            if name not in ("PT", "UPT"):
                thread.values[name] = found.pop() if len(found) == 1 else None

    def do_ISETP(self, thread):
        values = self.arguments(thread)
        a, b, other = values[:3]
        flags = [flag for flag in self.flags if flag in ("AND", "OR", "XOR")]
        result = None
        if known(a, b):
            a, b = a & MASK, b & MASK
            if "U32" not in self.flags:
                a, b = signed(a), signed(b)
            compare = self.flags[0]
            result = int(COMPARE[compare](a, b))
            if "EX" in self.flags and a == b:
                result = values[3]
            elif "EX" in self.flags and a != b:
                result = int({"EQ": False, "NE": True}.get(compare, a < b if compare in ("LT", "LE") else a > b))
        for i, operand in enumerate(self.operands[:2]):
            if operand.text not in ("PT", "UPT"):
                mine = result if i == 0 or result is None else 1 - result
                thread.values[operand.text] = self.combine(flags, mine, other)

    @staticmethod
    def combine(flags, a, b):
        if "AND" in flags and 0 in (a, b):
            return 0
        if "OR" in flags and 1 in (a, b):
            return 1
        if not known(a, b):
            return None
        return a & b if "AND" in flags else a | b if "OR" in flags else a ^ b

    def do_SHF(self, thread):
        low, by, high = self.arguments(thread)[:3]
        left = "L" in self.flags
        if not known(by) or not (known(low, high) or (known(high) and "HI" in self.flags and not left)
                                 or (known(low) and "HI" not in self.flags and left)):
            return self.set(thread, None)
        by = by & 31 if "W" in self.flags else min(by, 63)
        both = (low or 0) & MASK | ((high or 0) & MASK) << 32
        if left:
            both <<= by
            self.set(thread, both >> 32 & MASK if "HI" in self.flags else both & MASK)
        else:
            if "S32" in self.flags or "S64" in self.flags:
                both = signed(both, 64)
            both >>= by
            self.set(thread, (both >> 32 if "HI" in self.flags else both) & MASK)

    def do_LEA(self, thread):
        values = self.arguments(thread)
        if "HI" not in self.flags:
            a, b, by = values[:3]
            return self.add(thread, [None] if not known(a, b, by) else [a << by & MASK, b])
        if "SX32" in self.flags:
            a, b, by = values[:3]
            high = None if a is None else signed(a & MASK) >> 31 & MASK
            rest = values[3:]
        else:
            a, b, high, by = values[:4]
            rest = values[4:]
        if not known(a, b, high, by):
            return self.set(thread, None)
        part = ((high & MASK) << 32 | a & MASK) << by >> 32 & MASK
        self.add(thread, [part, b, *(rest[:1] if "X" in self.flags else [])])

    def do_SEL(self, thread):
        a, b, which = self.arguments(thread)
        self.set(thread, (a if which else b) if which is not None else a if a == b else None)

    def do_VIMNMX(self, thread):
        a, b, least = self.arguments(thread)
        if not known(a, b, least):
            return self.set(thread, None)
        key = (lambda value: value) if "U32" in self.flags else signed
        self.set(thread, (min if least else max)(a & MASK, b & MASK, key=key))

    do_IMNMX = do_VIMNMX

    def do_IABS(self, thread):
        a, = self.arguments(thread)
        self.set(thread, None if a is None else abs(signed(a)))

    def do_PRMT(self, thread):
        a, selector, b = self.arguments(thread)[:3]
        if not known(a, selector, b):
            return self.set(thread, None)
        both, result = a & MASK | (b & MASK) << 32, 0
        for place in range(4):
            nibble = selector >> 4 * place & 15
            byte = both >> 8 * (nibble & 7) & 255
            if nibble & 8:
                byte = 255 if byte & 128 else 0
            result |= byte << 8 * place
        self.set(thread, result)

    def do_HFMA2(self, thread):
        # Of zeros: a constant, as its two halves.
        words = [operand.text for operand in self.operands]
        if words[1] == "-RZ" and words[2] == "RZ":
            high, low = (struct.unpack("<H", struct.pack("<e", float(word)))[0] for word in words[3:5])
            return self.set(thread, high << 16 | low)
        self.set(thread, None)

    def do_FCHK(self, thread):
        # The usual case: no special numbers.
        self.set(thread, 0)


class Kernel:
    def __init__(self, name, body):
        self.name, self.registers = name, 0
        self.instructions, self.labels = [], {}
        for line in body.splitlines():
            if match := re.fullmatch(r"(\$?[.\w$]+):", line.strip()):
                self.labels[match[1]] = len(self.instructions)
            elif match := re.match(r"\s*/\*[0-9a-f]+\*/\s+(.*?;)", line.replace("{", " ").replace("}", " ")):
                self.instructions.append(Instruction(match[1]))
            elif match := re.match(r"\s*/\*[0-9a-f]+\*/\s+(BRA .*\))\s*;?", line):
                self.instructions.append(Instruction(match[1]))

    def skips_call(self, place, end):
        return any(it.name == "CALL" for it in self.instructions[place:end])

    def follow(self, grid, block, at, thread, latency):
        """The path of one thread of block `at`; a load takes `latency` cycles."""
        constants = {0: block, 4: 1, 8: 1, 12: grid, 16: 1, 20: 1, 0x28: 1 << 20}
        for i in range(64):
            constants[PARAMETERS + 8 * i], constants[PARAMETERS + 8 * i + 4] = 0, i + 1
        state = Thread(constants, {"SR_TID.X": thread % block, "SR_TID.Y": 0, "SR_TID.Z": 0, "SR_CTAID.X": at,
                                   "SR_CTAID.Y": 0, "SR_CTAID.Z": 0, "SR_LANEID": thread % 32, "SR_CgaCtaId": 0})
        return self.step(state, latency)

    def step(self, state, latency):
        path, place, now, copies = Path(), 0, 0, 0
        # Instructions that loaded a register, and the last one whose value has been waited for.
        loaded, arrived = {}, 0
        values, ready, instructions = state.values, state.ready, self.instructions
        while place < len(instructions):
            it = instructions[place]
            place += 1
            path.instructions += 1
            if path.instructions > MOST:
                sys.exit(f"error: {self.name}: expected a thread to end, got one that goes on for {MOST} instructions")
            path.cycles[it.unit] += it.cycles
            now += 1
            for name in it.sources:
                when = ready.get(name, 0)
                if when > now:
                    now = when
                    if name in loaded and loaded[name] > arrived:
                        # All that were issued before this one comes back are waited for at once.
                        arrived = path.instructions
                        path.waits += 1
            guard = 1 if it.guard is None else it.guard.get(state)
            if guard == 0:
                continue
            if it.target is not None and it.name in ("BRA", "CALL"):
                target = self.labels[it.target]
                if it.name == "CALL":
                    state.calls.append(place)
                    place = target
                    continue
                conditions = [operand.get(state) for operand in it.operands[:-1] if operand.is_predicate]
                taken = None if guard is None or None in conditions else int(0 not in conditions)
                if "DIV" in it.flags:
                    taken = 0
                if taken is None:
                    path.unknown += 1
                    taken = target > place and self.skips_call(place, target)
                if taken:
                    place = target
                continue
            if it.name == "EXIT":
                if guard:
                    break
                continue
            if it.name == "RET":
                if not state.calls:
                    break
                place = state.calls.pop()
                continue
            if it.name == "LDGSTS":
                copies = now + latency
            elif it.name == "DEPBAR" and copies > now:
                now, copies = copies, 0
                path.waits += 1
            if it.execute and guard is not None:
                it.execute(state)
            else:
                for name in it.results:
                    values[name] = None
            done = now + (latency if it.is_load else it.latency)
            for name in it.results:
                ready[name] = done
                if it.is_load:
                    loaded[name] = path.instructions
                else:
                    loaded.pop(name, None)
        path.length = now
        return path
