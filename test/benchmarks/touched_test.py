#===- touched_test.py - What a change touches is counted ------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""benchmarks/touched.py on a repository of two commits."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "touched.py"


class Touched(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.git("init", "-q")
        self.write("lib/Old.cpp", "docs/old.md", "runtime/devices/new/Before.cpp")
        self.write("lib/Old.cpp", "lib/New.cpp", "lit-tests/New.mlir", "test/New.cpp", "docs/old.md", "README.md",
                   "runtime/devices/new/Device.cpp", "tools/fsdp-export/tests/test_new.py")

    def git(self, *args):
        identity = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
                    "GIT_COMMITTER_EMAIL": "a@b", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        subprocess.run(["git", "-C", self.directory.name, *args], check=True, env={**os.environ, **identity})

    def write(self, *paths):
        for path in paths:
            file = Path(self.directory.name, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text((file.read_text() if file.exists() else "") + "line\n")
        self.git("add", "-A")
        self.git("commit", "-qm", "change")

    def run_script(self, *args):
        return subprocess.run([sys.executable, "-B", SCRIPT, "-C", self.directory.name, *args],
                              capture_output=True, text=True)

    def test_tests_and_documentation_do_not_count(self):
        for commits in ("HEAD^..HEAD", "HEAD^..", "HEAD^"):
            done = self.run_script(commits)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout, "A lib/New.cpp\nM lib/Old.cpp\nA runtime/devices/new/Device.cpp\n"
                             "3 files (lib 2, runtime 1), and 5 of tests, documentation and its own\n")

    def test_own_folders_do_not_count(self):
        done = self.run_script("HEAD^..HEAD", "--own", "runtime/devices/new/", "--own", "lib/New.cpp")
        self.assertEqual(done.stdout.splitlines()[0], "M lib/Old.cpp")
        self.assertTrue(done.stdout.splitlines()[1].startswith("1 files (lib 1), and 7 of"), done.stdout)
        # A folder is no prefix of another one's name.
        self.assertIn("runtime/devices/new", self.run_script("HEAD^..", "--own", "runtime/devices/ne").stdout)

    def test_more_than_allowed_fails(self):
        self.assertEqual(self.run_script("HEAD^..HEAD", "--at-most", "3").returncode, 0)
        done = self.run_script("HEAD^..HEAD", "--at-most", "2")
        self.assertEqual(done.returncode, 1)
        self.assertIn("expected at most 2 files, got 3", done.stderr)

    def test_unknown_commits_are_named(self):
        done = self.run_script("nowhere..HEAD")
        self.assertEqual(done.returncode, 1)
        self.assertIn("expected a range of commits, got nowhere..HEAD", done.stderr)


if __name__ == "__main__":
    unittest.main()
