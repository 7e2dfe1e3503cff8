#!/usr/bin/env python3
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What happens to a compiled program on the device cuda when one of its kernels' barriers is missing.

A deletion overwrites one `bar.sync` of the PTX that a program carries with blanks; the emulated driver has to find
that, as a race or as bytes that nobody has written, unless another barrier or nothing at all is between the accesses
that it orders. FSDP_TEST_SEED chooses which barriers are deleted; FSDP_TEST_DELETIONS, how many of them (all: each).
"""

import os
import random
import re
import tempfile
import unittest

from compiled import Program

SEED = int(os.environ.get("FSDP_TEST_SEED", "1"))
DELETIONS = os.environ.get("FSDP_TEST_DELETIONS", "10")
FOUND = re.compile(r"expected a barrier between threads that use the same (shared|global) memory"
                   r"|expected bytes that were written before")
KERNEL = re.compile(rb"\.entry (k\d+_(\w+?)(?:_\d+)?)\(.*?\n}", re.DOTALL)
BARRIER = re.compile(rb"bar\.sync\s+0;")
WAIT_FOR_COPIES = re.compile(rb"(cp\.async\.wait_group\s+0;)\s*(bar\.sync\s+0;)")
# Of loads and stores: which one, the space, the type and the base of the address.
ACCESS = re.compile(r"\b(ld|st)\.(shared|global)\.(?:v\d\.)?(\w+)\s.*?\[(%?\w+)")
# Stores that a branch leads past.
FEW_STORE = re.compile(r"bra\s+(\$\w+);[^:]*?\bst\.shared[^:]*?\n\1:")


class Barrier:
    def __init__(self, kernel, family, number, count, begin, end, before, after):
        self.kernel, self.family, self.number, self.count = kernel, family, number, count
        self.begin, self.end = begin, end
        # Some threads alone store to shared memory.
        self.isFewStore = bool(FEW_STORE.search(before))
        # Up to the next barrier on either side.
        self.before, self.after = ACCESS.findall(before), ACCESS.findall(after)

    def __str__(self):
        return f"barrier {self.number + 1} of {self.count} of {self.kernel}"

    def why_redundant(self):
        """Why nothing misses it; empty where something has to. Each kind of kernel has barriers of its own."""
        if self.family == "for":
            # Thread 0 alone stores, to an address from which all threads load.
            def bases(accesses, kind):
                return {access[3] for access in accesses if access[:2] == (kind, "global")}
            if (bases(self.before, "ld") & bases(self.after, "st")) or (
                    bases(self.before, "st") & bases(self.after, "ld")):
                return ""
            return "another barrier lies between the accesses that it orders"
        areTiles = self.family.startswith("attention")
        # What threads of a reduction exchange has 64 bits at either end, or is stored by the first lanes of warps;
        # what they keep to themselves has fewer, and all store it.
        stored = [access[2] for access in self.before if access[:2] == ("st", "shared")]
        loaded = [access[2] for access in self.after if access[:2] == ("ld", "shared")]
        if not (stored and loaded and (areTiles or self.isFewStore or "b64" in stored + loaded)):
            return ("the loop over tiles goes round once, and each has its own memory" if areTiles else
                    "each thread keeps to its own points, or what stages store lies apart from what others load")
        isTree = not areTiles and self.count >= 3
        if isTree and self.number == self.count - 1:
            return "the thread that reads the result of a column has written it"
        return ""


def barriers_of(image):
    found = []
    for kernel in KERNEL.finditer(image):
        ends = [(m.start() + kernel.start(), m.end() + kernel.start()) for m in BARRIER.finditer(kernel[0])]
        edges = [(kernel.start(), kernel.start()), *ends, (kernel.end(), kernel.end())]
        for i, (begin, end) in enumerate(ends):
            found.append(Barrier(kernel[1].decode(), kernel[2].decode(), i, len(ends), begin, end,
                                 image[edges[i][1]:begin].decode(), image[end:edges[i + 2][0]].decode()))
    return found


class BarriersTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def compile(self, fixture):
        program = Program(self.folder, fixture, "--mesh", "shard=1")
        done = program.run()
        self.assertEqual(done.returncode, 0, done.stderr)
        return program, program.read()

    def run_without(self, program, image, barrier):
        """What was found; None where nothing was."""
        program.write(image[:barrier.begin] + b" " * (barrier.end - barrier.begin) + image[barrier.end:])
        done = program.run()
        if done.returncode == 0:
            return None
        output = done.stdout + done.stderr
        self.assertRegex(output, FOUND, barrier)
        self.assertIn(f"kernel {barrier.kernel}, ", output)
        return FOUND.search(output)[0]

    def test_any_barrier(self):
        program, image = self.compile("gpt2")
        barriers = barriers_of(image)
        # A kernel of each kind at least, or the patterns above know nothing of this program.
        self.assertLessEqual({"attention", "attention_backward_dq", "attention_backward_dkdv", "reduce"},
                             {barrier.family for barrier in barriers})
        needed = [barrier for barrier in barriers if not barrier.why_redundant()]
        self.assertGreater(len(needed), len(barriers) / 3)
        if DELETIONS != "all":
            barriers = random.Random(SEED).sample(barriers, int(DELETIONS))
        for barrier in barriers:
            with self.subTest(barrier=str(barrier), seed=SEED):
                self.assertTrue(self.run_without(program, image, barrier) or barrier.why_redundant())

    def test_barriers_of_global_memory(self):
        """A loop of which one thread stores what all load."""
        program, image = self.compile("resnet")
        barriers = [barrier for barrier in barriers_of(image) if barrier.family == "for"]
        found = 0
        for barrier in barriers:
            with self.subTest(barrier=str(barrier)):
                message = self.run_without(program, image, barrier)
                self.assertTrue(message or barrier.why_redundant())
                found += "global memory" in (message or "")
        self.assertGreaterEqual(found, 2)

    def test_tiles_that_arrive_while_others_are_multiplied(self):
        """Waits for copies, and the barriers after them, which also free the memory of the tile before; of Llama, whose
        heads share keys, where tiles of several heads follow each other.
        """
        of_keys = "attention_backward_dkdv"
        for fixture, wanted in (("gpt2-head64-bf16", {"attention", "attention_backward_dq", of_keys}),
                                ("llama-bf16", {of_keys})):
            program, image = self.compile(fixture)
            families = set()
            for kernel in KERNEL.finditer(image):
                family = kernel[2].decode()
                for wait in WAIT_FOR_COPIES.finditer(kernel[0]) if family in wanted else ():
                    families.add(family)
                    for part in (1, 2):
                        begin, end = (kernel.start() + wait.start(part), kernel.start() + wait.end(part))
                        missing = Barrier(kernel[1].decode(), family, part, 2, begin, end, "", "")
                        with self.subTest(fixture=fixture, function=kernel[1], missing=wait[part]):
                            self.assertTrue(self.run_without(program, image, missing))
            self.assertEqual(families, wanted)

    def test_scalars_in_place(self):
        """All threads of an update read the powers of beta, which the first one then overwrites where they are."""
        program, image = self.compile("mixed")
        messages = [self.run_without(program, image, barrier) for barrier in barriers_of(image)
                    if barrier.family == "elementwise"]
        self.assertTrue(any("global memory" in (message or "") for message in messages), messages)


if __name__ == "__main__":
    unittest.main()
