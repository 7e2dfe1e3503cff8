# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random numbers of steps, on processors and on an emulated device, beside Philox4x32-10 in Python.

Elements are those of docs/random.md, for every kind, shape, step, micro-batch, rank and seed; a resumed run draws what one
that went through draws.

FSDP_BIN names the folder of fsdp-compile, FSDP_LLVM that of LLVM's tools, FSDP_CUDA_LIBS that of the emulated driver.
Standard library only.
"""
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "Kernels"))
from step import Step, Value, count  # noqa: E402
from toolchain import Tools, read_safetensors, write_safetensors  # noqa: E402

BIN = pathlib.Path(os.environ["FSDP_BIN"])
DEVICES = ("cpu", "cuda")
MASK = 0xffffffff


def philox(counter, key):
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = (b >> 32 ^ counter[1] ^ key[0], b & MASK, a >> 32 ^ counter[3] ^ key[1], a & MASK)
        key = (key[0] + 0x9E3779B9 & MASK, key[1] + 0xBB67AE85 & MASK)
    return counter


def words(number, site, step, rank=0, micro=0, seed=0):
    """Of the first `number` elements."""
    drawn = []
    for block in range((number + 3) // 4):
        drawn += philox((block & MASK, block >> 32 | rank << 8, site | micro << 16, step), (seed & MASK, seed >> 32))
    return drawn


def draw(kind, number, **place):
    drawn = words(number, **place)
    if kind == "bits":
        return [word - (word >> 31 << 32) for word in drawn[:number]]
    if kind == "uniform":
        return [(word >> 8) * 2.0 ** -24 for word in drawn[:number]]
    normals = []
    for first, second in zip(drawn[::2], drawn[1::2]):
        radius = math.sqrt(-2 * math.log(((first >> 8) + 1) * 2.0 ** -24))
        angle = 2 * math.pi * (second >> 8) * 2.0 ** -24
        normals += [radius * math.cos(angle), radius * math.sin(angle)]
    return normals[:number]


def ordinal(value):
    """Floats of 32 bits in their order, as integers."""
    bits = struct.unpack("<i", struct.pack("<f", value))[0]
    return bits if bits >= 0 else -(bits & 0x7fffffff)


class Random(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="fsdp-random-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.tools = Tools(BIN, pathlib.Path(os.environ["FSDP_LLVM"]))
        self.saves = 0

    def compile(self, step, ranks=1, targets=DEVICES, options=(), mesh=None):
        step.finish()
        return self.tools.compile(step, ranks, self.folder, targets, options, mesh)

    def add_parameter(self, step):
        """A step trains something."""
        step.gradient(step.param((4,)), step.input((4,)))

    def run_program(self, program, step, device, *arguments, ranks=1, steps=1, fails=False, batches=8):
        """What is saved after the last step; where it fails, the message."""
        self.saves += 1
        save = self.folder / f"saved{self.saves}"
        state = {a.name: (a.value.shape, a.value.dtype, [0] * count(a.value.shape)) for a in step.args
                 if a.role in ("param", "buffer")}
        inputs = {a.name: ((batches, ranks, *a.value.shape), a.value.dtype, [1] * (batches * ranks * count(a.value.shape)))
                  for a in step.args if a.role == "input"}
        write_safetensors(self.folder / "params.safetensors", state)
        write_safetensors(self.folder / "data.safetensors", inputs)
        start = () if "--resume" in arguments else ("--params", self.folder / "params.safetensors")
        command = [program, "-n", ranks, *start, "--data", self.folder / "data.safetensors", "--steps", steps, "--device",
                   device, "--save", save, "--quiet", *arguments]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode != 0, fails, done.stderr)
        if fails:
            return done.stderr
        self.saved = save
        return read_safetensors(save / (save / "latest").read_text().strip() / "params.safetensors")

    def assert_drawn(self, found, kind, **place):
        wanted = draw(kind, len(found), **place)
        if kind != "normal":
            self.assertEqual(found, wanted)
            return
        for one, other in zip(found, wanted):
            self.assertAlmostEqual(one, other, delta=2e-6 * max(1, abs(other)))

    def test_elements(self):
        step, places = Step(), []
        for site, (kind, shape) in enumerate((kind, shape) for kind in ("bits", "uniform", "normal")
                                             for shape in ((), (5,), (3, 7), (2, 3, 130), (1, 64, 1, 33))):
            drawn = step.random(kind, 7 * site, shape)
            owner = step.argument("buffer", shape, drawn.dtype)
            step.update(owner, drawn)
            places.append((owner.name[1:], kind, 7 * site))
        # Read in another order than it lies.
        turned = step.random("uniform", 65535, (9, 20))
        owner = step.argument("buffer", (20, 9), "f32")
        step.update(owner, step.generic(
            2, [(turned, ["d1", "d0"])], [(step.empty((20, 9), "f32"), ["d0", "d1"])], [((20, 9), "f32", 1.0)],
            lambda a, o: (["%s = arith.addf %a0, %a0 : f32"], ["%s"])))
        self.add_parameter(step)
        program = self.compile(step)
        saved = {device: self.run_program(program, step, device, "--random-seed", 2 ** 53 - 1, steps=3) for device in DEVICES}
        for device in DEVICES:
            for name, kind, site in places:
                with self.subTest(device=device, kind=kind, site=site):
                    self.assert_drawn(saved[device][name], kind, site=site, step=2, seed=2 ** 53 - 1)
            plain = draw("uniform", 180, site=65535, step=2, seed=2 ** 53 - 1)
            self.assertEqual(saved[device][owner.name[1:]], [2 * plain[20 * j + i] for i in range(20) for j in range(9)])
        for name, kind, _ in places:
            for one, other in zip(*(saved[device][name] for device in DEVICES)):
                self.assertLessEqual(abs(ordinal(one) - ordinal(other)) if kind == "normal" else one != other, 4)

    def make_gradients(self):
        """A parameter's gradient is what is drawn: SGD with a rate of 1 subtracts it."""
        step = Step()
        params = []
        for site, shared in ((1, False), (2, True)):
            params.append(step.param((6, 11)))
            drawn, ones = step.random("uniform", site, (6, 11), shared), step.input((6, 11))
            step.gradient(params[-1], step.generic(
                2, [(drawn, ["d0", "d1"]), (ones, ["d0", "d1"])], [(step.empty((6, 11), "f32"), ["d0", "d1"])],
                [((6, 11), "f32", 1.0)], lambda a, b, o: (["%m = arith.mulf %a0, %a1 : f32"], ["%m"])))
        return step, [param.name[1:] for param in params]

    def expect(self, site, shared, ranks, steps, micro=1, seed=0):
        """Minus the sum over steps of the mean over ranks and micro-batches."""
        total = [0.0] * 66
        for at in range(steps):
            for rank in range(ranks):
                for number in range(micro):
                    drawn = draw("uniform", 66, site=site, step=at, rank=0 if shared else rank, micro=number, seed=seed)
                    total = [t - d / ranks / micro for t, d in zip(total, drawn)]
        return total

    def assert_near(self, found, wanted):
        self.assertEqual(len(found), len(wanted))
        for one, other in zip(found, wanted):
            self.assertAlmostEqual(one, other, delta=1e-5)

    def test_ranks_micro_batches_and_seeds(self):
        for ranks, mesh in ((1, None), (3, None), (4, "shard=2,replicate=2")):
            step, names = self.make_gradients()
            program = self.compile(step, ranks, options=("--accumulate-in", "shard"), mesh=mesh)
            for device in DEVICES:
                for micro, seed in ((1, 0), (3, 11)):
                    with self.subTest(ranks=ranks, device=device, micro=micro, seed=seed):
                        saved = self.run_program(program, step, device, "--accumulate", micro, "--random-seed", seed,
                                                 ranks=ranks, steps=2)
                        for name, site in zip(names, (1, 2)):
                            self.assert_near(saved[name], self.expect(site, site == 2, ranks, 2, micro, seed))

    def test_resumed_runs(self):
        step, names = self.make_gradients()
        program = self.compile(step, 2)
        whole = self.run_program(program, step, "cpu", "--random-seed", 4, ranks=2, steps=4)
        self.run_program(program, step, "cpu", "--random-seed", 4, ranks=2, steps=2)
        rest = self.run_program(program, step, "cpu", "--random-seed", 4, "--resume", self.saved, ranks=2, steps=4)
        self.assertEqual(whole, rest)
        self.assert_near(whole[names[0]], self.expect(1, False, 2, 4, seed=4))

    def test_recomputed_values(self):
        """What backward draws again is what forward drew."""
        step, drawn = Step(), None
        drawn = step.random("uniform", 5, (40, 30))
        x = step.input((40, 30))
        forward = step.generic(2, [(x, ["d0", "d1"]), (drawn, ["d0", "d1"])], [(step.empty((40, 30), "f32"), ["d0", "d1"])],
                               [((40, 30), "f32", 1.0)], lambda a, b, o: (["%m = arith.mulf %a0, %a1 : f32"], ["%m"]))
        zero = step.fill((), "f32", step.zero("f32"))
        step.loss = step.generic(2, [(forward, ["d0", "d1"])], [(zero, [])], [((), "f32", 1.0)],
                                 lambda a, o: (["%s = arith.addf %a1, %a0 : f32"], ["%s"]), reductions=(0, 1))
        param = step.param((40, 30))
        step.gradient(param, step.generic(
            2, [(drawn, ["d0", "d1"])], [(step.empty((40, 30), "f32"), ["d0", "d1"])], [((40, 30), "f32", 1.0)],
            lambda a, o: (["%n = arith.negf %a0 : f32"], ["%n"])))
        program = self.compile(step)
        for device in DEVICES:
            self.assertEqual(self.run_program(program, step, device)[param.name[1:]], draw("uniform", 1200, site=5, step=0))

    def test_what_is_refused(self):
        step, _ = self.make_gradients()
        program = self.compile(step, options=("--accumulate-in", "shard"))
        for arguments, message in (
            (("--random-seed", "-1"), "--random-seed: expected an integer from 0 to 9007199254740992, got '-1'"),
            (("--random-seed", 2 ** 53 + 1), "--random-seed: expected an integer from 0 to 9007199254740992"),
            (("--scalar", "random_step=1"), "--scalar random_step: expected a scalar that users set, got one that follows "
                                            "from --steps"),
            (("--accumulate", 65537), "--accumulate: expected at most 65536 of a program that draws random numbers"),
            (("--random-seed", 1, "--scalar", "random_seed=2"), "expected one value for scalar 'random_seed', got two"),
        ):
            with self.subTest(arguments=arguments):
                self.assertIn(message, self.run_program(program, step, "cpu", *arguments, fails=True))
        plain = Step()
        self.add_parameter(plain)
        message = self.run_program(self.compile(plain), plain, "cpu", "--random-seed", 1, fails=True)
        self.assertIn("--random-seed: expected a program that draws random numbers, got one that draws none", message)


if __name__ == "__main__":
    unittest.main()
