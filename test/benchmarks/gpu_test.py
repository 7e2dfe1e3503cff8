"""benchmarks/gpu.sh with the emulated driver in place of a card: each part says what failed, and so does the script.

FSDP_BIN names the folder of fsdp-compile. Standard library only; parts that need PyTorch (kernels of modules.py, speed) are
packed by nobody here.
"""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "benchmarks" / "gpu.sh"
sys.path.insert(0, str(SCRIPT.parent / "gpu"))

import kernels  # noqa: E402


def write_checkpoint(folder, **tensors):
    """Of f32 numbers by name."""
    header, body = {}, b""
    for name, values in tensors.items():
        data = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": [len(values)], "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    (folder / "step-00000001").mkdir(parents=True)
    (folder / "step-00000001" / "params.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)


class Parts(unittest.TestCase):
    """What runs is one packed folder; tests that damage it work on a copy."""

    PACKED = ("facts", "words", "ranks", "parity", "memory", "calibrate", "graph", "attention", "tune",
              "sanitizer")

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="fsdp-gpu-")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name) / "packed"
        cls.environment = {**os.environ, "FSDP_GPU_FIXTURES": "mixed resnet", "FSDP_GPU_STEPS": "2", "FSDP_GPU_QUICK": "1",
                           "FSDP_GPU_TUNED": "gpt2-head64-bf16", "FSDP_GPU_ATTENDED": "gpt2-head64-bf16",
                           "FSDP_EMULATOR_CAPABILITY": "8.0",
                           "FSDP_EMULATOR_DEVICES": "1", "FSDP_CUDA_LIBS": str(cls.folder / "emulator"),
                           "PYTHONDONTWRITEBYTECODE": "1"}
        # A sanitizer of this machine's would look for a card.
        cls.environment["PATH"] = os.pathsep.join(
            path for path in cls.environment["PATH"].split(os.pathsep) if not shutil.which("compute-sanitizer", path=path))
        packed = subprocess.run([SCRIPT, "pack", cls.folder, *cls.PACKED], env=cls.environment, capture_output=True, text=True)
        assert packed.returncode == 0, packed.stderr

    def copy(self):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.temporary.name)) / "copy"
        shutil.copytree(self.folder, folder)
        return folder

    def run_parts(self, folder, *parts, **environment):
        outcome = subprocess.run([folder / "gpu.sh", *parts], env={**self.environment, **environment}, capture_output=True,
                                 text=True, timeout=280)
        return outcome.returncode, outcome.stdout

    def test_nothing_fails(self):
        status, said = self.run_parts(self.folder, *self.PACKED)
        self.assertEqual(status, 0, said)
        self.assertNotIn("FAILED", said)
        verdicts = said.split("====\n")[-1].splitlines()
        self.assertEqual([line.split(",")[0] for line in verdicts],
                         [f"{part}: {'skipped' if part == 'sanitizer' else 'ok'}" for part in self.PACKED])
        for part in self.PACKED:
            self.assertTrue((self.folder / "log" / f"{part}.log").exists())

    def test_a_table(self):
        """What the part writes is what the compiler takes, for the card that it names."""
        folder = self.copy()
        status, said = self.run_parts(folder, "tune")
        self.assertEqual(status, 0, said)
        table = folder / "log" / "tuning.json"
        self.assertEqual(json.loads(table.read_text())["device"], "Emulated sm_80")
        binaries = pathlib.Path(os.environ.get("FSDP_BIN", SCRIPT.parents[1] / "build" / "bin"))
        command = [binaries / "fsdp-compile", SCRIPT.parents[1] / "test" / "fixtures" / "gpt2-head64-bf16" / "model.mlir",
                   "--target", "cuda", "--tuning", table, "-o", folder / "tuned"]
        self.assertEqual(subprocess.run(command, capture_output=True).returncode, 0)
        other = subprocess.run([*command, "--cluster", "h100-sxm"], capture_output=True, text=True)
        self.assertIn("expected a table of the cluster's device, H100-SXM5-80GB (NVIDIA H100 80GB HBM3), got one of Emulated sm_80", other.stderr)

    def test_attention(self):
        """A program that cannot run, another order of sums in a rerun, and a machine without cuDNN."""
        folder = self.copy()
        status, said = self.run_parts(folder, "attention")
        self.assertEqual(status, 0, said)
        self.assertIn("note: attention: 2 of 2 by cuDNN 9.19.0\n", said)
        self.assertRegex(said, "2 of BF16 4 x 128 x 128, head 64, causal: [0-9.]+ ms by cuDNN, [0-9.]+ ms by our kernels")
        self.assertRegex(said, "ms a step: gpt2-head64-bf16, --attention cudnn")
        part = folder / "gpu" / "attention.sh"
        text = part.read_text()
        part.write_text(text.replace('again --attention cudnn', 'again --attention own'))
        status, said = self.run_parts(folder, "attention")
        self.assertEqual(status, 1, said)
        self.assertIn("ok: gpt2-head64-bf16, gradients by cuDNN and by our kernels", said)
        self.assertIn("FAILED: gpt2-head64-bf16, a rerun and call by call (exit 1)", said)
        part.write_text(text)
        (folder / "programs" / "gpt2-head64-bf16-gradients.so").write_bytes(b"nothing")
        status, said = self.run_parts(folder, "attention")
        self.assertEqual(status, 1, said)
        self.assertIn("FAILED: gpt2-head64-bf16, gradients by cuDNN and by our kernels (exit 1)", said)
        (folder / "emulator" / "libcudnn.so.9").write_bytes(b"nothing")
        status, said = self.run_parts(folder, "attention", FSDP_CUDA_LIBS=str(folder / "emulator"))
        self.assertEqual(status, 0, said)
        self.assertIn("attention: skipped", said)

    def test_a_candidate_that_fails(self):
        folder = self.copy()
        (folder / "programs" / "tune-gpt2-head64-bf16-0.so").write_bytes(b"nothing")
        status, said = self.run_parts(folder, "tune")
        self.assertEqual(status, 1)
        self.assertIn("FAILED: gpt2-head64-bf16, each candidate (exit 1)", said)
        self.assertIn("expected a profile of the shapes that the compiler chooses, got none", said)

    def check_failure(self, folder, part, *lines, **environment):
        """The first of two fixtures fails, the second does not; neither hides the other, nor does a later part."""
        status, said = self.run_parts(folder, part, "facts", **environment)
        self.assertEqual(status, 1, said)
        self.assertIn(f"{part}: FAILED (exit 1)", said)
        self.assertIn("facts: ok", said)
        for line in lines:
            self.assertIn(line, said)

    def damage_expected(self, change):
        folder = self.copy()
        path = folder / "fixtures" / "mixed" / "expect.json"
        expect = json.loads(path.read_text())
        change(expect)
        path.write_text(json.dumps(expect))
        return folder

    def test_other_losses(self):
        def change(expect):
            expect["loss"]["1"][7] *= 1.001
        self.check_failure(self.damage_expected(change), "parity", "FAILED: mixed (exit 1)", "ok: resnet")

    def test_other_programs(self):
        """Graphs, words and ranks of a program that cannot run."""
        folder = self.copy()
        for name in ("resnet-1", "resnet-2", "resnet-gradients"):
            (folder / "programs" / f"{name}.so").write_bytes(b"nothing")
        # What does run is the model that takes the emulated driver the least time.
        for part, failed, right in (("graph", "FAILED: resnet (exit 1)", "ok: mixed"),
                                    ("words", "FAILED: resnet (exit 1)", "ok: mixed"),
                                    ("ranks", "FAILED: resnet --backend tcp (exit 1)", "ok: mixed --backend tcp")):
            with self.subTest(part=part):
                status, said = self.run_parts(folder, part, FSDP_GPU_FIXTURES="resnet mixed")
                self.assertEqual(status, 1)
                self.assertIn(failed, said)
                self.assertIn(right, said)

    def test_a_device_table(self):
        """Of every kind of kernel, as fsdp-plan reads it; of a program that cannot run none."""
        folder = self.copy()
        (folder / "log" / "device-table.json").unlink(missing_ok=True)
        status, said = self.run_parts(folder, "calibrate")
        self.assertEqual(status, 0, said)
        path = folder / "log" / "device-table.json"
        table = json.loads(path.read_text())
        self.assertRegex(table["device"], "^Emulated sm_80$")
        self.assertEqual({row["dtype"] for row in table["matmul"]}, {"f32", "bf16"})
        self.assertEqual([row["queries"] for row in table["attention"]], [32])
        self.assertEqual(len(table["memory"]["us_by_bytes"]), 2)
        self.assertGreater(min(table["launch_us"], table["graph_launch_us"]), 0)
        cluster = json.loads((SCRIPT.parents[1] / "lib" / "Cost" / "clusters" / "h100-sxm.json").read_text())
        cluster["device"]["table"] = str(path)
        (folder / "cluster.json").write_text(json.dumps(cluster))
        planned = subprocess.run([pathlib.Path(os.environ["FSDP_BIN"]) / "fsdp-plan",
                                  SCRIPT.parents[1] / "test" / "fixtures" / "gpt2" / "model.mlir", "--mesh", "shard=1",
                                  "--target", "cuda", "--cluster", folder / "cluster.json"], capture_output=True, text=True)
        self.assertEqual(planned.returncode, 0, planned.stderr)
        self.assertIn("note: kernels take times that were measured on Emulated sm_80", planned.stdout)
        self.assertIn("the cluster file describes H100-SXM5-80GB", planned.stdout)
        path.unlink()
        (folder / "programs" / "calibrate-memory-1024.so").write_bytes(b"nothing")
        status, said = self.run_parts(folder, "calibrate")
        self.assertEqual(status, 1, said)
        self.assertIn("FAILED: device table (exit 1)", said)
        self.assertFalse(path.exists())

    def test_sums_of_a_wrong_order(self):
        """NCCL's sums, which round at each hop, in place of exact ones are found by their bits."""
        folder = self.copy()
        part = folder / "gpu" / "ranks.sh"
        text = part.read_text()
        changed = text.replace("sum \"$1-cuda\" \"$@\"", "sum \"$1-cuda\" \"$@\" --reduction nccl")
        self.assertNotEqual(text, changed)
        part.write_text(changed)
        self.check_failure(folder, "ranks", "ok: shard2-sums --backend tcp",
                           *(f"FAILED: {program} --backend tcp: the bits of processors (exit 1)"
                             for program in ("shard4-sums", "shard4-bf16-sums")), FSDP_GPU_FIXTURES="mixed")

    def test_memory_beyond_the_plan(self):
        """A manifest that plans less than is taken; and a run that ends by itself."""
        folder = self.copy()
        tool = folder / "gpu" / "memory.py"
        text = tool.read_text()
        changed = text.replace("mapped(manifest[\"arena\"][\"bytes\"])", "mapped(manifest[\"arena\"][\"bytes\"] // 2)")
        self.assertNotEqual(text, changed)
        tool.write_text(changed)
        self.check_failure(folder, "memory", "FAILED: gpt2, one rank (exit 1)")
        tool.write_text(text.replace('"1000000", "--log-every"', '"1", "--log-every"'))
        self.check_failure(folder, "memory", "expected a run that is interrupted after 2 steps")

    def test_memory_by_nvidia_smi(self):
        """The card's own numbers, which a script beside the emulated driver gives: as much as the account says, and more."""
        for more, status in ((36, 0), (900, 1)):
            folder = pathlib.Path(tempfile.mkdtemp(dir=self.temporary.name))
            tool = folder / "nvidia-smi"
            tool.write_text(f"#!/bin/sh\nif [ -e {folder}/asked ]; then echo {500 + more}; else : >{folder}/asked; echo 500; fi\n")
            tool.chmod(0o755)
            with self.subTest(more=more):
                got, said = self.run_parts(self.folder, "memory", PATH=f"{folder}:{self.environment['PATH']}")
                self.assertEqual(got, status, said)
                self.assertIn(f"by nvidia-smi 500 MiB before, {more} MiB more", said)

    def test_nothing_is_left_running(self):
        """Behind a part that ends its runs, and one that is ended, with ranks that are processes."""
        folder = self.copy()
        self.assertEqual(self.run_parts(folder, "memory")[0], 0)
        status, said = self.run_parts(folder, "ranks", FSDP_GPU_LIMIT="3")
        self.assertEqual(status, 1)
        self.assertIn("ranks: FAILED (still running after 3 s)", said)
        running = []
        for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                running.append(entry.read_bytes().decode(errors="replace"))
            except OSError:
                pass
        self.assertEqual([line for line in running if str(folder) in line], [])

    def test_kernels(self):
        """A case of test/Kernels on both sides, and one whose program cannot run."""
        folder = self.copy()
        steps = folder / "written"
        subprocess.run([sys.executable, "-B", SCRIPT.parent / "gpu" / "steps.py", SCRIPT.parents[1], steps, "kernels"], check=True)
        for name in ("case-softmax-and-its-gradient", "case-scalars"):
            subprocess.run([os.environ["FSDP_BIN"] + "/fsdp-compile", steps / name / "model.mlir", "--optimizer", "sgd:lr=1",
                            "--mesh", "shard=1", "--target", "cuda", "--emit", "so", "-o", folder / f"kernel-{name}.so"],
                           check=True, capture_output=True)
            shutil.move(folder / f"kernel-{name}.so", folder / "programs")
            shutil.copytree(steps / name, folder / "steps" / f"kernel-{name}")
        status, said = self.run_parts(folder, "kernels")
        self.assertEqual(status, 0, said)
        self.assertIn("kernel-case-softmax-and-its-gradient: 255 of 255 words equal, word by word", said)
        (folder / "programs" / "kernel-case-scalars.so").write_bytes(b"nothing")
        self.check_failure(folder, "kernels", "WRONG kernel-case-scalars: exit 1",
                           "kernel-case-softmax-and-its-gradient: 255 of 255", "1 of 2 programs are right; not: kernel-case-scalars")

    def test_no_card(self):
        status, said = self.run_parts(self.folder, "facts", "ranks", FSDP_EMULATOR_DEVICES="0")
        self.assertEqual(status, 1)
        self.assertIn("FAILED: driver, cuBLASLt and NCCL", said)
        self.assertIn("ranks: FAILED", said)

    def test_a_sanitizer_that_finds_something(self):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.temporary.name))
        tool = folder / "compute-sanitizer"
        tool.write_text("#!/bin/sh\n[ $2 != racecheck ] || exit 9\n")
        tool.chmod(0o755)
        status, said = self.run_parts(self.folder, "sanitizer", PATH=f"{folder}:{self.environment['PATH']}")
        self.assertEqual(status, 1)
        self.assertIn("FAILED: racecheck of mixed (exit 9)", said)
        self.assertIn("ok: initcheck of resnet", said)

    def test_refusals(self):
        for words, why in ((["no-part"], "expected a part of: facts"), (["common"], "expected a part of: facts"),
                           (["pack"], "usage: "), (["pack", self.folder, "facts"], "expected an empty folder")):
            with self.subTest(words=words):
                outcome = subprocess.run([SCRIPT, *words], env=self.environment, capture_output=True, text=True)
                self.assertEqual(outcome.returncode, 1)
                self.assertIn(why, outcome.stderr)


