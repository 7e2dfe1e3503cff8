// What fsdp.tuning says of a kernel's shape is what its code has, or is refused.
// RUN: fsdp-opt %s --split-input-file --verify-diagnostics --fsdp-emit-cuda-attention --fsdp-emit-cuda-kernels | FileCheck %s

// CHECK-LABEL: func.func private @tiles
// CHECK-SAME:    @tiles, grid = 10, block = 64
fsdp.program @step(%q: tensor<2x160x64xbf16>) {
  %0 = fsdp.launch @tiles(%q) : (tensor<2x160x64xbf16>) -> tensor<2x160x64xbf16>
  fsdp.return
}

func.func private @tiles(%q: tensor<2x160x64xbf16>, %out: tensor<2x160x64xbf16>) -> tensor<2x160x64xbf16>
    attributes {fsdp.tuning = {forward = array<i64: 32, 16, 2>}} {
  %o, %s = fsdp.attention <batch = [2], queries = 160, keys = 160, head = 64, value = 64>
      q(%q <0, [10240, 64, 1]> : tensor<2x160x64xbf16>)
      k(%q <0, [10240, 64, 1]> : tensor<2x160x64xbf16>) v(%q <0, [10240, 64, 1]> : tensor<2x160x64xbf16>)
      captured() [] scale 0.125 {
  ^bb0(%score: f32, %b0: index, %query: index, %key: index):
    fsdp.yield %score : f32
  } out(<0, [10240, 64, 1]>) : tensor<2x160x64xbf16>, tensor<640xf32>
  %0 = bufferization.materialize_in_destination %o in %out : (tensor<2x160x64xbf16>, tensor<2x160x64xbf16>) -> tensor<2x160x64xbf16>
  return %0 : tensor<2x160x64xbf16>
}

// -----

// Shapes of other functions do not matter.
// CHECK-LABEL: func.func private @others
// CHECK-SAME:    @others, grid = 6, block = 128
fsdp.program @step(%q: tensor<2x160x64xbf16>) {
  %0 = fsdp.launch @others(%q) : (tensor<2x160x64xbf16>) -> tensor<2x160x64xbf16>
  fsdp.return
}

func.func private @others(%q: tensor<2x160x64xbf16>, %out: tensor<2x160x64xbf16>) -> tensor<2x160x64xbf16>
    attributes {fsdp.tuning = {dq = array<i64: 16, 16, 2>, dkdv = array<i64: 48, 16, 2>, rows = 64}} {
  %o, %s = fsdp.attention <batch = [2], queries = 160, keys = 160, head = 64, value = 64>
      q(%q <0, [10240, 64, 1]> : tensor<2x160x64xbf16>)
      k(%q <0, [10240, 64, 1]> : tensor<2x160x64xbf16>) v(%q <0, [10240, 64, 1]> : tensor<2x160x64xbf16>)
      captured() [] scale 0.125 {
  ^bb0(%score: f32, %b0: index, %query: index, %key: index):
    fsdp.yield %score : f32
  } out(<0, [10240, 64, 1]>) : tensor<2x160x64xbf16>, tensor<640xf32>
  %0 = bufferization.materialize_in_destination %o in %out : (tensor<2x160x64xbf16>, tensor<2x160x64xbf16>) -> tensor<2x160x64xbf16>
  return %0 : tensor<2x160x64xbf16>
}

// -----

fsdp.program @step(%q: tensor<2x160x64xbf16>) {
  %0 = fsdp.launch @odd(%q) : (tensor<2x160x64xbf16>) -> tensor<2x160x64xbf16>
  fsdp.return
}

