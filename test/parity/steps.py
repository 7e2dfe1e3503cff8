"""Compiling and running the traced steps of test/fixtures, for the tests beside this file.

Standard library only. FSDP_BIN names the folder of fsdp-compile, FSDP_FIXTURE the model,
FSDP_HAS_MPI is 1 where the runtime was built with the mpi backend. With FSDP_GUARD=1 every program
is compiled with --guard; with FSDP_DEVICE=cuda every program runs on that device; with FSDP_TURN=all nothing is
left to other fixtures (in_turn). By hand, in this folder:

  FSDP_FIXTURE=llama FSDP_GUARD=1 python3 -m unittest pytorch_test bits_test
"""
import itertools
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile
import unittest

from gradients import LR

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "test" / "fixtures"
BIN = pathlib.Path(os.environ.get("FSDP_BIN", ROOT / "build" / "bin"))
DEVICE = os.environ.get("FSDP_DEVICE", "cpu")
# On an emulated device each takes tenths of a second.
STEPS = 20 if DEVICE == "cpu" else 4
# No run or compilation here takes more than a few seconds; a machine may be busy.
TIME_LIMIT = 120

HAS_MPI = os.environ.get("FSDP_HAS_MPI", "1") == "1" and shutil.which("mpirun") is not None
# For all programs, whatever a test is about.
GUARD = ["--guard"] if os.environ.get("FSDP_GUARD") == "1" else []
needs_mpi = unittest.skipUnless(
    HAS_MPI, "the mpi backend was not built, or there is no mpirun on PATH")


def ranks_of(mesh):
    ranks = 1
    for axis in mesh.split(","):
        ranks *= int(axis.split("=")[1])
    return ranks


def read_tensors(path):
    """name -> (dtype, shape, bytes) of a safetensors file."""
    data = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    body = data[8 + size:]
    return {name: (entry["dtype"], entry["shape"], body[slice(*entry["data_offsets"])])
            for name, entry in header.items()}


def write_tensors(path, tensors):
    header, body = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + body)


class Fixture:
    def __init__(self, name):
        self.name = name
        self.dir = FIXTURES / name
        self.model = self.dir / "model.mlir"
        self.params = self.dir / "params.safetensors"
        self.batches = self.dir / "batches.safetensors"
        self.expect = json.loads((self.dir / "expect.json").read_text())
        self.lr = self.expect["hyper"]["lr"]


fixture = Fixture(os.environ.get("FSDP_FIXTURE", "gpt2"))
TURNS = 3
# Which third of the combinations this process tries; that of every third fixture is the same.
TURN = os.environ.get("FSDP_TURN") or os.environ.get("FSDP_DEFAULT_TURN") or \
    str(sorted(path.parent.name for path in FIXTURES.glob("*/model.mlir")).index(fixture.name) % TURNS)


def in_turn(*axes):
    """A third of the combinations of the axes' values: those whose sum of places and the turn is a multiple of three.
    So every combination is tried, with a third of the fixtures.
    """
    for places in itertools.product(*(range(len(axis)) for axis in axes)):
        if TURN == "all" or (sum(places) + int(TURN)) % TURNS == 0:
            yield tuple(axis[place] for axis, place in zip(axes, places))


