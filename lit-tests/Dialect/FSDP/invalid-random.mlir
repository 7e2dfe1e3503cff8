// RUN: fsdp-opt %s --split-input-file --verify-diagnostics

// random_c1
func.func @site() {
  // expected-error @below {{expected a site from 0 to 65535, got 65536}}
  %u = fsdp.random uniform site 65536 : tensor<4xf32>
  return
}

// -----

// random_c2
func.func @kind() {
  // expected-error @below {{expected 'i32' elements of kind bits, got 'tensor<4xf32>'}}
  %u = fsdp.random bits site 0 : tensor<4xf32>
  return
}

// -----

func.func @float() {
  // expected-error @below {{expected 'f32' elements of kind normal, got 'tensor<4xf16>'}}
  %u = fsdp.random normal site 0 : tensor<4xf16>
  return
}

// -----

// random_c3
func.func @elements() {
  // expected-error @below {{expected at most 4398046511104 elements, got 4398046511108}}
  %u = fsdp.random uniform site 0 : tensor<1099511627777x4xf32>
  return
}
