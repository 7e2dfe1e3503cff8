// A module that is no step passes unchanged through every kernel pass, and so
// through the whole pipelines.

// RUN: fsdp-opt %s -o %t
// RUN: fsdp-opt %s --fsdp-hoist-checks | diff %t -
// RUN: fsdp-opt %s --fsdp-normalize-compute | diff %t -
// RUN: fsdp-opt %s --fsdp-fuse-attention | diff %t -
// RUN: fsdp-opt %s --fsdp-emit-attention | diff %t -
// RUN: fsdp-opt %s --fsdp-form-kernels | diff %t -
// RUN: fsdp-opt %s --fsdp-recompute-cheap-values | diff %t -
// RUN: fsdp-opt %s --fsdp-outline-kernels | diff %t -
// RUN: fsdp-opt %s --fsdp-deduplicate-kernels | diff %t -
// RUN: fsdp-opt %s --fsdp-tie-inits | diff %t -
// RUN: fsdp-opt %s --fsdp-tie-updates | diff %t -
// RUN: fsdp-opt %s --fsdp-match-matmuls | diff %t -
// RUN: fsdp-opt %s --fsdp-vectorize-kernels | diff %t -
// RUN: fsdp-opt %s --fsdp-isolate-kernels | diff %t -
// RUN: fsdp-opt %s --fsdp-adopt-kernels | diff %t -
// RUN: fsdp-opt %s --fsdp-kernels | diff %t -
// RUN: fsdp-opt %s --fsdp-cpu-kernels | diff %t -

#id = affine_map<(d0) -> (d0)>

func.func @no_step(%x: tensor<4xf32>, %flag: i1) -> tensor<4xf32> {
  cf.assert %flag, "kept"
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = math.tanh %a : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}
