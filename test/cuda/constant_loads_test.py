# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""No load of compiled code bypasses a wait for the kernel before it (fsdp-rt/dependent-launch.h).

ld.global.nc may be served by a cache that sees no stores: it has to read a variable of the module, which no kernel stores
to, and to stand after griddepcontrol.wait. Of every fixture's PTX the addresses of such loads are followed to what they
are computed from.

FSDP_BIN names the folder of fsdp-compile, FSDP_FIXTURES that of the traced steps. Standard library only.
"""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ["FSDP_BIN"])
MODELS = sorted(pathlib.Path(os.environ["FSDP_FIXTURES"]).glob("*/model.mlir"))

VARIABLE = re.compile(r"^(?:\.visible |\.extern |\.weak )*\.global [^=;\[]*?([\w$]+)\[", re.MULTILINE)
KERNEL = re.compile(r"\.entry (\w+)\(.*?\n}", re.DOTALL)
# Of an instruction: its predicate, opcode and operands.
INSTRUCTION = re.compile(r"^\s*(?:@!?%\w+\s+)?([a-z][\w.:]*)\s+([^;]*);", re.MULTILINE)
LOAD = re.compile(r"ld\.global\.(?:\w+\.)*?nc\b")
REGISTER = re.compile(r"%[a-z]+\d+")
NAME = re.compile(r"(?<![\w%$.])[a-zA-Z_$][\w$]*")
WAIT = "// sm_90: griddepcontrol.wait;"


def split(operands):
    """The destinations of an instruction, and the rest."""
    match = re.match(r"\{([^}]*)\}\s*,?(.*)|([^,]*),?(.*)", operands, re.DOTALL)
    first, rest = (match[1], match[2]) if match[1] is not None else (match[3], match[4])
    return REGISTER.findall(first), rest


class Kernel:
    """Where the numbers in a kernel's registers come from: what it loads from memory is a number, of parameters and
    variables an address.
    """

    def __init__(self, text, variables):
        self.definitions, self.variables = {}, variables
        for opcode, operands in INSTRUCTION.findall(text):
            results, rest = split(operands)
            for register in results:
                self.definitions.setdefault(register, []).append((opcode, rest))

    def bases(self, operand, seen=None):
        """Names of the parameters and variables of whose addresses an operand is computed."""
        seen = set() if seen is None else seen
        found = {name for name in NAME.findall(operand) if name in self.variables}
        for register in set(REGISTER.findall(operand)) - seen:
            seen.add(register)
            for opcode, rest in self.definitions.get(register, []):
                if opcode.startswith("ld.param"):
                    found.add(re.search(r"\[([\w$]+)", rest)[1])
                elif not opcode.startswith(("ld.", "atom.", "shfl.")):
                    found |= self.bases(rest, seen)
        return found


def find_wrong_loads(ptx):
    """ld.global.nc: how many there are, and those that are not allowed, with what they read."""
    variables, count, wrong = set(VARIABLE.findall(ptx)), 0, []
    for match in KERNEL.finditer(ptx):
        kernel, wait = Kernel(match[0], variables), match[0].find(WAIT)
        for load in INSTRUCTION.finditer(match[0]):
            if not LOAD.match(load[1]):
                continue
            count += 1
            bases = kernel.bases(split(load[2])[1])
            if len(bases) != 1 or not bases <= variables:
                wrong.append((match[1], load[0].strip(), f"reads {', '.join(sorted(bases)) or 'an unknown address'}"))
            if not 0 <= wait < load.start():
                wrong.append((match[1], load[0].strip(), "before griddepcontrol.wait"))
        # A variable that is read so is stored to by no kernel.
        for store in INSTRUCTION.finditer(match[0]):
            if re.match(r"(st|red|atom)\.global", store[1]) and kernel.bases(store[2]) & variables:
                wrong.append((match[1], store[0].strip(), "stores to a variable of the module"))
    return count, wrong


class ConstantLoads(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ptx = {}
        with tempfile.TemporaryDirectory() as folder:
            code = pathlib.Path(folder) / "step.ptx"
            for model in MODELS:
                subprocess.run([BIN / "fsdp-compile", model, "--mesh", "shard=2", "--target", "cuda", "--emit", "ptx", "-o",
                                code], check=True, capture_output=True, timeout=120)
                cls.ptx[model.parent.name] = code.read_text()

    def test_fixtures(self):
        counts = {}
        for fixture, ptx in self.ptx.items():
            with self.subTest(fixture=fixture):
                counts[fixture], wrong = find_wrong_loads(ptx)
                self.assertEqual([], wrong)
        # Tables of rotary embeddings.
        for fixture in ("llama", "llama-bf16", "llama-autocast"):
            self.assertGreater(counts[fixture], 0)

    def test_other_loads_are_found(self):
        """Each load of an argument's memory, as ld.global.nc."""
        ptx = self.ptx["llama"]
        allowed, _ = find_wrong_loads(ptx)
        planted, wrong = find_wrong_loads(re.sub(r"ld\.global\.(?!nc)", "ld.global.nc.", ptx))
        self.assertGreater(planted, allowed + 100)
        self.assertEqual(len(wrong), planted - allowed)
        self.assertEqual({why.split("_param_")[0] for _, _, why in wrong}, {f"reads {kernel}" for kernel, _, _ in wrong})

    def test_loads_before_the_wait_are_found(self):
        ptx = self.ptx["llama"]
        allowed, _ = find_wrong_loads(ptx)
        moved = KERNEL.sub(lambda kernel: kernel[0].replace(WAIT, "").replace("ret;", WAIT + "\n\tret;"), ptx)
        _, wrong = find_wrong_loads(moved)
        self.assertEqual([why for _, _, why in wrong], ["before griddepcontrol.wait"] * allowed)

    def test_stores_to_constants_are_found(self):
        ptx = re.sub(r"ld\.global\.nc\.b32\s+(%r\d+), (\[%rd\d+\]);", r"st.global.b32 \2, \1;", self.ptx["llama"])
        _, wrong = find_wrong_loads(ptx)
        self.assertEqual({why for _, _, why in wrong}, {"stores to a variable of the module"})


if __name__ == "__main__":
    unittest.main()
