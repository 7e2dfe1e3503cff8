// RUN: fsdp-opt %s --allow-unregistered-dialect --fsdp-assign-groups="group={no_decay=dims<2,*.bias:weight_decay=0},{head=head.*,dims>=2:lr=0.125}" | FileCheck %s --check-prefix=ASSIGN
// RUN: fsdp-opt %s --allow-unregistered-dialect --fsdp-logical="mesh=shard=4,replicate=2 wrap=none group={no_decay=dims<2:weight_decay=0},{head=head.*:lr=0.125}" -o %t.L1
// RUN: FileCheck %s --check-prefix=L1 < %t.L1
// RUN: fsdp-opt %t.L1 --allow-unregistered-dialect --convert-fsdp-logical-to-collectives | FileCheck %s --check-prefix=L2
// RUN: fsdp-opt %s --allow-unregistered-dialect --fsdp-logical="wrap=none group={no_decay=dims<2,*.bias:weight_decay=0},{head=head.*,linear.w*:lr=0.125}" --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// The first group of which a rule holds.
// ASSIGN: fsdp.param = {fqn = "linear.weight", group = "head"}
// ASSIGN-SAME: fsdp.param = {fqn = "linear.bias", group = "no_decay"}
// ASSIGN-SAME: fsdp.param = {fqn = "head.weight", group = "head"}
// ASSIGN: func.func @optimizer
// ASSIGN-SAME: fsdp.optimizer_groups = {head = {lr = 1.250000e-01 : f64}, no_decay = {weight_decay = 0.000000e+00 : f64}}

// The pipeline is printed so that it can be read again.
// PIPELINE: fsdp-assign-groups{group={{[{][{]}}no_decay=dims<2,*.bias:weight_decay=0},{head=head.*,linear.w*:lr=0.125{{[}][}][}]}}

// One flat parameter, whose members lie by group; one gather, one reduction, one
// update, with scalars that a group leaves unsaid shared.
// L1:      fsdp.flat_param @root
// L1-NEXT:   <"linear.weight", tensor<40x4xf32> at 0>,
// L1-NEXT:   <"head.weight", tensor<4x4xf32> at 160 group "head">,
// L1-NEXT:   <"linear.bias", tensor<40xf32> at 192 group "no_decay">
// L1-NOT:  fsdp.flat_param
// L1:      fsdp.program @train(
// L1-SAME:   %[[LR:[a-z0-9]+]]: tensor<f32> {fsdp.scalar = {default = 5.000000e-01 : f64, name = "lr"}}
// L1-SAME:   %[[DECAY:[a-z0-9]+]]: tensor<f32> {fsdp.scalar = {default = 1.000000e-01 : f64, name = "weight_decay"}}
// L1-SAME:   %[[HEAD:[a-z0-9]+]]: tensor<f32> {fsdp.scalar = {default = 1.250000e-01 : f64, name = "head.lr"}}
// L1-SAME:   %[[NONE:[a-z0-9]+]]: tensor<f32> {fsdp.scalar = {default = 0.000000e+00 : f64, name = "no_decay.weight_decay"}}
// L1-SAME:   %[[RANK:[a-z0-9]+]]: tensor<i64> {fsdp.scalar = {default = 0.000000e+00 : f64, name = "rank"}}
// L1:      fsdp.update @optimizer(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[LR]], %[[DECAY]])
// L1-SAME:   runs(%[[HEAD]], %[[DECAY]], %[[LR]], %[[NONE]] : {{.*}}) rank %[[RANK]] : tensor<i64>
// L1-NOT:  fsdp.update

// What depends on a rate is computed once for each run (equal ones merge later);
// the loop selects by the place: shard 4 ranks, innermost; 64 elements each.
// L2:      fsdp.program @train(
// L2-COUNT-3: linalg.generic {{{.*}}iterator_types = []}
// L2:      ^bb0({{.*}}: i64, %{{.*}}: f32):
// L2-DAG:    %[[RANKS:.*]] = arith.constant 4 : i64
// L2-DAG:    %[[NUMEL:.*]] = arith.constant 64 : i64
// L2:        %[[PLACE:.*]] = arith.remui %{{.*}}, %[[RANKS]]
// L2:        %[[BEFORE:.*]] = arith.muli %{{.*}}, %{{.*}}
// L2:        linalg.index 0
// L2:        arith.constant 192 : i64
// L2:        arith.cmpi slt
// L2:        %[[LATER:.*]] = arith.select
// L2:        arith.constant 160 : i64
// L2:        arith.cmpi slt
// L2:        arith.select %{{.*}}, %{{.*}}, %[[LATER]]

