#!/usr/bin/env python3
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Installs the build, moves the tree elsewhere, and uses it from there: the
compiler, the plugin, the C library, and a foreign compiler's CMake project."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

ARGS = None


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}\nexit status "
                             f"{done.returncode}\n{done.stdout}")
    return done.stdout


class Install(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        # Always the same place, so that a compiler cache knows it again.
        cls.dir = ARGS.scratch / "tree"
        shutil.rmtree(cls.dir, ignore_errors=True)
        cls.dir.mkdir(parents=True)
        run(ARGS.cmake, "--install", ARGS.build, "--prefix", cls.dir / "first")
        cls.prefix = cls.dir / "elsewhere" / "moved"
        cls.prefix.parent.mkdir()
        (cls.dir / "first").rename(cls.prefix)
        cls.bin = cls.prefix / "bin"
        # The directory of libraries is named by the one who installs.
        cls.lib = next(cls.prefix.rglob("libfsdp-rt.a")).parent

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir)

    def compile_step(self, fixture, kind, output):
        folder = ARGS.fixtures / fixture
        run(self.bin / "fsdp-compile", folder / "model.mlir",
            "--optimizer-file", folder / "optimizer.mlir", "--mesh", "shard=2",
            "--emit", kind, "-o", output)

    def check_trains(self, fixture, *launcher):
        folder = ARGS.fixtures / fixture
        metrics = self.dir / "metrics.jsonl"
        run(*launcher, "-n", 2, "--threads", 1, "--params",
            folder / "params.safetensors", "--data",
            folder / "batches.safetensors", "--steps", 3, "--metrics", metrics,
            "--quiet")
        losses = [json.loads(line)["loss"]
                  for line in metrics.read_text().splitlines()]
        metrics.unlink()
        expected = json.loads((folder / "expect.json").read_text())["loss"]["2"]
        self.assertEqual(len(losses), 3)
        for got, want in zip(losses, expected):
            self.assertAlmostEqual(got, want, delta=1e-4 * abs(want))

    def test_compiles_and_runs(self):
        self.compile_step("gpt2", "exe", self.dir / "train-gpt2")
        self.check_trains("gpt2", self.dir / "train-gpt2")

    def test_library_runs(self):
        library = self.dir / "libgpt2.so"
        self.compile_step("gpt2", "so", library)
        # With the moved runtime, not with the one that was built.
        self.assertIn(f"libfsdp-rt.so.1 => {self.lib}/", run("ldd", library))
        self.check_trains("gpt2", self.bin / "fsdp-run", library)

    def test_programs_run_with_older_libraries(self):
        """Those of RHEL 9 and Ubuntu 22.04: glibc 2.34, and any C++ library."""
        self.compile_step("mixed", "exe", self.dir / "train-mixed")
        self.compile_step("mixed", "so", self.dir / "libmixed.so")
        for file in (self.dir / "train-mixed", self.dir / "libmixed.so",
                     self.bin / "fsdp-run", self.lib / "libfsdp-rt.so.1"):
            text = run("readelf", "--wide", "--dynamic", "--version-info", file)
            self.assertNotIn("libstdc++", text, file)
            self.assertNotIn("GLIBCXX", text, file)
            versions = re.findall(r"GLIBC_2\.(\d+)", text)
            self.assertTrue(versions, file)
            self.assertLessEqual(max(map(int, versions)), 34, file)
            # A marker of glibc 2.36.
            self.assertNotIn("GLIBC_ABI_DT_RELR", text, file)

    def test_plans_for_installed_clusters(self):
        text = run(self.bin / "fsdp-plan",
                   ARGS.fixtures / "mixed" / "model.mlir", "--mesh", "shard=8",
                   "--cluster", "h100-sxm")
        self.assertRegex(text, r"step \d+\.\d+ ms, bound \d+\.\d+ ms")

    def test_needs_nothing_from_the_build(self):
        checked = 0
        for file in [*self.bin.iterdir(), *self.lib.glob("*.so")]:
            self.assertNotIn(str(ARGS.build), run("readelf", "-d", file))
            self.assertNotIn("not found", run("ldd", file))
            checked += 1
        self.assertGreater(checked, 5)
        for file in self.prefix.rglob("*"):
            if file.suffix in (".cmake", ".pc", ".h", ".inc"):
                text = file.read_text()
                self.assertNotIn(str(ARGS.build), text, file)
                self.assertNotIn(str(ARGS.source), text, file)

    def test_missing_runtime_is_an_error(self):
        alone = self.dir / "alone" / "bin"
        alone.mkdir(parents=True)
        shutil.copy(self.bin / "fsdp-compile", alone)
        done = subprocess.run(
            [alone / "fsdp-compile", ARGS.fixtures / "mixed" / "model.mlir",
             "-o", alone / "x"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("error: expected libfsdp-rt.a in ", done.stderr)
        self.assertFalse((alone / "x").exists())

    def test_plugin(self):
        text = run(ARGS.mlir_opt,
                   f"--load-dialect-plugin={self.lib / 'FSDPPlugin.so'}",
                   "--pass-pipeline=builtin.module(fsdp-partition{mesh=shard=2})",
                   ARGS.fixtures / "mixed" / "model.mlir")
        self.assertIn("fsdp.all_gather", text)

    def test_editor_tools_start(self):
        for tool in ("fsdp-lsp-server", "fsdp-reduce", "fsdp-opt"):
            self.assertIn("USAGE", run(self.bin / tool, "--help"))

    @unittest.skipUnless(shutil.which("pkg-config"), "no pkg-config here")
    def test_pkg_config(self):
        folder = self.dir / "pkg-config"
        folder.mkdir()
        self.compile_step("mixed", "so", folder / "libstep.so")
        flags = run("pkg-config", "--cflags", "--libs", "fsdp-rt", env={
            **os.environ, "PKG_CONFIG_PATH": str(self.lib / "pkgconfig")})
        source = ARGS.source / "test" / "consumer" / "Session.c"
        run(ARGS.cc, source, "-I", folder, folder / "libstep.so",
            *flags.split(), "-Wl,-rpath,$ORIGIN", "-o", folder / "session")
        run(folder / "session")

    def configure(self, source, build, *options):
        return run(ARGS.cmake, "-G", ARGS.generator, "-S", source, "-B", build,
                   f"-DCMAKE_PREFIX_PATH={self.prefix}",
                   "-DCMAKE_BUILD_TYPE=Release", *options)

    def test_documented_commands(self):
        """Every command of the docs, in their order, test/consumer among
        them: another compiler, with a dialect of its own."""
        root = self.dir / "root"
        root.mkdir()
        (root / "test").symlink_to(ARGS.source / "test")
        (root / "tools").symlink_to(ARGS.source / "tools")
        (root / "build").symlink_to(ARGS.build)
        path = f"{self.bin}:{os.environ['PATH']}"
        environment = {**os.environ, "PREFIX": str(self.prefix), "PATH": path,
                       "CMAKE_GENERATOR": ARGS.generator,
                       "CMAKE_CXX_COMPILER_LAUNCHER": ARGS.launcher}
        text = ""
        for page, blocks in [("plugin.md", 6), ("shared-library.md", 4)]:
            commands = re.findall(r"^```sh\n(.*?)^```", (
                ARGS.source / "docs" / page).read_text(), re.M | re.S)
            self.assertEqual(len(commands), blocks)
            for command in commands:
                text += run("bash", "-euo", "pipefail", "-c", command,
                            cwd=root, env=environment)
        self.assertIn("100% tests passed, 0 tests failed out of 2", text)
        self.assertIn("step: 3 loss: ", text)
        for file, what in [("partitioned.mlir", "fsdp.reduce_scatter"),
                           ("hybrid.mlir", "fsdp.all_reduce"),
                           ("step.ll", "call i32 @fsdp_rt_start")]:
            self.assertIn(what, (root / file).read_text())

    def test_runtime_without_mlir(self):
        """A program that only runs steps asks for the runtime alone."""
        project = self.dir / "runtime-only"
        project.mkdir()
        (project / "CMakeLists.txt").write_text("""
cmake_minimum_required(VERSION 3.20)
project(runtime-only LANGUAGES C CXX)
find_package(FSDP REQUIRED COMPONENTS Runtime)
foreach(kind Runtime RuntimeStatic)
  add_executable(use-${kind} use.c)
  target_link_libraries(use-${kind} PRIVATE FSDP::${kind})
  set_target_properties(use-${kind} PROPERTIES LINKER_LANGUAGE CXX)
endforeach()
if(TARGET MLIR)
  message(FATAL_ERROR "MLIR was looked for")
endif()
""")
        (project / "use.c").write_text("""
#include "fsdp-rt/fsdp-rt.h"
int main(void) {
  fsdp_session *session;
  return fsdp_create(0, 0, &session) == FSDP_OK;
}
""")
        build = self.dir / "runtime-only-build"
        self.configure(project, build,
                       "-DCMAKE_DISABLE_FIND_PACKAGE_MLIR=ON")
        run(ARGS.cmake, "--build", build)
        run(build / "use-Runtime")
        run(build / "use-RuntimeStatic")

    def test_unknown_component(self):
        project = self.dir / "unknown"
        project.mkdir()
        (project / "CMakeLists.txt").write_text("""
cmake_minimum_required(VERSION 3.20)
project(unknown LANGUAGES C CXX)
find_package(FSDP REQUIRED COMPONENTS Engine)
""")
        with self.assertRaisesRegex(AssertionError, r"got\s+Engine"):
            self.configure(project, self.dir / "unknown-build")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("source", "build", "fixtures", "scratch"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    for name in ("cmake", "ctest", "generator", "mlir-opt"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--launcher", default="")
    parser.add_argument("--cc", default="cc")
    ARGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
