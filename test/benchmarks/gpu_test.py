"""benchmarks/gpu.sh: parts that fail, hang or are killed, and the script killed, leave what was done in DIR; and its parts,
packed and run with the emulated driver in place of a card, say what failed.

FSDP_BIN names the folder of fsdp-compile. Standard library only; steps that PyTorch exports are packed by nobody here.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks" / "gpu.sh"
BINARIES = pathlib.Path(os.environ.get("FSDP_BIN", ROOT / "build" / "bin"))
sys.path.insert(0, str(SCRIPT.parent / "gpu"))

import compare  # noqa: E402
import kernels  # noqa: E402
import speed  # noqa: E402


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


def write_tool(folder, name, text):
    path = pathlib.Path(folder) / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def read_logs(folder):
    """name -> text of what a script has left in DIR, which is one file."""
    files = [path.name for path in pathlib.Path(folder).iterdir()]
    assert files == ["gpu-log.tar.gz"], files
    with tarfile.open(folder / files[0]) as archive:
        return {pathlib.PurePath(member.name).name: archive.extractfile(member).read().decode(errors="replace")
                for member in archive if member.isfile()}


def find_running(text):
    """Command lines of processes that have the text in it."""
    lines = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(entry.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            pass
    return [line for line in lines if text in line]


def wait_until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def replace(path, old, new):
    text = path.read_text()
    assert old in text, f"expected {old} in {path}"
    path.write_text(text.replace(old, new))


class Temporary(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="fsdp-gpu-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.out = self.folder / "out"


class Script(Temporary):
    """The script alone, with parts that a test writes."""

    def write(self, seconds=1, **parts):
        """Parts by name and what they run, each of which is expected to take so long."""
        (self.folder / "gpu").mkdir()
        shutil.copy(SCRIPT.parent / "gpu" / "common.sh", self.folder / "gpu")
        text = SCRIPT.read_text()
        for name, body in parts.items():
            (self.folder / "gpu" / f"{name}.sh").write_text(f"run() {{\n{body}\n}}\n")
            text, found = re.subn(rf"(?m)^{name} \d+ ", f"{name} {seconds} ", text)
            assert found == 1, name
        (self.folder / "gpu.sh").write_text(text)
        (self.folder / "gpu.sh").chmod(0o755)
        self.parts = list(parts)

    def start(self, *options, **environment):
        return subprocess.Popen([self.folder / "gpu.sh", *options, *self.parts], text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env={**os.environ, "FSDP_CUDA_LIBS": "none", **environment})

    def run_script(self, *options, **environment):
        run = self.start(*options, **environment)
        said, _ = run.communicate(timeout=60)
        return run.returncode, said

    def test_results(self):
        """What a part left is in DIR, whatever became of it, and on standard output are verdicts."""
        self.write(facts='echo "a card"; expect "a step" true; echo table >"$log/table.json"',
                   words='expect "gradients of a" false; expect "gradients of b" true',
                   graph='skip "no graphs"',
                   ranks='echo began; kill -KILL $$',
                   attention='echo one; expect "a run" limited sleep 1000; sleep 1000',
                   kernels='no_such_command',
                   memory='sleep 1000 & echo left behind')
        status, said = self.run_script("--out", self.out, FSDP_GPU_LIMIT="2")
        self.assertEqual(status, 1, said)
        verdicts = [re.sub(r", \d+ s of 1$", "", line) for line in said.split("==== ")[1].splitlines()[1:]]
        self.assertEqual(verdicts, ["facts: ok", "words: FAILED (exit 1)", "graph: skipped", "ranks: FAILED (killed by signal 9)",
                                    "attention: FAILED (still running after 2 s)", "kernels: FAILED (exit 1)", "memory: ok"])
        self.assertIn("    FAILED: gradients of a (exit 1)\n", said)
        self.assertIn("no_such_command: command not found", said)
        self.assertNotIn("a card", said)
        logs = read_logs(self.out)
        self.assertEqual(set(logs), {"verdicts", "table.json", *(f"{part}.log" for part in self.parts)})
        self.assertEqual(logs["table.json"], "table\n")
        for part, text in (("facts", r"a card\nok: a step\nfacts: ok, \d s of 1\n"), ("ranks", r"began\n"),
                           ("attention", r"one\nFAILED: a run \(still running after [12] s\)\n")):
            self.assertRegex(logs[f"{part}.log"], r"\A" + text)
        self.assertEqual(find_running("sleep 1000"), [])

    def test_deadline(self):
        """A part that does not fit is not begun, and one that hangs is ended in time."""
        self.write(facts='sleep 1.1', words=':', graph='sleep 1000', memory=':')
        replace(self.folder / "gpu.sh", "\nwords 1 ", "\nwords 4 ")
        began = time.monotonic()
        status, said = self.run_script("--out", self.out, "--seconds", "8")
        self.assertLess(time.monotonic() - began, 8)
        self.assertEqual(status, 1, said)
        self.assertRegex(said, r"facts: ok, \d s of 1\nwords: not begun: needs 4 s, [12] left\n"
                               r"graph: FAILED \(still running after [12] s\), \d s of 1\n.*"
                               r"memory: not begun: needs 1 s, 0 left\n")
        self.assertIn("words: not begun: needs 4 s", read_logs(self.out)["verdicts"])
        status, said = self.run_script("--out", self.out, "--seconds", "5")
        self.assertEqual(status, 0)
        self.assertIn("facts: not begun: needs 1 s, 0 left", said)

    def test_script_is_killed(self):
        """By a signal that it cannot see, and by one that it can, while the second part runs."""
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
            with self.subTest(number=number):
                out = self.folder / str(int(number))
                if number == signal.SIGKILL:
                    self.write(facts='echo first', words=f'echo second; sleep 2.{os.getpid()}')
                run = self.start("--out", out, FSDP_GPU_LIMIT="4")
                self.assertTrue(wait_until(lambda: find_running(f"sleep 2.{os.getpid()}")))
                run.send_signal(number)
                said, _ = run.communicate(timeout=20)
                logs = read_logs(out)
                self.assertRegex(logs["facts.log"], r"first\nfacts: ok, \d s of 1\n")
                if number == signal.SIGKILL:
                    self.assertEqual(set(logs), {"verdicts", "facts.log"})
                    # What is left ends at the part's limit at the latest.
                    self.assertTrue(wait_until(lambda: not find_running(f"sleep 2.{os.getpid()}")))
                    continue
                self.assertEqual(run.returncode, 128 + number)
                self.assertEqual(find_running(f"sleep 2.{os.getpid()}"), [])
                self.assertRegex(logs["words.log"], rf"^second\n.*words: FAILED \(the script got signal {int(number)}\)")

    def test_a_part_that_says_too_much(self):
        self.write(facts='head -c 3000000 /dev/urandom | base64 -w 70; head -c 3000000 /dev/urandom >"$log/large"; echo last')
        status, said = self.run_script("--out", self.out)
        self.assertEqual(status, 0)
        self.assertIn("left out: large, 3000000 bytes\n", said)
        logs = read_logs(self.out)
        self.assertNotIn("large", logs)
        self.assertLess(len(logs["facts.log"]), 1.1 * 2 ** 20)
        self.assertRegex(logs["facts.log"], r"\n\(\d+ bytes are left out\)\n(?s:.*)\nlast\nfacts: ok")

    def test_beside_the_script(self):
        self.write(facts='echo said')
        self.assertEqual(self.run_script()[0], 0)
        self.assertRegex((self.folder / "log" / "facts.log").read_text(), "said\nfacts: ok")
        self.assertFalse(self.out.exists())

    def test_refusals(self):
        self.write(facts=':')
        (self.folder / "file").write_text("")
        (self.folder / "full").mkdir()
        (self.folder / "full" / "file").write_text("")
        for words, why in ((["no-part"], "expected a part of: facts kernels"), (["common"], "expected a part of: facts"),
                           (["pack"], "expected a folder to pack, got none"), (["--out"], "expected a folder after --out"),
                           (["--seconds", "x"], "expected whole seconds after --seconds, got 'x'"),
                           (["--parts"], "expected --out, --seconds or a part, got --parts"),
                           (["--out", self.folder / "file", "facts"], "expected a folder to write to"),
                           (["pack", self.folder / "full", "facts"], "expected an empty folder")):
            with self.subTest(words=words):
                outcome = subprocess.run([self.folder / "gpu.sh", *words], capture_output=True, text=True,
                                         env={**os.environ, "FSDP_CUDA_LIBS": "none"})
                self.assertEqual(outcome.returncode, 1)
                self.assertIn(why, outcome.stderr)

    def test_documentation(self):
        """docs/cuda.md has the script's rows."""
        said = subprocess.run([SCRIPT, "--help"], capture_output=True, text=True, check=True).stdout
        parts = re.findall(r"(?m)^  ([a-z0-9-]+) +(\d+)  (.+)$", said)
        self.assertEqual([part for part, _, _ in parts][:3], ["facts", "kernels", "speed-gpt2"])
        section = (ROOT / "docs" / "cuda.md").read_text().split("## On a GPU")[1].split("\n## ")[0]
        self.assertEqual(re.findall(r"(?m)^\| `([a-z0-9-]+)` \| (\d+) \| (.+) \|$", section), parts)


