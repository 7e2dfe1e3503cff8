"""Runs steps: compiled by fsdp-compile, and by upstream's passes alone, which
bufferize the whole step and turn it into scalar loops."""

import ctypes
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile

from step import SAFETENSORS, count, decode, element_bytes, encode

REFERENCE_PASSES = """builtin.module(
  func.func(linalg-generalize-named-ops, convert-elementwise-to-linalg),
  one-shot-bufferize{allow-return-allocs-from-loops=1},
  func.func(convert-linalg-to-loops),
  expand-strided-metadata, lower-affine, convert-scf-to-cf,
  convert-math-to-funcs, convert-math-to-llvm, convert-math-to-libm,
  arith-expand{include-bf16=true}, convert-arith-to-llvm,
  convert-index-to-llvm, finalize-memref-to-llvm, convert-func-to-llvm,
  convert-cf-to-llvm, convert-ub-to-llvm, reconcile-unrealized-casts)"""


CXX = os.environ.get("CXX", "c++")
# Seconds that any command may take.
TIMEOUT = 60


# What code generators call for bf16 where the processor cannot round to it;
# the C library of older compilers lacks it. The result is the low half of the
# register a float is returned in.
BF16_HELPERS = """
#include <stdint.h>
#include <string.h>
extern "C" float __truncsfbf2(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  if (value == value)
    bits += 0x7fff + ((bits >> 16) & 1);
  bits = (bits >> 16) | (value == value ? 0 : 0x40);
  memcpy(&value, &bits, 4);
  return value;
}
extern "C" float __truncdfbf2(double value) { return __truncsfbf2(value); }
"""


class Failure(Exception):
    """Something that must not happen, with what there is to read about it."""


def run(command, **options):
    shown = " ".join(str(c) for c in command)
    try:
        result = subprocess.run([str(c) for c in command], capture_output=True,
                                text=True, timeout=TIMEOUT, **options)
    except subprocess.TimeoutExpired:
        raise Failure(f"{shown}\nstill running after {TIMEOUT} s") from None
    if result.returncode != 0:
        raise Failure(f"{shown}\nexit status {result.returncode}\n"
                      f"{result.stdout[-2000:]}{result.stderr[-4000:]}")
    return result


