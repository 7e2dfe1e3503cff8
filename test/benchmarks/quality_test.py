# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tools that measure schedules and arenas measure what they are asked to, or say why not."""
import os
import pathlib
import re
import subprocess
import unittest

FIXTURES = pathlib.Path(os.environ["FSDP_FIXTURES"])


def execute(tool, *words):
    return subprocess.run([os.environ[tool], *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=60)


class Schedules(unittest.TestCase):
    def test_only_positive_numbers_of_problems(self):
        for word in ("abc", "0", "-1", "", "3x", "1.5", "99999999999"):
            with self.subTest(word=word):
                outcome = execute("FSDP_SCHEDULE_QUALITY", word)
                self.assertEqual((outcome.returncode, outcome.stdout), (2, ""))
                self.assertEqual(outcome.stderr, f"error: expected a positive number of problems, got '{word}'\n")
        outcome = execute("FSDP_SCHEDULE_QUALITY", 1, 2)
        self.assertEqual(outcome.returncode, 2)
        self.assertIn("expected at most a number of problems, got 2 arguments", outcome.stderr)

    def test_a_few_problems(self):
        outcome = execute("FSDP_SCHEDULE_QUALITY", 2)
        found = re.findall(r"(\d+) (steps.*) compared with the exact search: (\d+) over", outcome.stdout)
        self.assertEqual([row[1] for row in found],
                         ["steps", "steps with latencies", "steps with copies", "steps with contention",
                          "steps with contention and latencies", "steps with contention and copies"],
                         outcome.stdout)
        for compared, _, _ in found:
            self.assertGreater(int(compared), 0)
        self.assertEqual(outcome.returncode, 0, outcome.stdout)


class Arenas(unittest.TestCase):
    def test_options_are_known(self):
        for words, why in ((["--order", "fsdp"], "expected --mesh, folders and models, got '--order'"),
                           (["-h"], "expected --mesh, folders and models, got '-h'"),
                           (["--mesh"], "expected a mesh behind --mesh, got none")):
            with self.subTest(words=words):
                outcome = execute("FSDP_ARENA_QUALITY", *words)
                self.assertEqual((outcome.returncode, outcome.stdout), (2, ""))
                self.assertEqual(outcome.stderr, f"error: {why}\n")

    def test_what_cannot_be_read_is_said_once(self):
        outcome = execute("FSDP_ARENA_QUALITY", "/nonexistent.mlir", FIXTURES / "gpt2", "--mesh", "shard=2", "--mesh",
                          "shard=4")
        self.assertEqual(outcome.returncode, 1)
        self.assertEqual(outcome.stderr.count("nonexistent.mlir"), 1, outcome.stderr)
        self.assertEqual(outcome.stderr.count("error: "), 1, outcome.stderr)
        # The other is measured.
        self.assertEqual(len(re.findall(r"^gpt2 .* shard=\d .* ms$", outcome.stdout, re.MULTILINE)), 8, outcome.stdout)

    def test_a_mesh_that_cannot_be_is_said_once_a_model(self):
        outcome = execute("FSDP_ARENA_QUALITY", FIXTURES / "gpt2", "--mesh", "shard=x", "--mesh", "shard=2")
        self.assertEqual(outcome.returncode, 1)
        self.assertEqual(outcome.stderr.count("shard=x"), 1, outcome.stderr)
        self.assertEqual(len(re.findall(r"^gpt2 .* shard=2 .* ms$", outcome.stdout, re.MULTILINE)), 4, outcome.stdout)


if __name__ == "__main__":
    unittest.main()
