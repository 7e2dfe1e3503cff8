#===- writer.py - All files or none --------------------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Writes an export's directory so that no reader sees half of it."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from safetensors import SafetensorError

from .errors import ExportError

FILES = ("model.mlir", "optimizer.mlir", "params.safetensors",
         "batches.safetensors", "gradients.safetensors",
         "evaluation.safetensors", "expect.json", "policy.json")


@contextlib.contextmanager
def staged(target: Path) -> Iterator[Path]:
    """Yields an empty folder; its files become `target`'s on success.

    A new `target` appears at once. In an existing one each file is replaced
    atomically, files of an earlier export that have no successor go, and
    everything else stays. On failure `target` is left as it was.
    """
    parent = target.absolute().parent
    if target.exists() and not target.is_dir():
        raise ExportError(f"-o: expected a directory, got the file {target}")
    try:
        parent.mkdir(parents=True, exist_ok=True)
        stage = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=parent))
    except OSError as error:
        raise ExportError(f"-o: cannot write in {parent}: "
                          f"{error.strerror}") from error
    try:
        yield stage
        # The folder and some files were made for their owner alone.
        os.umask(mask := os.umask(0))
        stage.chmod(0o777 & ~mask)
        for file in stage.iterdir():
            file.chmod(0o666 & ~mask)
        if not target.exists():
            stage.rename(target)
            return
        written = [f.name for f in stage.iterdir()]
        for name in written:
            os.replace(stage / name, target / name)
        for name in set(FILES) - set(written):
            (target / name).unlink(missing_ok=True)
    except (OSError, SafetensorError) as error:
        raise ExportError(f"-o: cannot write {target}: {error}") from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)