class Parts(unittest.TestCase):
    """The real ones, packed once."""

    PACKED = ("facts", "kernels", "speed-mixed", "attention", "words", "graph", "ranks", "ncu", "parity", "memory",
              "sanitizer", "calibrate", "tune")

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="fsdp-gpu-")
        cls.addClassCleanup(temporary.cleanup)
        cls.temporary = pathlib.Path(temporary.name)
        cls.tools = cls.temporary / "tools"
        cls.tools.mkdir()
        # A sanitizer or a profiler of this machine's would look for a card.
        path = os.pathsep.join(path for path in os.environ["PATH"].split(os.pathsep)
                               if not any(shutil.which(tool, path=path) for tool in ("compute-sanitizer", "ncu", "nvidia-smi")))
        cls.environment = {**os.environ, "PATH": f"{cls.tools}:{path}", "FSDP_GPU_FIXTURES": "mixed transformer",
                           "FSDP_GPU_BUSY": "mixed", "FSDP_GPU_ATTENDED": "gpt2-head64-bf16",
                           "FSDP_GPU_TUNED": "gpt2-head64-bf16", "FSDP_GPU_PROFILED": "mixed", "FSDP_GPU_CASES": "softmax-and-its-gradient scalars",
                           "FSDP_GPU_STEPS": "2", "FSDP_GPU_QUICK": "1", "PYTHONDONTWRITEBYTECODE": "1",
                           "FSDP_CUDA_LIBS": str(BINARIES.parent / "lib" / "fsdp-emulator"),
                           "FSDP_EMULATOR_CAPABILITY": "8.0", "FSDP_EMULATOR_DEVICES": "1"}
        write_tool(cls.tools, "ncu", 'echo "ncu $*"')
        write_tool(cls.tools, "compute-sanitizer", "[ $2 != racecheck ] || exit ${RACE:-0}")
        write_tool(cls.tools, "nvidia-smi", f"""case "$*" in
*memory.used*) if [ -e {cls.temporary}/asked-$PPID ]; then echo $((500 + ${{MORE:-36}}))
               else echo 500; : >{cls.temporary}/asked-$PPID; fi ;;
*clocks.sm,clocks.mem,power.draw*) while :; do echo "1755, 3201, 612.5, 51"; sleep 0.05; done ;;
esac""")
        cls.packed = cls.temporary / "packed"
        packed = subprocess.run([SCRIPT, "pack", cls.packed, *cls.PACKED], env=cls.environment, capture_output=True, text=True)
        assert packed.returncode == 0, packed.stderr
        cls.said = packed.stdout
        # The whole run, beside the other tests: from a copy, within the time that it is given.
        cls.elsewhere = cls.temporary / "elsewhere"
        shutil.copytree(cls.packed, cls.elsewhere)
        cls.out = cls.temporary / "results"
        cls.whole = subprocess.Popen([cls.elsewhere / "gpu.sh", "--out", cls.out, "--seconds", "400"], text=True, cwd="/",
                                     stdout=subprocess.PIPE, env={**cls.environment, "FSDP_GPU_FIXTURES": "mixed"})
        cls.addClassCleanup(cls.whole.kill)

    def unpack(self):
        """A folder that tests damage."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.temporary))
        for archive in (self.packed / "packed").glob("*.tar.gz"):
            subprocess.run(["tar", "-xzf", archive, "-C", folder], check=True)
        shutil.copy(self.packed / "gpu.sh", folder)
        return folder

    def run_parts(self, folder, *words, **environment):
        outcome = subprocess.run([folder / "gpu.sh", *words], env={**self.environment, **environment}, capture_output=True,
                                 text=True, timeout=280, cwd="/")
        return outcome.returncode, outcome.stdout

    def check_failure(self, folder, part, *lines, **environment):
        self.check_failures(folder, {part: lines}, **environment)

    def check_failures(self, folder, lines, **environment):
        """Lines in the log of each part, which fails; on two processors at once. The logs by part."""
        def run(part):
            out = pathlib.Path(tempfile.mkdtemp(dir=self.temporary))
            status, said = self.run_parts(folder, "--out", out, part, **environment)
            return part, status, said, read_logs(out)
        left = {}
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for part, status, said, logs in pool.map(run, lines):
                with self.subTest(part=part):
                    self.assertEqual(status, 1, said)
                    log = logs[f"{part}.log"]
                    self.assertRegex(log, f"\n{part}: FAILED \\(exit 1\\)")
                    for line in lines[part]:
                        self.assertIn(line, log)
                    left[part] = logs
        return left

    def test_whole_run(self):
        """Each part is ok, and what comes back are numbers, and tables that are taken."""
        self.assertEqual(re.findall(r"(?m)^ ([a-z0-9-]+) +\d+ +\d+$", self.said), ["tools", *self.PACKED, "all"])
        said, _ = self.whole.communicate(timeout=400)
        self.assertEqual(self.whole.returncode, 0, said)
        logs = read_logs(self.out)
        self.assertEqual(re.findall(r"(?m)^([a-z0-9-]+): ok, \d+ s of \d+$", logs["verdicts"]), list(self.PACKED))
        for part, text in (
                ("kernels", "kernel-case-softmax-and-its-gradient: 255 of 255 words equal, word by word"),
                ("kernels", "2 of 2 programs are right"),
                ("facts", "later parts: --graph auto --dependent-launch auto"),
                ("speed-mixed", "  us each      best     GB/s  TFLOP/s  name\n"), ("speed-mixed", "  1755 MHz   3201 MHz   612 W  51 C"),
                ("attention", "note: attention: 2 of 2 by cuDNN 9.19.0"),
                ("attention", "tensors have the same bits"), ("ranks", "1 GPUs, NCCL"),
                ("ranks", "not run: shard=4, for which there are too few GPUs"),
                ("ranks", "ok: shard2-bf16-sums --backend tcp --channel host: the bits of processors"),
                ("ranks", "ok: mixed --backend tcp --channel host: the same bits"),
                ("ncu", "ncu --set basic --clock-control none --kernel-name-base function --kernel-name regex:^k"),
                ("memory", "by nvidia-smi 500 MiB before, 36 MiB more"), ("sanitizer", "ok: racecheck of gpt2-head64-bf16")):
            self.assertIn(text, logs[f"{part}.log"])
        for way in ("own", "auto", "fastest", "calls", "graph-off-auto", "attention-cudnn"):
            self.assertEqual(len(json.loads(logs[f"mixed.{way}.json"])["wall_ms"]), 1)
        self.check_tuning(logs["tuning.json"])
        self.check_device_table(logs["device-table.json"])

    def check_tuning(self, text):
        """For the card that it names."""
        self.assertEqual(json.loads(text)["device"], "Emulated sm_80")
        table = self.temporary / "tuning.json"
        table.write_text(text)
        command = [BINARIES / "fsdp-compile", ROOT / "test" / "fixtures" / "gpt2-head64-bf16" / "model.mlir", "--target", "cuda",
                   "--tuning", table, "--emit", "ptx", "-o", self.temporary / "tuned"]
        self.assertEqual(subprocess.run(command, capture_output=True).returncode, 0)
        other = subprocess.run([*command, "--cluster", "h100-sxm"], capture_output=True, text=True)
        self.assertIn("expected a table of the cluster's device, H100-SXM5-80GB (NVIDIA H100 80GB HBM3), got one of Emulated sm_80",
                      other.stderr)

    def check_device_table(self, text):
        """Of every kind of kernel, as fsdp-plan reads it."""
        table = json.loads(text)
        self.assertEqual(table["device"], "Emulated sm_80")
        self.assertEqual({row["dtype"] for row in table["matmul"]}, {"f32", "bf16"})
        self.assertEqual([row["queries"] for row in table["attention"]], [32])
        self.assertEqual(len(table["memory"]["us_by_bytes"]), 2)
        self.assertGreater(min(table["launch_us"], table["graph_launch_us"]), 0)
        (self.temporary / "device-table.json").write_text(text)
        cluster = json.loads((ROOT / "lib" / "Cost" / "clusters" / "h100-sxm.json").read_text())
        cluster["device"]["table"] = str(self.temporary / "device-table.json")
        (self.temporary / "cluster.json").write_text(json.dumps(cluster))
        planned = subprocess.run([BINARIES / "fsdp-plan", ROOT / "test" / "fixtures" / "gpt2" / "model.mlir", "--mesh", "shard=1",
                                  "--target", "cuda", "--cluster", self.temporary / "cluster.json"], capture_output=True, text=True)
        self.assertEqual(planned.returncode, 0, planned.stderr)
        self.assertIn("note: kernels take times that were measured on Emulated sm_80", planned.stdout)
        self.assertIn("the cluster file describes H100-SXM5-80GB", planned.stdout)

    def test_programs_that_cannot_run(self):
        """Of the first of two models; the second is right, and so is a later part."""
        folder = self.unpack()
        for name in ("mixed-1", "mixed-2", "mixed-gradients", "gpt2-head64-bf16-1", "kernel-case-scalars", "calibrate-memory-1024",
                     "tune-gpt2-head64-bf16-0"):
            (folder / "programs" / f"{name}.so").write_bytes(b"nothing")
        left = self.check_failures(folder, {
            "attention": ("FAILED: gpt2-head64-bf16, a rerun and call by call (exit 1)", "ok: gpt2-head64-bf16, gradients by cuDNN"),
            "calibrate": ("FAILED: memory-1024",),
            "graph": ("FAILED: mixed (exit 1)", "ok: transformer"),
            "kernels": ("WRONG kernel-case-scalars: ", "kernel-case-softmax-and-its-gradient: 255 of 255",
                        "1 of 2 programs are right"),
            "speed-mixed": ("FAILED: mixed, our attention (exit 1)", "FAILED: table (exit 1)"),
            "words": ("FAILED: mixed (exit 1)", "ok: transformer"),
            "ncu": ("FAILED: profile (exit 1)",),
            "tune": ("FAILED: gpt2-head64-bf16, each candidate (exit 1)",
                     "expected a profile of the shapes that the compiler chooses, got none")})
        self.check_failure(folder, "ranks", "FAILED: mixed --backend tcp (exit 1)",
                           "FAILED: mixed --backend tcp --graph off (exit 1)", FSDP_GPU_FIXTURES="mixed")
        self.assertNotIn("device-table.json", left["calibrate"])
        self.assertNotIn("tuning.json", left["tune"])

    def test_other_numbers(self):
        """Losses, words and bits beside those that were packed, and memory beside the plan."""
        folder = self.unpack()
        path = folder / "fixtures" / "mixed" / "expect.json"
        expected = json.loads(path.read_text())
        expected["loss"]["1"][7] *= 1.001
        path.write_text(json.dumps(expected))
        for name, at in (("mixed", 4), ("kernel-case-scalars", 1), ("shard2-bf16-sums", 1)):
            path = folder / "expected" / name / "params.safetensors"
            data = bytearray(path.read_bytes())
            # Of the last word, its sign and exponent; of all others the lowest bit.
            data[-1] ^= 0x41 if name == "mixed" else 0
            data[-at] ^= 1
            path.write_bytes(data)
        replace(folder / "gpu" / "attention.sh", 'again "$2" --attention cudnn', 'again "$2" --attention own')
        replace(folder / "gpu" / "memory.py", 'mapped(manifest["arena"]["bytes"])', 'mapped(manifest["arena"]["bytes"] // 2)')
        self.check_failures(folder, {
            "attention": ("FAILED: gpt2-head64-bf16, a rerun and call by call (exit 1)",),
            "ranks": ("FAILED: shard2-bf16-sums --backend tcp: the bits of processors (exit 1)",
                      "ok: shard2-sums --backend tcp: the bits of processors"),
            "parity": ("FAILED: mixed (exit 1)",),
            "words": ("FAILED: mixed (exit 1)",),
            "kernels": ("WRONG kernel-case-scalars: ", "1 of 2 programs are right"),
            "memory": ("FAILED: mixed, one rank (exit 1)",)}, FSDP_GPU_FIXTURES="mixed")
        replace(folder / "gpu" / "memory.sh", "--steps 1000000", "--steps 1")
        self.check_failure(folder, "memory", "expected a run that is interrupted after 2 steps")

    def test_sums_of_a_wrong_order(self):
        """NCCL's sums, which round at each hop, in place of exact ones are found by their bits on four ranks."""
        folder = self.unpack()
        replace(folder / "gpu" / "ranks.sh", '--lr 1 --steps 1 "${@:3}"', '--lr 1 --steps 1 --reduction nccl "${@:3}"')
        replace(folder / "gpu" / "ranks.sh", 'ways+=(', 'ways=("--backend local") #(')
        self.check_failure(folder, "ranks", "ok: shard2-sums --backend local",
                           *(f"FAILED: {program} --backend local: the bits of processors (exit 1)"
                             for program in ("shard4-sums", "shard4-bf16-sums")), FSDP_EMULATOR_DEVICES="4", FSDP_GPU_FIXTURES="mixed")

    def test_what_a_machine_lacks(self):
        """Later parts do without graphs where they fail, and say so; there may be no card, no cuDNN, and other's memory on it."""
        folder = self.unpack()
        self.check_failure(folder, "facts", "cuStreamBeginCapture: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
                           "FAILED: a step, --graph on --dependent-launch auto (exit 1)",
                           "FAILED: a step, --graph on --dependent-launch off (exit 1)",
                           "ok: a step, --graph off --dependent-launch auto", "later parts: --graph off --dependent-launch auto",
                           FSDP_EMULATOR_FAULT="cuStreamBeginCapture_v2:1:900")
        status, said = self.run_parts(folder, "facts", "graph", "parity", FSDP_EMULATOR_FAULT="cuStreamBeginCapture_v2:1:900")
        self.assertEqual(status, 1)
        self.assertRegex(said, r"graph: skipped, \d s of 25\nparity: ok")
        self.check_failure(folder, "facts", "FAILED: driver, cuBLASLt and NCCL", FSDP_EMULATOR_DEVICES="0")
        self.check_failure(folder, "memory", "900 MiB more", MORE="900")
        self.check_failure(folder, "sanitizer", "FAILED: racecheck of gpt2-head64-bf16 (exit 9)",
                           "ok: memcheck of gpt2-head64-bf16", RACE="9")
        libraries = self.temporary / "libraries"
        shutil.copytree(self.environment["FSDP_CUDA_LIBS"], libraries, ignore=shutil.ignore_patterns("CMakeFiles"))
        (libraries / "libcudnn.so.9").write_bytes(b"nothing")
        status, said = self.run_parts(folder, "attention", FSDP_CUDA_LIBS=str(libraries))
        self.assertEqual(status, 0, said)
        self.assertIn("attention: skipped", said)

    def test_ranks_that_are_ended(self):
        """None of the processes of a part that is ended is left."""
        folder = self.unpack()
        status, said = self.run_parts(folder, "ranks", FSDP_GPU_LIMIT="1")
        self.assertEqual(status, 1)
        self.assertIn("ranks: FAILED (still running after 1 s)", said)
        self.assertTrue(wait_until(lambda: not find_running(str(folder))), find_running(str(folder)))


