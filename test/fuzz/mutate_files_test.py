#===- mutate_files_test.py - What mutate_files.py finds --------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""That the test can fail: it tells a crash, a fault that is said, silence and a
hang from an error; and that a seed makes the same file again."""

import random
import sys
import unittest

import mutate_files


class Judging(unittest.TestCase):

    def test_ends(self):
        self.assertEqual("", mutate_files.judge(0, ""))
        self.assertEqual("", mutate_files.judge(1, "x.mlir:1:1: error: no"))
        for status in (2, -11, 139, 134):
            self.assertIn(str(status), mutate_files.judge(status, "error: no"))
        self.assertIn("said", mutate_files.judge(1, ""))
        self.assertIn("seconds", mutate_files.judge(None, ""))
        self.assertIn("dump", mutate_files.judge(1, "error\nStack dump:"))

    def test_runs(self):
        def python(code):
            return mutate_files.judge(
                *mutate_files.run([sys.executable, "-c", code]))
        self.assertEqual("", python("pass"))
        self.assertIn("-11", python("import os; os.kill(os.getpid(), 11)"))
        self.addCleanup(setattr, mutate_files, "SECONDS", mutate_files.SECONDS)
        mutate_files.SECONDS = 1
        self.assertIn("1 seconds", python("import time; time.sleep(60)"))


class Mutating(unittest.TestCase):

    def test_changes(self):
        text = 'func.func @f(%a: tensor<4xf32>) {\n  return "x"\n}\n' * 3
        for mutate, data in ((mutate_files.mutate_text, text),
                             (mutate_files.mutate_bytes, text.encode())):
            made = [mutate(data, random.Random(seed)) for seed in range(50)]
            self.assertEqual(made, [mutate(data, random.Random(seed))
                                    for seed in range(50)])
            self.assertGreater(len(set(made)), 20)


if __name__ == "__main__":
    unittest.main()
