# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fault injection says how many mutants there were, and gives the same numbers to machines."""
import json
import os
import re
import subprocess
import tempfile
import unittest


class Mutants(unittest.TestCase):
    def test_counts_are_printed_and_recorded(self):
        with tempfile.NamedTemporaryFile(suffix=".json") as record:
            outcome = subprocess.run([os.environ["FSDP_SCHEDULE_TEST"], "--gtest_filter=*Mutants.*",
                                      f"--gtest_output=json:{record.name}"], capture_output=True, text=True, check=True)
            tests = [test for suite in json.load(record)["testsuites"] for test in suite["testsuite"]]
        found = re.findall(r"^(\d+) mutants, (\d+) harmful, (\d+) harmless, (\d+) rejected, (\d+) accepted$",
                           outcome.stdout, re.MULTILINE)
        self.assertEqual(len(found), 1, outcome.stdout)
        mutants, harmful, harmless, rejected, accepted = map(int, found[0])
        self.assertEqual(mutants, harmful + harmless)
        self.assertEqual((rejected, accepted), (harmful, harmless))
        self.assertGreater(mutants, 18000)
        properties = next(test for test in tests if "mutants" in test)
        self.assertEqual([int(properties[name]) for name in ("mutants", "harmful", "harmless", "rejected", "accepted")],
                         [mutants, harmful, harmless, rejected, accepted])
        found = re.findall(r"^(\d+) mutants_of_one_rank, (\d+) harmful, (\d+) harmless, (\d+) with_another_hash, "
                           r"(\d+) rewritten_with_the_same$", outcome.stdout, re.MULTILINE)
        self.assertEqual(len(found), 1, outcome.stdout)
        mutants, harmful, harmless, refused, _ = map(int, found[0])
        self.assertEqual(mutants, harmful + harmless)
        self.assertGreater(mutants, 2000)
        self.assertGreaterEqual(refused, harmful)


if __name__ == "__main__":
    unittest.main()
