// RUN: fsdp-opt %s --fsdp-hoist-checks --split-input-file -verify-diagnostics

fsdp.program @step(%x: tensor<4xi1>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %four = arith.constant 4 : index
  scf.for %i = %zero to %four step %one {
    %ok = tensor.extract %x[%i] : tensor<4xi1>
    // expected-error @below {{expected an assertion at the top of the step or in a linalg.generic, got one inside scf.for}}
    cf.assert %ok, "in a loop"
  }
  fsdp.return
}

// -----

// A condition that is computed from the result itself.

fsdp.program @step(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0.0 : f32
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      outs(%x : tensor<4xf32>) {
  ^bb0(%o: f32):
    %ok = arith.cmpf ogt, %o, %zero : f32
    // expected-error @below {{expected a condition that is computed from inputs, got one that reads what is written}}
    cf.assert %ok, "on the result"
    linalg.yield %o : f32
  } -> tensor<4xf32>
  fsdp.return %r : tensor<4xf32>
}
