// RUN: fsdp-opt %s --fsdp-emit-cuda-kernels | FileCheck %s
// RUN: fsdp-opt %s --fsdp-emit-cuda-kernels=math=exact | FileCheck %s --check-prefix=EXACT

// Functions may be approximated where all that depends on them is rounded to 16
// bits, but for sums over such terms.

// EXACT-NOT: fastmath

#id = affine_map<(d0, d1) -> (d0, d1)>
#column = affine_map<(d0, d1) -> (d1)>

fsdp.program @step(%n: tensor<64x512xbf16>, %x: tensor<64x512xf32>) {
  %0 = fsdp.launch @rounded(%n) : (tensor<64x512xbf16>) -> tensor<64x512xbf16>
  %1 = fsdp.launch @wide(%n) : (tensor<64x512xbf16>) -> tensor<64x512xf32>
  %2:2 = fsdp.launch @both(%n) : (tensor<64x512xbf16>) -> (tensor<64x512xbf16>, tensor<64x512xf32>)
  %3:2 = fsdp.launch @summed(%n) : (tensor<64x512xbf16>) -> (tensor<64x512xbf16>, tensor<512xf32>)
  %4 = fsdp.launch @sum(%n) : (tensor<64x512xbf16>) -> tensor<512xf32>
  %5 = fsdp.launch @compared(%n) : (tensor<64x512xbf16>) -> tensor<64x512xbf16>
  %6 = fsdp.launch @stepped(%n) : (tensor<64x512xbf16>) -> tensor<64x512xbf16>
  fsdp.return
}

func.func private @rounded(%x: tensor<64x512xbf16>, %out: tensor<64x512xbf16>) -> tensor<64x512xbf16> {
  %e = tensor.empty() : tensor<64x512xbf16>
  %w = tensor.empty() : tensor<64x512xf32>
  %c = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<64x512xbf16>) outs(%w : tensor<64x512xf32>) {
  ^bb0(%v: bf16, %o: f32):
    %one = arith.constant 1.0 : f32
    %f = arith.extf %v : bf16 to f32
    %t = math.exp %f : f32
    %s = arith.addf %t, %one : f32
    linalg.yield %s : f32
  } -> tensor<64x512xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%c : tensor<64x512xf32>) outs(%e : tensor<64x512xbf16>) {
  ^bb0(%v: f32, %o: bf16):
    %one = arith.constant 1.0 : f32
    %q = arith.divf %one, %v : f32
    %s = arith.truncf %q : f32 to bf16
    linalg.yield %s : bf16
  } -> tensor<64x512xbf16>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<64x512xbf16>, tensor<64x512xbf16>) -> tensor<64x512xbf16>
  return %s : tensor<64x512xbf16>
}

func.func private @wide(%x: tensor<64x512xbf16>, %out: tensor<64x512xf32>) -> tensor<64x512xf32> {
  %w = tensor.empty() : tensor<64x512xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<64x512xbf16>) outs(%w : tensor<64x512xf32>) {
  ^bb0(%v: bf16, %o: f32):
    %f = arith.extf %v : bf16 to f32
    %t = math.tanh %f : f32
    linalg.yield %t : f32
  } -> tensor<64x512xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<64x512xf32>, tensor<64x512xf32>) -> tensor<64x512xf32>
  return %s : tensor<64x512xf32>
}

func.func private @both(%x: tensor<64x512xbf16>, %out: tensor<64x512xbf16>, %wide: tensor<64x512xf32>) -> (tensor<64x512xbf16>, tensor<64x512xf32>) {
  %e = tensor.empty() : tensor<64x512xbf16>
  %w = tensor.empty() : tensor<64x512xf32>
  %r:2 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<64x512xbf16>) outs(%e, %w : tensor<64x512xbf16>, tensor<64x512xf32>) {
  ^bb0(%v: bf16, %o: bf16, %p: f32):
    %f = arith.extf %v : bf16 to f32
    %t = math.erf %f : f32
    %n = arith.truncf %t : f32 to bf16
    linalg.yield %n, %t : bf16, f32
  } -> (tensor<64x512xbf16>, tensor<64x512xf32>)
  %s = bufferization.materialize_in_destination %r#0 in %out : (tensor<64x512xbf16>, tensor<64x512xbf16>) -> tensor<64x512xbf16>
  %q = bufferization.materialize_in_destination %r#1 in %wide : (tensor<64x512xf32>, tensor<64x512xf32>) -> tensor<64x512xf32>
  return %s, %q : tensor<64x512xbf16>, tensor<64x512xf32>
}

