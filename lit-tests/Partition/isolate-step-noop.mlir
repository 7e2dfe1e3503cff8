// RUN: fsdp-opt %s --fsdp-isolate-step -o %t && fsdp-opt %s -o %t.same && diff %t %t.same

// A module without a step or an optimizer is not of L0: it stays as it is.
module attributes {llvm.module_asm = ["nop"]} {
  fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
  fsdp.program @step() attributes {arena = #fsdp.arena<bytes = 4, transient = 4>} { fsdp.return }
  func.func @other() { return }
}