class StepTest(unittest.TestCase):
    """Compiles each program once for all tests of a process; files go away with it."""

    temporary = tempfile.TemporaryDirectory(prefix="fsdp-parity-")
    folder = pathlib.Path(temporary.name)
    programs = {}
    # The runs in which the emulator looked for races.
    looked = set()
    count = 0

    @staticmethod
    def place(name):
        """A path that no other test uses."""
        StepTest.count += 1
        return StepTest.folder / f"{StepTest.count}-{name}"

    @staticmethod
    def queues(how):
        """Options of a program: who issues the work of its queues. `how` is auto, off or on."""
        return "--queue-threads" if DEVICE == "cpu" else "--graph", how

    @staticmethod
    def execute(words, environment=None):
        words = [str(word) for word in words]
        if DEVICE != "cpu":
            if words[0] == str(BIN / "fsdp-compile"):
                words += [] if "--target" in words else ["--target", f"cpu,{DEVICE}"]
            elif "-n" in words and any(str(program) in words for program in StepTest.programs.values()):
                words += [] if "--device" in words else ["--device", DEVICE]
        # Batches of fixtures are for four ranks: the first ranks' are meant.
        reads = any(option in ("--data", "--eval-data") and value.endswith(".safetensors")
                    for option, value in zip(words, words[1:]))
        if reads and "--data-ranks" not in words and words[0] != str(BIN / "fsdp-compile"):
            words += ["--data-ranks", "first"]
        # Who computes attention decides its bits.
        if ("--device", "cuda") in zip(words, words[1:]) and "--attention" not in words:
            words += ["--attention", "own"]
        return subprocess.run(words, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=TIME_LIMIT,
                              env={**os.environ, **StepTest.skip_known_races(words), **(environment or {})})

    @staticmethod
    def skip_known_races(words):
        """The variable that turns the emulator's search for races off, which is 40 % of its time, where a run with the same
        launches was searched before: of the same program, number of ranks, issue, backend and order of streams; else {}.
        """
        if "FSDP_EMULATOR_RACES" in os.environ or ("--device", "cuda") not in zip(words, words[1:]):
            return {}
        pairs = dict(zip(words, words[1:]))
        program = tuple(word for word in words if word.endswith("-train"))
        if not program:
            return {}
        run = (program, os.environ.get("FSDP_EMULATOR_SEED"),
               *(pairs.get(option) for option in ("-n", "--graph", "--backend", "--reduction", "--accumulate", "--eval-every")))
        if run in StepTest.looked:
            return {"FSDP_EMULATOR_RACES": "0"}
        StepTest.looked.add(run)
        return {}

    def compile(self, fixture, mesh, *options, optimizer=None, again=False):
        key = (fixture.name, mesh, options, optimizer)
        if again or key not in self.programs:
            program = self.place("train")
            choice = ["--optimizer", optimizer] if optimizer else \
                ["--optimizer-file", fixture.dir / "optimizer.mlir"]
            guard = [] if "--guard" in options else GUARD
            outcome = self.execute([BIN / "fsdp-compile", fixture.model, *choice, "--mesh", mesh,
                                    *guard, *options, "-o", program])
            self.assertEqual(outcome.returncode, 0, outcome.stderr)
            # With a cluster, what the step takes on it, else that nobody knows; with guards, what these take too much.
            # Wraps that were tried come first.
            over = r"(guarded arena \d+ bytes, \d+ over the budget\n)?" if guard else ""
            wraps = r"wrap .*: .* ms\n" if ("--wrap", "auto") in zip(options, options[1:]) else ""
            # Programs that evaluate follow the one that trains.
            others = r"(\w+ .* ms, bound .* ms, gap .* %, on .*\n)*"
            # What there is code for.
            code = r"cuda: PTX for .*\n" if "--target" in options or DEVICE == "cuda" else ""
            # A kernel that decides the step is warned of, with its line.
            said = re.sub(r"(?m)^\S+: warning: in .* of its roof: .*\n.*\n *\^\n", "", outcome.stderr)
            if "--optimizer-in-backward" in options:
                said, count = re.subn(r"(?m)^.*remark: .*updates in backward: the arena takes .*\n", "", said)
                self.assertGreater(count, 0)
            self.assertRegex(said, rf"\A{wraps}step .* ms, bound .* ms, gap .* %, on .*\n{others}{over}{code}\Z"
                             if "--cluster" in options else rf"\Anot planned: .*\n{code}\Z")
            self.programs[key] = program
        return self.programs[key]

    def refuse(self, fixture, mesh, *options):
        """What the compiler says when it refuses."""
        guard = [] if "--guard" in options else GUARD
        outcome = self.execute([BIN / "fsdp-compile", fixture.model,
                                "--optimizer-file", fixture.dir / "optimizer.mlir", "--mesh", mesh,
                                *guard, *options, "-o", self.place("refused")])
        self.assertEqual(outcome.returncode, 1)
        return outcome.stderr

    def train(self, program, fixture, mesh, *options, steps=STEPS):
        """Runs to the end; the lines of its metrics."""
        metrics = self.place("metrics.jsonl")
        start = [] if "--resume" in options else ["--params", fixture.params]
        if "--threads" not in options:
            start += ["--threads", 1]
        outcome = self.execute([program, "-n", ranks_of(mesh), *start, "--data", fixture.batches,
                                "--steps", steps, "--lr", fixture.lr,
                                "--metrics", metrics, *options])
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
        self.assertEqual(lines[-1]["step"], steps)
        return lines

    def described(self, program):
        """Its manifest, and in it the entry of the program that trains."""
        outcome = self.execute([program, "--describe"])
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        manifest = json.loads(outcome.stdout)
        (step,) = (entry for entry in manifest["programs"] if entry["kind"] == "train")
        return manifest, step

    def gradient_batches(self, fixture, ranks):
        """The batches of the ranks that the fixture's gradients are an average over, once or twice."""
        if ranks == fixture.expect["gradients"]["ranks"]:
            return fixture.batches
        tensors = {}
        for name, (dtype, shape, data) in read_tensors(fixture.batches).items():
            part = len(data) // (shape[0] * shape[1])
            first = data[:2 * part]
            tensors[name] = (dtype, [1, ranks, *shape[2:]], first * (ranks // 2))
        path = self.place("batches.safetensors")
        write_tensors(path, tensors)
        return path

    def differentiate(self, fixture, mesh, *options, params=None, run=()):
        """Parameters before (those of a file, if given) and after one step of plain SGD at gradients.LR, and the
        exact gradients of the fixture. `run`: options of the program."""
        params = params or fixture.params
        program, saved = self.compile(fixture, mesh, *options, optimizer="sgd:lr=1"), self.place("saved")
        ranks = ranks_of(mesh)
        # With --param-dtype, parameters in bf16 become f32.
        outcome = self.execute([program, "-n", ranks, "--params", params, "--cast-params",
                                "--data", self.gradient_batches(fixture, ranks), "--steps", 1, "--lr", LR,
                                "--save", saved, "--quiet", *run])
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        return (read_tensors(params), read_tensors(saved / "step-00000001" / "params.safetensors"),
                read_tensors(fixture.dir / "gradients.safetensors"))

    def saved(self, folder, step=STEPS):
        """All the bytes of a checkpoint's tensors, by name."""
        files = sorted((folder / f"step-{step:08}").glob("*.safetensors"))
        self.assertTrue(files)
        return {(file.name, name): tensor for file in files
                for name, tensor in read_tensors(file).items()}
