// RUN: fsdp-opt %s -fsdp-verify-input -split-input-file -verify-diagnostics

// Case: a function of another dialect.
// input_c16
module {
  // expected-error @below {{input_c16: expected functions @forward_backward, @optimizer, ones with fsdp.program and private ones with a body of one block in the module, got llvm.func @k0_elementwise}}
  llvm.func @k0_elementwise() { llvm.return }
  func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
      -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
    %loss = arith.constant dense<0.0> : tensor<f32>
    return %loss, %w : tensor<f32>, tensor<4xf32>
  }
}

// -----

// Case: constructors, globals, a declaration, a public function, a module, a mesh.
module {
  // expected-error @below {{got llvm.mlir.global_ctors}}
  llvm.mlir.global_ctors ctors = [], priorities = [], data = []
  // expected-error @below {{got memref.global @data}}
  memref.global "private" @data : memref<4xf32> = dense<0.0>
  // expected-error @below {{got func.func @system, a declaration}}
  func.func private @system(tensor<4xf32>) -> tensor<4xf32>
  // expected-error @below {{got func.func @main, which is public}}
  func.func @main() { return }
  // expected-error @below {{got fsdp.mesh @mesh}}
  fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
  // The sixth is left unsaid.
  module @inner {}
  func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
      -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
    %loss = arith.constant dense<0.0> : tensor<f32>
    return %loss, %w : tensor<f32>, tensor<4xf32>
  }
}

// -----

// Case: a helper of two blocks.
module {
  // expected-error @below {{got func.func @helper of 2 blocks}}
  func.func private @helper() {
    cf.br ^end
  ^end:
    return
  }
  func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
      -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
    %loss = arith.constant dense<0.0> : tensor<f32>
    return %loss, %w : tensor<f32>, tensor<4xf32>
  }
}

// -----

