#!/usr/bin/env python3
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""That named_tests.py finds what it is there to find: each breach, put into a small tree that keeps every rule."""

import pathlib
import tempfile
import unittest

from named_tests import check

TREE = {
    "test/data/StateTest.cpp":
        "TEST(State, IsSaved) {}\nTEST_F(StateTest,\n       IsRead) {}  // pytorch/pytorch#12\n",
    "test/parity/bits_test.py": "class Bits(StepTest):\n    def test_orders(self):\n        pass\n",
    "tools/fsdp-export/tests/test_inputs.py": "def test_bounds():\n    pass\n",
    "test/walls/CMakeLists.txt": "add_test(NAME walls\n  COMMAND x)\nadd_test(NAME plan.${name} COMMAND x)\n",
    "lit-tests/Pipelines/counts.test": "RUN: true\n",
    "include/fsdp/Passes/Pipelines.h": 'Option<bool> clip{*this, "clip-norm", ..};\n',
    "docs/semantics.md": """\
| a | here |
|---|---|
| untested | |

| | FSDP | here | tests |
|---|---|---|---|
| A1 | sharding | have: `--clip-norm=a\\|b` <!-- later: --option --> | `State.IsSaved`, `Pipelines/counts.test` |
| A2 | hooks | cannot arise: no hooks | |
| A3 | order | differs: compiled | `Bits.test_orders`, `test_inputs.py::test_bounds`, `walls` |

| pytorch | here | tests |
|---|---|---|
| #12 | have | `StateTest.IsRead` |
""",
    "docs/from-pytorch.md": "| argument | here | tests |\n|---|---|---|\n| `x` | not: nobody needs it | |\n",
}


class NamedTestsTest(unittest.TestCase):
    def complaints(self, old="", new="", file="docs/semantics.md"):
        """What is said of the tree with @old replaced in @file."""
        self.assertIn(old, TREE[file])
        with tempfile.TemporaryDirectory() as folder:
            for name, text in TREE.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text.replace(old, new) if name == file and old else text)
            return check(pathlib.Path(folder))

    def test_a_tree_that_keeps_the_rules(self):
        self.assertEqual(self.complaints(), ([], 5))

    def expect(self, line, what, *change):
        self.assertEqual(self.complaints(*change)[0], [f"docs/semantics.md:{line}: {what}"])

    def test_tests_that_are_gone(self):
        for line, name in ((7, "State.IsSaved"), (7, "Pipelines/counts.test"), (9, "Bits.test_orders"),
                           (9, "test_inputs.py::test_bounds"), (9, "walls")):
            with self.subTest(name=name):
                self.expect(line, f"expected a test that there is, got '{name}x'", f"`{name}`", f"`{name}x`")

    def test_names_that_are_patterns(self):
        self.expect(9, "expected a test that there is, got 'plan.${name}'", "`walls`", "`plan.${name}`")

    def test_rows_without_tests_or_reasons(self):
        self.expect(9, "expected a test, got none", "`Bits.test_orders`, `test_inputs.py::test_bounds`, `walls`", "")
        self.expect(8, "expected a reason or a test, got neither", ": no hooks", "")
        self.expect(8, "expected have, differs, not or cannot arise first, got 'nothing: no hooks'",
                    "cannot arise", "nothing")
        self.expect(9, "expected names of tests between backquotes and commas, got '`Bits.test_orders`, and more'",
                    "`test_inputs.py::test_bounds`, `walls`", "and more")

    def test_options_that_are_gone(self):
        self.expect(7, "expected an option that there is, got '--clip-norm'", '"clip-norm"', '"clip"',
                    "include/fsdp/Passes/Pipelines.h")

    def test_rows_that_are_broken(self):
        self.expect(7, "expected 4 cells, got 5", "a\\|b", "a|b")

    def test_bugs_without_a_test_that_names_them(self):
        self.expect(13, "expected a test whose file names pytorch/pytorch#1, got none", "| #12 |", "| #1 |")


if __name__ == "__main__":
    unittest.main()
