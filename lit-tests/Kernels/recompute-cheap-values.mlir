// RUN: fsdp-opt %s --fsdp-recompute-cheap-values --split-input-file | FileCheck %s

#id = affine_map<(d0) -> (d0)>

// x + 1 is computed again where x is read anyway: kernel 1 needs only x.

// CHECK-LABEL: fsdp.program @step
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<64xf32>
// CHECK:         linalg.generic {{.*}} ins(%[[X]] : tensor<64xf32>)
// CHECK-SAME:      fsdp.kernel = 1
// CHECK:           arith.addf
// CHECK:         %[[AGAIN:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[X]] :
// CHECK:           arith.mulf
// CHECK-NOT:     fsdp.kernel = 0
fsdp.program @step(%x: tensor<64xf32>) -> tensor<64xf32> {
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) attrs = {fsdp.kernel = 0 : i64} {
  ^bb0(%v: f32, %o: f32):
    %r = arith.addf %v, %one : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %b = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%a, %x : tensor<64xf32>, tensor<64xf32>) outs(%e : tensor<64xf32>) attrs = {fsdp.kernel = 1 : i64} {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %r = arith.mulf %v, %w : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  fsdp.return %b : tensor<64xf32>
}

// -----

// What is expensive is kept.

// CHECK-LABEL: fsdp.program @step
// CHECK:         fsdp.kernel = 0
// CHECK:           math.tanh
// CHECK:         fsdp.kernel = 1
// CHECK-NOT:       math.tanh
fsdp.program @step(%x: tensor<64xf32>) -> tensor<64xf32> {
  %e = tensor.empty() : tensor<64xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) attrs = {fsdp.kernel = 0 : i64} {
  ^bb0(%v: f32, %o: f32):
    %r = math.tanh %v : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %b = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%a, %x : tensor<64xf32>, tensor<64xf32>) outs(%e : tensor<64xf32>) attrs = {fsdp.kernel = 1 : i64} {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %r = arith.mulf %v, %w : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  fsdp.return %b : tensor<64xf32>
}

// -----

// A shard is cast before each gather: the cast one is not kept from forward to
// backward. A tensor that is no argument would have to be kept instead.

// CHECK-LABEL: fsdp.program @step
// CHECK-SAME:    %[[W:[a-z0-9]+]]: tensor<32xf32>
// CHECK:         %[[C0:.*]] = linalg.generic {{.*}} ins(%[[W]] :
// CHECK-SAME:      fsdp.kernel = 0
// CHECK:         fsdp.all_gather %[[C0]] {{.*}} for forward
// CHECK:         %[[C1:.*]] = linalg.generic {{.*}} ins(%[[W]] :
// CHECK-SAME:      fsdp.kernel = 3
// CHECK:           arith.truncf
// CHECK:         fsdp.all_gather %[[C1]] {{.*}} for backward
// CHECK:           math.tanh
// CHECK:         %[[D:.*]] = linalg.generic {{.*}}fsdp.kernel = 2
// CHECK:         fsdp.all_gather %[[D]] {{.*}} for forward
// CHECK-NOT:     linalg.generic
// CHECK:         fsdp.all_gather %[[D]] {{.*}} for backward
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.program @step(%w: tensor<32xf32>) -> (tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>) {
  %e = tensor.empty() : tensor<32xbf16>
  %f = tensor.empty() : tensor<32xf32>
  %c = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%w : tensor<32xf32>) outs(%e : tensor<32xbf16>) attrs = {fsdp.kernel = 0 : i64} {
  ^bb0(%v: f32, %o: bf16):
    %r = arith.truncf %v : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<32xbf16>
  %g0 = fsdp.all_gather %c on @mesh["shard"] for forward : tensor<32xbf16> -> tensor<64xbf16>
  %g1 = fsdp.all_gather %c on @mesh["shard"] for backward : tensor<32xbf16> -> tensor<64xbf16>
  %t = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%w : tensor<32xf32>) outs(%f : tensor<32xf32>) attrs = {fsdp.kernel = 1 : i64} {
  ^bb0(%v: f32, %o: f32):
    %r = math.tanh %v : f32
    linalg.yield %r : f32
  } -> tensor<32xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%t : tensor<32xf32>) outs(%e : tensor<32xbf16>) attrs = {fsdp.kernel = 2 : i64} {
  ^bb0(%v: f32, %o: bf16):
    %r = arith.truncf %v : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<32xbf16>
  %g2 = fsdp.all_gather %d on @mesh["shard"] for forward : tensor<32xbf16> -> tensor<64xbf16>
  %g3 = fsdp.all_gather %d on @mesh["shard"] for backward : tensor<32xbf16> -> tensor<64xbf16>
  fsdp.return %g0, %g1, %g2, %g3 : tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>
}

