// RUN: fsdp-opt %S/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-assign-units | FileCheck %s --check-prefixes=CHECK,BLOCKS
// RUN: fsdp-opt %S/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-assign-units=wrap=blocks | FileCheck %s --check-prefixes=CHECK,BLOCKS
// RUN: fsdp-opt %S/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-assign-units=wrap=module:Block | FileCheck %s --check-prefixes=CHECK,CLASS
// RUN: fsdp-opt %S/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-assign-units='wrap=module:Embedding,Linear' | FileCheck %s --check-prefixes=CHECK,TIED
// RUN: fsdp-opt %S/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-assign-units=wrap=size:32 | FileCheck %s --check-prefixes=CHECK,SIZE
// RUN: fsdp-opt %S/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-assign-units=wrap=size:33 | FileCheck %s --check-prefixes=CHECK,ROOT
// RUN: fsdp-opt %S/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-assign-units=wrap=none | FileCheck %s --check-prefixes=CHECK,ROOT
// RUN: fsdp-opt %S/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-assign-units=wrap=none --fsdp-assign-units=wrap=blocks | FileCheck %s --check-prefixes=CHECK,BLOCKS

// The plan's argument is kept beside the plan.
// BLOCKS: fsdp.wrap = "blocks"
// CLASS:  fsdp.wrap = "module:Block"

// The tied embedding belongs to the innermost unit that holds both its names:
// the root, even where each holder is a unit.
// CHECK:       func.func @forward_backward
// CHECK-SAME:    fqn = "embed.weight"{{[^}]*}}}, fsdp.unit = ""}

// BLOCKS-SAME:   fqn = "blocks.0.weight", init = {kind = "constant", value = 0.000000e+00 : f64}}, fsdp.unit = "blocks.0"}
// BLOCKS-SAME:   fqn = "blocks.0.bias"}, fsdp.unit = "blocks.0"}
// BLOCKS-SAME:   fqn = "blocks.1.weight"}, fsdp.unit = "blocks.1"}
// BLOCKS-SAME:   fqn = "blocks.1.bias"}, fsdp.unit = "blocks.1"}

// CLASS-SAME:    fqn = "blocks.0.bias"}, fsdp.unit = "blocks.0"}
// CLASS-SAME:    fqn = "blocks.1.bias"}, fsdp.unit = "blocks.1"}

// TIED-SAME:     fqn = "blocks.0.bias"}, fsdp.unit = ""}
// TIED-SAME:     fqn = "blocks.1.bias"}, fsdp.unit = ""}

// A block has 32 elements, padding and the tied embedding not counted.
// SIZE-SAME:     fqn = "blocks.0.bias"}, fsdp.unit = "blocks.0"}
// SIZE-SAME:     fqn = "blocks.1.bias"}, fsdp.unit = "blocks.1"}
// ROOT-SAME:     fqn = "blocks.0.bias"}, fsdp.unit = ""}
// ROOT-SAME:     fqn = "blocks.1.bias"}, fsdp.unit = ""}
