// What was traced is a digest that depends on neither locations nor names of values.
//
// RUN: split-file %s %t
// RUN: fsdp-opt %t/a.mlir --fsdp-digest-trace | grep -o 'fsdp.traced = [^}]*}' > %t/a.txt
// RUN: FileCheck %s --input-file=%t/a.txt
// RUN: fsdp-opt %t/same.mlir --fsdp-digest-trace | grep -o 'fsdp.traced = [^}]*}' | diff %t/a.txt -
// RUN: sed 's/arith.subf/arith.addf/' %t/a.mlir | fsdp-opt --fsdp-digest-trace | FileCheck %s --check-prefix=UPDATE
// RUN: sed 's/0.125/0.25/' %t/a.mlir | fsdp-opt --fsdp-digest-trace | grep -o 'fsdp.traced = [^}]*}' > %t/b.txt
// RUN: not diff %t/a.txt %t/b.txt
// RUN: grep -o 'step = .*' %t/a.txt > %t/a.step && grep -o 'step = .*' %t/b.txt | diff %t/a.step -
// RUN: FileCheck %s --input-file=%t/b.txt --check-prefix=OTHER
// RUN: fsdp-opt %t/no-step.mlir -o %t/c && fsdp-opt %t/no-step.mlir --fsdp-digest-trace | diff %t/c -

// CHECK: fsdp.traced = {constants = [1.250000e-01], optimizer = "{{[0-9a-f]+}}", step = "{{[0-9a-f]+}}"}
// OTHER: fsdp.traced = {constants = [2.500000e-01], optimizer = "{{[0-9a-f]+}}", step = "{{[0-9a-f]+}}"}
// UPDATE: fsdp.traced = {constants = [1.250000e-01]

// A name of the optimizer is kept, and changes no digest.
// RUN: sed '/^ *tensor<f32> .*)$/s/$/ attributes {fsdp.optimizer_spec = "own:k=0.125"}/' %t/a.mlir > %t/named.mlir
// RUN: fsdp-opt %t/named.mlir --fsdp-digest-trace -o %t/named-out.mlir
// RUN: grep -o 'fsdp.traced = [^}]*}' %t/named-out.mlir | sed 's/spec = "own:k=0.125", //' | diff %t/a.txt -
// RUN: FileCheck %s --input-file=%t/named-out.mlir --check-prefix=NAMED
// NAMED-NOT: fsdp.optimizer_spec
// NAMED: fsdp.traced = {constants = [1.250000e-01], optimizer = "{{[0-9a-f]+}}", spec = "own:k=0.125", step =
// NAMED-NOT: fsdp.optimizer_spec

//--- a.mlir
func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}}, %l: tensor<f32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  return %l, %w : tensor<f32>, tensor<4xf32>
}
func.func @optimizer(%p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "p"}},
                     %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "g"}},
                     %s: tensor<f32> {fsdp.optimizer = {role = "state", name = "s"}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "p"}},
        tensor<f32> {fsdp.optimizer = {role = "state", name = "s"}})
    {
  %c = arith.constant dense<0.125> : tensor<f32>
  %n = arith.subf %p, %g : tensor<?xf32>
  %t = arith.addf %s, %c : tensor<f32>
  return %n, %t : tensor<?xf32>, tensor<f32>
}

//--- same.mlir
func.func @forward_backward(%weight: tensor<4xf32> {fsdp.param = {fqn = "w"}} loc("x.py":1:2), %loss: tensor<f32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  return %loss, %weight : tensor<f32>, tensor<4xf32>
}
func.func @optimizer(%0: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "p"}},
                     %1: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "g"}},
                     %2: tensor<f32> {fsdp.optimizer = {role = "state", name = "s"}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "p"}},
        tensor<f32> {fsdp.optimizer = {role = "state", name = "s"}}) {
  %c = arith.constant dense<0.125> : tensor<f32> loc("y.py":3:4)
  %n = arith.subf %0, %1 : tensor<?xf32>
  %t = arith.addf %2, %c : tensor<f32>
  return %n, %t : tensor<?xf32>, tensor<f32>
}

//--- no-step.mlir
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