class Exports(Temporary):
    def test_kept(self):
        """A step is exported once for its words and the exporter's sources, and not without torch."""
        python, kept = self.folder / "python", self.folder / "kept"
        write_tool(self.folder, "python", f'for last; do :; done; echo "$@" >>{self.folder}/asked; cp {ROOT}/test/fixtures/mixed/*.mlir "$last"')

        def pack(name, *parts, python):
            outcome = subprocess.run([SCRIPT, "pack", self.folder / name, *parts], capture_output=True, text=True,
                                     env={**os.environ, "PYTHON": str(python), "FSDP_GPU_MODELS": str(kept)})
            return outcome.returncode, outcome.stderr

        status, said = pack("without", "speed-tiny", python="false")
        self.assertEqual(status, 1)
        self.assertIn("tiny: expected false to have torch, torch-mlir and transformers", said)
        self.assertIn("expected to pack speed-tiny, got errors", said)
        self.assertEqual(pack("first", "speed-tiny", "torch-tiny", python=python), (0, ""))
        self.assertEqual((self.folder / "asked").read_text().count("hf:gpt2"), 1)
        self.assertEqual(pack("again", "speed-tiny", python="false"), (0, ""))
        outcome = subprocess.run([self.folder / "again" / "gpu.sh", "words"], capture_output=True, text=True)
        self.assertEqual(outcome.returncode, 1)
        self.assertIn("expected a part that was packed, of: speed-tiny, got: words", outcome.stderr)
        with tarfile.open(self.folder / "again" / "packed" / "speed-tiny.tar.gz") as archive:
            self.assertEqual(archive.getnames(), ["programs/model-tiny.so"])


