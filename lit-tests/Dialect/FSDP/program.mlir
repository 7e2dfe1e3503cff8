// RUN: fsdp-opt %s | fsdp-opt | FileCheck %s
// RUN: fsdp-opt %s --emit-bytecode | fsdp-opt | FileCheck %s
// RUN: fsdp-opt %s --mlir-print-op-generic | fsdp-opt | FileCheck %s
// RUN: fsdp-opt %s --verify-roundtrip | FileCheck %s
// RUN: fsdp-opt %s --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC
// Nobody calls programs, and nothing else holds states: upstream passes leave both.
// RUN: fsdp-opt %s --canonicalize --cse --symbol-dce --inline | FileCheck %s

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 128 [
  <"h.0.weight", tensor<8xf32> at 0>
] {trainable, unit = "h.0"}

// Of each kind: the piece of a flat parameter, and with a local type as lowered.
// CHECK:      fsdp.state @h0.param parameter of @h0 : !fsdp.sharded<@h0, f32>{{$}}
// GENERIC:    "fsdp.state"() <{flat_param = @h0, kind = #fsdp<state_kind parameter>, sym_name = "h0.param", type = !fsdp.sharded<@h0, f32>}>
fsdp.state @h0.param parameter of @h0 : !fsdp.sharded<@h0, f32>
// CHECK-NEXT: fsdp.state @h0.exp_avg optimizer "exp_avg" of @h0 : tensor<64xf32> at 256 init 5.000000e-01 : f64{{$}}
fsdp.state @h0.exp_avg optimizer "exp_avg" of @h0 : tensor<64xf32> at 256 init 0.5 : f64
// CHECK-NEXT: fsdp.state @h0.sum accumulator of @h0 : !fsdp.unsharded<@h0, f32>{{$}}
fsdp.state @h0.sum accumulator of @h0 : !fsdp.unsharded<@h0, f32>
// CHECK-NEXT: fsdp.state @"optimizer step" optimizer "step" : tensor<f32> init 0.000000e+00 : f64{{$}}
fsdp.state @"optimizer step" optimizer "step" : tensor<f32> init 0.0 : f64
// CHECK-NEXT: fsdp.state @mean buffer "norm.running_mean" : tensor<64xf32> at 0 init {kind = "constant", value = 0.000000e+00 : f64} tied ["head.running_mean"]{{$}}
fsdp.state @mean buffer "norm.running_mean" : tensor<64xf32> at 0 init {kind = "constant", value = 0.0 : f64} tied ["head.running_mean"]
// CHECK-NEXT: fsdp.state @table buffer "table" : tensor<256xi8> at 512 unsigned {other.note}{{$}}
fsdp.state @table buffer "table" : tensor<256xi8> at 512 unsigned {other.note}