func.func private @summed(%x: tensor<64x512xbf16>, %out: tensor<64x512xbf16>, %sums: tensor<512xf32>) -> (tensor<64x512xbf16>, tensor<512xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x512xbf16>
  %w = tensor.empty() : tensor<64x512xf32>
  %c = tensor.empty() : tensor<512xf32>
  %i = linalg.fill ins(%zero : f32) outs(%c : tensor<512xf32>) -> tensor<512xf32>
  %r:2 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<64x512xbf16>) outs(%e, %w : tensor<64x512xbf16>, tensor<64x512xf32>) {
  ^bb0(%v: bf16, %o: bf16, %p: f32):
    %f = arith.extf %v : bf16 to f32
    %t = math.tanh %f : f32
    %n = arith.truncf %t : f32 to bf16
    linalg.yield %n, %t : bf16, f32
  } -> (tensor<64x512xbf16>, tensor<64x512xf32>)
  %a = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]}
      ins(%r#1 : tensor<64x512xf32>) outs(%i : tensor<512xf32>) {
  ^bb0(%v: f32, %o: f32):
    %t = arith.addf %v, %o : f32
    linalg.yield %t : f32
  } -> tensor<512xf32>
  %s = bufferization.materialize_in_destination %r#0 in %out : (tensor<64x512xbf16>, tensor<64x512xbf16>) -> tensor<64x512xbf16>
  %q = bufferization.materialize_in_destination %a in %sums : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
  return %s, %q : tensor<64x512xbf16>, tensor<512xf32>
}

func.func private @sum(%x: tensor<64x512xbf16>, %sums: tensor<512xf32>) -> tensor<512xf32> {
  %zero = arith.constant 0.0 : f32
  %c = tensor.empty() : tensor<512xf32>
  %i = linalg.fill ins(%zero : f32) outs(%c : tensor<512xf32>) -> tensor<512xf32>
  %a = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<64x512xbf16>) outs(%i : tensor<512xf32>) {
  ^bb0(%v: bf16, %o: f32):
    %f = arith.extf %v : bf16 to f32
    %x2 = math.exp2 %f : f32
    %t = arith.addf %x2, %o : f32
    linalg.yield %t : f32
  } -> tensor<512xf32>
  %q = bufferization.materialize_in_destination %a in %sums : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
  return %q : tensor<512xf32>
}

// A comparison may turn on the last bit.

func.func private @compared(%x: tensor<64x512xbf16>, %out: tensor<64x512xbf16>) -> tensor<64x512xbf16> {
  %e = tensor.empty() : tensor<64x512xbf16>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<64x512xbf16>) outs(%e : tensor<64x512xbf16>) {
  ^bb0(%v: bf16, %o: bf16):
    %one = arith.constant 1.0 : f32
    %f = arith.extf %v : bf16 to f32
    %t = math.exp %f : f32
    %b = arith.cmpf ogt, %t, %one : f32
    %z = arith.select %b, %t, %one : f32
    %n = arith.truncf %z : f32 to bf16
    linalg.yield %n : bf16
  } -> tensor<64x512xbf16>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<64x512xbf16>, tensor<64x512xbf16>) -> tensor<64x512xbf16>
  return %s : tensor<64x512xbf16>
}

// x / 41, computed as x times 1 / 41, is below 1 at 41.
func.func private @stepped(%x: tensor<64x512xbf16>, %out: tensor<64x512xbf16>) -> tensor<64x512xbf16> {
  %e = tensor.empty() : tensor<64x512xbf16>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<64x512xbf16>) outs(%e : tensor<64x512xbf16>) {
  ^bb0(%v: bf16, %o: bf16):
    %c = arith.constant 41.0 : f32
    %f = arith.extf %v : bf16 to f32
    %q = arith.divf %f, %c : f32
    %t = math.floor %q : f32
    %n = arith.truncf %t : f32 to bf16
    linalg.yield %n : bf16
  } -> tensor<64x512xbf16>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<64x512xbf16>, tensor<64x512xbf16>) -> tensor<64x512xbf16>
  return %s : tensor<64x512xbf16>
}

// CHECK-LABEL: gpu.func @rounded
// CHECK:         math.exp %{{.*}} fastmath<afn> : f32
// CHECK:         arith.divf %{{.*}}, %{{.*}} fastmath<afn> : f32
// CHECK-LABEL: gpu.func @wide
// CHECK-NOT:     fastmath
// CHECK-LABEL: gpu.func @both
// CHECK-NOT:     fastmath
// CHECK-LABEL: gpu.func @summed
// CHECK:         math.tanh %{{.*}} fastmath<afn> : f32
// CHECK-LABEL: gpu.func @sum
// CHECK-NOT:     fastmath
// CHECK-LABEL: gpu.func @compared
// CHECK-NOT:     fastmath
// CHECK-LABEL: gpu.func @stepped
// CHECK-NOT:     fastmath
