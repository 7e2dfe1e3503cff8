"""Builds traced steps (L0) as text, once for fsdp-compile and once for the
reference, which takes and fills buffers instead."""

import array
import random
import struct

FLOATS = ("f64", "f32", "f16", "bf16")
SAFETENSORS = {
    "f64": "F64", "f32": "F32", "f16": "F16", "bf16": "BF16", "i64": "I64",
    "i32": "I32", "i16": "I16", "i8": "I8", "i1": "BOOL",
}
FORMATS = {
    "f64": "d", "f32": "f", "f16": "e", "i64": "q", "i32": "i", "i16": "h",
    "i8": "b", "i1": "B",
}


def count(shape):
    total = 1
    for size in shape:
        total *= size
    return total


def tensor(shape, dtype, kind="tensor"):
    return f"{kind}<{''.join(f'{size}x' for size in shape)}{dtype}>"


def element_bytes(dtype):
    return 2 if dtype == "bf16" else struct.calcsize(FORMATS[dtype])


def encode(values, dtype):
    """Numbers as little-endian bytes; those of an array are as they are."""
    if isinstance(values, array.array):
        return values.tobytes()
    if dtype == "bf16":
        # Rounded to nearest, ties to even.
        result = bytearray()
        for value in values:
            bits = struct.unpack("<I", struct.pack("<f", value))[0]
            bits += 0x7FFF + ((bits >> 16) & 1)
            result += struct.pack("<H", bits >> 16)
        return bytes(result)
    return struct.pack(f"<{len(values)}{FORMATS[dtype]}", *values)


def decode(data, dtype):
    if dtype == "bf16":
        halves = struct.unpack(f"<{len(data) // 2}H", data)
        return [struct.unpack("<f", struct.pack("<I", h << 16))[0]
                for h in halves]
    n = len(data) // element_bytes(dtype)
    return list(struct.unpack(f"<{n}{FORMATS[dtype]}", data))


class Value:
    def __init__(self, name, shape, dtype, bound=1.0, leaf=False):
        self.name = name
        self.shape = tuple(shape)
        self.dtype = dtype
        # No element is larger than this in magnitude (roughly).
        self.bound = bound
        # Read from a file, and so the same bits everywhere.
        self.leaf = leaf

    @property
    def type(self):
        return tensor(self.shape, self.dtype)

    @property
    def is_float(self):
        return self.dtype in FLOATS


class Argument:
    def __init__(self, value, role, low=None, high=None, entries=""):
        self.value = value
        self.role = role
        # Of a random argument, behind its name.
        self.entries = entries
        self.low = low
        self.high = high

    @property
    def name(self):
        return self.value.name.lstrip("%")

    @property
    def attribute(self):
        if self.role == "param":
            return f'{{fsdp.param = {{fqn = "{self.name}"}}}}'
        if self.role == "buffer":
            return f'{{fsdp.buffer = {{fqn = "{self.name}"}}}}'
        if self.role == "random":
            return f'{{fsdp.random = {{name = "{self.name}", {self.entries}}}}}'
        bounds = ""
        if self.low is not None:
            bounds = f", low = {self.low}, high = {self.high}"
        return f'{{fsdp.input = {{name = "{self.name}"{bounds}}}}}'

    def make_data(self, rng):
        """Values of one instance."""
        n = count(self.value.shape)
        dtype = self.value.dtype
        if dtype == "i1":
            return [rng.randrange(2) for _ in range(n)]
        if dtype in FLOATS:
            # Few bits, so that every float type holds them.
            return [rng.randint(-64, 64) / 64 for _ in range(n)]
        low = -4 if self.low is None else self.low
        high = 5 if self.high is None else self.high
        return [rng.randrange(low, high) for _ in range(n)]


