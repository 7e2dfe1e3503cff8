#===- ranks.py - Steps that know which rank they are ---------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Refuses collectives in a step, and steps that differ from rank to rank.

One step is recorded, for all ranks. What it asks of torch.distributed and of
the variables by which launchers number processes is noted while it is
recorded. Where it asked, it is recorded again as each of OTHERS, and has to be
the same graph over the same constants; a step that asks nothing costs nothing.
"""

import contextlib
import functools
import os
import sys
import sysconfig
import traceback
import types
from collections.abc import Callable, Iterator, Sequence

import torch
import torch.distributed as dist

from .errors import ExportError
from .places import user_line

# The ranks, of so many, that a step is recorded as once more.
OTHERS = ((1, 3), (6, 8))

# What launchers say of a process: the variable, and which of its rank and the
# number of ranks it holds. All ranks are taken to be on one node.
_VARIABLES = {
    "RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1,
    "SLURM_PROCID": 0, "SLURM_NTASKS": 1, "SLURM_LOCALID": 0,
    "OMPI_COMM_WORLD_RANK": 0, "OMPI_COMM_WORLD_SIZE": 1,
    "OMPI_COMM_WORLD_LOCAL_RANK": 0, "OMPI_COMM_WORLD_LOCAL_SIZE": 1,
    "MV2_COMM_WORLD_RANK": 0, "MV2_COMM_WORLD_SIZE": 1,
    "MV2_COMM_WORLD_LOCAL_RANK": 0, "PMI_RANK": 0, "PMI_SIZE": 1}

_NAMESPACES = ("c10d", "_c10d_functional", "_c10d_functional_autograd",
               "c10d_functional")
_TORCH, _OURS = os.path.dirname(torch.__file__), os.path.dirname(__file__)
_DISTRIBUTED = os.path.join(_TORCH, "distributed")
# They mark lines of their logs with the rank.
_LOGGERS = os.path.join(_TORCH, "_logging")
# Functions in between, whose names say nothing.
_WRAPPERS = ("wrapper", "inner", "apply", "forward", "backward", "<lambda>")
_QUERIES = ("is_initialized", "get_rank", "get_world_size", "get_group_rank",
            "get_global_rank", "get_node_local_rank", "get_backend",
            "get_process_group_ranks", "WORLD")
# They make groups, or are imported, and default to the group there is.
_SETUP = ("init_process_group", "destroy_process_group", "new_group",
          "<module>")


class Asked:
    """What was asked, and from where, while `watch` was in force."""

    def __init__(self):
        # Lines by question; the values are files.
        self._found: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def note(self, what: str) -> None:
        line = user_line()
        place = f" ({line[0]}:{line[1]})" if line else ""
        self._found.setdefault(what + place, line[0] if line else "")

    def describe(self, but: Sequence[str] = ()) -> str:
        """The first three questions, but for those from files in the folders
        `but`; empty where there are none."""
        shown = [q for q, file in self._found.items()
                 if not file.startswith(tuple(but))]
        more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
        return ", ".join(shown[:3]) + more

    def describe_own(self) -> str:
        """Those of the user's code: packages ask while they load."""
        return self.describe([sysconfig.get_path("purelib")])


def check(describe: Callable[[], object], first: object, asked: Asked) -> None:
    """Refuses a step that is another one on other ranks.

    `describe` records the step again and says all that it does; `first` is what
    it said of the step that asked.
    """
    if not asked:
        return
    for rank, size in OTHERS:
        with _as_rank(rank, size):
            try:
                other = describe()
            except ExportError as error:
                raise _differs(asked, f"cannot be recorded as rank {rank} of "
                                      f"{size}: {error}") from error
        if other != first:
            raise _differs(asked, f"is another step as rank {rank} of {size}")


def _differs(asked: Asked, how: str) -> ExportError:
    return ExportError(
        "expected a step that is the same on every rank, got one that asks "
        f"{asked.describe()} and {how}; one step is compiled for all ranks, "
        "and the compiler inserts FSDP's collectives and averages loss and "
        "gradients itself: make what differs an input, or leave it out")


@contextlib.contextmanager
def watch() -> Iterator[Asked]:
    """Notes what is asked of torch.distributed and the environment."""
    asked = Asked()
    with contextlib.ExitStack() as patches:
        patches.enter_context(_watched_environment(asked))
        if dist.is_available():
            patches.enter_context(_watched_groups(asked))
        yield asked


@contextlib.contextmanager
def _watched_environment(asked: Asked,
                         answer: tuple[int, int] | None = None) -> Iterator:
    kind = type(os.environ)
    own = kind.__getitem__

    def get(self, key):
        if self is os.environ and key in _VARIABLES:
            if answer:
                return str(answer[_VARIABLES[key]])
            if not sys._getframe(1).f_code.co_filename.startswith(_LOGGERS):
                asked.note(f"the environment for {key}")
        return own(self, key)

    kind.__getitem__ = get
    try:
        yield
    finally:
        kind.__getitem__ = own


