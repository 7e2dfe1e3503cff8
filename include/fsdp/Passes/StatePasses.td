//===- StatePasses.td - States in the host's memory --------*- tablegen -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Included by Passes.td.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_STATEPASSES_TD
#define FSDP_PASSES_STATEPASSES_TD

def OffloadOptimizer : Pass<"fsdp-offload-optimizer", "::mlir::ModuleOp"> {
  let summary = "Keeps optimizer states in the host's memory between programs";
  let description = [{
    The optimizer states of flat parameters (those whose `offload` asks for it and,
    with `all`, those without one), which have an element for each element of one
    (Adam's exp_avg and exp_avg_sq, the momentum of SGD), become
    states on the host. A program that reads one copies it to the device right
    before the first op that does, and copies its new value back right after the
    op that makes it. Programs that do not update are left alone. States lose
    their places (run fsdp-layout-state after it).

    ```
    before   update(w, grad, m) -> w', m'
    after    reload(m)   update(w, grad, m) -> w', m'   offload(m')
    ```

    Constraints:
    - offload_optimizer_c1: the module has such a state where it is asked for.
    - offload_optimizer_c2: a program returns for one what it computes, or the
      value that it had, and that value for nothing else.
    - offload_optimizer_c3: a launch computes the new value of the old one, so
      that no order of the copies writes over what is yet to be read.
  }];
  let options = [Option<"all", "all", "bool", "true",
                        "of flat parameters that do not say, too">];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect"];
}

def OffloadParameters : Pass<"fsdp-offload-parameters", "::mlir::ModuleOp"> {
  let summary = "Keeps the shards of parameters in the host's memory";
  let description = [{
    Parameters become states on the host: those of flat parameters whose
    `offload` asks for it and, with `all`, those without one. A program copies a shard to the device
    before the first op of forward that reads it, again before the first one of
    backward, for that and the update, and its new value back right after the
    update. Where the new value does not depend on forward's copy, which could
    then come after it, one copy is for the whole program. States lose their
    places (run fsdp-layout-state after it).

    ```
    before   gather(w)   ..   gather(w)   ..   update(w, grad) -> w'
    after    reload(w)   gather   ..   reload(w)   gather   ..   update -> w'
             offload(w')
    ```

    The constraints are offload_optimizer_c2 and offload_optimizer_c3.
  }];
  let options = [Option<"all", "all", "bool", "true",
                        "of flat parameters that do not say, too">];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect"];
}

def HoistUpdates : Pass<"fsdp-hoist-updates", "::mlir::fsdp::ProgramOp"> {
  let summary = "Runs updates beside backward";
  let description = [{
    An update that reloads a state, with `all` any, moves up, with the launches,
    views and reloads that it depends on, to before the first reduction after the
    one that brings its gradient: copies of states then run beside backward, and
    gradients do not wait for each other. An update that needs
    all gradients (clipping) or whose parameters are read later stays.

    ```
    before   reduce 1   backward 0   reduce 0   update 1   update 0
    after    reduce 1   backward 0   update 1   reduce 0   update 0
    ```
  }];
  let options = [Option<"all", "all", "bool", "false", "move each update">];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect"];
}

#endif // FSDP_PASSES_STATEPASSES_TD
