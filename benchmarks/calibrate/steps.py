"""Writes training steps of any size in the compiler's input form (docs/input-contract.md), without a framework."""


class Tensor:
    def __init__(self, name, shape, dtype):
        self.name, self.shape, self.dtype = name, list(shape), dtype

    @property
    def type(self):
        return "tensor<" + "".join(f"{size}x" for size in self.shape) + self.dtype + ">"


class Step:
    """One function of parameters with gradients, inputs, and a loss to which every part adds."""

    def __init__(self, dtype="f32"):
        self.dtype, self.lines, self.arguments, self.gradients, self.names = dtype, [], [], [], 0
        self.lines = ["%zero = arith.constant 0.0 : f32", "%low = arith.constant 0xFF800000 : f32"]
        self.loss = None

    def parameter(self, *shape):
        return self._argument("param", "fqn", shape, ', init = {kind = "uniform", low = -0.1, high = 0.1}')

    def input(self, *shape):
        return self._argument("input", "name", shape)

    def gradient(self, parameter, value):
        self.gradients.append((parameter, self.cast(value, parameter.dtype)))

    def add_loss(self, value):
        """Half of the sum of squares; its gradient is @value itself."""
        total = self.reduce(["%s = arith.mulf %a0, %a0 : f32", "%r = arith.addf %s, %o : f32"], self.cast(value, "f32"),
                            range(len(value.shape)), "%zero")
        half = self.elementwise(["%h = arith.constant 0.5 : f32", "%r = arith.mulf %a0, %h : f32"], [total])
        self.loss = half if self.loss is None else self.elementwise(["%r = arith.addf %a0, %a1 : f32"], [self.loss, half])

    def elementwise(self, body, inputs, maps=None, dtype="f32"):
        """@body: lines that read %a0, %a1, .. and indices, and end with %r. @maps: dimensions that each input has."""
        every = list(range(len(inputs[0].shape)))
        out = self._empty(inputs[0].shape, dtype)
        return self._generic(body, inputs, (maps or [every] * len(inputs)) + [every], ["parallel"] * len(every), out)

    def reduce(self, body, value, axes, start):
        out = self._filled([size for i, size in enumerate(value.shape) if i not in axes], start)
        every = range(len(value.shape))
        return self._generic(body, [value], [list(every), [i for i in every if i not in axes]],
                             ["reduction" if i in axes else "parallel" for i in every], out)

    def cast(self, value, dtype):
        if value.dtype == dtype:
            return value
        op = "extf" if dtype == "f32" else "truncf"
        return self.elementwise([f"%r = arith.{op} %a0 : {value.dtype} to {dtype}"], [value], dtype=dtype)

    def transpose(self, value):
        """The last two dimensions change places."""
        order = list(range(len(value.shape)))
        order[-2:] = reversed(order[-2:])
        out = self._empty([value.shape[i] for i in order], value.dtype)
        return self._add(f"linalg.transpose ins({value.name} : {value.type}) outs({out.name} : {out.type}) "
                         f"permutation = {order}", out)

    def product(self, a, b):
        """Of matrices or batches of them: summed in f32, as wide as they are."""
        out = self._filled([*a.shape[:-1], b.shape[-1]], "%zero")
        op = "matmul" if len(a.shape) == 2 else "batch_matmul"
        result = self._add(f"linalg.{op} ins({a.name}, {b.name} : {a.type}, {b.type}) outs({out.name} : {out.type}) -> {out.type}",
                           out)
        return self.cast(result, a.dtype)

    def text(self):
        results = ", ".join([f"{self.loss.type} {{fsdp.loss}}"] +
                            [f'{p.type} {{fsdp.grad = {{fqn = "{p.name[1:]}"}}}}' for p, _ in self.gradients])
        values = [self.loss, *(value for _, value in self.gradients)]
        body = "\n  ".join(self.lines)
        return (f"func.func @forward_backward({', '.join(self.arguments)})\n    -> ({results}) {{\n  {body}\n"
                f"  return {', '.join(v.name for v in values)} : {', '.join(v.type for v in values)}\n}}\n")

    def _name(self):
        self.names += 1
        return f"%v{self.names}"

    def _argument(self, kind, key, shape, more=""):
        tensor = Tensor(f"%t{len(self.arguments)}", shape, self.dtype)
        self.arguments.append(f'{tensor.name}: {tensor.type} {{fsdp.{kind} = {{{key} = "{tensor.name[1:]}"{more}}}}}')
        return tensor

    def _add(self, text, like):
        result = Tensor(self._name(), like.shape, like.dtype)
        self.lines.append(f"{result.name} = {text}")
        return result

    def _empty(self, shape, dtype):
        empty = Tensor("", shape, dtype)
        return self._add(f"tensor.empty() : {empty.type}", empty)

    def _filled(self, shape, value):
        empty = self._empty(shape, "f32")
        return self._add(f"linalg.fill ins({value} : f32) outs({empty.name} : {empty.type}) -> {empty.type}", empty)

    def _generic(self, body, inputs, maps, iterators, out):
        dims = ", ".join(f"d{i}" for i in range(len(iterators)))
        affine = ", ".join(f"affine_map<({dims}) -> ({', '.join(f'd{i}' for i in m)})>" for m in maps)
        kinds = ", ".join(f'"{kind}"' for kind in iterators)
        arguments = ", ".join([f"%a{i}: {x.dtype}" for i, x in enumerate(inputs)] + [f"%o: {out.dtype}"])
        lines = "\n    ".join([*body, f"linalg.yield %r : {out.dtype}"])
        return self._add(
            f"linalg.generic {{indexing_maps = [{affine}], iterator_types = [{kinds}]}} "
            f"ins({', '.join(x.name for x in inputs)} : {', '.join(x.type for x in inputs)}) "
            f"outs({out.name} : {out.type}) {{\n  ^bb0({arguments}):\n    {lines}\n  }} -> {out.type}", out)


