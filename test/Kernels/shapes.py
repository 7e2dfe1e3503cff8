"""What the random families of ops share."""

from step import count

SIZES = (1, 2, 3, 4, 5, 7, 8, 16, 17, 33)
LARGEST = 4096


def pick(rng, values, test=lambda v: True):
    found = [v for v in values if test(v)]
    return rng.choice(found) if found else None


def pick_shape(rng, low=0, high=4):
    while True:
        shape = [rng.choice(SIZES) for _ in range(rng.randint(low, high))]
        if count(shape) <= LARGEST:
            return shape


def dims(indices):
    return [f"d{i}" for i in indices]


def squash(step, value):
    """Scales a value down to about 1."""
    if not value.is_float or value.bound <= 8:
        return value
    scale = step.constant(repr(1.0 / value.bound), value.dtype)
    loops = len(value.shape)
    return step.generic(
        loops, [(value, dims(range(loops)))],
        [(step.empty(value.shape, value.dtype), dims(range(loops)))],
        [(value.shape, value.dtype, 1.0)],
        lambda a, o: ([f"%r = arith.mulf {a}, {scale} : {value.dtype}"],
                      ["%r"]))