// Case: a call that does not end.
// input_c17
module {
  // expected-error @below {{input_c17: expected calls that end, got @even, which leads to a recursive one}}
  func.func private @even(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = call @odd(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
  func.func private @odd(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = call @even(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
  func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
      -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
    %loss = arith.constant dense<0.0> : tensor<f32>
    %g = call @even(%w) : (tensor<4xf32>) -> tensor<4xf32>
    return %loss, %g : tensor<f32>, tensor<4xf32>
  }
}

// -----

// Case: a call of the step itself.
module {
  func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
      -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
    // expected-error @below {{input_c17: expected a call of a private function of the module, got one of @forward_backward}}
    %l, %g = call @forward_backward(%w) : (tensor<4xf32>) -> (tensor<f32>, tensor<4xf32>)
    return %l, %g : tensor<f32>, tensor<4xf32>
  }
}

// -----

// Case: each of these calls the one before eight times: 7 million ops in the end.
module {
  func.func private @f0(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }
  func.func private @f1(%x: tensor<f32>) -> tensor<f32> {
    %0 = call @f0(%x) : (tensor<f32>) -> tensor<f32>
    %1 = call @f0(%0) : (tensor<f32>) -> tensor<f32>
    %2 = call @f0(%1) : (tensor<f32>) -> tensor<f32>
    %3 = call @f0(%2) : (tensor<f32>) -> tensor<f32>
    %4 = call @f0(%3) : (tensor<f32>) -> tensor<f32>
    %5 = call @f0(%4) : (tensor<f32>) -> tensor<f32>
    %6 = call @f0(%5) : (tensor<f32>) -> tensor<f32>
    %7 = call @f0(%6) : (tensor<f32>) -> tensor<f32>
    return %7 : tensor<f32>
  }
  func.func private @f2(%x: tensor<f32>) -> tensor<f32> {
    %0 = call @f1(%x) : (tensor<f32>) -> tensor<f32>
    %1 = call @f1(%0) : (tensor<f32>) -> tensor<f32>
    %2 = call @f1(%1) : (tensor<f32>) -> tensor<f32>
    %3 = call @f1(%2) : (tensor<f32>) -> tensor<f32>
    %4 = call @f1(%3) : (tensor<f32>) -> tensor<f32>
    %5 = call @f1(%4) : (tensor<f32>) -> tensor<f32>
    %6 = call @f1(%5) : (tensor<f32>) -> tensor<f32>
    %7 = call @f1(%6) : (tensor<f32>) -> tensor<f32>
    return %7 : tensor<f32>
  }
  func.func private @f3(%x: tensor<f32>) -> tensor<f32> {
    %0 = call @f2(%x) : (tensor<f32>) -> tensor<f32>
    %1 = call @f2(%0) : (tensor<f32>) -> tensor<f32>
    %2 = call @f2(%1) : (tensor<f32>) -> tensor<f32>
    %3 = call @f2(%2) : (tensor<f32>) -> tensor<f32>
    %4 = call @f2(%3) : (tensor<f32>) -> tensor<f32>
    %5 = call @f2(%4) : (tensor<f32>) -> tensor<f32>
    %6 = call @f2(%5) : (tensor<f32>) -> tensor<f32>
    %7 = call @f2(%6) : (tensor<f32>) -> tensor<f32>
    return %7 : tensor<f32>
  }
  func.func private @f4(%x: tensor<f32>) -> tensor<f32> {
    %0 = call @f3(%x) : (tensor<f32>) -> tensor<f32>
    %1 = call @f3(%0) : (tensor<f32>) -> tensor<f32>
    %2 = call @f3(%1) : (tensor<f32>) -> tensor<f32>
    %3 = call @f3(%2) : (tensor<f32>) -> tensor<f32>
    %4 = call @f3(%3) : (tensor<f32>) -> tensor<f32>
    %5 = call @f3(%4) : (tensor<f32>) -> tensor<f32>
    %6 = call @f3(%5) : (tensor<f32>) -> tensor<f32>
    %7 = call @f3(%6) : (tensor<f32>) -> tensor<f32>
    return %7 : tensor<f32>
  }
  func.func private @f5(%x: tensor<f32>) -> tensor<f32> {
    %0 = call @f4(%x) : (tensor<f32>) -> tensor<f32>
    %1 = call @f4(%0) : (tensor<f32>) -> tensor<f32>
    %2 = call @f4(%1) : (tensor<f32>) -> tensor<f32>
    %3 = call @f4(%2) : (tensor<f32>) -> tensor<f32>
    %4 = call @f4(%3) : (tensor<f32>) -> tensor<f32>
    %5 = call @f4(%4) : (tensor<f32>) -> tensor<f32>
    %6 = call @f4(%5) : (tensor<f32>) -> tensor<f32>
    %7 = call @f4(%6) : (tensor<f32>) -> tensor<f32>
    return %7 : tensor<f32>
  }
  func.func private @f6(%x: tensor<f32>) -> tensor<f32> {
    %0 = call @f5(%x) : (tensor<f32>) -> tensor<f32>
    %1 = call @f5(%0) : (tensor<f32>) -> tensor<f32>
    %2 = call @f5(%1) : (tensor<f32>) -> tensor<f32>
    %3 = call @f5(%2) : (tensor<f32>) -> tensor<f32>
    %4 = call @f5(%3) : (tensor<f32>) -> tensor<f32>
    %5 = call @f5(%4) : (tensor<f32>) -> tensor<f32>
    %6 = call @f5(%5) : (tensor<f32>) -> tensor<f32>
    %7 = call @f5(%6) : (tensor<f32>) -> tensor<f32>
    return %7 : tensor<f32>
  }
  // expected-error @below {{input_c17: expected at most 4194304 ops in all functions, each with all that it calls, got more with @f7}}
  func.func private @f7(%x: tensor<f32>) -> tensor<f32> {
    %0 = call @f6(%x) : (tensor<f32>) -> tensor<f32>
    %1 = call @f6(%0) : (tensor<f32>) -> tensor<f32>
    %2 = call @f6(%1) : (tensor<f32>) -> tensor<f32>
    %3 = call @f6(%2) : (tensor<f32>) -> tensor<f32>
    %4 = call @f6(%3) : (tensor<f32>) -> tensor<f32>
    %5 = call @f6(%4) : (tensor<f32>) -> tensor<f32>
    %6 = call @f6(%5) : (tensor<f32>) -> tensor<f32>
    %7 = call @f6(%6) : (tensor<f32>) -> tensor<f32>
    return %7 : tensor<f32>
  }
  func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
      -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
    %zero = arith.constant dense<0.0> : tensor<f32>
    %loss = call @f7(%zero) : (tensor<f32>) -> tensor<f32>
    return %loss, %w : tensor<f32>, tensor<4xf32>
  }
}

// -----

// Case: a note that is no text.
// input_c27
// expected-error @below {{input_c27: expected a list of texts in fsdp.notes, got [1]}}
module attributes {fsdp.notes = [1]} {
  func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
      -> (tensor<f32> {fsdp.loss},
          tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
    %loss = arith.constant dense<0.0> : tensor<f32>
    return %loss, %w : tensor<f32>, tensor<4xf32>
  }
}

// -----

// Case: code for the assembler.
// input_c18
// expected-error @below {{input_c18: expected attributes of fsdp among fsdp.modules, fsdp.verified, fsdp.notes, fsdp.optimizer_spec, fsdp.optimizer_groups, and none of llvm or dlti, got 'llvm.module_asm' on the module}}
module attributes {llvm.module_asm = [".section .init_array"]} {
  func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
      -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
    %loss = arith.constant dense<0.0> : tensor<f32>
    return %loss, %w : tensor<f32>, tensor<4xf32>
  }
}

