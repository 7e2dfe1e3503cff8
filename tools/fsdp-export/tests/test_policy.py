#===- test_policy.py - What FSDP's mixed precision does to gradients -----===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""The distances of the repository's fixtures are still those of FSDP."""

import json
import shutil
from pathlib import Path

import pytest
from fsdp_export.errors import ExportError
from fsdp_export.policy import main

MIXED = Path(__file__).parents[3] / "test" / "fixtures" / "mixed"


def test_distances_are_those_of_the_fixture(tmp_path):
    if not MIXED.exists():
        pytest.skip(f"{MIXED} is not there")
    folder = tmp_path / "mixed"
    shutil.copytree(MIXED, folder)
    (folder / "policy.json").unlink()
    assert main(["py:models:mixed", "--buffers", "bf16",
                 "-o", str(folder)]) == 0
    want = json.loads((MIXED / "policy.json").read_text())
    got = json.loads((folder / "policy.json").read_text())
    assert got["policy"] == want["policy"]
    assert got["distance"].keys() == want["distance"].keys()
    for name, distance in want["distance"].items():
        # Processors add up in another order.
        assert distance / 2 < got["distance"][name] < distance * 2, name


def test_buffers_are_a_type():
    with pytest.raises(ExportError, match="--buffers"):
        main(["py:models:mixed", "--buffers", "i8", "-o", "nowhere"])
