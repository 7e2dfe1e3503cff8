// RUN: fsdp-opt %s --pass-pipeline='builtin.module(fsdp.program(fsdp-hoist-updates))' | FileCheck %s
// RUN: fsdp-opt %s --pass-pipeline='builtin.module(fsdp.program(fsdp-hoist-updates{all=true}))' 2>%t | FileCheck %s --check-prefix=ALL
// RUN: FileCheck %s --check-prefix=SAID --input-file=%t

// Updates stand after backward. One whose gradient is reduced while backward goes on moves up to before the next
// reduction, with the copies of its state and what else it alone waits for.

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 8 [
  <"w", tensor<8xf32> at 0>
] {trainable, unit = ""}
fsdp.flat_param @h1 on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 8 [
  <"v", tensor<8xf32> at 0>
] {trainable, unit = ""}
fsdp.state @h0.param parameter of @h0 : tensor<4xf32>
fsdp.state @h1.param parameter of @h1 : tensor<4xf32>
fsdp.state @h0.m optimizer "m" of @h0 : !fsdp.host<tensor<4xf32>> init 0.0 : f64
fsdp.state @h1.m optimizer "m" of @h1 : !fsdp.host<tensor<4xf32>> init 0.0 : f64
func.func private @backward(%x: tensor<8xf32>, %o: tensor<8xf32>) -> tensor<8xf32>
func.func private @rate(%o: tensor<f32>) -> tensor<f32>
func.func private @norm(%g0: tensor<4xf32>, %g1: tensor<4xf32>, %o: tensor<f32>) -> tensor<f32>
func.func private @look(%w: tensor<4xf32>, %o: tensor<f32>) -> tensor<f32>
func.func private @update(%w: tensor<4xf32>, %g: tensor<4xf32>, %m: tensor<4xf32>, %r: tensor<f32>, %a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)