// expected-error@below {{@odd, fsdp.tuning: expected rows of a power of two from 16 to 128 and columns of one from 16 to twice the rows, got 48 and 16}}
func.func private @odd(%q: tensor<2x160x64xbf16>, %out: tensor<2x160x64xbf16>) -> tensor<2x160x64xbf16>
    attributes {fsdp.tuning = {forward = array<i64: 48, 16, 2>}} {
  %o, %s = fsdp.attention <batch = [2], queries = 160, keys = 160, head = 64, value = 64>
      q(%q <0, [10240, 64, 1]> : tensor<2x160x64xbf16>)
      k(%q <0, [10240, 64, 1]> : tensor<2x160x64xbf16>) v(%q <0, [10240, 64, 1]> : tensor<2x160x64xbf16>)
      captured() [] scale 0.125 {
  ^bb0(%score: f32, %b0: index, %query: index, %key: index):
    fsdp.yield %score : f32
  } out(<0, [10240, 64, 1]>) : tensor<2x160x64xbf16>, tensor<640xf32>
  %0 = bufferization.materialize_in_destination %o in %out : (tensor<2x160x64xbf16>, tensor<2x160x64xbf16>) -> tensor<2x160x64xbf16>
  return %0 : tensor<2x160x64xbf16>
}

// -----

fsdp.program @step(%q: tensor<2x160x64xbf16>) {
  %0 = fsdp.launch @deep(%q) : (tensor<2x160x64xbf16>) -> tensor<2x160x64xbf16>
  fsdp.return
}

// expected-error@below {{@deep, fsdp.tuning: expected 1 or 2 stages, got 3}}
func.func private @deep(%q: tensor<2x160x64xbf16>, %out: tensor<2x160x64xbf16>) -> tensor<2x160x64xbf16>
    attributes {fsdp.tuning = {forward = array<i64: 16, 16, 3>}} {
  %o, %s = fsdp.attention <batch = [2], queries = 160, keys = 160, head = 64, value = 64>
      q(%q <0, [10240, 64, 1]> : tensor<2x160x64xbf16>)
      k(%q <0, [10240, 64, 1]> : tensor<2x160x64xbf16>) v(%q <0, [10240, 64, 1]> : tensor<2x160x64xbf16>)
      captured() [] scale 0.125 {
  ^bb0(%score: f32, %b0: index, %query: index, %key: index):
    fsdp.yield %score : f32
  } out(<0, [10240, 64, 1]>) : tensor<2x160x64xbf16>, tensor<640xf32>
  %0 = bufferization.materialize_in_destination %o in %out : (tensor<2x160x64xbf16>, tensor<2x160x64xbf16>) -> tensor<2x160x64xbf16>
  return %0 : tensor<2x160x64xbf16>
}

// -----

fsdp.program @step(%q: tensor<2x160x64xbf16>) {
  %0 = fsdp.launch @wide(%q) : (tensor<2x160x64xbf16>) -> tensor<2x160x64xbf16>
  fsdp.return
}

// expected-error@below {{@wide, fsdp.tuning: expected rows of a power of two from 16 to 128 and columns of one from 16 to twice the rows, got 16 and 64}}
func.func private @wide(%q: tensor<2x160x64xbf16>, %out: tensor<2x160x64xbf16>) -> tensor<2x160x64xbf16>
    attributes {fsdp.tuning = {forward = array<i64: 16, 64, 2>}} {
  %o, %s = fsdp.attention <batch = [2], queries = 160, keys = 160, head = 64, value = 64>
      q(%q <0, [10240, 64, 1]> : tensor<2x160x64xbf16>)
      k(%q <0, [10240, 64, 1]> : tensor<2x160x64xbf16>) v(%q <0, [10240, 64, 1]> : tensor<2x160x64xbf16>)
      captured() [] scale 0.125 {
  ^bb0(%score: f32, %b0: index, %query: index, %key: index):
    fsdp.yield %score : f32
  } out(<0, [10240, 64, 1]>) : tensor<2x160x64xbf16>, tensor<640xf32>
  %0 = bufferization.materialize_in_destination %o in %out : (tensor<2x160x64xbf16>, tensor<2x160x64xbf16>) -> tensor<2x160x64xbf16>
  return %0 : tensor<2x160x64xbf16>
}

// -----

fsdp.program @step(%q: tensor<2x160x128xbf16>) {
  %0 = fsdp.launch @large(%q) : (tensor<2x160x128xbf16>) -> tensor<2x160x128xbf16>
  fsdp.return
}

