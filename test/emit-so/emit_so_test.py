#!/usr/bin/env python3
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""fsdp-compile --emit so, as a C programmer uses it: the header compiles as
strict C and as C++, a program linked with several libraries trains them in
turns, and every loss and saved parameter is, bit for bit, the executable's."""

import argparse
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

STEPS = 6
# Library, fixture, mesh, ranks. Of one axis and of two, beside each other (pytorch/pytorch#113237: a model on a
# mesh of two axes left an extension behind that changed how those on one were sharded).
LIBRARIES = [
    ("gpt-one", "gpt2", "shard=1", 1),
    ("gpt-two", "gpt2", "shard=2", 2),
    ("hybrid", "mixed", "shard=2,replicate=2", 4),
    ("mixed", "mixed", "shard=2", 2),
    ("replicas", "mixed", "shard=1,replicate=2", 2),
]
ARGS = None


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True,
                          text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}\nexit status "
                             f"{done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def compile_step(fixture, mesh, kind, output, *more):
    folder = ARGS.fixtures / fixture
    run(ARGS.bin / "fsdp-compile", folder / "model.mlir", "--optimizer-file",
        folder / "optimizer.mlir", "--mesh", mesh, "--emit", kind, "-o",
        output, *more)


def split_batches(fixture, name, ranks, directory):
    """Cuts batches.safetensors into one file per input, step and rank."""
    data = (ARGS.fixtures / fixture / "batches.safetensors").read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    for key, entry in json.loads(data[8:8 + length]).items():
        if key == "__metadata__":
            continue
        first, last = (8 + length + at for at in entry["data_offsets"])
        steps, all_ranks = entry["shape"][:2]
        size = (last - first) // (steps * all_ranks)
        for step in range(STEPS):
            for rank in range(ranks):
                at = first + (step * all_ranks + rank) * size
                path = directory / f"{name}.{key}.{step + 1}.{rank}"
                path.write_bytes(data[at:at + size])


def as_float32(value):
    return struct.pack("<f", value)