// CHECK-LABEL: fsdp.program @train
// CHECK:         %[[B1:.*]] = fsdp.launch @backward
// CHECK-NEXT:    %[[G1:.*]] = fsdp.reduce_scatter %[[B1]]
// CHECK-NEXT:    %[[B0:.*]] = fsdp.launch @backward(%[[B1]])
// CHECK-NEXT:    %[[R:.*]] = fsdp.launch @rate
// CHECK-NEXT:    %[[M1:.*]] = fsdp.reload
// CHECK-NEXT:    %[[U1:.*]]:2 = fsdp.launch @update(%{{.*}}, %[[G1]], %[[M1]], %[[R]])
// CHECK-NEXT:    fsdp.offload %[[U1]]#1
// CHECK-NEXT:    %[[G0:.*]] = fsdp.reduce_scatter %[[B0]]
// CHECK-NEXT:    %[[M0:.*]] = fsdp.reload
// CHECK-NEXT:    %[[U0:.*]]:2 = fsdp.launch @update(%{{.*}}, %[[G0]], %[[M0]], %[[R]])
// CHECK-NEXT:    fsdp.offload %[[U0]]#1
fsdp.program @train(%w0: tensor<4xf32> {fsdp.state = @h0.param}, %w1: tensor<4xf32> {fsdp.state = @h1.param},
                    %s0: !fsdp.host<tensor<4xf32>> {fsdp.state = @h0.m}, %s1: !fsdp.host<tensor<4xf32>> {fsdp.state = @h1.m},
                    %x: tensor<8xf32> {fsdp.input = {name = "x"}})
    -> (tensor<4xf32> {fsdp.state = @h0.param}, tensor<4xf32> {fsdp.state = @h1.param},
        !fsdp.host<tensor<4xf32>> {fsdp.state = @h0.m}, !fsdp.host<tensor<4xf32>> {fsdp.state = @h1.m}) {
  %b1 = fsdp.launch @backward(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %g1 = fsdp.reduce_scatter %b1 on @mesh["shard"] divisor 2 : tensor<8xf32> -> tensor<4xf32>
  %b0 = fsdp.launch @backward(%b1) : (tensor<8xf32>) -> tensor<8xf32>
  %g0 = fsdp.reduce_scatter %b0 on @mesh["shard"] divisor 2 : tensor<8xf32> -> tensor<4xf32>
  %r = fsdp.launch @rate() : () -> tensor<f32>
  %m0 = fsdp.reload %s0 : !fsdp.host<tensor<4xf32>> -> tensor<4xf32>
  %u0:2 = fsdp.launch @update(%w0, %g0, %m0, %r) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
  %h0 = fsdp.offload %u0#1 : tensor<4xf32> -> !fsdp.host<tensor<4xf32>>
  %m1 = fsdp.reload %s1 : !fsdp.host<tensor<4xf32>> -> tensor<4xf32>
  %u1:2 = fsdp.launch @update(%w1, %g1, %m1, %r) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
  %h1 = fsdp.offload %u1#1 : tensor<4xf32> -> !fsdp.host<tensor<4xf32>>
  fsdp.return %u0#0, %u1#0, %h0, %h1 : tensor<4xf32>, tensor<4xf32>, !fsdp.host<tensor<4xf32>>, !fsdp.host<tensor<4xf32>>
}

// Of states on the device, too, where all updates are to run beside backward.
// CHECK-LABEL: fsdp.program @on_device
// CHECK:         fsdp.reduce_scatter
// CHECK:         fsdp.reduce_scatter
// CHECK:         fsdp.launch @update
// ALL-LABEL:   fsdp.program @on_device
// ALL:           %[[B1:.*]] = fsdp.launch @backward
// ALL-NEXT:      %[[G1:.*]] = fsdp.reduce_scatter %[[B1]]
// ALL-NEXT:      %[[B0:.*]] = fsdp.launch @backward(%[[B1]])
// ALL-NEXT:      fsdp.launch @rate
// ALL-NEXT:      fsdp.launch @update(%{{.*}}, %[[G1]],
// ALL-NEXT:      %[[G0:.*]] = fsdp.reduce_scatter %[[B0]]
// ALL-NEXT:      fsdp.launch @update(%{{.*}}, %[[G0]],
// SAID:        remark: 1 of 2 updates in backward: the arena takes {{[0-9.]+ KiB}}, {{[0-9.]+ KiB}} with updates behind it
fsdp.program @on_device(%w0: tensor<4xf32> {fsdp.state = @h0.param}, %w1: tensor<4xf32> {fsdp.state = @h1.param},
                        %x: tensor<8xf32> {fsdp.input = {name = "x"}})
    -> (tensor<4xf32> {fsdp.state = @h0.param}, tensor<4xf32> {fsdp.state = @h1.param}) {
  %b1 = fsdp.launch @backward(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %g1 = fsdp.reduce_scatter %b1 on @mesh["shard"] divisor 2 : tensor<8xf32> -> tensor<4xf32>
  %b0 = fsdp.launch @backward(%b1) : (tensor<8xf32>) -> tensor<8xf32>
  %g0 = fsdp.reduce_scatter %b0 on @mesh["shard"] divisor 2 : tensor<8xf32> -> tensor<4xf32>
  %r = fsdp.launch @rate() : () -> tensor<f32>
  %u0:2 = fsdp.launch @update(%w0, %g0, %g0, %r) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
  %u1:2 = fsdp.launch @update(%w1, %g1, %g1, %r) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
  fsdp.return %u0#0, %u1#0 : tensor<4xf32>, tensor<4xf32>
}

// Where the rate depends on all gradients, updates stay.
// CHECK-LABEL: fsdp.program @clipped
// CHECK:         fsdp.reduce_scatter
// CHECK:         fsdp.reduce_scatter
// CHECK-NEXT:    fsdp.launch @norm
// CHECK:         fsdp.reload
fsdp.program @clipped(%w1: tensor<4xf32> {fsdp.state = @h1.param}, %s1: !fsdp.host<tensor<4xf32>> {fsdp.state = @h1.m},
                      %x: tensor<8xf32> {fsdp.input = {name = "x"}})
    -> (tensor<4xf32> {fsdp.state = @h1.param}, !fsdp.host<tensor<4xf32>> {fsdp.state = @h1.m}) {
  %b1 = fsdp.launch @backward(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %g1 = fsdp.reduce_scatter %b1 on @mesh["shard"] divisor 2 : tensor<8xf32> -> tensor<4xf32>
  %b0 = fsdp.launch @backward(%b1) : (tensor<8xf32>) -> tensor<8xf32>
  %g0 = fsdp.reduce_scatter %b0 on @mesh["shard"] divisor 2 : tensor<8xf32> -> tensor<4xf32>
  %r = fsdp.launch @norm(%g0, %g1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  %m1 = fsdp.reload %s1 : !fsdp.host<tensor<4xf32>> -> tensor<4xf32>
  %u1:2 = fsdp.launch @update(%w1, %g1, %m1, %r) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
  %h1 = fsdp.offload %u1#1 : tensor<4xf32> -> !fsdp.host<tensor<4xf32>>
  fsdp.return %u1#0, %h1 : tensor<4xf32>, !fsdp.host<tensor<4xf32>>
}

// So does one whose parameter is read later: it would not be written in its place.
// CHECK-LABEL: fsdp.program @read_later
// CHECK:         fsdp.reduce_scatter
// CHECK:         fsdp.reduce_scatter
// CHECK-NEXT:    fsdp.launch @look
// CHECK-NEXT:    fsdp.launch @rate
// CHECK-NEXT:    fsdp.reload
fsdp.program @read_later(%w1: tensor<4xf32> {fsdp.state = @h1.param}, %s1: !fsdp.host<tensor<4xf32>> {fsdp.state = @h1.m},
                         %x: tensor<8xf32> {fsdp.input = {name = "x"}})
    -> (tensor<4xf32> {fsdp.state = @h1.param}, !fsdp.host<tensor<4xf32>> {fsdp.state = @h1.m}, tensor<f32>) {
  %b1 = fsdp.launch @backward(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %g1 = fsdp.reduce_scatter %b1 on @mesh["shard"] divisor 2 : tensor<8xf32> -> tensor<4xf32>
  %b0 = fsdp.launch @backward(%b1) : (tensor<8xf32>) -> tensor<8xf32>
  %g0 = fsdp.reduce_scatter %b0 on @mesh["shard"] divisor 2 : tensor<8xf32> -> tensor<4xf32>
  %l = fsdp.launch @look(%w1) : (tensor<4xf32>) -> tensor<f32>
  %r = fsdp.launch @rate() : () -> tensor<f32>
  %m1 = fsdp.reload %s1 : !fsdp.host<tensor<4xf32>> -> tensor<4xf32>
  %u1:2 = fsdp.launch @update(%w1, %g1, %m1, %r) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
  %h1 = fsdp.offload %u1#1 : tensor<4xf32> -> !fsdp.host<tensor<4xf32>>
  fsdp.return %u1#0, %h1, %l : tensor<4xf32>, !fsdp.host<tensor<4xf32>>, tensor<f32>
}

// And one whose state is: it would be written before it is read.
// CHECK-LABEL: fsdp.program @state_read_later
// CHECK:         fsdp.reduce_scatter
// CHECK:         fsdp.reduce_scatter
// CHECK:         fsdp.launch @update
fsdp.program @state_read_later(%w1: tensor<4xf32> {fsdp.state = @h1.param}, %s1: !fsdp.host<tensor<4xf32>> {fsdp.state = @h1.m},
                               %x: tensor<8xf32> {fsdp.input = {name = "x"}})
    -> (tensor<4xf32> {fsdp.state = @h1.param}, !fsdp.host<tensor<4xf32>> {fsdp.state = @h1.m}, tensor<f32>) {
  %b1 = fsdp.launch @backward(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %g1 = fsdp.reduce_scatter %b1 on @mesh["shard"] divisor 2 : tensor<8xf32> -> tensor<4xf32>
  %b0 = fsdp.launch @backward(%b1) : (tensor<8xf32>) -> tensor<8xf32>
  %g0 = fsdp.reduce_scatter %b0 on @mesh["shard"] divisor 2 : tensor<8xf32> -> tensor<4xf32>
  %again = fsdp.reload %s1 : !fsdp.host<tensor<4xf32>> -> tensor<4xf32>
  %l = fsdp.launch @look(%again) : (tensor<4xf32>) -> tensor<f32>
  %r = fsdp.launch @rate() : () -> tensor<f32>
  %m1 = fsdp.reload %s1 : !fsdp.host<tensor<4xf32>> -> tensor<4xf32>
  %u1:2 = fsdp.launch @update(%w1, %g1, %m1, %r) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
  %h1 = fsdp.offload %u1#1 : tensor<4xf32> -> !fsdp.host<tensor<4xf32>>
  fsdp.return %u1#0, %h1, %l : tensor<4xf32>, !fsdp.host<tensor<4xf32>>, tensor<f32>
}
