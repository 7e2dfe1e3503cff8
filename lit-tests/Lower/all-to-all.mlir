// RUN: fsdp-opt %s --fsdp-plan-arena --convert-fsdp-to-runtime | mlir-translate --mlir-to-llvmir | FileCheck %s
// RUN: fsdp-opt %s --pass-pipeline='builtin.module(fsdp.program(fsdp-plan-arena,fsdp-schedule-step{order=in_order},fsdp-plan-arena,fsdp-verify-schedule),convert-fsdp-to-runtime)' | mlir-translate --mlir-to-llvmir | FileCheck %s --check-prefix=QUEUE

// The descriptor's count is that of one part: 64 of 256 elements among 4 ranks.
// Both operands hold 4 parts, apart from each other. The divisor is for readers.
// CHECK-DAG: @[[PARTS:.*]] = internal constant { ptr, i64, i64, i64, i64, i32, i32 } { ptr {{.*}}, i64 0, i64 1024, i64 64, i64 4, i32 0, i32 0 }
// CHECK-DAG: internal constant [1 x ptr] [ptr @[[PARTS]]]
// In the order of the computation: event -1, kind 3, queue 0.
// CHECK-DAG: = internal constant { ptr, ptr, i64, ptr, i64, i64, i32, i32, ptr } { ptr {{.*}}, ptr {{.*}}, i64 1, ptr null, i64 0, i64 -1, i32 3, i32 0, ptr null }
// On the queue of reductions.
// QUEUE-DAG: = internal constant { ptr, ptr, i64, ptr, i64, i64, i32, i32, ptr } { ptr {{.*}}, ptr {{.*}}, i64 1, ptr null, i64 0, i64 0, i32 3, i32 2, ptr null }
// QUEUE-LABEL: define i32 @fsdp_run_step
// QUEUE:         call i32 @fsdp_rt_start(
// QUEUE:         call i32 @fsdp_rt_wait(
fsdp.mesh @mesh [#fsdp.axis<"shard" = 4>]
fsdp.program @step(%x: tensor<256xf32>) -> tensor<256xf32> {
  %0 = fsdp.all_to_all %x on @mesh["shard"] divisor 4 : tensor<256xf32>
  fsdp.return %0 : tensor<256xf32>
}
