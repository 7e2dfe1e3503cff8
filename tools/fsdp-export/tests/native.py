#===- native.py - Runs an exported function ------------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Lowers a module with stock MLIR tools to a library, and calls it.

Slow code and leaked memory do not matter here: sizes are tiny.
"""

import ctypes
import glob
import itertools
import os
import shutil
import subprocess

import torch

_PASSES = (
    "func.func(llvm-request-c-wrappers),canonicalize,"
    "one-shot-bufferize{bufferize-function-boundaries "
    "function-boundary-type-conversion=identity-layout-map},"
    "convert-linalg-to-loops,expand-strided-metadata,lower-affine,"
    "convert-scf-to-cf,math-expand-ops{ops=rsqrt},convert-math-to-llvm,"
    "convert-math-to-libm,arith-expand{include-bf16=true},"
    "convert-arith-to-llvm,finalize-memref-to-llvm,convert-func-to-llvm,"
    "convert-cf-to-llvm,convert-index-to-llvm,reconcile-unrealized-casts")


def find_tool(name: str) -> str | None:
    """mlir-opt and its like: $MLIR_BIN_DIR, the path, Debian's folders."""
    folder = os.environ.get("MLIR_BIN_DIR")
    places = [folder] if folder else []
    for place in (*places, *sorted(glob.glob("/usr/lib/llvm-*/bin"))[::-1]):
        if found := shutil.which(name, path=place):
            return found
    return shutil.which(name) or shutil.which(f"{name}-22")


_numbers = itertools.count()


class Native:
    """A function of an exported module, callable with tensors."""

    def __init__(self, source, folder, name: str = "forward_backward"):
        opt, translate, clang = map(find_tool,
                                    ("mlir-opt", "mlir-translate", "clang"))
        # The loader knows a library by its path: each gets its own.
        stem = folder / f"{name}{next(_numbers)}"
        lowered, code, library = (stem.with_suffix(s)
                                  for s in (".llvm.mlir", ".ll", ".so"))
        _run(opt, "--allow-unregistered-dialect", source, "-o", lowered,
             f"--pass-pipeline=builtin.module({_PASSES})")
        _run(translate, "--mlir-to-llvmir", lowered, "-o", code)
        libs = os.path.join(os.path.dirname(os.path.realpath(opt)), "..", "lib")
        _run(clang, "-O1", "-shared", "-fPIC", "-Wno-override-module", code,
             f"-L{libs}", f"-Wl,-rpath,{libs}", "-lmlir_c_runner_utils", "-lm",
             "-o", library)
        self._entry = getattr(ctypes.CDLL(str(library)), f"_mlir_ciface_{name}")

    def __call__(self, arguments, results):
        """Calls with `arguments`; `results` gives the results' shapes."""
        inputs = [x.detach().contiguous().clone() for x in arguments]
        descriptors = [_descriptor(x.dim())(x.data_ptr(), x.data_ptr(), 0,
                                            *x.shape, *x.stride())
                       for x in inputs]
        kinds = [_descriptor(x.dim()) for x in results]
        struct = type("Results", (ctypes.Structure,), {
            "_fields_": [(f"r{i}", k) for i, k in enumerate(kinds)]})
        out = struct() if len(kinds) > 1 else kinds[0]()
        self._entry(ctypes.byref(out), *map(ctypes.byref, descriptors))
        found = ([getattr(out, f"r{i}") for i in range(len(kinds))]
                 if len(kinds) > 1 else [out])
        return [_read(d, x) for d, x in zip(found, results)]


def _descriptor(rank: int):
    """MLIR's memref descriptor: two pointers, offset, sizes, strides."""
    words = [(n, ctypes.c_int64) for n in
             ("offset", *(f"size{i}" for i in range(rank)),
              *(f"stride{i}" for i in range(rank)))]
    pointers = [("allocated", ctypes.c_void_p), ("aligned", ctypes.c_void_p)]
    return type(f"MemRef{rank}", (ctypes.Structure,),
                {"_fields_": pointers + words})


def _read(found, like: torch.Tensor) -> torch.Tensor:
    sizes = [getattr(found, f"size{i}") for i in range(like.dim())]
    strides = [getattr(found, f"stride{i}") for i in range(like.dim())]
    assert sizes == list(like.shape), (sizes, like.shape)
    span = 1 + sum((n - 1) * s for n, s in zip(sizes, strides))
    size = like.element_size()
    raw = (ctypes.c_char * (span * size)).from_address(
        found.aligned + found.offset * size)
    flat = torch.frombuffer(bytearray(raw), dtype=like.dtype)
    return flat.as_strided(sizes, strides).clone()


def _run(*command) -> None:
    done = subprocess.run([str(c) for c in command], capture_output=True,
                          text=True, timeout=240)
    assert done.returncode == 0, done.stderr[:2000]