// CHECK-LABEL: fsdp.program @train(%arg0: !fsdp.sharded<@h0, f32> {fsdp.state = @h0.param},
// CHECK-SAME:    %arg1: tensor<64xf32> {fsdp.offset = 0 : i64, fsdp.state = @mean},
// CHECK-SAME:    %arg2: tensor<8xf32> {fsdp.input = {name = "x"}}, %arg3: tensor<f32> {fsdp.scalar = {name = "lr"}}, %arg4: tensor<4xf32>)
// CHECK-SAME:    -> (tensor<f32> {fsdp.loss}, tensor<64xf32> {fsdp.state = @mean}, !fsdp.sharded<@h0, f32> {fsdp.state = @h0.param}, tensor<f32> {fsdp.grad_norm}, tensor<4xf32>)
// CHECK-SAME:    attributes {arena = #fsdp.arena<bytes = 1024, state = 768, communicated = 128, transient = 128, peak = [256, 256, 0, 0, 256, 256, 0]>,
// CHECK-SAME:      flops = #fsdp.flops<f32 = 131072, bf16 = 25165824>, other.note,
// CHECK-SAME:      schedule = #fsdp.schedule<order = scheduled, bound = 412000000, step = 413500000, machine = "h100-sxm", limit = "compute", peak_flops = 989400000000000>} {
// GENERIC:     "fsdp.program"() <{arena = #fsdp.arena<
// GENERIC-SAME:  kind = #fsdp<program_kind train>
// GENERIC-SAME:  schedule = #fsdp.schedule<
fsdp.program @train(%w: !fsdp.sharded<@h0, f32> {fsdp.state = @h0.param},
                    %m: tensor<64xf32> {fsdp.state = @mean, fsdp.offset = 0 : i64},
                    %x: tensor<8xf32> {fsdp.input = {name = "x"}}, %lr: tensor<f32> {fsdp.scalar = {name = "lr"}}, %plain: tensor<4xf32>)
    -> (tensor<f32> {fsdp.loss}, tensor<64xf32> {fsdp.state = @mean}, !fsdp.sharded<@h0, f32> {fsdp.state = @h0.param},
        tensor<f32> {fsdp.grad_norm}, tensor<4xf32>)
    attributes {arena = #fsdp.arena<bytes = 1024, state = 768, communicated = 128, transient = 128, peak = [256, 256, 0, 0, 256, 256, 0]>,
                flops = #fsdp.flops<f32 = 131072, bf16 = 25165824>,
                schedule = #fsdp.schedule<order = scheduled, bound = 412000000, step = 413500000, machine = "h100-sxm", limit = "compute", peak_flops = 989400000000000>,
                other.note} {
  // CHECK-NEXT: fsdp.return %arg3, %arg1, %arg0, %arg3, %arg4 : tensor<f32>, tensor<64xf32>, !fsdp.sharded<@h0, f32>, tensor<f32>, tensor<4xf32>
  fsdp.return %lr, %m, %w, %lr, %plain : tensor<f32>, tensor<64xf32>, !fsdp.sharded<@h0, f32>, tensor<f32>, tensor<4xf32>
}

// One that reads states and writes none; the kind train is not printed.
// CHECK-LABEL: fsdp.program eval @evaluate(%arg0: tensor<64xf32> {fsdp.state = @mean})
// CHECK-SAME:    -> (tensor<64xf32> {fsdp.loss})
// CHECK-SAME:    attributes {arena = #fsdp.arena<bytes = 768, state = 256, inputs = 256, transient = 256, host = 512, border = 256>,
// CHECK-SAME:      flops = #fsdp.flops<>, schedule = #fsdp.schedule<order = in_order, bound = 0, step = 0, machine = "m", limit = "compute">} {
// GENERIC:     "fsdp.program"()
// GENERIC-SAME:  kind = #fsdp<program_kind eval>
fsdp.program eval @evaluate(%m: tensor<64xf32> {fsdp.state = @mean}) -> (tensor<64xf32> {fsdp.loss})
    attributes {arena = #fsdp.arena<bytes = 768, state = 256, inputs = 256, transient = 256, host = 512, border = 256>,
                flops = #fsdp.flops<>, schedule = #fsdp.schedule<order = in_order, bound = 0, step = 0, machine = "m", limit = "compute">} {
  fsdp.return %m : tensor<64xf32>
}

// CHECK-LABEL: fsdp.program @plain(%arg0: tensor<4xf32>, %arg1: tensor<f32>) -> tensor<4xf32>
// CHECK-SAME:    attributes {schedule = #fsdp.schedule<order = fsdp, bound = 1, step = 2, machine = "m", limit = "compute">} {
fsdp.program train @plain(%x: tensor<4xf32>, %y: tensor<f32>) -> tensor<4xf32>
    attributes {schedule = #fsdp.schedule<order = fsdp, bound = 1, step = 2, machine = "m", limit = "compute">} {
  fsdp.return %x : tensor<4xf32>
}

// CHECK-LABEL: fsdp.program @nothing() {
// CHECK-NEXT:    fsdp.return{{$}}
fsdp.program @nothing() {
  fsdp.return
}
