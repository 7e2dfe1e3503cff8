// RUN: fsdp-opt %s --split-input-file --pass-pipeline='builtin.module(fsdp.program(fsdp-plan-arena,fsdp-schedule-step{order=in_order}))' --verify-diagnostics

// Groups that somebody wrote by hand, of neighbours that cannot go together.
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.program @step(%p: tensor<4xf32>) -> tensor<4xf32> {
  // expected-note @below {{the other one is here}}
  %a = fsdp.all_reduce %p on @mesh["shard"] divisor 2 {fsdp.group = 0} : tensor<4xf32>
  // expected-error @below {{expected collectives that are independent of each other in fsdp.group 0 : i64, got one that sends what another one brings}}
  %b = fsdp.all_reduce %a on @mesh["shard"] divisor 2 {fsdp.group = 0} : tensor<4xf32>
  fsdp.return %b : tensor<4xf32>
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.program @step(%p: tensor<4xf32>, %g: tensor<8xf32>) -> (tensor<8xf32>, tensor<4xf32>) {
  // expected-note @below {{the other one is here}}
  %a = fsdp.all_gather %p on @mesh["shard"] for forward {fsdp.group = 0} : tensor<4xf32> -> tensor<8xf32>
  // expected-error @below {{expected collectives of one kind and group of ranks in fsdp.group 0 : i64, got another one}}
  %b = fsdp.reduce_scatter %g on @mesh["shard"] divisor 2 {fsdp.group = 0} : tensor<8xf32> -> tensor<4xf32>
  fsdp.return %a, %b : tensor<8xf32>, tensor<4xf32>
}
