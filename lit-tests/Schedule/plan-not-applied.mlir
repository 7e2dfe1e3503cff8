// RUN: fsdp-opt %s --split-input-file --pass-pipeline='builtin.module(fsdp.program(fsdp-plan-arena,fsdp-schedule-step{order=in_order}))' --verify-diagnostics
// RUN: fsdp-opt %s --split-input-file --fsdp-plan-arena --fsdp-verify-schedule --verify-diagnostics
// RUN: fsdp-opt %s --split-input-file --fsdp-plan-arena --convert-fsdp-to-runtime --verify-diagnostics

// Plan attributes that it is too late to apply: nobody would look at them.

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
func.func private @f(%x: tensor<8xf32>, %o: tensor<f32>) -> tensor<f32>
fsdp.program @step(%p: tensor<4xf32>) -> (tensor<f32> {fsdp.loss}, tensor<f32>) {
  %w = fsdp.all_gather %p on @mesh["shard"] for forward : tensor<4xf32> -> tensor<8xf32>
  %l = fsdp.launch @f(%w) : (tensor<8xf32>) -> tensor<f32>
  // expected-error @below {{'fsdp.all_gather' op expected a plan that has been applied, got fsdp.keep (run fsdp-keep-gathered first)}}
  %w2 = fsdp.all_gather %p on @mesh["shard"] for backward {fsdp.keep} : tensor<4xf32> -> tensor<8xf32>
  %g = fsdp.launch @f(%w2) : (tensor<8xf32>) -> tensor<f32>
  fsdp.return %l, %g : tensor<f32>, tensor<f32>
}

// -----

func.func private @f(%x: tensor<8xf32>, %o: tensor<8xf32>) -> tensor<8xf32>
fsdp.program @step(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{expected a plan that has been applied, got fsdp.recompute (run fsdp-recompute-activations first)}}
  %y = fsdp.launch @f(%x) {fsdp.recompute = array<i64: 0>} : (tensor<8xf32>) -> tensor<8xf32>
  fsdp.return %y : tensor<8xf32>
}

// -----

func.func private @f(%x: tensor<8xf32>, %o: tensor<8xf32>) -> tensor<8xf32>
fsdp.program @step(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{expected a plan that has been applied, got fsdp.offload (run fsdp-offload-activations first)}}
  %y = fsdp.launch @f(%x) {fsdp.offload = array<i64: 0>} : (tensor<8xf32>) -> tensor<8xf32>
  fsdp.return %y : tensor<8xf32>
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
func.func private @f(%x: tensor<8xf32>, %o: tensor<8xf32>) -> tensor<8xf32>
fsdp.program @step(%p: tensor<4xf32>, %q: tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  // expected-note @below {{the one before it is here}}
  %a = fsdp.all_gather %p on @mesh["shard"] for forward {fsdp.group = 3} : tensor<4xf32> -> tensor<8xf32>
  %c = fsdp.launch @f(%a) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error @below {{expected the collectives of fsdp.group 3 beside each other, got other ops between them (run fsdp-group-collectives first)}}
  %b = fsdp.all_gather %q on @mesh["shard"] for forward {fsdp.group = 3} : tensor<4xf32> -> tensor<8xf32>
  %d = fsdp.launch @f(%b) : (tensor<8xf32>) -> tensor<8xf32>
  fsdp.return %c, %d : tensor<8xf32>, tensor<8xf32>
}
