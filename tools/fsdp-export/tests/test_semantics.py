#===- test_semantics.py - Gradients and state are PyTorch's --------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Each step is exported and verified against PyTorch, or refused by name."""

import pytest
from common import built, verified
from fsdp_export.errors import ExportError
from semantics import REFUSED, STEPS


@pytest.mark.parametrize("name", STEPS)
def test_step_is_exported_as_pytorch_runs_it(name):
    assert verified(built(STEPS[name])) == "graph and MLIR, 2 batches"


@pytest.mark.parametrize("name", REFUSED)
def test_step_is_refused_by_name(name):
    make, message = REFUSED[name]
    with pytest.raises(ExportError) as error:
        verified(built(make))
    assert message in str(error.value)
