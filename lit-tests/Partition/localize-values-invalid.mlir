// RUN: fsdp-opt %s --fsdp-localize-values --verify-diagnostics

// expected-error@below {{input_c9: expected a result with fsdp.loss, got none}}
// expected-error@below {{input_c10: expected a gradient of parameter "w", got none}}
func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}}) {
  return
}