class EmitSo(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.dir = Path(tempfile.mkdtemp(prefix="emit-so-", dir=ARGS.scratch))
        for name, fixture, mesh, ranks in LIBRARIES:
            compile_step(fixture, mesh, "so", cls.dir / f"lib{name}.so")
            compile_step(fixture, mesh, "exe", cls.dir / name)
            shutil.copy(ARGS.fixtures / fixture / "params.safetensors",
                        cls.dir / f"{name}.params")
            split_batches(fixture, name, ranks, cls.dir)
        cls.program = cls.dir / "train-steps"
        cls.link = [cls.dir / f"lib{name}.so" for name, *_ in LIBRARIES]
        cls.link += ["-L", ARGS.lib, "-lfsdp-rt", "-lm",
                     f"-Wl,-rpath,{ARGS.lib}:$ORIGIN"]
        cls.include = ["-I", cls.dir, "-I", ARGS.include]
        run(ARGS.cc, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror",
            *cls.include, Path(__file__).with_name("TrainSteps.c"), *cls.link,
            "-o", cls.program)
        text = run(cls.program, cls.dir, STEPS, cls.dir)
        cls.losses = {}
        for line in text.splitlines():
            name, step, *values = line.split()
            cls.losses[name, int(step)] = [float.fromhex(v) for v in values]

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir)

    def execute(self, name, fixture, ranks, launcher, saved):
        metrics = self.dir / f"{saved}.jsonl"
        run(*launcher, "-n", ranks, "--threads", "1", "--params",
            self.dir / f"{name}.params", "--data",
            ARGS.fixtures / fixture / "batches.safetensors", "--steps", STEPS,
            "--metrics", metrics, "--save", self.dir / saved, "--quiet")
        return [json.loads(line) for line in metrics.read_text().splitlines()]

    def check_same(self, name, lines, saved):
        self.assertEqual(len(lines), STEPS)
        for line in lines:
            loss, norm = self.losses[name, line["step"]]
            self.assertTrue(math.isfinite(loss) and norm > 0)
            self.assertEqual(as_float32(line["loss"]), as_float32(loss))
            self.assertEqual(as_float32(line["grad_norm"]), as_float32(norm))
        mine, its = (self.dir / where / f"step-{STEPS:08}" /
                     "params.safetensors"
                     for where in (f"{name}.saved", saved))
        self.assertEqual(mine.read_bytes(), its.read_bytes())

    def test_equals_executable(self):
        for name, fixture, _, ranks in LIBRARIES:
            with self.subTest(name):
                lines = self.execute(name, fixture, ranks, [self.dir / name],
                                     f"{name}.exe-saved")
                self.check_same(name, lines, f"{name}.exe-saved")

    def test_runs_in_fsdp_run(self):
        for name, fixture, _, ranks in LIBRARIES:
            with self.subTest(name):
                launcher = [ARGS.bin / "fsdp-run", self.dir / f"lib{name}.so"]
                lines = self.execute(name, fixture, ranks, launcher,
                                     f"{name}.run-saved")
                self.check_same(name, lines, f"{name}.run-saved")

    def test_refuses_half_a_library(self):
        whole = (self.dir / "libmixed.so").read_bytes()
        half = self.dir / "half.so"
        half.write_bytes(whole[:len(whole) // 2])
        done = subprocess.run([ARGS.bin / "fsdp-run", half, "--describe"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f"bytes, got {len(whole) // 2} (was copying it cut "
                      "short?)", done.stderr)

    def test_ships_with_its_runtime(self):
        """Beside libfsdp-rt.so the library needs no other place."""
        there = self.dir / "shipped"
        there.mkdir()
        for name, *_ in LIBRARIES:
            run("cp", self.dir / f"lib{name}.so", there)
        run("cp", "-P", *ARGS.lib.glob("libfsdp-rt.so*"), there)
        run(ARGS.cc, *self.include, Path(__file__).with_name("TrainSteps.c"),
            *[there / f"lib{name}.so" for name, *_ in LIBRARIES], "-L", there,
            "-lfsdp-rt", "-lm", "-Wl,-rpath,$ORIGIN", "-o", there / "program")
        for file in ("program", "libmixed.so"):
            self.assertIn(f"libfsdp-rt.so.1 => {there}/libfsdp-rt.so.1 ",
                          run("ldd", there / file))
        text = run(there / "program", self.dir, 1, there)
        self.assertEqual(len(text.splitlines()), len(LIBRARIES))

    def test_header_is_cplusplus(self):
        source = self.dir / "all.cpp"
        source.write_text("".join(f'#include "lib{name}.h"\n'
                                  for name, *_ in LIBRARIES) +
                          "int main() { return gpt_one_artifact() && "
                          "gpt_one_artifact() != gpt_two_artifact() ? 0 : 1; }\n")
        run(ARGS.cxx, "-std=c++17", "-pedantic", "-Wall", "-Wextra", "-Werror",
            *self.include, source, *self.link, "-o", self.dir / "all")
        run(self.dir / "all")

    def test_hides_everything_but_its_entries(self):
        for name, *_ in LIBRARIES:
            symbols = run("nm", "-D", "--defined-only",
                          self.dir / f"lib{name}.so").split()[2::3]
            self.assertEqual(
                sorted(symbols),
                ["fsdp_rt_artifact_entry", name.replace("-", "_") + "_artifact"])

    def test_awkward_names(self):
        """Whatever the file is called, its header is right C."""
        for output, prefix in [("lib7-up!.so", "step_7_up_"), ("int", "int"),
                               ("libA,__*.v2.so", "a_____v2")]:
            with self.subTest(output):
                compile_step("mixed", "shard=1", "so", self.dir / output)
                header = (self.dir / output).with_suffix(".h")
                source = self.dir / "awkward.c"
                source.write_text(
                    f'#include "{header.name}"\n'
                    f"int main(void) {{ return !{prefix}_artifact(); }}\n")
                run(ARGS.cc, "-std=c99", "-pedantic", "-Wall", "-Werror",
                    *self.include, source, self.dir / output, "-L", ARGS.lib,
                    "-lfsdp-rt", f"-Wl,-rpath,{ARGS.lib}:$ORIGIN", "-o",
                    self.dir / "awkward")
                run(self.dir / "awkward")

    def test_awkward_inputs(self):
        """Whatever inputs are called, macros name them, each its own."""
        text = (ARGS.fixtures / "mixed" / "model.mlir").read_text()
        names = [("tokens", "a.b"), ("labels", "a_b"),
                 ("weight", r'*/ \22??/\5C\C3\A9\0A//')]
        for old, new in names:
            before, text = text, text.replace(f'name = "{old}"',
                                              f'name = "{new}"')
            self.assertNotEqual(before, text)
        model = self.dir / "awkward.mlir"
        model.write_text(text)
        run(ARGS.bin / "fsdp-compile", model, "--emit", "so", "-o",
            self.dir / "libodd.so")
        macros = re.findall(r"^#define ODD_INPUT_(\w+)",
                            (self.dir / "libodd.h").read_text(), re.M)
        self.assertEqual(macros[:2], ["A_B", "A_B_2"])
        self.assertEqual(len(set(macros)), 3)
        source = self.dir / "odd.c"
        source.write_text("".join([
            '#include "libodd.h"\n#include <string.h>\n'
            "static char zeros[ODD_BYTES_A_B];\n"
            "int main(void) {\n  fsdp_session *s;\n"
            "  if (fsdp_create(odd_artifact(), 0, &s)) return 1;\n",
            *[f"  if (fsdp_set_input(s, 0, 0, ODD_INPUT_{macro}, zeros, "
              f"ODD_BYTES_{macro})) return 1;\n" for macro in macros],
            r'  return strcmp(ODD_INPUT_' + macros[2] +
            r', "*/ \"?\?/\\\303\251\n//");' + "\n}\n"]))
        run(ARGS.cc, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror",
            *self.include, source, self.dir / "libodd.so", "-L", ARGS.lib,
            "-lfsdp-rt", f"-Wl,-rpath,{ARGS.lib}:$ORIGIN", "-o",
            self.dir / "odd")
        run(self.dir / "odd")

    def test_scalars_of_all_programs(self):
        """Each once, with the programs that have it, and none that callers cannot set."""
        library = self.dir / "libmany.so"
        run(ARGS.bin / "fsdp-compile", ARGS.fixtures / "resnet-eval" / "model.mlir", "--optimizer",
            "sgd:lr=0.1", "--clip-norm", "--accumulate-in", "shard", "--emit", "so", "-o", library)
        header = library.with_suffix(".h").read_text()
        scalars = dict(re.findall(r'^#define MANY_SCALAR_\w+ "(\w+)" /\* (.*) \*/$', header, re.M))
        self.assertEqual(sorted(scalars), ["accumulation_weight", "clip_norm", "lr"])
        self.assertEqual(header.count("MANY_SCALAR_"), 3)
        self.assertEqual(scalars["accumulation_weight"],
                         "F32, the number of micro-batches unless set for a step; of train_accumulated")
        for name in ("clip_norm", "lr"):
            self.assertRegex(scalars[name], "unless set; of train, train_accumulated$")
        self.assertNotIn('"accumulated"', header)

    def test_generates(self):
        """tools/steps/generate.c: the likeliest byte behind a text is that of the logits that the executable saves."""
        steps = Path(__file__).parents[2] / "tools" / "steps"
        model, folder = steps / "gpt2-bytes", self.dir / "generate"
        folder.mkdir()
        for mesh, kind, output in (("shard=1", "so", "libgpt2.so"), ("shard=2", "exe", "train")):
            run(ARGS.bin / "fsdp-compile", model / "model.mlir.gz", "--optimizer-file", model / "optimizer.mlir",
                "--mesh", mesh, "--emit", kind, "-o", folder / output)
        generate = folder / "generate"
        run(ARGS.cc, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-I", folder, "-I", ARGS.include,
            steps / "generate.c", folder / "libgpt2.so", "-L", ARGS.lib, "-lfsdp-rt", "-lm",
            f"-Wl,-rpath,{ARGS.lib}:$ORIGIN", "-o", generate)
        text, saved, outputs = folder / "text", folder / "saved", folder / "outputs.safetensors"
        # Two ranks read a window each, of one target more than positions.
        window = b"Whoever reads this knows what a window of sixty-four bytes holds. "
        text.write_bytes(window * 100)
        run(folder / "train", "--init", "seed=0", "--data", text, "--steps", 5, "--save", saved, "--quiet")
        text.write_bytes(window[:65] * 2)
        run(folder / "train", "--resume", saved, "--eval-data", text, "--save-outputs", outputs, "--quiet")
        data = outputs.read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        logits = json.loads(data[8:8 + length])["logits"]
        self.assertEqual(logits["shape"][1:], [2, 1, 64, 256])
        first = 8 + length + logits["data_offsets"][0]
        for prompt in (window[:1], window[:17], window[:64]):
            at = first + (len(prompt) - 1) * 256 * 4
            row = struct.unpack("<256f", data[at:at + 1024])
            said = subprocess.run([generate, saved, prompt, "1", "0"], check=True, capture_output=True).stdout
            self.assertEqual(said, prompt + bytes([row.index(max(row))]) + b"\n")
        # Drawn bytes are those of the seed.
        drawn = {seed: subprocess.run([generate, saved, "A", "20", "1", seed], check=True, capture_output=True).stdout
                 for seed in ("1", "2")}
        self.assertNotEqual(drawn["1"], drawn["2"])
        for words, message in (([saved, ""], "usage: "), ([folder, "x"], "expected a checkpoint"),
                               ([saved, "x", "1", "-1"], "expected a temperature")):
            refused = subprocess.run([generate, *words, *(["1"] if len(words) < 3 else [])], capture_output=True,
                                     text=True)
            self.assertEqual(refused.returncode, 1)
            self.assertIn(message, refused.stderr)

    def test_refuses_a_library_called_like_a_header(self):
        with self.assertRaisesRegex(AssertionError, "exit status 1\n.*error: "
                                    "expected the name of a library"):
            compile_step("mixed", "shard=1", "so", self.dir / "step.h")
        self.assertFalse((self.dir / "step.h").exists())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("bin", "lib", "include", "fixtures", "scratch"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cxx", default="c++")
    ARGS, rest = parser.parse_known_args()
    os.makedirs(ARGS.scratch, exist_ok=True)
    unittest.main(argv=[sys.argv[0], *rest])
