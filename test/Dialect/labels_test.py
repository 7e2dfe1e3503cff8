#===- labels_test.py - The label check must be able to fail ---------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Breaks a small tree in each way that labels.py must notice."""

import tempfile
import unittest
from pathlib import Path

import labels

TREE = {
    "include/fsdp/Ops.td": "    - op_c1: it is so.\n    - op_c2: a type.\n"
                           "  let arguments = (ins I1:$x); // op_c2\n",
    "include/fsdp/Contract.h": "// - input_c1: there is a step.\n",
    "lib/Ops.cpp": "  // op_c1\n",
    "passes/Verify.cpp": '  error("input_c1: expected");\n',
    "docs/spec.md": "- `op_c1`: it is so.\n- `op_c2`: a type.\n",
    "docs/input-contract.md": "- `input_c1`: there is a step.\n",
    "lit-tests/ops.mlir": "// op_c1\n// expected-error @below {{x}}\n// -----\n"
                          "  // op_c2\n// expected-error @below {{y}}\n",
    "lit-tests/input.mlir":
        "// input_c1\n// expected-error @below {{input_c1: z}}\n",
}


class LabelsTest(unittest.TestCase):
    def complaints(self, **changes):
        """What is said of the tree with `file=(old, new)` replaced."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in TREE.items():
                if name in changes:
                    old, new = changes[name]
                    self.assertIn(old, text)
                    text = text.replace(old, new)
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return labels.check(Path(folder))

    def expect(self, name, old, new, complaint):
        complaints = "\n".join(self.complaints(**{name: (old, new)}))
        self.assertIn(complaint, complaints)

    def test_in_step(self):
        self.assertEqual(self.complaints(), [])

    def test_not_checked(self):
        self.expect("lib/Ops.cpp", "// op_c1", "", "op_c1: expected a check")

    def test_type_not_marked(self):
        self.expect("include/fsdp/Ops.td", "// op_c2", "",
                    "op_c2: expected a check")

    def test_not_documented(self):
        self.expect("docs/spec.md", "`op_c1`", "op",
                    "op_c1: expected it in docs/spec.md")

    def test_documented_elsewhere(self):
        self.expect("docs/input-contract.md", "`input_c1`", "the rule",
                    "input_c1: expected it in docs/input-contract.md")

    def test_not_tested(self):
        self.expect("lit-tests/ops.mlir", "  // op_c2\n", "",
                    "op_c2: expected one test, got none")

    def test_tested_twice(self):
        self.expect("lit-tests/ops.mlir", "// op_c2", "// op_c1",
                    "op_c1: expected one test, got lit-tests/ops.mlir:1, "
                    "lit-tests/ops.mlir:4")

    def test_without_an_error(self):
        self.expect("lit-tests/ops.mlir", "// expected-error @below {{y}}", "",
                    "lit-tests/ops.mlir:4: expected the test of op_c2")

    def test_with_the_error_of_another_rule(self):
        self.expect("lit-tests/input.mlir", "{{input_c1", "{{input_c2",
                    "expected the test of input_c1")

    def test_declared_twice(self):
        self.expect("include/fsdp/Ops.td", "- op_c2: a", "- op_c1: a",
                    "op_c1: expected one declaration")

    def test_declared_nowhere(self):
        for name, old, new in (
                ("lib/Ops.cpp", "// op_c1", "// op_c1, op_c9"),
                ("docs/spec.md", "`op_c1`", "`op_c1` and `op_c9`"),
                ("lit-tests/ops.mlir", "// op_c1\n", "// op_c1\n// op_c9\n")):
            self.expect(name, old, new, "got op_c9, which is declared nowhere")


if __name__ == "__main__":
    unittest.main()