// -----

// Case: a program and a state, which the compiler makes.
module {
  // expected-error @below {{input_c16: expected functions @forward_backward, @optimizer, ones with fsdp.program and private ones with a body of one block in the module, got fsdp.state @count}}
  fsdp.state @count buffer "count" : tensor<4xf32>
  // expected-error @below {{input_c16: expected functions @forward_backward, @optimizer, ones with fsdp.program and private ones with a body of one block in the module, got fsdp.program @train}}
  fsdp.program @train() {
    fsdp.return
  }
  func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
      -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
    %loss = arith.constant dense<0.0> : tensor<f32>
    return %loss, %w : tensor<f32>, tensor<4xf32>
  }
}

// -----

// Case: what only the compiler writes, on a function, an argument and an op.
module {
  // expected-error @below {{got 'fsdp.impl' on @forward_backward}}
  // expected-error @below {{input_c18: expected attributes of fsdp among fsdp.param, fsdp.buffer, fsdp.input, fsdp.random, fsdp.loss_scale, fsdp.optimizer, and none of llvm or dlti, got 'fsdp.offset' on argument #0 of @forward_backward}}
  func.func @forward_backward(%w: tensor<4xf32> {fsdp.offset = 0 : i64, fsdp.param = {fqn = "w"}})
      -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}})
      attributes {fsdp.impl = {cpu = #fsdp.cpu_kernel<@forward_backward, grid = 1, grain = 1, scratch = 0, traffic = 0>}} {
    // expected-error @below {{input_c18: expected attributes of fsdp nowhere but on the module, arguments and results, and none of llvm or dlti, got 'fsdp.kernel' on arith.constant}}
    %loss = arith.constant {fsdp.kernel = 1 : i64} dense<0.0> : tensor<f32>
    return %loss, %w : tensor<f32>, tensor<4xf32>
  }
}

// -----

// Case: an instruction of the processor, which says that it has no effect.
// input_c19
module {
  func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
      -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
    %loss = arith.constant dense<0.0> : tensor<f32>
    %c = arith.constant 60 : i64
    // expected-error @below {{input_c19: expected ops that compute on tensors and their elements in @forward_backward, got this one}}
    %x = llvm.inline_asm "syscall", "={rax},{rax}" %c : (i64) -> i64
    return %loss, %w : tensor<f32>, tensor<4xf32>
  }
}

// -----

// Case: an address, and a collective.
module {
  func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
      -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
    %loss = arith.constant dense<0.0> : tensor<f32>
    // expected-error @below {{input_c19: }}
    %n = llvm.mlir.zero : !llvm.ptr
    // expected-error @below {{input_c19: }}
    %v = fsdp.view %w[0] : tensor<4xf32> -> tensor<2x2xf32>
    return %loss, %w : tensor<f32>, tensor<4xf32>
  }
}

// -----

// Case: a constant whose bytes are nowhere.
// input_c20
module {
  func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
      -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
    %loss = arith.constant dense<0.0> : tensor<f32>
    // expected-error @below {{input_c20: expected constants as dense elements, of as many bytes as their type has, got a resource of other bytes than its type's}}
    %a = arith.constant dense_resource<nowhere> : tensor<4xf32>
    // expected-error @below {{got elements that are not dense}}
    %b = arith.constant sparse<[[0]], [1.0]> : tensor<4xf32>
    return %loss, %w : tensor<f32>, tensor<4xf32>
  }
}

// -----

// Case: integers that nobody can multiply.
module {
  func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
      -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
    %loss = arith.constant dense<0.0> : tensor<f32>
    // expected-error @below {{input_c13: expected results with elements of at most 128 bits in @forward_backward, got 'tensor<4xi8000000>'}}
    %a = arith.constant dense<1> : tensor<4xi8000000>
    return %loss, %w : tensor<f32>, tensor<4xf32>
  }
}
