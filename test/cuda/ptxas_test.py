# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""NVIDIA's assembler takes the PTX of every fixture, for each generation of cards, and no thread of it spills more than two
registers.

FSDP_BIN names the folder of fsdp-compile, FSDP_FIXTURES that of the traced steps, FSDP_PTXAS the assembler: without it
all is skipped. Standard library only.
"""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ["FSDP_BIN"])
PTXAS = os.environ.get("FSDP_PTXAS")
MODELS = sorted(pathlib.Path(os.environ["FSDP_FIXTURES"]).glob("*/model.mlir"))
CARDS = ("sm_80", "sm_90", "sm_100")
# Two registers, stored and loaded.
FEW_BYTES = 16


def get_spills(said):
    """Of what the assembler says with -v: bytes that spill, by function."""
    functions = re.split(r"Compiling entry function '(\w+)'", said)
    return {name: sum(map(int, re.findall(r"(\d+) bytes spill", text)))
            for name, text in zip(functions[1::2], functions[2::2])}


@unittest.skipUnless(PTXAS, "no ptxas")
class Ptxas(unittest.TestCase):
    def run_tool(self, *command):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def test_fixtures(self):
        self.assertTrue(MODELS)
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for number, model in enumerate(MODELS):
                self.run_tool(BIN / "fsdp-compile", model, "--mesh", "shard=2", "--target", "cuda", "--emit", "ptx",
                              "-o", folder / "step.ptx")
                # Two of them each, in turn.
                for card in (CARDS + CARDS)[number % 3:][:2]:
                    with self.subTest(model=model.parent.name, card=card):
                        said = self.run_tool(PTXAS, "-v", f"-arch={card}", "-o", folder / "step.cubin",
                                             folder / "step.ptx")
                        spills = get_spills(said)
                        self.assertGreater(len(spills), 10)
                        # Sums of sums hold a few more values at once, outside of the innermost loop.
                        self.assertEqual({name: bytes for name, bytes in spills.items() if bytes > FEW_BYTES}, {})

    def test_spills_are_seen(self):
        # 300 values that live at once, in at most 32 registers.
        values = range(300)
        lines = [f"ld.global.b32 %r{i}, [%rd1+{4 * i}];" for i in values]
        lines += [f"st.global.b32 [%rd1+{1200 + 4 * i}], %r{i};" for i in reversed(values)]
        with tempfile.TemporaryDirectory() as name:
            file = pathlib.Path(name) / "many.ptx"
            file.write_text(".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry many(.param .u64 p)\n"
                            ".maxnreg 32\n{\n.reg .b32 %r<300>;\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [p];\n"
                            + "\n".join(lines) + "\nret;\n}\n")
            said = self.run_tool(PTXAS, "-v", "-arch=sm_80", "-o", pathlib.Path(name) / "many.cubin", file)
        self.assertGreater(get_spills(said)["many"], 0, said)


if __name__ == "__main__":
    unittest.main()