class Words(unittest.TestCase):
    def compare(self, got, want, tolerance=None):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            write_checkpoint(folder / "got", **got)
            write_checkpoint(folder / "want", **want)
            return kernels.compare(kernels.read(folder / "got"), kernels.read(folder / "want"), tolerance)

    def test_one_word(self):
        nan, near = float("nan"), 1.0 + 2.0 ** -23
        self.assertEqual(self.compare({"a": [1.0, nan, 0.5]}, {"a": [1.0, nan, 0.5]}), (0, 3, []))
        differ, total, wrong = self.compare({"a": [1.0, 2.0], "b": [near]}, {"a": [1.0, 2.0], "b": [1.0]})
        self.assertEqual((differ, total, len(wrong)), (1, 3, 1))
        self.assertIn("b: 1 of 1 words differ", wrong[0])
        self.assertEqual(self.compare({"b": [near]}, {"b": [1.0]}, kernels.TOLERANCE)[2], [])
        for bad in (nan, 1.1, float("inf")):
            self.assertEqual(len(self.compare({"b": [bad]}, {"b": [1.0]}, kernels.TOLERANCE)[2]), 1)
        self.assertTrue(self.compare({"b": [1.0]}, {"c": [1.0]})[2])


if __name__ == "__main__":
    unittest.main()