def matmuls(shapes, dtype):
    """x @ w and both gradients, for each (rows, inner, columns)."""
    step = Step(dtype)
    for m, k, n in shapes:
        x, w = step.parameter(m, k), step.parameter(k, n)
        y = step.product(x, w)
        step.add_loss(y)
        step.gradient(x, step.product(y, step.transpose(w)))
        step.gradient(w, step.product(step.transpose(x), y))
    return step.text()


def products_of_elements(counts):
    """w * x by elements. With plain SGD one kernel makes the gradient and the update: it reads two tensors, writes one."""
    step = Step()
    for count in counts:
        w, x = step.parameter(count), step.input(count)
        y = step.elementwise(["%r = arith.mulf %a0, %a1 : f32"], [w, x])
        step.add_loss(y)
        step.gradient(w, step.elementwise(["%r = arith.mulf %a0, %a1 : f32"], [y, x]))
    return step.text()


def attention(batch, sequence, head, dtype):
    """Causal attention of @batch heads, forward and backward."""
    step = Step(dtype)
    q, k, v = (step.parameter(batch, sequence, head) for _ in range(3))
    rows = [[0, 1, 2], [0, 1]]
    scores = step.cast(step.product(q, step.transpose(k)), "f32")
    scale = [f"%f = arith.constant {head ** -0.5!r} : f32", "%r = arith.mulf %a0, %f : f32"]
    scores = step.elementwise(scale, [scores])
    scores = step.elementwise(["%i = linalg.index 1 : index", "%j = linalg.index 2 : index",
                               "%c = arith.cmpi sle, %j, %i : index", "%r = arith.select %c, %a0, %low : f32"], [scores])
    most = step.reduce(["%r = arith.maximumf %a0, %o : f32"], scores, [2], "%low")
    powers = step.elementwise(["%d = arith.subf %a0, %a1 : f32", "%r = math.exp %d : f32"], [scores, most], rows)
    total = step.reduce(["%r = arith.addf %a0, %o : f32"], powers, [2], "%zero")
    weights = step.elementwise(["%r = arith.divf %a0, %a1 : f32"], [powers, total], rows)
    narrow = step.cast(weights, dtype)
    out = step.product(narrow, v)
    step.add_loss(out)
    dweights = step.cast(step.product(out, step.transpose(v)), "f32")
    weighed = step.elementwise(["%r = arith.mulf %a0, %a1 : f32"], [dweights, weights])
    sums = step.reduce(["%r = arith.addf %a0, %o : f32"], weighed, [2], "%zero")
    dscores = step.elementwise(["%p = arith.mulf %a1, %a2 : f32", "%r = arith.subf %a0, %p : f32"], [weighed, weights, sums],
                               [[0, 1, 2], [0, 1, 2], [0, 1]])
    dscores = step.elementwise(["%i = linalg.index 1 : index", "%j = linalg.index 2 : index",
                                "%c = arith.cmpi sle, %j, %i : index", "%r = arith.select %c, %a0, %zero : f32"], [dscores])
    dscores = step.cast(step.elementwise(scale, [dscores]), dtype)
    step.gradient(q, step.product(dscores, k))
    step.gradient(k, step.product(step.transpose(dscores), q))
    step.gradient(v, step.product(step.transpose(narrow), out))
    return step.text()
