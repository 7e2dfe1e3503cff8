#===- guarded.py - Native code that may crash ----------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Runs a function in a forked child, so that a crash there is an answer."""

import faulthandler
import os
import pickle
import signal
import tempfile
from collections.abc import Callable


class Crash(Exception):
    """The child ended by a signal; `noise` is what it printed before."""

    def __init__(self, number: int, noise: str):
        super().__init__(signal.Signals(number).name)
        self.signal, self.noise = signal.Signals(number), noise


def call(function: Callable[[], object]) -> object:
    """What `function()` returns, or raises, in a copy of this process.

    The result and exceptions are pickled. Standard error is held back. The
    child may not use threads that this process started.
    """
    with (tempfile.TemporaryFile() as answer,
          tempfile.TemporaryFile() as noise):
        child = os.fork()
        if child == 0:
            status = 70
            faulthandler.disable()
            try:
                os.dup2(noise.fileno(), 2)
                status = _run(function, answer)
            finally:
                os._exit(status)
        try:
            _, status = os.waitpid(child, 0)
        except BaseException:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise
        noise.seek(0)
        text = noise.read().decode(errors="replace")
        if os.WIFSIGNALED(status):
            raise Crash(os.WTERMSIG(status), text)
        answer.seek(0)
        done = pickle.load(answer) if os.WEXITSTATUS(status) == 0 else None
        if done is None:
            raise RuntimeError(f"the child process failed: {text[-2000:]}")
    good, value = done
    if not good:
        raise value
    return value


def _run(function: Callable[[], object], answer) -> int:
    try:
        done = (True, function())
    except Exception as error:
        done = (False, error)
    try:
        text = pickle.dumps(done)
    except Exception:
        text = pickle.dumps((False, RuntimeError(repr(done[1]))))
    answer.write(text)
    answer.flush()
    return 0
