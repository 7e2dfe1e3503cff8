#===- experts.py - Mixtures of experts without routing -------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""An implementation of Hugging Face's experts whose shapes do not depend on
where tokens go: every expert sees every token, and the router's weight is 0
where it did not choose the expert. Costs experts / chosen times the products
of a routed one."""

import torch

NAME = "fsdp_dense"


def register() -> None:
    """Makes `experts_implementation=NAME` known to transformers."""
    try:
        from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS
    except ImportError:
        return  # Before experts had implementations to choose from.
    ALL_EXPERTS_FUNCTIONS.register(NAME, _dense_experts)


def choose(module: torch.nn.Module) -> None:
    """Lets all experts in `module` use the dense implementation."""
    if hasattr(module, "set_experts_implementation") and (
            module._can_set_experts_implementation()):
        module.set_experts_implementation(NAME)


def _dense_experts(self, hidden_states, top_k_index, top_k_weights):
    """[tokens, hidden] and [tokens, chosen], twice, to [tokens, hidden]."""
    chosen = top_k_index.unsqueeze(-1) == torch.arange(
        self.num_experts, device=top_k_index.device)
    weights = torch.where(chosen, top_k_weights.unsqueeze(-1),
                          torch.zeros((), dtype=top_k_weights.dtype)).sum(1)
    up = "gate_up_proj" if self.has_gate else "up_proj"
    x = hidden_states.expand(self.num_experts, *hidden_states.shape)
    x = _linear(self, x, up)
    x = self._apply_gate(x) if self.has_gate else self.act_fn(x)
    x = _linear(self, x, "down_proj")
    if self.has_post_expert_norm:
        x = self.post_expert_norm(x)
    x = (x * weights.t().unsqueeze(-1)).sum(0)
    return x.to(hidden_states.dtype)


def _linear(self, x, name):
    weight = getattr(self, name)
    x = x @ (weight if self.is_transposed else weight.transpose(1, 2))
    if self.has_bias:
        x = x + getattr(self, f"{name}_bias").unsqueeze(1)
    return x