// -----

// Kernel 2 computes 2 (x + 1) of x, which it reads anyway, although x + 1 is in no
// memory: kernel 1 alone has it.

// CHECK-LABEL: fsdp.program @step
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<64xf32>
// CHECK:         fsdp.kernel = 2
// CHECK:           arith.addf
// CHECK:         fsdp.kernel = 2
// CHECK:           arith.mulf
// CHECK:         linalg.generic {{.*}} ins(%{{.*}}, %[[X]] :
// CHECK-SAME:      fsdp.kernel = 2
fsdp.program @step(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) attrs = {fsdp.kernel = 1 : i64} {
  ^bb0(%v: f32, %o: f32):
    %r = arith.addf %v, %one : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%a : tensor<64xf32>) outs(%e : tensor<64xf32>) attrs = {fsdp.kernel = 1 : i64} {
  ^bb0(%v: f32, %o: f32):
    %r = math.tanh %v : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %b = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%a : tensor<64xf32>) outs(%e : tensor<64xf32>) attrs = {fsdp.kernel = 1 : i64} {
  ^bb0(%v: f32, %o: f32):
    %r = arith.mulf %v, %v : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %c = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%b, %x : tensor<64xf32>, tensor<64xf32>) outs(%e : tensor<64xf32>) attrs = {fsdp.kernel = 2 : i64} {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %r = math.powf %v, %w : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  fsdp.return %t, %c : tensor<64xf32>, tensor<64xf32>
}

// -----

// Backward reads b, which is saved, and not a, half of its size, which is not.

// CHECK-LABEL: fsdp.program @step
// CHECK:         fsdp.kernel = 0
// CHECK:         %[[B:.*]] = linalg.generic {{.*}}fsdp.kernel = 1
// CHECK:         fsdp.kernel = 2
// CHECK:           arith.addf
// CHECK-NOT:     arith.extf
// CHECK:         linalg.generic {{.*}} ins(%[[B]] :
// CHECK-SAME:      fsdp.kernel = 3
fsdp.program @step(%x: tensor<64xf32>) -> (tensor<f32> {fsdp.loss}, tensor<64xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %be = tensor.empty() : tensor<64xbf16>
  %a = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%x : tensor<64xf32>) outs(%be : tensor<64xbf16>) attrs = {fsdp.kernel = 0 : i64} {
  ^bb0(%v: f32, %o: bf16):
    %t = math.tanh %v : f32
    %r = arith.truncf %t : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<64xbf16>
  %b = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%a : tensor<64xbf16>) outs(%e : tensor<64xf32>) attrs = {fsdp.kernel = 1 : i64} {
  ^bb0(%v: bf16, %o: f32):
    %r = arith.extf %v : bf16 to f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %se = tensor.empty() : tensor<f32>
  %sinit = linalg.fill ins(%zero : f32) outs(%se : tensor<f32>) -> tensor<f32>
  %l = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]}
      ins(%a : tensor<64xbf16>) outs(%sinit : tensor<f32>) attrs = {fsdp.kernel = 2 : i64} {
  ^bb0(%v: bf16, %o: f32):
    %n = arith.extf %v : bf16 to f32
    %r = arith.addf %n, %o : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  %g = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%b : tensor<64xf32>) outs(%e : tensor<64xf32>) attrs = {fsdp.kernel = 3 : i64} {
  ^bb0(%v: f32, %o: f32):
    %r = arith.mulf %v, %v : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  fsdp.return %l, %g : tensor<f32>, tensor<64xf32>
}

// -----

// Kernel 1 reads two f32 values that kernel 0 makes of a bf16 one, which is nowhere in memory: it reads that, half of
// the bytes of one of them, and repeats what lies between. What makes the bf16 value it does not repeat, since it would
// have to read arguments that it does not read yet.

