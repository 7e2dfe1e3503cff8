// The pipeline runs in a stock mlir-opt: with the dialect flag alone, with the
// pass flag alone, and with both, in either order.
// RUN: mlir-opt --load-dialect-plugin=%plugin %fixtures/mixed/model.mlir \
// RUN:   --pass-pipeline='builtin.module(fsdp-partition{mesh=shard=2})' -o %t.dialect
// RUN: FileCheck %s --input-file=%t.dialect
// RUN: mlir-opt --load-pass-plugin=%plugin %fixtures/mixed/model.mlir \
// RUN:   --pass-pipeline='builtin.module(fsdp-partition{mesh=shard=2})' | diff - %t.dialect
// RUN: mlir-opt --load-dialect-plugin=%plugin --load-pass-plugin=%plugin %fixtures/mixed/model.mlir \
// RUN:   --pass-pipeline='builtin.module(fsdp-partition{mesh=shard=2})' | diff - %t.dialect
// RUN: mlir-opt --load-pass-plugin=%plugin --load-dialect-plugin=%plugin %fixtures/mixed/model.mlir \
// RUN:   --pass-pipeline='builtin.module(fsdp-partition{mesh=shard=2})' | diff - %t.dialect

// It is the pipeline of fsdp-opt, by default and by option.
// RUN: fsdp-opt %fixtures/mixed/model.mlir --fsdp-partition='mesh=shard=2' | diff - %t.dialect
// RUN: mlir-opt --load-dialect-plugin=%plugin %fixtures/mixed/model.mlir \
// RUN:   --pass-pipeline='builtin.module(fsdp-partition)' | diff - %t.dialect
// RUN: mlir-opt --load-dialect-plugin=%plugin %fixtures/mixed/model.mlir \
// RUN:   --pass-pipeline='builtin.module(fsdp-partition{mesh=shard=2,replicate=2 strategy=hybrid_shard wrap=none})' \
// RUN:   | FileCheck %s --check-prefix=HYBRID

// CHECK: fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// CHECK: fsdp.program @train
// CHECK: fsdp.all_gather
// CHECK: linalg.
// CHECK: fsdp.reduce_scatter

// HYBRID: fsdp.mesh @mesh [#fsdp.axis<"replicate" = 2>, #fsdp.axis<"shard" = 2>]
// HYBRID: fsdp.reduce_scatter
// HYBRID: fsdp.all_reduce
