// RUN: fsdp-opt %s --fsdp-check-indices --split-input-file --verify-diagnostics

// Nothing carries a condition out of an scf.if.
func.func @step(%table: tensor<4xf32>, %row: tensor<i64>, %c: tensor<i1>) -> tensor<f32> {
  %cond = tensor.extract %c[] : tensor<i1>
  %v = scf.if %cond -> (f32) {
    %i = tensor.extract %row[] : tensor<i64>
    %k = arith.index_cast %i : i64 to index
    // expected-error @below {{expected index 0 of 'tensor<4xf32>' to be one that is known to be in range (bound it with arith.maxsi and arith.minsi), or an access at the top of the step, in a linalg.generic or in scf.for there, got an unknown one in scf.if}}
    %x = tensor.extract %table[%k] : tensor<4xf32>
    scf.yield %x : f32
  } else {
    %f = arith.constant 0.0 : f32
    scf.yield %f : f32
  }
  %r = tensor.from_elements %v : tensor<f32>
  return %r : tensor<f32>
}
