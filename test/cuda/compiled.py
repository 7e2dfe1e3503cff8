# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A fixture that is compiled for CUDA devices, for scripts that run it on the emulated driver with a mistake in it.

FSDP_BIN names the folder of fsdp-compile, FSDP_FIXTURES that of the fixtures, FSDP_CUDA_LIBS that of the doubles of
CUDA's libraries. FSDP_EMULATOR_CAPABILITY has to be one that the program has no machine code for, but PTX.
"""
import os
import pathlib
import subprocess

BIN = pathlib.Path(os.environ["FSDP_BIN"])
FIXTURES = pathlib.Path(os.environ["FSDP_FIXTURES"])


class Program:
    def __init__(self, folder, fixture, *options):
        self.fixture = FIXTURES / fixture
        self.path = pathlib.Path(folder, fixture)
        subprocess.run([BIN / "fsdp-compile", self.fixture / "model.mlir", "--target", "cuda", *options, "-o",
                        self.path], check=True, capture_output=True, timeout=120)

    def read(self):
        return self.path.read_bytes()

    def write(self, image):
        """The program is this from now on."""
        self.path.write_bytes(image)

    def command(self, *arguments):
        """One step from the fixture's parameters, on its first batch; attention by the compiler's kernels, unless the
        arguments say otherwise."""
        if "--attention" not in arguments:
            arguments = ("--attention", "own", *arguments)
        return [self.path, "--device", "cuda", "--params", self.fixture / "params.safetensors",
                "--data", self.fixture / "batches.safetensors", "--steps", "1", "--lr", "0.001", "--quiet", *arguments]

    def run(self, *arguments, quiet=True, steps=None, **environment):
        command = [word for word in self.command(*arguments) if quiet or word != "--quiet"]
        if steps is not None:
            command[command.index("--steps") + 1] = str(steps)
        return subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, **environment})
