"""Gradients of each parameter, read from what one step of plain SGD did to the parameters.

Standard library only: numbers are decoded as safetensors files hold them.
"""
import array
import math
import struct

# So large that the parameter's own value is lost in the update, whatever the gradient.
LR = 2.0 ** 60
# Of a gradient that is exactly zero, relative to the largest gradient.
ZERO = 1e-6


def decode(dtype, data):
    """The numbers of a tensor of floats."""
    if dtype == "BF16":
        halves = array.array("H", data)
        wide = array.array("I", (half << 16 for half in halves))
        return array.array("f", wide.tobytes())
    if dtype == "F16":
        return array.array("f", (v for (v,) in struct.iter_unpack("<e", data)))
    return array.array({"F32": "f", "F64": "d"}[dtype], data)


def norm(numbers):
    return math.sqrt(math.fsum(number * number for number in numbers))


def measure(before, after, exact, lr=LR):
    """name -> the distance of a parameter's gradient from the exact one, and the norm of that.

    `before`, `after` and `exact` are tensors by name: (dtype, shape, bytes). A distance is not finite
    where numbers are not, or are not as many; parameters that are not in `after` have none.
    """
    distances = {}
    for name, tensor in exact.items():
        if name in after:
            want = decode(*_data(tensor))
            got = [(a - b) / lr for a, b in zip(decode(*_data(before[name])), decode(*_data(after[name])))]
            off = norm([g - w for g, w in zip(got, want)]) if len(got) == len(want) else math.inf
            distances[name] = off, norm(want)
    return distances


def describe_wrong(before, after, exact, rtol, lr=LR):
    """A line for each parameter whose gradient is further from the exact one than its tolerance; arguments as of
    measure(), `rtol` numbers by name."""
    largest = max(norm(decode(*_data(tensor))) for tensor in exact.values())
    distances = measure(before, after, exact, lr)
    wrong = []
    for name, (_, shape, _) in exact.items():
        distance, size = distances.get(name, (None, None))
        if distance is None:
            wrong.append(f"{name}: expected it among the saved parameters, found none")
        elif not math.isfinite(distance):
            wrong.append(f"{name}: expected {math.prod(shape)} finite numbers")
        elif size == 0 and distance > ZERO * largest:
            wrong.append(f"{name}: norm {distance:.3g}, expected 0")
        elif size and not distance <= rtol[name] * size:
            wrong.append(f"{name}: {distance / size:.3g} off, at most {rtol[name]:.3g} expected")
    return wrong


def _data(tensor):
    return tensor[0], tensor[2]