// CHECK-LABEL: fsdp.program @step
// CHECK:         %[[D:.*]] = linalg.generic {{.*}}fsdp.kernel = 0
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      arith.addf
// CHECK-NOT:     fsdp.kernel = 0
// CHECK:         linalg.generic {{.*}} ins(%[[D]] : tensor<64xbf16>) {{.*}}fsdp.kernel = 1
// CHECK:           arith.extf
// CHECK:         linalg.generic {{.*}}fsdp.kernel = 1
// CHECK:           arith.mulf
// CHECK:         linalg.generic {{.*}}fsdp.kernel = 1
// CHECK:           arith.addf
// CHECK:         linalg.generic {{.*}}fsdp.kernel = 0
// CHECK:           math.tanh
// CHECK:         linalg.generic {{.*}}fsdp.kernel = 1
// CHECK:           arith.subf
fsdp.program @step(%x: tensor<64xbf16>, %y: tensor<64xbf16>) -> (tensor<64xf32>, tensor<64xbf16>) {
  %be = tensor.empty() : tensor<64xbf16>
  %e = tensor.empty() : tensor<64xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%x, %y : tensor<64xbf16>, tensor<64xbf16>) outs(%be : tensor<64xbf16>) attrs = {fsdp.kernel = 0 : i64} {
  ^bb0(%v: bf16, %w: bf16, %o: bf16):
    %r = arith.addf %v, %w : bf16
    linalg.yield %r : bf16
  } -> tensor<64xbf16>
  %f = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%d : tensor<64xbf16>) outs(%e : tensor<64xf32>) attrs = {fsdp.kernel = 0 : i64} {
  ^bb0(%v: bf16, %o: f32):
    %r = arith.extf %v : bf16 to f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%f : tensor<64xf32>) outs(%e : tensor<64xf32>) attrs = {fsdp.kernel = 0 : i64} {
  ^bb0(%v: f32, %o: f32):
    %r = arith.mulf %v, %v : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %b = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%f : tensor<64xf32>) outs(%e : tensor<64xf32>) attrs = {fsdp.kernel = 0 : i64} {
  ^bb0(%v: f32, %o: f32):
    %r = arith.addf %v, %v : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%d : tensor<64xbf16>) outs(%be : tensor<64xbf16>) attrs = {fsdp.kernel = 0 : i64} {
  ^bb0(%v: bf16, %o: bf16):
    %r = math.tanh %v : bf16
    linalg.yield %r : bf16
  } -> tensor<64xbf16>
  %c = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%a, %b : tensor<64xf32>, tensor<64xf32>) outs(%e : tensor<64xf32>) attrs = {fsdp.kernel = 1 : i64} {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %r = arith.subf %v, %w : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  fsdp.return %c, %t : tensor<64xf32>, tensor<64xbf16>
}

// -----

// Kernel 2 widens the weight of @u itself, which kernel 4 reads later, and not that of @l, which would stay gathered
// for it.

#id = affine_map<(d0) -> (d0)>

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]

// CHECK-LABEL: fsdp.program @step
// CHECK:         %[[U:.*]] = fsdp.view {{.*}} : tensor<128xbf16> -> tensor<64xbf16>
// CHECK:         %[[L:.*]] = fsdp.view {{.*}} : tensor<64xbf16> -> tensor<64xbf16>
// CHECK:         %[[AGAIN:.*]] = linalg.generic {{.*}} ins(%[[U]] : tensor<64xbf16>) {{.*}}fsdp.kernel = 2
// CHECK:         %[[WIDE:.*]] = linalg.generic {{.*}} ins(%[[L]] : tensor<64xbf16>) {{.*}}fsdp.kernel = 1
// CHECK:         linalg.generic {{.*}} ins(%[[AGAIN]], %[[WIDE]] : tensor<64xf32>, tensor<64xf32>) {{.*}}fsdp.kernel = 2
// CHECK-NOT:     fsdp.kernel = 0
fsdp.program @step(%u: tensor<64xbf16>, %l: tensor<32xbf16>) -> (tensor<64xf32>, tensor<64xf32>) {
  %gu = fsdp.all_gather %u on @mesh["shard"] for forward : tensor<64xbf16> -> tensor<128xbf16>
  %gl = fsdp.all_gather %l on @mesh["shard"] for forward : tensor<32xbf16> -> tensor<64xbf16>
  %vu = fsdp.view %gu[0] : tensor<128xbf16> -> tensor<64xbf16>
  %vu2 = fsdp.view %gu[64] : tensor<128xbf16> -> tensor<64xbf16>
  %vl = fsdp.view %gl[0] : tensor<64xbf16> -> tensor<64xbf16>
  %e = tensor.empty() : tensor<64xf32>
  %wu = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%vu : tensor<64xbf16>) outs(%e : tensor<64xf32>) attrs = {fsdp.kernel = 0 : i64} {
  ^bb0(%a: bf16, %o: f32):
    %r = arith.extf %a : bf16 to f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %wl = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%vl : tensor<64xbf16>) outs(%e : tensor<64xf32>) attrs = {fsdp.kernel = 1 : i64} {
  ^bb0(%a: bf16, %o: f32):
    %r = arith.extf %a : bf16 to f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%wu, %wl : tensor<64xf32>, tensor<64xf32>) outs(%e : tensor<64xf32>) attrs = {fsdp.kernel = 2 : i64} {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.mulf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%vu2 : tensor<64xbf16>) outs(%e : tensor<64xf32>) attrs = {fsdp.kernel = 4 : i64} {
  ^bb0(%a: bf16, %o: f32):
    %r = arith.extf %a : bf16 to f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  fsdp.return %s, %t : tensor<64xf32>, tensor<64xf32>
}
