// A stock mlir-opt reads, verifies and prints the dialect, as text and as
// bytecode, and refuses what breaks a constraint of it.
// RUN: mlir-opt --load-dialect-plugin=%plugin --verify-roundtrip %S/../Dialect/FSDP/ops.mlir -o %t
// RUN: mlir-opt --load-dialect-plugin=%plugin --emit-bytecode %S/../Dialect/FSDP/ops.mlir \
// RUN:   | mlir-opt --load-dialect-plugin=%plugin | diff - %t
// RUN: fsdp-opt %S/../Dialect/FSDP/ops.mlir | diff - %t
// RUN: mlir-opt --load-dialect-plugin=%plugin -verify-diagnostics %s

// expected-note@+1 {{the mesh is here: [#fsdp.axis<"shard" = 4>]}}
fsdp.mesh @mesh [#fsdp.axis<"shard" = 4>]
func.func @wrong_size(%shard: tensor<8xf32>) -> tensor<31xf32> {
  // expected-error@+1 {{'fsdp.all_gather' op }}
  %0 = fsdp.all_gather %shard on @mesh["shard"] for forward : tensor<8xf32> -> tensor<31xf32>
  return %0 : tensor<31xf32>
}
