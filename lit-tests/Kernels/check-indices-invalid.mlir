// RUN: fsdp-opt %s --fsdp-check-indices --split-input-file --verify-diagnostics

// Nothing carries a condition out of an scf.index_switch.
func.func @step(%table: tensor<4xf32>, %row: tensor<i64>, %c: tensor<index>) -> tensor<f32> {
  %case = tensor.extract %c[] : tensor<index>
  %v = scf.index_switch %case -> f32
  case 0 {
    %i = tensor.extract %row[] : tensor<i64>
    %k = arith.index_cast %i : i64 to index
    // expected-error @below {{expected index 0 of 'tensor<4xf32>' to be one that is known to be in range (bound it with arith.maxsi and arith.minsi), or an access at the top of the step, or in linalg.generic, scf.for, scf.while or scf.if there, got an unknown one in scf.index_switch}}
    %x = tensor.extract %table[%k] : tensor<4xf32>
    scf.yield %x : f32
  }
  default {
    %f = arith.constant 0.0 : f32
    scf.yield %f : f32
  }
  %r = tensor.from_elements %v : tensor<f32>
  return %r : tensor<f32>
}
