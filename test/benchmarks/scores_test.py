# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""benchmarks/scores.py on machine code as nvdisasm prints it: of a loop's paths the one that copies by 16 bytes counts.

Standard library only.
"""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))
import scores  # noqa: E402

# A loop of two products, before them 16 bytes or a loop over elements, after them perhaps a mask; behind it a store.
CODE = """
        /*0000*/                   S2R R0, SR_TID.X ;
.L_x_0:
        /*0010*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0020*/              @!P0 BRA `(.L_x_2) ;
        /*0030*/                   LDGSTS.E.BYPASS.128 [R2], desc[UR4][R4.64] ;
        /*0040*/                   BRA `(.L_x_3) ;
.L_x_2:
        /*0050*/                   LDG.E.U16 R6, desc[UR4][R4.64] ;
        /*0060*/               @P1 BRA `(.L_x_2) ;
.L_x_3:
        /*0070*/                   HMMA.16816.F32.BF16 R8, R8, R4, RZ ;
        /*0080*/               @P2 BRA `(.L_x_4) ;
        /*0090*/                   FSEL R8, R8, -INF , P3 ;
        /*00a0*/                   FSEL R9, R9, -INF , P3 ;
.L_x_4:
        /*00b0*/                   MUFU.EX2 R8, R8 ;
        /*00c0*/                   HMMA.16816.F32.BF16 R8, R8, R4, R8 ;
        /*00d0*/               @P4 BRA `(.L_x_0) ;
        /*00e0*/                   STG.E desc[UR4][R4.64], R8 ;
        /*00f0*/                   EXIT ;
.L_x_5:
        /*0100*/                   BRA `(.L_x_5);
"""


class ScoresTest(unittest.TestCase):
    def test_path(self):
        (loop,) = scores.loops_of(scores.blocks_of(CODE))
        self.assertEqual([one.split()[0 if one[0] != "@" else 1].split(".")[0] for one in loop],
                         ["BAR", "BRA", "LDGSTS", "BRA", "HMMA", "BRA", "MUFU", "HMMA", "BRA"])
        self.assertEqual(2, scores.count(loop, scores.KINDS["hmma"]))

    def test_functions(self):
        found = scores.attentions("func.func private @a(%q: tensor<f32>) {\n  %0 = fsdp.attention <batch = [2, 3], queries = 4, "
                                  "keys = 5, head = 64, value = 32>\nfunc.func private @b(\n  %1:3 = fsdp.attention_backward "
                                  "<batch = [2], queries = 4, keys = 5, head = 64, value = 32>\n")
        self.assertEqual({"a": ("forward", 64, 32), "b_dq": ("dq", 64, 32), "b_dkdv": ("dkdv", 64, 32)}, found)
        self.assertEqual([96, 160, 192], [scores.products(kind, 64, 32) for kind in ("forward", "dq", "dkdv")])


if __name__ == "__main__":
    unittest.main()
