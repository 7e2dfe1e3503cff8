// RUN: fsdp-opt %s -split-input-file -verify-diagnostics

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @integer_member on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [
      // member_attr_c1
      // expected-error @below {{expected a static shape and float elements for "a", got 'tensor<8xi32>'}}
      <"a", tensor<8xi32> at 0>
    ] {trainable, unit = ""}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @dynamic_member on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [
      // expected-error @below {{expected a static shape and float elements for "a", got 'tensor<?xf32>'}}
      <"a", tensor<?xf32> at 0>
    ] {trainable, unit = ""}

// -----

// member_attr_c2
// expected-error @below {{expected "a" to lie between elements 0 and 2^63 - 1, got 'tensor<8xf32>' at -8}}
func.func private @negative_offset() attributes {a = #fsdp.member<"a", tensor<8xf32> at -8>}

// -----

// expected-error @below {{expected "a" to lie between elements 0 and 2^63 - 1, got 'tensor<8xf32>' at 9223372036854775807}}
func.func private @end_overflows() attributes {a = #fsdp.member<"a", tensor<8xf32> at 9223372036854775807>}

// -----

// member_attr_c3
// expected-error @below {{expected tied names of "a" to be strings, got 1 : i64}}
func.func private @tied_to_a_number() attributes {a = #fsdp.member<"a", tensor<8xf32> at 0 tied [1]>}

// -----

func.func private @no_grain() attributes {
    // cpu_kernel_c1
    // expected-error @below {{expected a grain of at least 1 for @k, got 0}}
    fsdp.impl = {cpu = #fsdp.cpu_kernel<@k, grid = 4, grain = 0, scratch = 0, traffic = 0>}}

// -----

func.func private @negative_scratch() attributes {
    // expected-error @below {{expected a scratch of at least 0 for @k, got -64}}
    fsdp.impl = {cpu = #fsdp.cpu_kernel<@k, grid = 4, grain = 1, scratch = -64, traffic = 0>}}

// -----

// cpu_kernel_c2
// expected-error @below {{expected code by target in "fsdp.impl", got #fsdp.cpu_kernel<@k, grid = 4, grain = 1, scratch = 0, traffic = 0>}}
func.func private @no_target() attributes {
    fsdp.impl = #fsdp.cpu_kernel<@k, grid = 4, grain = 1, scratch = 0, traffic = 0>}

// -----

// expected-error @below {{expected #fsdp.cpu_kernel for cpu or #fsdp.cuda_code for cuda in "fsdp.impl", got 1 : i64 for tpu}}
func.func private @unknown_target() attributes {fsdp.impl = {tpu = 1 : i64}}

// -----

// cuda_code_c2
// expected-error @below {{expected #fsdp.cpu_kernel for cpu or #fsdp.cuda_code for cuda in "fsdp.impl", got #fsdp.cpu_kernel<@k, grid = 4, grain = 1, scratch = 0, traffic = 0> for cuda}}
func.func private @code_of_another_target() attributes {
    fsdp.impl = {cuda = #fsdp.cpu_kernel<@k, grid = 4, grain = 1, scratch = 0, traffic = 0>}}

// -----

func.func private @negative_traffic() attributes {
    // cuda_code_c1
    // expected-error @below {{expected a traffic of at least 0, got -8}}
    a = #fsdp.cuda_code<[<@m::@k, grid = 1, block = 32, shared = 0>], traffic = -8>}

// -----

func.func private @negative_workspace() attributes {
    // expected-error @below {{expected a workspace of 0 to 281474976710656 bytes, got -8}}
    a = #fsdp.cuda_code<[<@m::@k, grid = 1, block = 32, shared = 0>], traffic = 0, workspace = -8>}

// -----

func.func private @negative_workspace_of_product() attributes {
    // cuda_product_c1
    // expected-error @below {{expected a workspace of 0 to 281474976710656 bytes, got -8}}
    a = #fsdp.cuda_product<workspace = -8>}

// -----

// cuda_product_c2
// expected-error @below {{expected #fsdp.cuda_product beside fsdp.matmul, got it in "fsdp.impl" alone}}
func.func private @no_product() attributes {fsdp.impl = {cuda = #fsdp.cuda_product<workspace = 256>}}

// -----

func.func private @large_block() attributes {
    // cuda_kernel_c1
    // expected-error @below {{expected a block of 1 to 1024 for @m::@k, got 2048}}
    a = #fsdp.cuda_kernel<@m::@k, grid = 1, block = 2048, shared = 0>}

// -----

func.func private @no_blocks() attributes {
    // expected-error @below {{expected a grid of 1 to 2147483647 for @m::@k, got 0}}
    a = #fsdp.cuda_kernel<@m::@k, grid = 0, block = 32, shared = 0>}

// -----

// matmul_c1
// expected-error @below {{expected k to be at least 0, got -1}}
#negative_size = #fsdp.matmul<
    a = 0, b = 1, m = 4, n = 4, k = -1, lda = 4, ldb = 4, ldc = 4, transA = false, transB = false,
    accumulate = false, offsets = [0, 0, 0], batch = [], strideA = [], strideB = [], strideC = [],
    alpha = 1.0 : f64>

// -----

// matmul_c2
// expected-error @below {{expected an entry of strideB for each of 1 batch dimensions, got 2}}
#another_number_of_strides = #fsdp.matmul<
    a = 0, b = 1, m = 4, n = 4, k = 4, lda = 4, ldb = 4, ldc = 4, transA = false, transB = false,
    accumulate = false, offsets = [0, 0, 0], batch = [2], strideA = [16], strideB = [16, 16], strideC = [16],
    alpha = 1.0 : f64>

// -----

// matmul_c3
// expected-error @below {{expected no bias and no addend beside accumulate}}
#added_twice = #fsdp.matmul<
    a = 0, b = 1, m = 4, n = 4, k = 4, lda = 4, ldb = 4, ldc = 4, transA = false, transB = false,
    accumulate = true, offsets = [0, 0, 0], batch = [], strideA = [], strideB = [], strideC = [],
    alpha = 1.0 : f64, bias = 2>

// -----

// matmul_c4
// expected-error @below {{expected two factors and a result of f64, f32, bf16 or f16, or a result of f32 from bf16 or f16, in "fsdp.matmul", got 'f32', 'f32' and 'bf16'}}
func.func private @narrowed(tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xbf16>) -> tensor<4x4xbf16> attributes {
    fsdp.matmul = #fsdp.matmul<
    a = 0, b = 1, m = 4, n = 4, k = 4, lda = 4, ldb = 4, ldc = 4, transA = false, transB = false,
    accumulate = false, offsets = [0, 0, 0], batch = [], strideA = [], strideB = [], strideC = [],
    alpha = 1.0 : f64>}

// -----

// expected-error @below {{got 'bf16', 'f32' and 'f32'}}
func.func private @mixed(tensor<4x4xbf16>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> attributes {
    fsdp.matmul = #fsdp.matmul<
    a = 0, b = 1, m = 4, n = 4, k = 4, lda = 4, ldb = 4, ldc = 4, transA = false, transB = false,
    accumulate = false, offsets = [0, 0, 0], batch = [], strideA = [], strideB = [], strideC = [],
    alpha = 1.0 : f64>}

// -----

// expected-error @below {{expected fsdp.matmul with a #fsdp.matmul, got 3}}
func.func private @number(tensor<4x4xf32>) attributes {fsdp.matmul = 3}

// -----

// expected-error @below {{expected addend to be at least -1, got -2}}
#no_argument = #fsdp.matmul<
    a = 0, b = 1, m = 4, n = 4, k = 4, lda = 4, ldb = 4, ldc = 4, transA = false, transB = false,
    accumulate = false, offsets = [0, 0, 0], batch = [], strideA = [], strideB = [], strideC = [],
    alpha = 1.0 : f64, addend = -2>

// -----

// expected-error @below {{expected offsets of A, B and C, got 2 of them}}
#offset_missing = #fsdp.matmul<
    a = 0, b = 1, m = 4, n = 4, k = 4, lda = 4, ldb = 4, ldc = 4, transA = false, transB = false,
    accumulate = false, offsets = [0, 0], batch = [], strideA = [], strideB = [], strideC = [],
    alpha = 1.0 : f64>

// -----

// sharded_c1
// expected-error @below {{expected a float element type for @h0, got 'i32'}}
func.func private @integer_shard(!fsdp.sharded<@h0, i32>)

// -----

// unsharded_c1
// expected-error @below {{expected a float element type for @h0, got 'tensor<f32>'}}
func.func private @unsharded_tensor(!fsdp.unsharded<@h0, tensor<f32>>)

// -----

// secondary_c1
// expected-error @below {{expected a float element type for @h0, got 'i64'}}
func.func private @secondary_integers(!fsdp.secondary<@h0, i64>)

// -----

// expected-error @below {{expected ::mlir::fsdp::Phase to be one of: forward, backward}}
// expected-error @below {{failed to parse FSDP_PhaseAttr parameter}}
func.func private @unknown_phase() attributes {a = #fsdp<phase sideways>}
