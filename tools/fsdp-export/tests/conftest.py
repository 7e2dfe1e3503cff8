#===- conftest.py - Shared by the tests ----------------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#

import importlib.util
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

MISSING = [name for name in ("torch", "torch_mlir", "transformers",
                             "safetensors", "numpy")
           if importlib.util.find_spec(name) is None]

# Their imports fail at once, so that they could not even be collected.
collect_ignore_glob = ["test_*.py"] if MISSING else []


def pytest_report_header(config):
    if MISSING:
        return f"fsdp-export: not installed: {', '.join(MISSING)}; no tests"
    return None


@pytest.fixture(autouse=True)
def seeded():
    import torch
    torch.manual_seed(0)
