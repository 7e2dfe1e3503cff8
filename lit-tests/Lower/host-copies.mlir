// RUN: fsdp-opt %s --fsdp-plan-arena --convert-fsdp-to-runtime | mlir-translate --mlir-to-llvmir | FileCheck %s
// RUN: fsdp-opt %s --pass-pipeline='builtin.module(fsdp.program(fsdp-plan-arena,fsdp-schedule-step{order=in_order},fsdp-plan-arena),convert-fsdp-to-runtime)' | mlir-translate --mlir-to-llvmir | FileCheck %s --check-prefix=QUEUE
// RUN: fsdp-opt %s --fsdp-plan-arena=guard=true --convert-fsdp-to-runtime | mlir-translate --mlir-to-llvmir | FileCheck %s --check-prefix=GUARD

// A copy is a part of a start, without a group: its two places and its bytes,
// in whichever arena they lie. In the order of the computation the start has
// event -1 and queue 0.
// CHECK-DAG: @[[OFFLOAD:.*]] = internal constant { ptr, i64, i64, i64 } { ptr {{.*}}, i64 0, i64 0, i64 256 }
// CHECK-DAG: @[[RELOAD:.*]] = internal constant { ptr, i64, i64, i64 } { ptr {{.*}}, i64 0, i64 256, i64 256 }
// CHECK-DAG: internal constant [1 x ptr] [ptr @[[OFFLOAD]]]
// CHECK-DAG: internal constant [1 x ptr] [ptr @[[RELOAD]]]
// CHECK-DAG: = internal constant { ptr, ptr, i64, ptr, i64, i64, i32, i32, ptr } { ptr {{.*}}, ptr {{.*}}, i64 1, ptr null, i64 0, i64 -1, i32 4, i32 0, ptr null }
// CHECK-DAG: = internal constant { ptr, ptr, i64, ptr, i64, i64, i32, i32, ptr } { ptr {{.*}}, ptr {{.*}}, i64 1, ptr null, i64 0, i64 -1, i32 5, i32 0, ptr null }
// CHECK-LABEL: define i32 @fsdp_run_step
// CHECK:         call i32 @fsdp_rt_start(
// CHECK:         call i32 @fsdp_rt_start(
// CHECK-NOT:     call i32 @fsdp_rt_wait(

// The start's last fields: event, kind (offload, reload), queue (d2h, h2d).
// QUEUE-DAG: = internal constant { ptr, ptr, i64, ptr, i64, i64, i32, i32, ptr } { ptr {{.*}}, ptr {{.*}}, i64 1, ptr null, i64 0, i64 0, i32 4, i32 4, ptr null }
// QUEUE-DAG: = internal constant { ptr, ptr, i64, ptr, i64, i64, i32, i32, ptr } { ptr {{.*}}, ptr {{.*}}, i64 1, ptr null, i64 0, i64 1, i32 5, i32 5, ptr null }
// QUEUE-LABEL: define i32 @fsdp_run_step
// QUEUE:         call i32 @fsdp_rt_start(
// QUEUE:         call i32 @fsdp_rt_wait(
// QUEUE:         call i32 @fsdp_rt_start(
// QUEUE:         call i32 @fsdp_rt_wait(

// Buffers of the host are guarded in the host's arena: the last field. All of
// it is filled first and free in the end.
// GUARD-DAG: @[[ALL:.*]] = internal constant [{{.*}}] c"all but state in the host's memory\00"
// GUARD-DAG: @[[STORED:.*]] = internal constant [{{.*}}] c"result 0 of offload (op 0)\00"
// GUARD-DAG: @[[FREE:.*]] = internal constant [{{.*}}] c"what is free in the memory of the host when the step ends\00"
// GUARD-DAG: = internal constant { ptr, i64, i64, i64, i32, i32 } { ptr @[[ALL]], i64 0, i64 512, i64 0, i32 0, i32 1 }
// GUARD-DAG: = internal constant { ptr, i64, i64, i64, i32, i32 } { ptr @[[STORED]], i64 0, i64 256, i64 256, i32 1, i32 1 }
// GUARD-DAG: = internal constant { ptr, i64, i64, i64, i32, i32 } { ptr @[[STORED]], i64 0, i64 256, i64 256, i32 2, i32 1 }
// GUARD-DAG: = internal constant { ptr, i64, i64, i64, i32, i32 } { ptr @[[FREE]], i64 0, i64 512, i64 0, i32 1, i32 1 }
fsdp.program @step(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = fsdp.offload %x : tensor<64xf32> -> !fsdp.host<tensor<64xf32>>
  %1 = fsdp.reload %0 : !fsdp.host<tensor<64xf32>> -> tensor<64xf32>
  fsdp.return %1 : tensor<64xf32>
}
