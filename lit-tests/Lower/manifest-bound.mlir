// RUN: fsdp-opt %s --fsdp-layout-state --fsdp-plan-arena --convert-fsdp-to-runtime=cpu=generic | sed 's/\\22/"/g' | FileCheck %s

// The manifest says what a program computes, all types together, and which
// bound it has, in whole nanoseconds, on which machine.

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.state @b buffer "b" : tensor<8xf32>

// CHECK: "programs":[{
// CHECK-SAME: "bound":{"limit":"the reduce queue","machine":"some-machine","ns":412,"peak_flops":989400000000000}
// CHECK-SAME: "flops":576
// CHECK-SAME: "name":"train"
fsdp.program @train(%b: tensor<8xf32> {fsdp.state = @b}) -> (tensor<8xf32> {fsdp.output = {name = "y"}})
    attributes {flops = #fsdp.flops<f32 = 100, bf16 = 476>,
                schedule = #fsdp.schedule<order = scheduled, bound = 412999, step = 500000, machine = "some-machine", limit = "the reduce queue", peak_flops = 989400000000000>} {
  fsdp.return %b : tensor<8xf32>
}

// A rate is none where there is nothing to do at it.
// CHECK-SAME: "bound":{"limit":"compute","machine":"some-machine","ns":1}
// CHECK-SAME: "flops":0
// CHECK-SAME: "name":"evaluate"
fsdp.program eval @evaluate(%b: tensor<8xf32> {fsdp.state = @b}) -> (tensor<8xf32> {fsdp.output = {name = "y"}})
    attributes {flops = #fsdp.flops<>,
                schedule = #fsdp.schedule<order = in_order, bound = 1000, step = 1000, machine = "some-machine", limit = "compute">} {
  fsdp.return %b : tensor<8xf32>
}

// What nobody knows has no key.
// CHECK-NOT: "bound"
// CHECK-NOT: "flops"
// CHECK-SAME: "name":"unknown"
fsdp.program eval @unknown(%b: tensor<8xf32> {fsdp.state = @b}) -> (tensor<8xf32> {fsdp.output = {name = "y"}}) {
  fsdp.return %b : tensor<8xf32>
}