@contextlib.contextmanager
def _watched_groups(asked: Asked) -> Iterator:
    """Every answer is read from the default group, or from a group."""
    world, group = dist.distributed_c10d._World, dist.ProcessGroup
    default = world.default_pg
    # As they stand in the class: what it hands out is not bound any more.
    size, rank = group.__dict__["size"], group.__dict__["rank"]

    def note():
        name, caller = _called()
        if not caller.startswith(_LOGGERS) and not name.endswith(_SETUP):
            name = name or "torch.distributed.ProcessGroup.size or rank"
            asked.note(f"{name}()")

    def noted(descriptor):
        def run(self):
            note()
            return descriptor.__get__(self, type(self))()
        return run

    def get(self):
        note()
        return default.fget(self)

    world.default_pg = property(get, default.fset)
    group.size, group.rank = noted(size), noted(rank)
    try:
        yield
    finally:
        world.default_pg = default
        group.size, group.rank = size, rank


@contextlib.contextmanager
def _as_rank(rank: int, size: int) -> Iterator:
    """Everybody who asks is told this rank of so many: by a process group that
    does nothing, by groups that were made before, and by the environment."""
    with contextlib.ExitStack() as patches:
        patches.enter_context(_watched_environment(Asked(), (rank, size)))
        if dist.is_available():
            patches.enter_context(_fake_group(rank, size))
        yield


@contextlib.contextmanager
def _fake_group(rank: int, size: int) -> Iterator:
    from torch.testing._internal.distributed.fake_pg import FakeStore
    c10d, group = dist.distributed_c10d, dist.ProcessGroup
    names = ("_world", "_backend", "_default_pg_init_method", "_group_count")
    kept = {name: getattr(c10d, name, None) for name in names}
    tables = [(t, dict(t)) for n, t in vars(c10d).items()
              if n.startswith(("_pg_", "_tags_to_pg")) and type(t) is dict]
    known = {*c10d._pg_names}
    own_size, own_rank = group.__dict__["size"], group.__dict__["rank"]
    hook = sys.excepthook
    c10d._world = c10d._World()
    try:
        dist.init_process_group("fake", rank=rank, world_size=size,
                                store=FakeStore())
        group.size = lambda self: size
        group.rank = lambda self: rank
        yield
    finally:
        group.size, group.rank = own_size, own_rank
        for name, value in kept.items():
            setattr(c10d, name, value)
        for made, name in c10d._pg_names.items():
            if made not in known:
                torch._C._distributed_c10d._unregister_process_group(name)
        for table, entries in tables:
            table.clear()
            table.update(entries)
        c10d._update_default_pg(c10d._world.default_pg)
        sys.excepthook = hook


def _called() -> tuple[str, str]:
    """The function of torch.distributed that was called from outside of it, ``
    where none was, and the file that called it."""
    frame, name = sys._getframe(1), ""
    while frame:
        file = frame.f_code.co_filename
        if file.startswith(_DISTRIBUTED):
            name = _named(frame) or name
        elif name or not file.startswith((_TORCH, _OURS)):
            return name, file
        frame = frame.f_back
    return name, ""


def _named(frame: types.FrameType) -> str:
    function = frame.f_code.co_name
    if function in _WRAPPERS:
        return ""
    module = frame.f_globals.get("__name__", "torch.distributed")
    return f"{module.removesuffix('.distributed_c10d')}.{function}"


#===----------------------------------------------------------------------===#
# Collectives
#===----------------------------------------------------------------------===#

def collectives() -> dict[torch._ops.OpOverload, Callable]:
    """Functions that refuse each operation of torch.distributed."""
    found = {}
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = name.partition("::")
        if namespace in _NAMESPACES:
            base, _, overload = rest.partition(".")
            packet = getattr(getattr(torch.ops, namespace), base)
            op = getattr(packet, overload or "default")
            found[op] = functools.partial(_refuse, op)
    return found


def _refuse(op: torch._ops.OpOverload, *args, **kwargs) -> None:
    raise _refusal(_called()[0] or str(op), user_line())


def explain(error: Exception) -> str | None:
    """Why a function of torch.distributed failed, such as a collective without
    a group: it has no place in a step. None where none did."""
    name, line = "", None
    for frame, number in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if file.startswith(_DISTRIBUTED):
            name = name or _named(frame)
        elif not name and not file.startswith(_TORCH):
            line = (file, number)
    if not name or name.endswith(_QUERIES):
        return None
    return str(_refusal(name, line))


def _refusal(name: str, line: tuple[str, int] | None) -> ExportError:
    place = f" ({line[0]}:{line[1]})" if line else ""
    return ExportError(
        f"expected a step of one rank, got the collective {name}{place}; the "
        "compiler inserts FSDP's collectives itself and averages loss and "
        "gradients over ranks: leave it out")