class Words(Temporary):
    def test_steps_by_the_clock(self):
        """Lines that were read at once have no time between them."""
        for wall_ms, expected in (([0.0], 3.0), ([4.0], 4.0), ([9.0] * 5 + [2.0, 4.0], 3.0), ([], 3.0)):
            self.assertEqual(speed.wall({"wall_ms": wall_ms, "step_ms": [2.0, 4.0]}), expected)

    def compare(self, got, want, tolerance=None):
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            folder = pathlib.Path(folder)
            write_checkpoint(folder / "got", **got)
            write_checkpoint(folder / "want", **want)
            return kernels.compare(compare.read(folder / "got"), compare.read(folder / "want"), tolerance)

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

    def test_libraries(self):
        """Wheels lie in site-packages, and Debian's in dist-packages."""
        for packages in ("site-packages", "dist-packages"):
            lib = self.folder / packages / "nvidia" / "cu13" / "lib"
            lib.mkdir(parents=True)
            (lib / "libcublasLt.so.13").write_text("")
        said = subprocess.run([sys.executable, "-B", SCRIPT.parent / "gpu" / "libraries.py", "folders"], capture_output=True,
                              text=True, check=True, env={**os.environ, "PYTHONPATH": f"{self.folder}/site-packages:{self.folder}/dist-packages"}).stdout
        for packages in ("site-packages", "dist-packages"):
            self.assertIn(f"{self.folder}/{packages}/nvidia/cu13/lib", said.strip().split(":"))


if __name__ == "__main__":
    unittest.main()
