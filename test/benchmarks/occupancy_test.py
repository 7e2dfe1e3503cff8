# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""benchmarks/occupancy.py beside numbers worked out by hand from the limits of compute capability 9.0.

FSDP_OCCUPANCY_MODEL names a traced step, FSDP_BIN the folder of fsdp-compile, FSDP_PTXAS the assembler: without it no step
is assembled.
"""
import os
import pathlib
import subprocess
import sys
import unittest

BENCHMARKS = pathlib.Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
import occupancy  # noqa: E402

SAID = """ptxas info    : Compiling entry function 'k1' for 'sm_90'
ptxas info    : Function properties for k1
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 2048 bytes smem
ptxas info    : Compiling entry function 'k2' for 'sm_90'
    8 bytes stack frame, 8 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 255 registers, used 0 barriers
"""


class Occupancy(unittest.TestCase):
    def test_limits(self):
        # 2048 threads; 32 registers are as many as they may have each.
        self.assertEqual(occupancy.resident(32, 0, 256), (64, "threads"))
        # 40 registers of 32 lanes are 1280 = 5 pieces of 256; 12 warps in each quarter of 16384, 48 in all: 6 blocks of 8.
        self.assertEqual(occupancy.resident(40, 0, 256), (48, "registers"))
        # 33 registers are given as 40.
        self.assertEqual(occupancy.resident(33, 0, 256), (48, "registers"))
        # 255 are 32 pieces: 2 warps in each quarter, 8 in all.
        self.assertEqual(occupancy.resident(255, 0, 128), (8, "registers"))
        # 48 KiB and 1 KiB: 4 blocks in 228 KiB.
        self.assertEqual(occupancy.resident(32, 48 * 1024, 128), (16, "shared memory"))
        # 75 KiB and 1: 3 in 228; a byte more takes 128, and only 2 fit.
        self.assertEqual(occupancy.resident(32, 75 * 1024, 128), (12, "shared memory"))
        self.assertEqual(occupancy.resident(32, 75 * 1024 + 1, 128), (8, "shared memory"))
        # 32 blocks of one warp.
        self.assertEqual(occupancy.resident(16, 0, 32), (32, "blocks"))

    def test_grids(self):
        self.assertEqual(occupancy.resident(32, 0, 256, grid=132), (8, "grid"))
        self.assertEqual(occupancy.resident(32, 0, 256, grid=133), (16, "grid"))
        self.assertEqual(occupancy.resident(32, 0, 256, grid=10_000), (64, "threads"))

    def test_what_the_assembler_says(self):
        self.assertEqual(occupancy.assembled(SAID), {"k1": (40, 0, 2048), "k2": (255, 24, 0)})

    def test_launches(self):
        self.assertEqual(occupancy.launched("cuda = #fsdp.cuda_code<[<@cuda_kernels::@k1_0, grid = 3, block = 128, shared = 0>, "
                                            "<@cuda_kernels::@k1_1, grid = 1, block = 64, shared = 9216>], traffic = 4>"),
                         [("k1_0", 3, 128, 0), ("k1_1", 1, 64, 9216)])

    @unittest.skipUnless(os.environ.get("FSDP_PTXAS"), "no ptxas")
    def test_a_step(self):
        done = subprocess.run([sys.executable, "-B", BENCHMARKS / "occupancy.py", os.environ["FSDP_OCCUPANCY_MODEL"], "--bin",
                               os.environ["FSDP_BIN"]], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        head, *rows = done.stdout.splitlines()
        self.assertTrue(head.startswith("function"))
        self.assertGreater(len(rows), 20)
        self.assertTrue(any("attention" in row for row in rows))
        for row in rows:
            self.assertEqual(row.split()[2], "0", row)


if __name__ == "__main__":
    unittest.main()
