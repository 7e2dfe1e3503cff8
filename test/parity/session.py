"""Runs programs of a library (fsdp-compile --emit so) in the order that is asked for, through the C API.

  python3 session.py LIBRARY BACKEND PARAMS|CHECKPOINT BATCHES LR FIRST WORD..

A word is a program, `save=DIR`, `NAME:=VALUE` for a scalar, `?WORD` for one that must be refused, whose reason is
printed, or `--NAME=VALUE` for an option, set before the start. Inputs of the i-th run of a program that trains are batch
FIRST + i; those of an evaluation always the same. Programs that return a loss print it.
"""
import ctypes
import json
import pathlib
import sys

from steps import read_tensors


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("ranks", ctypes.c_int32), ("threads", ctypes.c_int32),
                ("backend", ctypes.c_char_p), ("device", ctypes.c_char_p)]


class Session:
    def __init__(self, library, backend):
        self.api = ctypes.CDLL(library)  # and the runtime, which it needs
        self.api.fsdp_last_error.restype = ctypes.c_char_p
        self.api.fsdp_create.argtypes = [ctypes.c_void_p] * 3
        self.handle = ctypes.c_void_p()
        entry = getattr(self.api, pathlib.Path(library).stem.removeprefix("lib") + "_artifact")
        entry.restype = ctypes.c_void_p
        options = Options(ctypes.sizeof(Options), 0, 1, backend.encode(), None)
        if self.api.fsdp_create(entry(), ctypes.byref(options), ctypes.byref(self.handle)):
            raise SystemExit(self.api.fsdp_last_error(None).decode())

    def refuses(self, name, *arguments):
        """Why a call fails; None where it does not."""
        if getattr(self.api, name)(self.handle, *arguments) == 0:
            return None
        return self.api.fsdp_last_error(self.handle).decode()

    def call(self, name, *arguments):
        if reason := self.refuses(name, *arguments):
            raise SystemExit(f"{name}: {reason}")

    def manifest(self):
        text = ctypes.c_char_p()
        self.call("fsdp_describe", ctypes.byref(text))
        return json.loads(text.value)

    def ranks(self):
        first, count = ctypes.c_int32(), ctypes.c_int32()
        self.call("fsdp_ranks", None, ctypes.byref(first), ctypes.byref(count))
        return range(first.value, first.value + count.value)

    def set_inputs(self, program, tensors, batch):
        for entry in program["inputs"]:
            _, (batches, ranks, *_), data = tensors[entry["name"]]
            size = len(data) // (batches * ranks)
            for rank in self.ranks():
                at = size * (batch % batches * ranks + rank)
                self.call("fsdp_set_input", program["name"].encode(), rank, entry["name"].encode(),
                          data[at:at + size], ctypes.c_size_t(size))

    def loss(self, program):
        value = ctypes.c_float()
        self.call("fsdp_read_output", program["name"].encode(), self.ranks()[0], b"loss", ctypes.byref(value),
                  ctypes.c_size_t(4))
        return value.value


def main(library, backend, start, batches, lr, first, *words):
    session = Session(library, backend)
    for word in (word for word in words if word.startswith("--")):
        name, value = word.removeprefix("--").split("=", 1)
        if reason := session.refuses("fsdp_set_option", name.encode(), value.encode()):
            return print(reason)
    words = [word for word in words if not word.startswith("--")]
    if start.endswith(".safetensors"):
        session.call("fsdp_init_from_file", start.encode(), 0)
    else:
        session.call("fsdp_resume", start.encode(), None)
    session.call("fsdp_set_scalar", b"lr", ctypes.c_double(float(lr)))
    programs = {entry["name"]: entry for entry in session.manifest()["programs"]}
    tensors = read_tensors(batches)
    evaluated = read_tensors(pathlib.Path(batches).parent / "evaluation.safetensors")
    evaluated = {name.removeprefix("input."): tensor for name, tensor in evaluated.items()
                 if name.startswith("input.")}
    batch = int(first)
    for word in words:
        refused = word.startswith("?")
        word = word.removeprefix("?")
        if word.startswith("save="):
            call = ("fsdp_save", word.removeprefix("save=").encode())
        elif ":=" in word:
            name, value = word.split(":=")
            call = ("fsdp_set_scalar", name.encode(), ctypes.c_double(float(value)))
        else:
            program = programs[word]
            trains = program["kind"] != "eval"
            session.set_inputs(program, tensors if trains else evaluated, batch if trains else 0)
            call = ("fsdp_run", word.encode())
        if refused:
            print(word, session.refuses(*call))
            continue
        session.call(*call)
        if call[0] == "fsdp_run":
            print(word, session.loss(program))
            batch += trains
    session.api.fsdp_destroy(session.handle)


if __name__ == "__main__":
    main(*sys.argv[1:])
