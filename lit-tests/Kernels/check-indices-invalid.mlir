// RUN: fsdp-opt %s --fsdp-check-indices --split-input-file --verify-diagnostics

// Nothing carries a condition out of an scf.index_switch.
fsdp.program @step(%table: tensor<4xf32>, %row: tensor<i64>, %c: tensor<index>) -> tensor<f32> {
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
  fsdp.return %r : tensor<f32>
}

// -----

fsdp.program @step(%table: tensor<8xf32>, %n: tensor<index>) -> tensor<4xf32> {
  %k = tensor.extract %n[] : tensor<index>
  // expected-error @below {{expected constant strides of at least 1, got other ones}}
  %r = tensor.extract_slice %table[0] [4] [%k] : tensor<8xf32> to tensor<4xf32>
  fsdp.return %r : tensor<4xf32>
}

// -----

fsdp.program @step(%table: tensor<8xf32>, %x: tensor<2xf32>, %n: tensor<index>) -> tensor<8xf32> {
  %k = tensor.extract %n[] : tensor<index>
  // expected-error @below {{expected constant strides of at least 1, got other ones}}
  %r = tensor.insert_slice %x into %table[%k] [2] [-3] : tensor<2xf32> into tensor<8xf32>
  fsdp.return %r : tensor<8xf32>
}

// -----

fsdp.program @step(%x: tensor<2xf32>, %n: tensor<index>) -> tensor<8xf32> {
  %k = tensor.extract %n[] : tensor<index>
  %f = arith.constant 0.0 : f32
  // expected-error @below {{expected constant widths of padding, got computed ones}}
  %r = tensor.pad %x low[%k] high[%k] {
  ^bb0(%i: index):
    tensor.yield %f : f32
  } : tensor<2xf32> to tensor<8xf32>
  fsdp.return %r : tensor<8xf32>
}