def write_safetensors(path, tensors):
    """tensors: name -> (shape, dtype, values)."""
    header, blobs, offset = {}, [], 0
    for name, (shape, dtype, values) in tensors.items():
        data = encode(values, dtype)
        header[name] = {"dtype": SAFETENSORS[dtype], "shape": list(shape),
                        "data_offsets": [offset, offset + len(data)]}
        blobs.append(data)
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def read_safetensors(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    names = {v: k for k, v in SAFETENSORS.items()}
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        tensors[name] = decode(data[8 + size + begin:8 + size + end],
                               names[entry["dtype"]])
    return tensors


class Tools:
    def __init__(self, bin_dir, llvm_dir):
        self.compiler = pathlib.Path(bin_dir) / "fsdp-compile"
        self.llvm = pathlib.Path(llvm_dir)
        self.helpers = None

    def build_helpers(self):
        """The object of BF16_HELPERS, which all references share."""
        if not self.helpers:
            self.folder = tempfile.TemporaryDirectory(prefix="fsdp-kernels-")
            source = pathlib.Path(self.folder.name) / "helpers.cpp"
            source.write_text(BF16_HELPERS)
            run([CXX, "-fPIC", "-c", source, "-o", source.with_suffix(".o")])
            self.helpers = source.with_suffix(".o")
        return self.helpers

    def compile(self, step, ranks, directory, targets, options=(), mesh=None):
        """A program whose optimizer is SGD with learning rate 1, with code for
        these targets; `mesh`: not all ranks hold shards."""
        model = directory / "model.mlir"
        model.write_text(step.module())
        program = directory / f"program{ranks}-{'-'.join(targets)}"
        run([self.compiler, model, "--optimizer", "sgd:lr=1.0", "--mesh",
             mesh or f"shard={ranks}", "--target", ",".join(targets), "-o", program,
             *options])
        return program

    def run_program(self, program, step, state, inputs, ranks, device,
                    threads=2):
        """One step: the new parameters and buffers, and the loss."""
        directory = program.parent
        kinds = {a.name: a.value for a in step.args}
        write_safetensors(directory / "params.safetensors", {
            n: (kinds[n].shape, kinds[n].dtype, v) for n, v in state.items()})
        write_safetensors(directory / "data.safetensors", {
            n: ((1, ranks) + kinds[n].shape, kinds[n].dtype,
                per_rank[0] if ranks == 1 else sum(per_rank[:ranks], []))
            for n, per_rank in inputs.items()})
        save = directory / f"{program.name}-{device}-saved"
        metrics = directory / f"{program.name}-{device}-metrics"
        # Of an earlier call: saving there is refused, metrics are appended to.
        shutil.rmtree(save, ignore_errors=True)
        metrics.unlink(missing_ok=True)
        run([program, "-n", ranks, "--params", directory / "params.safetensors",
             "--data", directory / "data.safetensors", "--steps", 1,
             "--device", device, "--threads", threads, "--save", save,
             "--metrics", metrics])
        loss = json.loads(metrics.read_text().splitlines()[0])["loss"]
        saved = read_safetensors(
            save / (save / "latest").read_text().strip() / "params.safetensors")
        return loss, saved

    def run_on(self, devices, step, state, inputs, directory):
        """By device: the new parameters and buffers after a step of one rank, of
        a program with code for that device alone."""
        saved = {}
        for device in devices:
            program = self.compile(step, 1, directory, [device])
            _, saved[device] = self.run_program(program, step, state, inputs, 1,
                                                device)
        return saved

    def build_reference(self, step, directory):
        source = directory / "reference.mlir"
        source.write_text(step.reference())
        passes = REFERENCE_PASSES.replace("\n", "")
        llvm_dialect = run([self.llvm / "mlir-opt", source,
                            f"--pass-pipeline={passes}"]).stdout
        llvm_ir = run([self.llvm / "mlir-translate", "--mlir-to-llvmir"],
                      input=llvm_dialect).stdout
        assembly = directory / "reference.s"
        run([self.llvm / "llc", "-O1", "-relocation-model=pic",
             "-mattr=+f16c", "-o", assembly], input=llvm_ir)
        library = directory / "reference.so"
        # Some copies are calls of memrefCopy.
        libraries = self.llvm.parent / "lib"
        run([CXX, "-shared", "-o", library, assembly, self.build_helpers(),
             "-lm", f"-L{libraries}", "-lmlir_c_runner_utils",
             f"-Wl,-rpath,{libraries}"])
        try:
            return ctypes.CDLL(str(library))
        except OSError as error:
            raise Failure(str(error)) from None


def make_descriptor(shape, buffer):
    """An MLIR memref descriptor, row-major."""
    rank = len(shape)

    class Descriptor(ctypes.Structure):
        _fields_ = [("allocated", ctypes.c_void_p),
                    ("aligned", ctypes.c_void_p), ("offset", ctypes.c_int64),
                    ("sizes", ctypes.c_int64 * rank),
                    ("strides", ctypes.c_int64 * rank)]

    address = ctypes.addressof(buffer)
    strides = [count(shape[i + 1:]) for i in range(rank)]
    return Descriptor(address, address, 0, (ctypes.c_int64 * rank)(*shape),
                      (ctypes.c_int64 * rank)(*strides))


def run_reference(library, step, state, inputs, rank):
    """Loss and results of one rank's forward and backward."""
    buffers, descriptors = [], []

    def add(value, data):
        buffer = ctypes.create_string_buffer(data, max(1, len(data)))
        buffers.append(buffer)
        descriptors.append(make_descriptor(value.shape, buffer))

    for arg in step.args:
        values = (inputs[arg.name][rank] if arg.role == "input" else
                  state[arg.name])
        add(arg.value, encode(values, arg.value.dtype))
    results = [step.loss] + [v for _, v in step.outputs]
    for value in results:
        size = count(value.shape) * element_bytes(value.dtype)
        add(value, bytes(size))
    library._mlir_ciface_reference(
        *[ctypes.byref(descriptor) for descriptor in descriptors])
    values = [decode(b.raw[:count(v.shape) * element_bytes(v.dtype)], v.dtype)
              for v, b in zip(results, buffers[len(step.args):])]
    return values[0][0], values[1:]