#all = affine_map<(i) -> (i)>
#one = affine_map<(i) -> ()>
module @linear {
  func.func @forward_backward(
      %w: tensor<40x4xf32> {fsdp.param = {fqn = "linear.weight"}},
      %b: tensor<40xf32> {fsdp.param = {fqn = "linear.bias"}},
      %v: tensor<4x4xf32> {fsdp.param = {fqn = "head.weight"}},
      %x: tensor<40x4xf32> {fsdp.input = {name = "x"}})
      -> (tensor<f32> {fsdp.loss},
          tensor<40x4xf32> {fsdp.grad = {fqn = "linear.weight"}},
          tensor<40xf32> {fsdp.grad = {fqn = "linear.bias"}},
          tensor<4x4xf32> {fsdp.grad = {fqn = "head.weight"}}) {
    %loss, %dw, %db, %dv = "test.step"(%w, %b, %v, %x) : (tensor<40x4xf32>, tensor<40xf32>, tensor<4x4xf32>, tensor<40x4xf32>) -> (tensor<f32>, tensor<40x4xf32>, tensor<40xf32>, tensor<4x4xf32>)
    return %loss, %dw, %db, %dv : tensor<f32>, tensor<40x4xf32>, tensor<40xf32>, tensor<4x4xf32>
  }
func.func @optimizer(
    %p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
    %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "grad"}},
    %b: tensor<?xf32> {fsdp.optimizer = {role = "state", name = "momentum_buffer"}},
    %step: tensor<f32> {fsdp.optimizer = {role = "state", name = "step"}},
    %lr: tensor<f32> {fsdp.optimizer = {role = "scalar", name = "lr", default = 0.5}},
    %decay: tensor<f32> {fsdp.optimizer = {role = "scalar", name = "weight_decay", default = 0.1}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
        tensor<?xf32> {fsdp.optimizer = {role = "state", name = "momentum_buffer"}},
        tensor<f32> {fsdp.optimizer = {role = "state", name = "step"}}) {
  %c1 = arith.constant 1.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %p, %c0 : tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %e0 = tensor.empty() : tensor<f32>
  %scalars:2 = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>, affine_map<() -> ()>, affine_map<() -> ()>],
                               iterator_types = []}
      ins(%step, %lr : tensor<f32>, tensor<f32>) outs(%e0, %e0 : tensor<f32>, tensor<f32>) {
  ^bb0(%s: f32, %r: f32, %o0: f32, %o1: f32):
    %next = arith.addf %s, %c1 : f32
    %half = arith.divf %r, %next : f32
    linalg.yield %next, %half : f32, f32
  } -> (tensor<f32>, tensor<f32>)
  %rate = tensor.extract %scalars#1[] : tensor<f32>
  %rates = tensor.splat %rate[%n] : tensor<?xf32>
  %r:2 = linalg.generic {indexing_maps = [#all, #all, #all, #all, #one, #all, #all], iterator_types = ["parallel"]}
      ins(%p, %g, %b, %rates, %decay : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<f32>)
      outs(%e, %e : tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%x: f32, %dx: f32, %old: f32, %rate1: f32, %wd: f32, %o0: f32, %o1: f32):
    %pull = arith.mulf %x, %wd : f32
    %sum = arith.addf %dx, %pull : f32
    %buffer = arith.addf %old, %sum : f32
    %change = arith.mulf %buffer, %rate1 : f32
    %new = arith.subf %x, %change : f32
    linalg.yield %new, %buffer : f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>)
  return %r#0, %r#1, %scalars#0 : tensor<?xf32>, tensor<?xf32>, tensor<f32>
}}
