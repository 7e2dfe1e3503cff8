# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""benchmarks/predict.py and sass.py beside numbers worked out by hand.

FSDP_PREDICT_TOOLS is set where there are ptxas and nvdisasm: without them nothing is compared with what a card measured.
"""
import contextlib
import io
import os
import pathlib
import sys
import unittest

BENCHMARKS = pathlib.Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
import predict  # noqa: E402
import sass  # noqa: E402

# As nvdisasm prints it: %d iterations, in each of which the address of a load is what the one before it loaded; 64-bit
# addresses by carries; a division's slow path behind an unknown predicate.
LOOP = """
k:
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/                   ULDC.64 UR4, c[0x0][0x210] ;
        /*0020*/                   MOV R5, RZ ;
        /*0030*/                   IMAD.WIDE.U32 R2, R0, 0x8, RZ ;
        /*0040*/                   IADD3 R2, P0, R2, UR4, RZ ;
        /*0050*/                   IADD3.X R3, R3, UR5, RZ, P0, !PT ;
.L_x_1:
        /*0060*/                   LDG.E.64 R6, desc[UR6][R2.64] ;
        /*0070*/                   IADD3 R5, R5, 0x1, RZ ;
        /*0080*/                   ISETP.GE.U32.AND P1, PT, R5, %s, PT ;
        /*0090*/                   IADD3 R2, R6, 0x0, RZ ;
        /*00a0*/              @!P1 BRA `(.L_x_1) ;
        /*00b0*/                   FSETP.GT.AND P2, PT, R6, RZ, PT ;
        /*00c0*/               @P2 BRA `(.L_x_2) ;
        /*00d0*/                   CALL.REL.NOINC `($__internal_0) ;
.L_x_2:
        /*00e0*/                   LDG.E.128 R8, desc[UR6][R2.64] ;
        /*00f0*/                   LDG.E.128 R12, desc[UR6][R2.64+0x100] ;
        /*0100*/                   FADD R8, R8, R12 ;
        /*0110*/                   ISETP.NE.U32.AND P3, PT, R0, 0x1, PT ;
        /*0120*/               @P3 EXIT ;
        /*0130*/                   STG.E desc[UR6][R2.64], R8 ;
        /*0140*/                   EXIT ;
$__internal_0:
        /*0150*/                   RET.REL.NODEC R20 `(k) ;
"""


def follow(iterations, thread=0):
    return sass.Kernel("k", LOOP % hex(iterations)).follow(grid=1, block=64, at=0, thread=thread, latency=500)


class Machine(unittest.TestCase):
    def test_instructions(self):
        # Six before the loop, five in it; comparison and branch, two loads, a sum, a comparison and the end.
        for iterations in (1, 10, 300):
            self.assertEqual(follow(iterations).instructions, 6 + 5 * iterations + 7)
        # The thread that does not end there stores.
        self.assertEqual(follow(10, thread=1).instructions, 6 + 5 * 10 + 9)

    def test_loads_that_wait_for_each_other(self):
        # One in each iteration, and two side by side behind the loop.
        self.assertEqual(follow(10).waits, 10 + 1)
        self.assertGreater(follow(300).length, 300 * 500)
        self.assertLess(follow(300).length, 305 * 500)

    def test_units(self):
        cycles = follow(10).cycles
        # Loads of 64 and of 128 bits: a quarter of 32 lanes a cycle, of 4 bytes each.
        self.assertEqual(cycles["memory"], 10 * 8 + 2 * 16)
        # In the loop two sums and a comparison; a move, two sums and two comparisons around it, two cycles each.
        self.assertEqual(cycles["alu"], 2 * (10 * 3 + 5))
        # A product of integers takes two.
        self.assertEqual(cycles["fma"], 2 + 1)

    def test_arithmetic(self):
        body = """k:
        /*0000*/ MOV R1, 0x80000001 ;
        /*0010*/ SHF.R.S32.HI R2, RZ, 0x1f, R1 ;
        /*0020*/ LEA.HI R3, R2, R1, RZ, 0x3 ;
        /*0030*/ LOP3.LUT R4, R1, 0xff, RZ, 0xc0, !PT ;
        /*0040*/ IMAD.HI.U32 R5, R1, 0x4, RZ ;
        /*0050*/ IADD3 R6, P0, -R1, 0x5, RZ ;
        /*0060*/ IADD3.X R7, RZ, ~R2, RZ, P0, !PT ;
        /*0070*/ PLOP3.LUT P1, PT, P0, PT, PT, 0x8, 0x0 ;
        /*0080*/ SEL R8, R1, R4, P1 ;
        /*0090*/ PRMT R9, R1, 0x7632, R4 ;
        /*00a0*/ HFMA2.MMA R10, -RZ, RZ, 0.61474609375, 16.90625 ;
