"""What goes wrong around a compiled step is told in one line, with what was expected.

Nothing may crash, hang, leave half a file or leave processes behind.
"""
import os
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import time
import unittest

from steps import BIN, TIME_LIMIT, StepTest, fixture, needs_mpi, read_tensors, write_tensors

MESH = "shard=2"
FOREVER = 10 ** 8


def programs_running(program):
    """The ids of the processes that run `program` itself, not mpirun with it as an argument."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.readlink(entry / "exe") == str(program):
                    found.append(int(entry.name))
            except OSError:  # it ended, or is not ours
                pass
    return sorted(found)


class Refusals(StepTest):
    def setUp(self):
        self.fixture = fixture
        self.program = self.compile(self.fixture, MESH)

    def words(self, program=None, **replaced):
        options = {"-n": 2, "--params": self.fixture.params, "--data": self.fixture.batches,
                   "--data-ranks": "first", "--steps": 3, "--lr": 0.001, "--threads": 1}
        for name, value in replaced.items():
            options[("-" if len(name) == 1 else "--") + name.replace("_", "-")] = value
        return [program or self.program] + [
            word for option in options.items() if option[1] is not None for word in option]

    def refuse(self, words, *messages, status=1):
        before = sorted(self.folder.iterdir())
        outcome = self.execute(words)
        self.assertEqual(outcome.returncode, status, outcome.stderr)
        for message in messages:
            self.assertIn(message, outcome.stderr)
        self.assertEqual(outcome.stderr.count("error: "), 1, outcome.stderr)
        self.assertEqual(sorted(self.folder.iterdir()), before)
        return outcome

    def damaged(self, change, name="params.safetensors"):
        tensors = read_tensors(self.fixture.dir / name)
        change(tensors)
        path = self.place("damaged.safetensors")
        write_tensors(path, tensors)
        return path

    # The compiler.

    def test_options_of_the_compiler(self):
        for options, messages in [
                (["--mesh", "shard=0"], ["ranks on axis shard, got 0"]),
                (["--mesh", "tensor=2"], ["tensor"]),
                (["--mesh", MESH, "--strategy", "hybrid_shard"], ["replicate"]),
                (["--mesh", MESH, "--strategy", "zero3"], ["full_shard", "zero3"]),
                (["--mesh", MESH, "--wrap", "size:0"], ["positive", "0"]),
                (["--mesh", MESH, "--march", "z80"], ["z80"]),
                (["--mesh", MESH, "--optimizer", "muon"], ["radam, adamax or lion", "muon", "whole matrices"]),
                (["--mesh", MESH, "--optimizer", "sgd:momentum=2x"], ["momentum", "2x"]),
                (["--mesh", MESH, "--ignore", "*"], ["not ignored"]),
                (["--mesh", MESH, "--ignore", "nope"], ["ignore pattern", "nope"]),
                (["--mesh", MESH, "--replicate", "nope"], ["replicate pattern", "nope"]),
                (["--mesh", MESH, "--wrap", "module:Nope"], ["there are ", "GPT2Block", "Nope"]),
                (["--mesh", MESH, "--param-dtype", "f12"], ["param-dtype", "f12"]),
                (["--mesh", MESH, "--reduce-dtype", "i8"], ["reduce-dtype", "i8"]),
                (["--mesh", MESH, "--buffer-dtype", "half"], ["buffer-dtype", "half"]),
                (["--mesh", MESH, "--param-dtype", "f64"], ["param-dtype", "f64"]),
                (["--mesh", MESH, "--output-dtype", "bf16"], ["output-dtype", "fsdp-export --eval"]),
                (["--mesh", MESH, "--eval-full-precision"], ["--param-dtype beside --eval-full-precision"]),
                (["--mesh", MESH, "--param-dtype", "bf16", "--eval-full-precision"], ["fsdp-export --eval"])]:
            with self.subTest(options=options):
                outcome = self.execute([BIN / "fsdp-compile", self.fixture.model, *options,
                                        "-o", self.folder / "none"])
                self.assertEqual(outcome.returncode, 1, outcome.stderr)
                self.assertFalse((self.folder / "none").exists())
                for message in messages:
                    self.assertIn(message, outcome.stderr)
                # What is wrong, and with which file: no dump of it. The optimizer beside the step,
                # which no option names, is told before.
                lines = [line for line in outcome.stderr.splitlines()
                         if "optimizer.mlir is not read" not in line]
                self.assertIn(len(lines), (1, 2))
                for line in lines:
                    self.assertTrue(line.startswith("error: "), line)

    def test_models_that_are_none(self):
        text = self.fixture.model.read_text()
        for name, content in [("empty", ""), ("cut", text[:len(text) // 2]), ("words", "hello"),
                              ("other", "module {}")]:
            with self.subTest(name=name):
                path = self.place(name + ".mlir")
                path.write_text(content)
                outcome = self.execute([BIN / "fsdp-compile", path, "-o", self.folder / "none"])
                self.assertEqual(outcome.returncode, 1, outcome.stderr)
                self.assertIn("error: ", outcome.stderr)
                self.assertFalse((self.folder / "none").exists())

    # The launch.

    def test_another_number_of_ranks(self):
        self.refuse(self.words(n=3), "expected -n 2", "shard=2", "got 3")

    @needs_mpi
    def test_another_number_of_ranks_under_mpirun(self):
        outcome = self.execute(["mpirun", "--oversubscribe", "--allow-run-as-root", "-n", 3,
                                *self.words(n=None)])
        self.assertNotEqual(outcome.returncode, 0)
        self.assertIn("expected 2 processes", outcome.stderr)
        self.assertIn("got 3", outcome.stderr)
        self.assertEqual(programs_running(self.program), [])

    def test_a_processor_without_the_instructions(self):
        # No processor has both: AMD dropped one's when Intel had not yet built the other's.
        for cpu in ("bdver4", "diamondrapids"):
            program = self.compile(self.fixture, MESH, "--march", cpu)
            self.refuse(self.words(program), "compiled for " + cpu, "this processor lacks")

    # Parameters.

    def test_parameters_that_do_not_fit(self):
        name = "transformer.h.0.mlp.c_fc.weight"

        def remove(tensors):
            del tensors[name]

        def add(tensors):
            tensors["surplus"] = ("F32", [1], b"\0" * 4)

        def reshape(tensors):
            dtype, shape, data = tensors[name]
            tensors[name] = (dtype, shape[::-1], data)

        def retype(tensors):
            _, shape, data = tensors[name]
            tensors[name] = ("F16", shape, data[:len(data) // 2])

        for change, messages in [
                (remove, ["missing", name]), (add, ["unexpected", "surplus"]),
                (reshape, [name, "64", "256"]), (retype, [name, "F32", "F16"])]:
            with self.subTest(change=change.__name__):
                self.refuse(self.words(params=self.damaged(change)), *messages)

    def test_files_of_parameters_that_are_damaged(self):
        data = self.fixture.params.read_bytes()
        (size,) = struct.unpack("<Q", data[:8])
        lie = data[:8] + data[8:8 + size].replace(b"[0,", b"[8,", 1) + data[8 + size:]
        for name, content in [("empty", b""), ("header alone", data[:8 + size]),
                              ("truncated", data[:-1]), ("longer", data + b"\0"),
                              ("header of exabytes", b"\xff" * 7 + b"\x7f" + data[8:]),
                              ("header that lies", lie)]:
            with self.subTest(name=name):
                self.assertNotEqual(content, data)
                path = self.place("damaged.safetensors")
                path.write_bytes(content)
                self.refuse(self.words(params=path), "expected", path.name)
        self.refuse(self.words(params=self.folder / "nowhere"), "No such file")
        self.refuse(self.words(params=self.folder), "directory")

    # Batches.

    def test_batches_that_do_not_fit(self):
        def shorten(tensors):
            for name, (dtype, shape, data) in tensors.items():
                tensors[name] = (dtype, [*shape[:3], shape[3] // 2], data[:len(data) // 2])

        def drop_ranks(tensors):
            for name, (dtype, shape, data) in tensors.items():
                tensors[name] = (dtype, [shape[0], 1, *shape[2:]], data[:len(data) // shape[1]])

        def remove(tensors):
            del tensors["labels"]

        for change, messages in [(shorten, ["input_ids", "32", "16"]),
                                 (drop_ranks, ["2", "1"]), (remove, ["labels"])]:
            with self.subTest(change=change.__name__):
                self.refuse(self.words(data=self.damaged(change, "batches.safetensors")), *messages)

    def test_a_token_outside_the_vocabulary(self):
        def spoil(tensors):
            dtype, shape, data = tensors["input_ids"]
            self.assertEqual(dtype, "I64")
            position = 8 * (shape[1] * shape[2] * shape[3] + 5)  # in the second step, rank 0
            tensors["input_ids"] = (dtype, shape, data[:position] + struct.pack("<q", 256)
                                    + data[position + 8:])

        outcome = self.refuse(self.words(data=self.damaged(spoil, "batches.safetensors")),
                              "input_ids", "256")
        self.assertNotIn("step: 2 ", outcome.stdout)

    # Places that cannot be written.

    def test_places_that_cannot_be_written(self):
        for option in ("save", "metrics", "trace"):
            with self.subTest(option=option):
                self.refuse(self.words(**{option: "/proc/none/x"}), "/proc/none")
        # root may write everywhere but where nobody can.
        if os.geteuid() != 0:
            folder = self.place("locked")
            folder.mkdir(mode=0o500)
            self.refuse(self.words(save=folder / "x"), "Permission denied")
        self.refuse(self.words(metrics="/dev/full"), "No space left on device")

    def test_a_disk_that_is_full(self):
        # A file system of 200 KB in a name space of its own: a checkpoint takes 1.4 MB.
        folder = self.place("small")
        folder.mkdir()
        inside = ["unshare", "--mount", "sh", "-ec",
                  'mount -t tmpfs -o size=200k none "$0"; "$@" || status=$?; ls -A "$0"; '
                  'exit $status', folder]
        if os.geteuid() != 0:
            inside[1:1] = ["--user", "--map-root-user"]
        if not shutil.which("unshare") or self.execute([*inside, "true"]).returncode != 0:
            self.skipTest("may not mount a small file system here")
        outcome = self.execute([*inside, *self.words(save=folder / "saves")])
        self.assertEqual(outcome.returncode, 1, outcome.stderr)
        self.assertIn("No space left on device", outcome.stderr)
        self.assertNotIn("step-", outcome.stdout.splitlines()[-1])
        compile_there = [*inside, BIN / "fsdp-compile", self.fixture.model, "-o", folder / "train"]
        linkers = [None, *filter(shutil.which, ("ld.bfd", "ld.gold", "ld.lld", "ld.lld-22"))]
        for linker in linkers:
            with self.subTest(linker=linker):
                outcome = self.execute(compile_there, self.link_with(linker))
                self.assertEqual(outcome.returncode, 1, outcome.stderr)
                self.assertIn("error: ", outcome.stderr)
                self.assertEqual(outcome.stdout, "", "left in the folder")

    def link_with(self, linker):
        """The environment in which the compiler driver finds `linker` where it looks for ld."""
        if linker is None:
            return {}
        folder = self.place(f"with-{linker}")
        folder.mkdir()
        (folder / "ld").symlink_to(shutil.which(linker))
        return {"COMPILER_PATH": str(folder)}

    # Ends in the middle.

    def start(self, words):
        process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True)
        self.addCleanup(self.finish, process)
        # Steps are running once the third is told.
        for line in process.stdout:
            if line.startswith("step: 3 "):
                return process
        self.fail(process.stderr.read())

    def finish(self, process):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        process.stderr.close()

    def expect_end(self, process, status, message):
        _, err = process.communicate(timeout=TIME_LIMIT)
        self.assertEqual(process.returncode, status, err)
        self.assertIn(message, err)
        self.expect_none_running()

    def expect_none_running(self):
        deadline = time.monotonic() + 10
        while programs_running(self.program) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(programs_running(self.program), [])

    def test_signals_save(self):
        # Ctrl-C, a scheduler's end, a closed terminal.
        for sent in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
            with self.subTest(signal=sent):
                folder = self.place("saves")
                process = self.start(self.words(steps=FOREVER, save=folder))
                os.killpg(process.pid, sent)
                self.expect_end(process, 1, "error: interrupted at step ")
                saved = sorted(path.name for path in folder.iterdir())
                self.assertEqual(len(saved), 2)
                step = int(saved[1][len("step-"):])
                outcome = self.execute(self.words(params=None, resume=folder, steps=step + 1))
                self.assertEqual(outcome.returncode, 0, outcome.stderr)
                self.assertIn(f"step: {step + 1} ", outcome.stdout)

    def expect_threads_to_block_signals(self):
        # Products of oneDNN use a buffer of the heap as their stack: a handler of a signal that
        # interrupts one overwrites the heap. It takes few signals to crash, but not one.
        wanted = sum(1 << sent - 1 for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
        threads = 0
        for pid in programs_running(self.program):
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                fields = dict(line.split(":\t", 1)
                              for line in (task / "status").read_text().splitlines())
                self.assertEqual(int(fields["SigBlk"], 16) & wanted, wanted, fields["Name"])
                threads += 1
        self.assertGreater(threads, 4)

    def test_signals_interrupt_no_computation(self):
        self.start(self.words(steps=FOREVER, threads=2, queue_threads="on"))
        self.expect_threads_to_block_signals()

    @needs_mpi
    def test_signals_interrupt_no_computation_under_mpi(self):
        self.start(self.words(steps=FOREVER, threads=2, backend="mpi"))
        self.expect_threads_to_block_signals()

    @needs_mpi
    def test_signals_under_mpi(self):
        for sent in signal.SIGINT, signal.SIGHUP:
            with self.subTest(signal=sent):
                folder = self.place("saves")
                process = self.start(self.words(steps=FOREVER, backend="mpi", save=folder))
                os.killpg(process.pid, sent)
                self.expect_end(process, 1, "error: interrupted at step ")
                self.assertEqual(len(list(folder.iterdir())), 2)

    def outlive_a_terminal(self, backend):
        process = self.start(["nohup", *self.words(steps=FOREVER, backend=backend)])
        os.killpg(process.pid, signal.SIGHUP)
        # Those that were under way when it came, and then some.
        for line, _ in zip(process.stdout, range(100)):
            pass
        self.assertIsNone(process.poll())
        os.killpg(process.pid, signal.SIGTERM)
        self.expect_end(process, 1, "error: interrupted at step ")

    def test_nohup(self):
        self.outlive_a_terminal("local")

    @needs_mpi
    def test_nohup_under_mpi(self):
        self.outlive_a_terminal("mpi")

    def lose_the_reader(self, backend):
        process = self.start(self.words(steps=FOREVER, backend=backend))
        process.stdout.close()  # as `| head -3` does
        self.assertEqual(process.wait(TIME_LIMIT), -signal.SIGPIPE)
        self.assertEqual(process.stderr.read(), "")
        self.expect_none_running()

    def test_a_reader_that_goes_away(self):
        self.lose_the_reader("local")

    @needs_mpi
    def test_a_reader_that_goes_away_under_mpi(self):
        self.lose_the_reader("mpi")

    @needs_mpi
    def test_a_rank_killed_under_mpi(self):
        process = self.start(self.words(steps=FOREVER, backend="mpi"))
        # The first one started mpirun, and that the ranks.
        by_rank = {}
        for pid in programs_running(self.program):
            variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            by_rank.update((int(variable.split(b"=")[1]), pid) for variable in variables
                           if variable.startswith(b"OMPI_COMM_WORLD_RANK="))
        self.assertEqual(sorted(by_rank), [0, 1])
        os.kill(by_rank[1], signal.SIGKILL)
        killed = time.monotonic()
        self.expect_end(process, 1, "error: rank 1 was killed by signal 9")
        self.assertLess(time.monotonic() - killed, 5)  # what all others may take to end

    def test_memory_that_is_not_there(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (1 << 24, 1 << 24))

        outcome = subprocess.run([str(word) for word in self.words()], stdin=subprocess.DEVNULL,
                                 capture_output=True, text=True, timeout=TIME_LIMIT,
                                 preexec_fn=limit)
        self.assertEqual(outcome.returncode, 1, outcome.stderr)
        self.assertIn("error: ", outcome.stderr)


if __name__ == "__main__":
    unittest.main()