// expected-error@below {{@large, fsdp.tuning: expected at most 101376 bytes of shared memory, which all cards have, got 104448 for tiles of 128 rows and 128 columns}}
func.func private @large(%q: tensor<2x160x128xbf16>, %out: tensor<2x160x128xbf16>) -> tensor<2x160x128xbf16>
    attributes {fsdp.tuning = {forward = array<i64: 128, 128, 2>}} {
  %o, %s = fsdp.attention <batch = [2], queries = 160, keys = 160, head = 128, value = 128>
      q(%q <0, [20480, 128, 1]> : tensor<2x160x128xbf16>)
      k(%q <0, [20480, 128, 1]> : tensor<2x160x128xbf16>) v(%q <0, [20480, 128, 1]> : tensor<2x160x128xbf16>)
      captured() [] scale 0.125 {
  ^bb0(%score: f32, %b0: index, %query: index, %key: index):
    fsdp.yield %score : f32
  } out(<0, [20480, 128, 1]>) : tensor<2x160x128xbf16>, tensor<640xf32>
  %0 = bufferization.materialize_in_destination %o in %out : (tensor<2x160x128xbf16>, tensor<2x160x128xbf16>) -> tensor<2x160x128xbf16>
  return %0 : tensor<2x160x128xbf16>
}

// -----

// CHECK-LABEL: func.func private @rows
// CHECK-SAME:    @rows, grid = 64, block = 128
fsdp.program @step(%x: tensor<64x4096xf32>) {
  %0 = fsdp.launch @rows(%x) : (tensor<64x4096xf32>) -> tensor<64xf32>
  fsdp.return
}

func.func private @rows(%x: tensor<64x4096xf32>, %out: tensor<64xf32>) -> tensor<64xf32>
    attributes {fsdp.tuning = {rows = 128}} {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<64xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<64xf32>) -> tensor<64xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<64x4096xf32>) outs(%init : tensor<64xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<64xf32>
  %0 = bufferization.materialize_in_destination %sum in %out : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// -----

// CHECK-LABEL: func.func private @columns
// CHECK-SAME:    block = 64
fsdp.program @step(%x: tensor<4096x64xf32>) {
  %0 = fsdp.launch @columns(%x) : (tensor<4096x64xf32>) -> tensor<64xf32>
  fsdp.return
}

func.func private @columns(%x: tensor<4096x64xf32>, %out: tensor<64xf32>) -> tensor<64xf32>
    attributes {fsdp.tuning = {columns = 64, rows = 32}} {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<64xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<64xf32>) -> tensor<64xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<4096x64xf32>) outs(%init : tensor<64xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<64xf32>
  %0 = bufferization.materialize_in_destination %sum in %out : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// -----

fsdp.program @step(%x: tensor<64x4096xf32>) {
  %0 = fsdp.launch @uneven(%x) : (tensor<64x4096xf32>) -> tensor<64xf32>
  fsdp.return
}

// expected-error@below {{fsdp.tuning: expected threads of a power of two from 32 to 1024, got 96}}
func.func private @uneven(%x: tensor<64x4096xf32>, %out: tensor<64xf32>) -> tensor<64xf32>
    attributes {fsdp.tuning = {rows = 96}} {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<64xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<64xf32>) -> tensor<64xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<64x4096xf32>) outs(%init : tensor<64xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<64xf32>
  %0 = bufferization.materialize_in_destination %sum in %out : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// -----

// expected-error@below {{expected fsdp.tuning with rows, columns and stages of tiles (forward, dq, dkdv: array<i64>) and numbers of threads (rows, columns), got {forward = 16 : i64}}}
func.func private @malformed() attributes {fsdp.tuning = {forward = 16 : i64}} {
  return
}

// -----

// expected-error@below {{expected fsdp.tuning with rows}}
func.func private @unknown() attributes {fsdp.tuning = {warps = 4 : i64}} {
  return
}