"""
        kernel = sass.Kernel("k", body)
        state = sass.Thread({}, {})
        kernel.step(state, 500)
        self.assertEqual([state.values[f"R{i}"] for i in range(2, 11)],
                         [0xffffffff, 0x80000001 + 7, 1, 2, (5 - 0x80000001) & 0xffffffff, 0, 0x80000001, 0x8000, 0x38eb4c3a])
        self.assertEqual((state.values["P0"], state.values["P1"]), (0, 1))

    def test_an_unknown_branch_is_counted(self):
        self.assertEqual(follow(10).unknown, 1)


class Model(unittest.TestCase):
    def test_what_bounds_a_launch(self):
        kernel = sass.Kernel("k", LOOP % hex(300))
        kernel.registers = 32
        # Few blocks: one after another waits for memory, whatever their number.
        for grid in (1, 132):
            seconds = predict.Function(kernel, grid, 64, 0).seconds(1000)
            self.assertEqual(max(seconds, key=seconds.get), "latency")
            self.assertAlmostEqual(seconds["latency"] * predict.CLOCK, 301 * predict.LATENCY, delta=5000)
        # 32 blocks are resident, so 33 take two rounds.
        at_once = predict.Function(kernel, 132 * 32, 64, 0).seconds(1000)["latency"]
        self.assertEqual(predict.Function(kernel, 132 * 33, 64, 0).seconds(1000)["latency"], 2 * at_once)
        # A block's multiprocessor has a part of the memory's rate.
        self.assertAlmostEqual(predict.Function(kernel, 8, 64, 0).seconds(16 << 20)["memory"], 16.04e-6)

    def test_products(self):
        whole = predict.product_seconds(8192, 50256, 768)
        cut = predict.product_seconds(8192, 50257, 768)
        # A column more: a pass over the factor.
        self.assertAlmostEqual(cut - whole, 8192 * 768 * 2 / predict.BANDWIDTH + predict.GAP
                               + 2 * 8192 * 768 / predict.PRODUCT_RATE, delta=1e-12)

    def test_constants_are_those_of_the_log(self):
        log = predict.LOG.read_text()
        for line in ("NVIDIA H200, 580.159.04, 143771 MiB, 1980 MHz, 3201 MHz", "colsum          16.04 us",
                     "graph: host 3.8 us a launch, all 308.4 us a step", "eager: host 1445.5 us a step",
                     "861.0 us (  735 TF/s)"):
            self.assertIn(line, log)

    def test_classes(self):
        def of(name, function=None, kind="elementwise or reduction", grid=1000):
            return predict.classify({"name": name, "kind": kind}, function or name, grid,
                                    {"k1_reduce": (3, {8}), "k2_reduce": (0, {4096 * 1001})}, 4096 * 1000)
        self.assertEqual(of("k1_reduce"), "optimizer")
        self.assertEqual(of("k2_reduce"), "cross entropy")
        self.assertEqual(of("k3_reduce"), "norms and sums")
        self.assertEqual(of("k3_reduce", grid=131), "small sums")
        self.assertEqual(of("k4_for", grid=6), "embedding gradient")
        self.assertEqual(of("k5_attention_backward", "k5_attention_backward_dq"), "attention dq")
        self.assertEqual(of("k6_matmul", kind="product 8 x 8 x 8, bf16"), "products")

    @unittest.skipUnless(os.environ.get("FSDP_PREDICT_TOOLS"), "no ptxas, or no nvdisasm")
    def test_what_a_card_measured(self):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            self.assertEqual(predict.check(0.1), 0)
        self.assertEqual(len(said.getvalue().splitlines()), 15)
        with contextlib.redirect_stdout(said):
            self.assertGreater(predict.check(0.01), 0)
        self.assertIn("beyond the limit", said.getvalue())


if __name__ == "__main__":
    unittest.main()
