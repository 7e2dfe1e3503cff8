#===- errors.py - What the user is told ----------------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""The one exception that the exporter raises on purpose."""

import difflib
from collections.abc import Iterable


class ExportError(Exception):
    """A model or an option that cannot be exported.

    The message is lower case and says what was expected and found. The
    command prints it and ends with status 1; anything else that escapes is a
    fault of ours.
    """


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean a, b?` for the known words closest to `word`, or ``."""
    close = difflib.get_close_matches(word, list(known), n=3, cutoff=0.5)
    return f"; did you mean {', '.join(close)}?" if close else ""
