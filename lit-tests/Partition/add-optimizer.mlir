// RUN: fsdp-opt %S/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-add-optimizer | FileCheck %s --check-prefix=ADAMW
// RUN: fsdp-opt %S/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-add-optimizer='optimizer=adamw:lr=0.5,beta1=0.25,beta2=0.75,eps=0.125,weight_decay=2' | FileCheck %s --check-prefix=GIVEN
// RUN: fsdp-opt %S/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-add-optimizer='optimizer=sgd:lr=0.5,weight_decay=2' | FileCheck %s --check-prefix=SGD
// RUN: fsdp-opt %S/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-add-optimizer='optimizer=sgd:momentum=0.75' | FileCheck %s --check-prefix=MOMENTUM

// Defaults are torch.optim.AdamW's; lr stays a scalar of the step.
// ADAMW:      func.func @forward_backward
// ADAMW:      func.func @optimizer(
// ADAMW-SAME:   %{{[a-z0-9]+}}: tensor<?xf32> {fsdp.optimizer = {name = "param", role = "param"}}
// ADAMW-SAME:   tensor<?xf32> {fsdp.optimizer = {name = "grad", role = "grad"}}
// ADAMW-SAME:   tensor<?xf32> {fsdp.optimizer = {init = 0.000000e+00 : f64, name = "exp_avg", role = "state"}}
// ADAMW-SAME:   tensor<?xf32> {fsdp.optimizer = {init = 0.000000e+00 : f64, name = "exp_avg_sq", role = "state"}}
// ADAMW-SAME:   tensor<f32> {fsdp.optimizer = {init = 0.000000e+00 : f64, name = "step", role = "state"}}
// ADAMW-SAME:   tensor<f32> {fsdp.optimizer = {default = 1.000000e-03 : f64, name = "lr", role = "scalar"}}
// ADAMW-SAME:   attributes {fsdp.optimizer_spec = "adamw:beta1=0.9,beta2=0.999,eps=1e-08,weight_decay=0.01"}
// ADAMW-DAG:    arith.constant 0.899999976 : f32
// ADAMW-DAG:    arith.constant 9.990000e-01 : f32
// ADAMW-DAG:    arith.constant 9.99999993E-9 : f32
// ADAMW-DAG:    arith.constant 0.00999999977 : f32
// ADAMW:        return %{{.*}} : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<f32>

// 1 - beta1 and 1 - beta2 are constants of their own: rounded once.
// GIVEN:      func.func @optimizer(
// GIVEN-SAME:   default = 5.000000e-01 : f64, name = "lr"
// GIVEN-DAG:    %[[BETA1:.*]] = arith.constant 2.500000e-01 : f32
// GIVEN-DAG:    %[[BETA2:.*]] = arith.constant 7.500000e-01 : f32
// GIVEN-DAG:    arith.constant 1.250000e-01 : f32
// GIVEN-DAG:    %[[DECAY:.*]] = arith.constant 2.000000e+00 : f32
// GIVEN:        math.powf %[[BETA1]]
// GIVEN:        math.powf %[[BETA2]]
// GIVEN:        arith.mulf %{{.*}}, %[[DECAY]]

// SGD:        func.func @optimizer(
// SGD-NOT:      "state"
// SGD-SAME:     default = 5.000000e-01 : f64, name = "lr"
// SGD-SAME:     attributes {fsdp.optimizer_spec = "sgd:momentum=0,weight_decay=2"}
// SGD:          %[[DECAY:.*]] = arith.constant 2.000000e+00 : f32
// SGD:        ^bb0(%[[P:.*]]: f32, %[[G:.*]]: f32, %[[LR:.*]]: f32, %{{.*}}: f32):
// SGD:          %[[PULL:.*]] = arith.mulf %[[P]], %[[DECAY]]
// SGD:          %[[SUM:.*]] = arith.addf %[[G]], %[[PULL]]
// SGD:          %[[CHANGE:.*]] = arith.mulf %[[SUM]], %[[LR]]
// SGD:          arith.subf %[[P]], %[[CHANGE]]

// MOMENTUM:      func.func @optimizer(
// MOMENTUM-SAME:   init = 0.000000e+00 : f64, name = "momentum_buffer", role = "state"
// MOMENTUM:        %[[MOMENTUM:.*]] = arith.constant 7.500000e-01 : f32
// MOMENTUM:      ^bb0(%{{[a-z0-9_]+}}: f32, %{{[a-z0-9_]+}}: f32, %[[OLD:[a-z0-9_]+]]: f32,
// MOMENTUM:        arith.mulf %[[OLD]], %[[MOMENTUM]]
