//===- FSDPBase.td - The fsdp dialect ----------------------*- tablegen -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DIALECT_FSDP_IR_FSDPBASE_TD
#define FSDP_DIALECT_FSDP_IR_FSDPBASE_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def FSDP_Dialect : Dialect {
  let name = "fsdp";
  let cppNamespace = "::mlir::fsdp";
  let summary = "Fully Sharded Data Parallel training steps";
  let description = [{
    Programs (a training step, an evaluation) for all ranks of a mesh, and the
    state that they share. The dialect has three levels; each pass stays on one
    of them or goes down by one.

    ```
    L0  upstream dialects; argument attributes name parameters, gradients, ...
     |
    L1  logical       fsdp.program, state, flat_param, unshard, member, reshard, reduce_grad,
     |                grad_norm, update            on !fsdp.sharded / !fsdp.unsharded
    L2  collectives   fsdp.all_gather, reduce_scatter, ..., offload, reload,
                      view, pack, launch          on local tensors; values, no time
     |
    L3  schedule      fsdp.start, wait             order, queues and events
    ```

    Attributes `fsdp.*` on what is not of the dialect are plans and descriptions
    that passes hand each other.

    - discardable_c1: such an attribute, on an op or on an argument or a result
      of a function, has one of the names in AttributeNames.def.
    - discardable_c2: it stands in a place that AttributeNames.def names for it.
    - discardable_c3: fsdp.kernel and fsdp.group are i64 numbers from 0 to
      2147483647.
    - discardable_c4: fsdp.recompute and fsdp.offload are arrays of numbers of
      the op's results, each once and in one of both.
    - discardable_c5: fsdp.keep has no value, and no fsdp.group beside it.
    - discardable_c6: fsdp.order is a #fsdp.step_order, fsdp.budget a
      #fsdp.budget, fsdp.reduction a #fsdp.reduction; fsdp.name, fsdp.optimizer_spec, fsdp.strategy, fsdp.wrap
      and fsdp.verified are strings.
    - discardable_c7: fsdp.traced is a dictionary of the strings step and
      optimizer, the list of floats constants and, if any, the string spec.
    - discardable_c8: fsdp.modules of a partitioned module is a list of
      dictionaries of the strings fqn and class; a config is a JSON object.
    - discardable_c9: fsdp.notes of a partitioned module is a list of texts.

    The rank is never a value: every op means the same on every rank, and what
    differs (which part of a flat parameter a rank holds) is bound at load.
    Every constraint has a label such as `all_gather_c1`; docs/spec.md lists
    them with the place where each is checked and the test that breaks it.
  }];
  // Kernels and optimizers are functions.
  let dependentDialects = ["::mlir::func::FuncDialect"];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  // discardable_c1, discardable_c2, discardable_c3
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
}

#endif // FSDP_DIALECT_FSDP_IR_FSDPBASE_TD
