// RUN: fsdp-opt %s -split-input-file -verify-diagnostics

// attention_c1
func.func @five_batch_dimensions(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>) {
  // expected-error @below {{expected at most 4 batch dimensions, got 5}}
  %out, %stats = fsdp.attention <batch = [1, 1, 1, 1, 2], queries = 3, keys = 4, head = 5, value = 6> q(%q <0, [15, 5, 1]> : tensor<2x3x5xf32>) k(%k <0, [20, 5, 1]> : tensor<2x4x5xf32>) v(%v <0, [24, 6, 1]> : tensor<2x4x6xf32>) captured() [] scale 0.5 {
  ^bb0(%s: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %s : f32
  } out(<0, [18, 6, 1]>) : tensor<2x3x6xf32>, tensor<12xf32>
  return
}

// -----

func.func @one_key(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>) {
  // expected-error @below {{expected at least 2 keys, got 1}}
  %out, %stats = fsdp.attention <batch = [2], queries = 3, keys = 1, head = 5, value = 6> q(%q <0, [15, 5, 1]> : tensor<2x3x5xf32>) k(%k <0, [20, 5, 1]> : tensor<2x4x5xf32>) v(%v <0, [24, 6, 1]> : tensor<2x4x6xf32>) captured() [] scale 0.5 {
  ^bb0(%s: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %s : f32
  } out(<0, [18, 6, 1]>) : tensor<2x3x6xf32>, tensor<12xf32>
  return
}

// -----

// attention_c2
func.func @view_past_the_end(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>) {
  // expected-error @below {{expected q inside the 30 elements of its tensor, got element 30}}
  %out, %stats = fsdp.attention <batch = [2], queries = 3, keys = 4, head = 5, value = 6> q(%q <1, [15, 5, 1]> : tensor<2x3x5xf32>) k(%k <0, [20, 5, 1]> : tensor<2x4x5xf32>) v(%v <0, [24, 6, 1]> : tensor<2x4x6xf32>) captured() [] scale 0.5 {
  ^bb0(%s: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %s : f32
  } out(<0, [18, 6, 1]>) : tensor<2x3x6xf32>, tensor<12xf32>
  return
}

// -----

func.func @a_stride_too_few(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>) {
  // expected-error @below {{expected 3 strides of q, got 2}}
  %out, %stats = fsdp.attention <batch = [2], queries = 3, keys = 4, head = 5, value = 6> q(%q <0, [5, 1]> : tensor<2x3x5xf32>) k(%k <0, [20, 5, 1]> : tensor<2x4x5xf32>) v(%v <0, [24, 6, 1]> : tensor<2x4x6xf32>) captured() [] scale 0.5 {
  ^bb0(%s: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %s : f32
  } out(<0, [18, 6, 1]>) : tensor<2x3x6xf32>, tensor<12xf32>
  return
}

// -----

func.func @negative_stride(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>) {
  // expected-error @below {{expected strides of k of at least 0, got -5}}
  %out, %stats = fsdp.attention <batch = [2], queries = 3, keys = 4, head = 5, value = 6> q(%q <0, [15, 5, 1]> : tensor<2x3x5xf32>) k(%k <0, [20, -5, 1]> : tensor<2x4x5xf32>) v(%v <0, [24, 6, 1]> : tensor<2x4x6xf32>) captured() [] scale 0.5 {
  ^bb0(%s: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %s : f32
  } out(<0, [18, 6, 1]>) : tensor<2x3x6xf32>, tensor<12xf32>
  return
}

// -----

// attention_c3
func.func @out_with_gaps(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>) {
  // expected-error @below {{expected out to write each of the 36 elements of its tensor once}}
  %out, %stats = fsdp.attention <batch = [2], queries = 3, keys = 4, head = 5, value = 6> q(%q <0, [15, 5, 1]> : tensor<2x3x5xf32>) k(%k <0, [20, 5, 1]> : tensor<2x4x5xf32>) v(%v <0, [24, 6, 1]> : tensor<2x4x6xf32>) captured() [] scale 0.5 {
  ^bb0(%s: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %s : f32
  } out(<0, [18, 5, 1]>) : tensor<2x3x6xf32>, tensor<12xf32>
  return
}

// -----

// attention_c4
func.func @statistics_of_maxima_only(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>) {
  // expected-error @below {{expected statistics of 12 elements, got 6}}
  %out, %stats = fsdp.attention <batch = [2], queries = 3, keys = 4, head = 5, value = 6> q(%q <0, [15, 5, 1]> : tensor<2x3x5xf32>) k(%k <0, [20, 5, 1]> : tensor<2x4x5xf32>) v(%v <0, [24, 6, 1]> : tensor<2x4x6xf32>) captured() [] scale 0.5 {
  ^bb0(%s: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %s : f32
  } out(<0, [18, 6, 1]>) : tensor<2x3x6xf32>, tensor<6xf32>
  return
}

// -----

// attention_c5
func.func @body_without_indices(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>) {
  // expected-error @below {{expected a body with arguments}}
  %out, %stats = fsdp.attention <batch = [2], queries = 3, keys = 4, head = 5, value = 6> q(%q <0, [15, 5, 1]> : tensor<2x3x5xf32>) k(%k <0, [20, 5, 1]> : tensor<2x4x5xf32>) v(%v <0, [24, 6, 1]> : tensor<2x4x6xf32>) captured() [] scale 0.5 {
  ^bb0(%s: f32):
    fsdp.yield %s : f32
  } out(<0, [18, 6, 1]>) : tensor<2x3x6xf32>, tensor<12xf32>
  return
}

// -----

func.func @factor_of_a_score(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>) {
  // expected-error @below {{expected a body with arguments}}
  %out, %stats = fsdp.attention <batch = [2], queries = 3, keys = 4, head = 5, value = 6> q(%q <0, [15, 5, 1]> : tensor<2x3x5xf32>) k(%k <0, [20, 5, 1]> : tensor<2x4x5xf32>) v(%v <0, [24, 6, 1]> : tensor<2x4x6xf32>) captured() [] scale 0.5 {
  ^bb0(%s: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %s : f32
  } factor {
  ^bb0(%s: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %s : f32
  } out(<0, [18, 6, 1]>) : tensor<2x3x6xf32>, tensor<12xf32>
  return
}

// -----

func.func @body_that_yields_an_index(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>) {
  // expected-error @below {{expected a body that yields one f32}}
  %out, %stats = fsdp.attention <batch = [2], queries = 3, keys = 4, head = 5, value = 6> q(%q <0, [15, 5, 1]> : tensor<2x3x5xf32>) k(%k <0, [20, 5, 1]> : tensor<2x4x5xf32>) v(%v <0, [24, 6, 1]> : tensor<2x4x6xf32>) captured() [] scale 0.5 {
  ^bb0(%s: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %i : index
  } out(<0, [18, 6, 1]>) : tensor<2x3x6xf32>, tensor<12xf32>
  return
}

// -----

// attention_c6
func.func @captured_without_a_view(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>, %m: tensor<2x4xi1>) {
  // expected-error @below {{expected 1 captured views, got 0}}
  %out, %stats = fsdp.attention <batch = [2], queries = 3, keys = 4, head = 5, value = 6> q(%q <0, [15, 5, 1]> : tensor<2x3x5xf32>) k(%k <0, [20, 5, 1]> : tensor<2x4x5xf32>) v(%v <0, [24, 6, 1]> : tensor<2x4x6xf32>) captured(%m : tensor<2x4xi1>) [] scale 0.5 {
  ^bb0(%s: f32, %b0: index, %i: index, %j: index, %c: i1):
    fsdp.yield %s : f32
  } out(<0, [18, 6, 1]>) : tensor<2x3x6xf32>, tensor<12xf32>
  return
}

// -----

// attention_c7
func.func @queries_of_doubles(%q: tensor<2x3x5xf64>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>) {
  // expected-error @below {{operand #0 must be}}
  %out, %stats = fsdp.attention <batch = [2], queries = 3, keys = 4, head = 5, value = 6> q(%q <0, [15, 5, 1]> : tensor<2x3x5xf64>) k(%k <0, [20, 5, 1]> : tensor<2x4x5xf32>) v(%v <0, [24, 6, 1]> : tensor<2x4x6xf32>) captured() [] scale 0.5 {
  ^bb0(%s: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %s : f32
  } out(<0, [18, 6, 1]>) : tensor<2x3x6xf32>, tensor<12xf32>
  return
}

// -----

// attention_backward_c1
func.func @five_batch_dimensions_backward(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>, %out: tensor<2x3x6xf32>, %dout: tensor<2x3x6xf32>, %stats: tensor<12xf32>) {
  // expected-error @below {{expected at most 4 batch dimensions, got 5}}
  %g:3 = fsdp.attention_backward <batch = [1, 1, 1, 1, 2], queries = 3, keys = 4, head = 5, value = 6> q(%q <0, [15, 5, 1]> : tensor<2x3x5xf32>) k(%k <0, [20, 5, 1]> : tensor<2x4x5xf32>) v(%v <0, [24, 6, 1]> : tensor<2x4x6xf32>) out(%out <0, [18, 6, 1]> : tensor<2x3x6xf32>) dout(%dout <0, [18, 6, 1]> : tensor<2x3x6xf32>) stats(%stats : tensor<12xf32>) captured() [] scale 0.5 {
  ^bb0(%s: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %s : f32
  } gradient {
  ^bb0(%ds: f32, %s: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %ds : f32
  } dq(<0, [15, 5, 1]> scale 0.5 : tensor<2x3x5xf32>) dk(<0, [20, 5, 1]> scale 0.5 : tensor<2x4x5xf32>) dv(<0, [24, 6, 1]> : tensor<2x4x6xf32>)
  return
}

// -----

// attention_backward_c2
func.func @view_past_the_end_backward(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>, %out: tensor<2x3x6xf32>, %dout: tensor<2x3x6xf32>, %stats: tensor<12xf32>) {
  // expected-error @below {{expected k inside the 40 elements of its tensor, got element 45}}
  %g:3 = fsdp.attention_backward <batch = [2], queries = 3, keys = 4, head = 5, value = 6> q(%q <0, [15, 5, 1]> : tensor<2x3x5xf32>) k(%k <6, [20, 5, 1]> : tensor<2x4x5xf32>) v(%v <0, [24, 6, 1]> : tensor<2x4x6xf32>) out(%out <0, [18, 6, 1]> : tensor<2x3x6xf32>) dout(%dout <0, [18, 6, 1]> : tensor<2x3x6xf32>) stats(%stats : tensor<12xf32>) captured() [] scale 0.5 {
  ^bb0(%s: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %s : f32
  } gradient {
  ^bb0(%ds: f32, %s: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %ds : f32
  } dq(<0, [15, 5, 1]> scale 0.5 : tensor<2x3x5xf32>) dk(<0, [20, 5, 1]> scale 0.5 : tensor<2x4x5xf32>) dv(<0, [24, 6, 1]> : tensor<2x4x6xf32>)
  return
}

// -----

// attention_backward_c3
func.func @dq_that_sums(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>, %out: tensor<2x3x6xf32>, %dout: tensor<2x3x6xf32>, %stats: tensor<12xf32>) {
  // expected-error @below {{expected dq to write each of the 30 elements of its tensor once}}
  %g:3 = fsdp.attention_backward <batch = [2], queries = 3, keys = 4, head = 5, value = 6> q(%q <0, [15, 5, 1]> : tensor<2x3x5xf32>) k(%k <0, [20, 5, 1]> : tensor<2x4x5xf32>) v(%v <0, [24, 6, 1]> : tensor<2x4x6xf32>) out(%out <0, [18, 6, 1]> : tensor<2x3x6xf32>) dout(%dout <0, [18, 6, 1]> : tensor<2x3x6xf32>) stats(%stats : tensor<12xf32>) captured() [] scale 0.5 {
  ^bb0(%s: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %s : f32
  } gradient {
  ^bb0(%ds: f32, %s: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %ds : f32
  } dq(<0, [0, 5, 1]> scale 0.5 : tensor<2x3x5xf32>) dk(<0, [20, 5, 1]> scale 0.5 : tensor<2x4x5xf32>) dv(<0, [24, 6, 1]> : tensor<2x4x6xf32>)
  return
}

// -----

func.func @dk_that_sums_alone(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>, %out: tensor<2x3x6xf32>, %dout: tensor<2x3x6xf32>, %stats: tensor<12xf32>) {
  // expected-error @below {{expected dk and dv to sum over the same dimensions, got batch dimension #0 in one of them}}
  %g:3 = fsdp.attention_backward <batch = [2], queries = 3, keys = 4, head = 5, value = 6> q(%q <0, [15, 5, 1]> : tensor<2x3x5xf32>) k(%k <0, [20, 5, 1]> : tensor<2x4x5xf32>) v(%v <0, [24, 6, 1]> : tensor<2x4x6xf32>) out(%out <0, [18, 6, 1]> : tensor<2x3x6xf32>) dout(%dout <0, [18, 6, 1]> : tensor<2x3x6xf32>) stats(%stats : tensor<12xf32>) captured() [] scale 0.5 {
  ^bb0(%s: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %s : f32
  } gradient {
  ^bb0(%ds: f32, %s: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %ds : f32
  } dq(<0, [15, 5, 1]> scale 0.5 : tensor<2x3x5xf32>) dk(<0, [0, 5, 1]> scale 0.5 : tensor<4x5xf32>) dv(<0, [24, 6, 1]> : tensor<2x4x6xf32>)
  return
}

// -----

// attention_backward_c4
func.func @statistics_of_maxima_only_backward(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>, %out: tensor<2x3x6xf32>, %dout: tensor<2x3x6xf32>, %stats: tensor<6xf32>) {
  // expected-error @below {{expected statistics of 12 elements, got 6}}
  %g:3 = fsdp.attention_backward <batch = [2], queries = 3, keys = 4, head = 5, value = 6> q(%q <0, [15, 5, 1]> : tensor<2x3x5xf32>) k(%k <0, [20, 5, 1]> : tensor<2x4x5xf32>) v(%v <0, [24, 6, 1]> : tensor<2x4x6xf32>) out(%out <0, [18, 6, 1]> : tensor<2x3x6xf32>) dout(%dout <0, [18, 6, 1]> : tensor<2x3x6xf32>) stats(%stats : tensor<6xf32>) captured() [] scale 0.5 {
  ^bb0(%s: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %s : f32
  } gradient {
  ^bb0(%ds: f32, %s: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %ds : f32
  } dq(<0, [15, 5, 1]> scale 0.5 : tensor<2x3x5xf32>) dk(<0, [20, 5, 1]> scale 0.5 : tensor<2x4x5xf32>) dv(<0, [24, 6, 1]> : tensor<2x4x6xf32>)
  return
}

// -----

// attention_backward_c5
func.func @gradient_without_the_score(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>, %out: tensor<2x3x6xf32>, %dout: tensor<2x3x6xf32>, %stats: tensor<12xf32>) {
  // expected-error @below {{expected a body with arguments}}
  %g:3 = fsdp.attention_backward <batch = [2], queries = 3, keys = 4, head = 5, value = 6> q(%q <0, [15, 5, 1]> : tensor<2x3x5xf32>) k(%k <0, [20, 5, 1]> : tensor<2x4x5xf32>) v(%v <0, [24, 6, 1]> : tensor<2x4x6xf32>) out(%out <0, [18, 6, 1]> : tensor<2x3x6xf32>) dout(%dout <0, [18, 6, 1]> : tensor<2x3x6xf32>) stats(%stats : tensor<12xf32>) captured() [] scale 0.5 {
  ^bb0(%s: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %s : f32
  } gradient {
  ^bb0(%ds: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %ds : f32
  } dq(<0, [15, 5, 1]> scale 0.5 : tensor<2x3x5xf32>) dk(<0, [20, 5, 1]> scale 0.5 : tensor<2x4x5xf32>) dv(<0, [24, 6, 1]> : tensor<2x4x6xf32>)
  return
}

// -----

// attention_backward_c7
func.func @gradient_of_doubles(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>, %out: tensor<2x3x6xf32>, %dout: tensor<2x3x6xf64>, %stats: tensor<12xf32>) {
  // expected-error @below {{operand #4 must be}}
  %g:3 = fsdp.attention_backward <batch = [2], queries = 3, keys = 4, head = 5, value = 6> q(%q <0, [15, 5, 1]> : tensor<2x3x5xf32>) k(%k <0, [20, 5, 1]> : tensor<2x4x5xf32>) v(%v <0, [24, 6, 1]> : tensor<2x4x6xf32>) out(%out <0, [18, 6, 1]> : tensor<2x3x6xf32>) dout(%dout <0, [18, 6, 1]> : tensor<2x3x6xf64>) stats(%stats : tensor<12xf32>) captured() [] scale 0.5 {
  ^bb0(%s: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %s : f32
  } gradient {
  ^bb0(%ds: f32, %s: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %ds : f32
  } dq(<0, [15, 5, 1]> scale 0.5 : tensor<2x3x5xf32>) dk(<0, [20, 5, 1]> scale 0.5 : tensor<2x4x5xf32>) dv(<0, [24, 6, 1]> : tensor<2x4x6xf32>)
  return
}

// -----

// attention_backward_c6
func.func @gradient_without_a_view(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>, %out: tensor<2x3x6xf32>, %stats: tensor<12xf32>) {
  // expected-error @below {{expected a view of dq where it is computed}}
  %dq = "fsdp.attention_backward"(%q, %k, %v, %out, %out, %stats) <{
      shape = #fsdp.attention_shape<batch = [2], queries = 3, keys = 4, head = 5, value = 6>,
      qView = #fsdp.strided<0, [15, 5, 1]>, kView = #fsdp.strided<0, [20, 5, 1]>, vView = #fsdp.strided<0, [24, 6, 1]>,
      outView = #fsdp.strided<0, [18, 6, 1]>, doutView = #fsdp.strided<0, [18, 6, 1]>, capturedViews = [], scale = 0.5 : f64,
      resultSegmentSizes = array<i32: 1, 0, 0>}> ({
  ^bb0(%s: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %s : f32
  }, {
  ^bb0(%ds: f32, %s: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %ds : f32
  }, {}) : (tensor<2x3x5xf32>, tensor<2x4x5xf32>, tensor<2x4x6xf32>, tensor<2x3x6xf32>, tensor<2x3x6xf32>, tensor<12xf32>) -> tensor<2x3x5xf32>
  return
}
