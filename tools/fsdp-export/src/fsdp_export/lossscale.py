#===- lossscale.py - What a loss is multiplied by ------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Makes what backward begins with an argument of the traced step.

GradScaler multiplies a loss by a scale before it is differentiated: the loss's
cotangent is the scale, in the loss's type, instead of 1. In a trace that 1 is
folded into constants, so a compiler could not scale it. Here it is
fsdp_export::loss_scale, 1 wherever PyTorch runs it, which becomes an argument
with `fsdp.loss_scale` (docs/loss-scaling.md).
"""

import torch
from torch import fx

_library = torch.library.Library("fsdp_export", "FRAGMENT")
_library.define("loss_scale() -> Tensor")
_library.impl("loss_scale", lambda: torch.ones(()), "CompositeExplicitAutograd")
torch.library.register_fake("fsdp_export::loss_scale", lambda: torch.empty(()),
                            lib=_library)


def cotangent(loss: torch.Tensor) -> torch.Tensor:
    """What a loss of rank 0 is differentiated with: its scale."""
    return torch.ops.fsdp_export.loss_scale().to(loss.dtype)


def make_argument(graph: fx.GraphModule) -> bool:
    """The scale becomes the last argument of a graph; False where there is
    none."""
    nodes = graph.graph.find_nodes(
        op="call_function", target=torch.ops.fsdp_export.loss_scale.default)
    if not nodes:
        return False
    after = graph.graph.find_nodes(op="placeholder")[-1]
    with graph.graph.inserting_after(after):
        scale = graph.graph.placeholder("loss_scale")
    scale.meta["val"] = nodes[0].meta["val"]
    for node in nodes:
        node.replace_all_uses_with(scale)
        graph.graph.erase_node(node)
    graph.recompile()
    return True