class Step:
    """A traced step, written op by op."""

    def __init__(self):
        self.args = []
        self.lines = []
        # (attribute, value); the loss comes first.
        self.outputs = []
        self.loss = None
        self.next = 0

    # Names, arguments and results.

    def fresh(self, stem="v"):
        self.next += 1
        return f"%{stem}{self.next}"

    def argument(self, role, shape, dtype="f32", low=None, high=None):
        value = Value(self.fresh(role[0]), shape, dtype, leaf=True)
        if not value.is_float:
            value.bound = max(abs(low or -4), abs(high or 5))
        self.args.append(Argument(value, role, low, high))
        return value

    def param(self, shape):
        return self.argument("param", shape)

    def input(self, shape, dtype="f32", low=None, high=None):
        return self.argument("input", shape, dtype, low, high)

    def random(self, kind, site, shape, shared=False):
        """Drawn anew in each step (docs/random.md)."""
        value = Value(self.fresh("r"), shape, "i32" if kind == "bits" else "f32", leaf=True)
        entries = f'kind = "{kind}", site = {site}' + (", shared = true" if shared else "")
        self.args.append(Argument(value, "random", entries=entries))
        return value

    def keep(self, value):
        """Makes `value` visible: as the gradient of a parameter of its own, or
        as the new value of a buffer of its own."""
        # Averaged over ranks, so every rank's value counts.
        if value.dtype == "f32" and self.next % 2 == 0 and value.shape:
            owner = self.param(value.shape)
            return self.gradient(owner, value)
        owner = self.argument("buffer", value.shape, value.dtype)
        return self.update(owner, value)

    def gradient(self, param, value):
        self.outputs.append(
            (f'{{fsdp.grad = {{fqn = "{param.name[1:]}"}}}}', value))

    def update(self, buffer, value):
        self.outputs.append(
            (f'{{fsdp.buffer_update = {{fqn = "{buffer.name[1:]}"}}}}', value))

    # Ops.

    def emit(self, text, reference=None):
        self.lines.append((text, reference or text))

    def constant(self, text, dtype):
        name = self.fresh("c")
        kind = "" if text in ("true", "false") else f" : {dtype}"
        self.emit(f"{name} = arith.constant {text}{kind}")
        return name

    def zero(self, dtype):
        return self.constant("0.0" if dtype in FLOATS else
                             "false" if dtype == "i1" else "0", dtype)

    def empty(self, shape, dtype):
        name = self.fresh("e")
        self.emit(f"{name} = tensor.empty() : {tensor(shape, dtype)}")
        return name

    def fill(self, shape, dtype, constant):
        """A tensor full of `constant`'s name."""
        empty = self.empty(shape, dtype)
        name = self.fresh("f")
        kind = tensor(shape, dtype)
        self.emit(f"{name} = linalg.fill ins({constant} : {dtype}) "
                  f"outs({empty} : {kind}) -> {kind}")
        return name

    def result(self, text, shape, dtype, bound, reference=None):
        """`text` gives one tensor."""
        name = self.fresh()
        self.emit(f"{name} = {text}",
                  reference and f"{name} = {reference}")
        return Value(name, shape, dtype, bound)

    def generic(self, loops, inputs, inits, results, body, reductions=()):
        """inputs: (value, map); inits: (name, map); results: (shape, dtype,
        bound) for each init; body(inputs..., inits...) gives lines and what is
        yielded. Maps are lists of affine expressions over d0, d1, ..."""
        dims = ", ".join(f"d{i}" for i in range(loops))
        maps = ", ".join(
            f"affine_map<({dims}) -> ({', '.join(map(str, m))})>"
            for _, m in list(inputs) + list(inits))
        iterators = ", ".join(
            '"reduction"' if i in reductions else '"parallel"'
            for i in range(loops))
        ins = ""
        if inputs:
            ins = (f"ins({', '.join(v.name for v, _ in inputs)} : "
                   f"{', '.join(v.type for v, _ in inputs)}) ")
        types = [tensor(shape, dtype) for shape, dtype, _ in results]
        outs = (f"outs({', '.join(n for n, _ in inits)} : "
                f"{', '.join(types)})")
        args = [f"%a{i}" for i in range(len(inputs) + len(inits))]
        dtypes = [v.dtype for v, _ in inputs] + [d for _, d, _ in results]
        lines, yielded = body(*args)
        name = self.fresh()
        lead = name if len(results) == 1 else f"{name}:{len(results)}"
        arrow = types[0] if len(results) == 1 else f"({', '.join(types)})"
        header = ", ".join(f"{a}: {d}" for a, d in zip(args, dtypes))
        text = [f"{lead} = linalg.generic {{indexing_maps = [{maps}], "
                f"iterator_types = [{iterators}]}} {ins}{outs} {{",
                f"^bb0({header}):"]
        text += [f"  {line}" for line in lines]
        text += [f"  linalg.yield {', '.join(yielded)} : "
                 f"{', '.join(d for _, d, _ in results)}",
                 f"}} -> {arrow}"]
        self.emit("\n    ".join(text))
        if len(results) == 1:
            return Value(name, results[0][0], results[0][1], results[0][2])
        return [Value(f"{name}#{i}", *results[i]) for i in range(len(results))]

    # The whole.

    def finish(self):
        if self.loss is None:
            name = self.constant("1.0", "f32")
            self.loss = Value(self.fill((), "f32", name), (), "f32")
        # Every parameter has a gradient.
        names = {a for a, _ in self.outputs}
        for arg in list(self.args):
            if arg.role == "param" and not any(
                    f'"{arg.name}"' in attr and "grad" in attr
                    for attr in names):
                factor = self.input([])
                loops = [f"d{i}" for i in range(len(arg.value.shape))]
                self.gradient(arg.value, self.generic(
                    len(loops), [(arg.value, loops), (factor, [])],
                    [(self.empty(arg.value.shape, "f32"), loops)],
                    [(arg.value.shape, "f32", 1.0)],
                    lambda a, b, o: (["%r = arith.mulf %a0, %a1 : f32"],
                                     ["%r"])))

    def module(self):
        args = ",\n    ".join(f"{a.value.name}: {a.value.type} {a.attribute}"
                              for a in self.args)
        results = [("{fsdp.loss}", self.loss)] + self.outputs
        types = ", ".join(v.type for _, v in results)
        signature = ",\n    ".join(f"{v.type} {attr}" for attr, v in results)
        body = "\n    ".join(line for line, _ in self.lines)
        return (f"func.func @forward_backward(\n    {args})\n    -> "
                f"({signature}) {{\n    {body}\n    return "
                f"{', '.join(v.name for _, v in results)} : {types}\n}}\n")

    def reference(self):
        """A function of buffers: arguments, then results."""
        results = [("", self.loss)] + self.outputs
        args = [f"{a.value.name}_m: "
                f"{tensor(a.value.shape, a.value.dtype, 'memref')}"
                for a in self.args]
        args += [f"%out{i}: {tensor(v.shape, v.dtype, 'memref')}"
                 for i, (_, v) in enumerate(results)]
        lines = [f"{a.value.name} = bufferization.to_tensor {a.value.name}_m "
                 f"restrict : {tensor(a.value.shape, a.value.dtype, 'memref')} "
                 f"to {a.value.type}" for a in self.args]
        lines += [line for _, line in self.lines]
        lines += [f"bufferization.materialize_in_destination {v.name} in "
                  f"restrict writable %out{i} : ({v.type}, "
                  f"{tensor(v.shape, v.dtype, 'memref')}) -> ()"
                  for i, (_, v) in enumerate(results)]
        body = "\n    ".join(lines)
        return (f"func.func @reference({', '.join(args)}) attributes "
                f"{{llvm.emit_c_interface}} {{\n    {body}\n    return\n}}\n")


def make_data(step, ranks, seed):
    """(parameters and buffers by name, inputs by name and rank)."""
    rng = random.Random(seed)
    state, inputs = {}, {}
    for arg in step.args:
        if arg.role == "random":
            continue
        if arg.role == "input":
            inputs[arg.name] = [arg.make_data(rng) for _ in range(ranks)]
        else:
            state[arg.name] = arg.make_data(rng)
    return state, inputs
