// RUN: fsdp-opt %s --fsdp-plan-arena=guard=true --convert-fsdp-to-runtime | mlir-translate --mlir-to-llvmir | FileCheck %s
// RUN: fsdp-opt %s --fsdp-plan-arena --convert-fsdp-to-runtime | FileCheck %s --check-prefix=PLAIN

// Lives begin right before what writes first and end behind what reads last;
// those of a transfer are a part of its start. What the first gather brings is
// read last by the second one: it dies there, before compute has waited.

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]

// PLAIN-NOT: fsdp_rt_guard

// The descriptors: name, offset, bytes, border, action.
// CHECK-DAG: @[[ALL:.*]] = internal constant [{{.*}}] c"all but state, inputs and the workspace\00"
// CHECK-DAG: @[[FIRST:.*]] = internal constant [{{.*}}] c"result 0 of all_gather (op 0)\00"
// CHECK-DAG: @[[SECOND:.*]] = internal constant [{{.*}}] c"result 0 of all_gather (op 1)\00"
// CHECK-DAG: @[[FREE:.*]] = internal constant [{{.*}}] c"what is free when the step ends\00"
// CHECK-DAG: @[[FILL:.*]] = internal constant { ptr, i64, i64, i64, i32, i32 } { ptr @[[ALL]], i64 512, i64 {{[0-9]+}}, i64 0, i32 0, i32 0 }
// CHECK-DAG: @[[BEGIN0:.*]] = internal constant { ptr, i64, i64, i64, i32, i32 } { ptr @[[FIRST]], i64 [[PLACE0:[0-9]+]], i64 120, i64 392, i32 1, i32 0 }
// CHECK-DAG: @[[END0:.*]] = internal constant { ptr, i64, i64, i64, i32, i32 } { ptr @[[FIRST]], i64 [[PLACE0]], i64 120, i64 392, i32 2, i32 0 }
// CHECK-DAG: @[[BEGIN1:.*]] = internal constant { ptr, i64, i64, i64, i32, i32 } { ptr @[[SECOND]], i64 [[PLACE1:[0-9]+]], i64 240, i64 272, i32 1, i32 0 }
// CHECK-DAG: @[[END1:.*]] = internal constant { ptr, i64, i64, i64, i32, i32 } { ptr @[[SECOND]], i64 [[PLACE1]], i64 240, i64 272, i32 2, i32 0 }
// CHECK-DAG: = internal constant [1 x ptr] [ptr @[[BEGIN0]]]
// CHECK-DAG: @[[BOTH:.*]] = internal constant [2 x ptr] [ptr @[[END0]], ptr @[[BEGIN1]]]
// CHECK-DAG: @[[GUARD1:.*]] = internal constant { ptr, ptr, i64 } { ptr {{.*}}, ptr @[[BOTH]], i64 2 }
// CHECK-DAG: = internal constant { ptr, ptr, i64, ptr, i64, i64, i32, i32, ptr } { {{.*}}, i64 1, i32 0, i32 1, ptr @[[GUARD1]] }
// CHECK-DAG: = internal constant { ptr, i64, i64, i64, i32, i32 } { ptr @[[FREE]], i64

// CHECK-LABEL: define i32 @fsdp_run_step
// CHECK:         call i32 @fsdp_rt_guard(
// CHECK:         call i32 @fsdp_rt_start(
// CHECK-NOT:     call i32 @fsdp_rt_guard(
// CHECK:         call i32 @fsdp_rt_start(
// CHECK-NOT:     call i32 @fsdp_rt_guard(
// CHECK:         call i32 @fsdp_rt_wait(
// CHECK:         call i32 @fsdp_rt_wait(
// CHECK:         call i32 @fsdp_rt_guard(
// CHECK:         call i32 @fsdp_rt_copy(
// CHECK:         call i32 @fsdp_rt_guard(
// CHECK:         call i32 @fsdp_rt_guard(
// CHECK-NOT:     call i32 @fsdp_rt_guard(
fsdp.program @step(%x: tensor<15xf32>) -> tensor<64xf32> {
  %s = fsdp.start(%x) on all_gather event 0 {
  ^bb0(%shard: tensor<15xf32>):
    %g = fsdp.all_gather %shard on @mesh["shard"] for forward : tensor<15xf32> -> tensor<30xf32>
    fsdp.yield %g : tensor<30xf32>
  } : (tensor<15xf32>) -> !fsdp.token<tensor<30xf32>>
  %t = fsdp.start() on all_gather event 1 after(%s : !fsdp.token<tensor<30xf32>>) {
  ^bb0(%half: tensor<30xf32>):
    %g = fsdp.all_gather %half on @mesh["shard"] for forward : tensor<30xf32> -> tensor<60xf32>
    fsdp.yield %g : tensor<60xf32>
  } : () -> !fsdp.token<tensor<60xf32>>
  %w = fsdp.wait %s : !fsdp.token<tensor<30xf32>> -> tensor<30xf32>
  %v = fsdp.wait %t : !fsdp.token<tensor<60xf32>> -> tensor<60xf32>
  %p = fsdp.pack %v at 0 : tensor<60xf32> -> tensor<64xf32>
  fsdp.return %p : tensor<64xf32>
}
