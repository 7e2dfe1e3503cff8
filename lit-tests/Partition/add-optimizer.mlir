// RUN: fsdp-opt %S/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-add-optimizer | FileCheck %s --check-prefix=ADAMW
// RUN: fsdp-opt %S/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-add-optimizer='optimizer=sgd:lr=0.5,weight_decay=2' | FileCheck %s --check-prefix=SGD
// RUN: fsdp-opt %S/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-add-optimizer='optimizer=sgd:momentum=0.75' | FileCheck %s --check-prefix=MOMENTUM
// RUN: fsdp-opt %S/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-add-optimizer='optimizer=adamw:amsgrad=true,beta2=0.75 optimizer-scalars=beta2,weight_decay' | FileCheck %s --check-prefix=SCALARS
// RUN: fsdp-opt %S/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-add-optimizer='optimizer=radam' | FileCheck %s --check-prefix=RADAM
//
// What is made of any of them is an optimizer by the contract.
// RUN: for spec in adam adagrad:lr_decay=1,initial_accumulator_value=2 adadelta rmsprop:centered=true,momentum=1 nadam:maximize=true radam adamax lion; do \
// RUN:   fsdp-opt %S/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-add-optimizer="optimizer=$spec" -o %t && fsdp-opt %t --allow-unregistered-dialect --fsdp-verify-input -o %t.same && diff %t %t.same || exit 1; done

// Defaults are torch.optim.AdamW's; lr stays a scalar of the step. What is of
// the step is f64, and rounded once: 1 - beta1 and 1 - beta2 as constants.
// ADAMW:      func.func @forward_backward
// ADAMW:      func.func @optimizer(
// ADAMW-SAME:   %{{[a-z0-9]+}}: tensor<?xf32> {fsdp.optimizer = {name = "param", role = "param"}}
// ADAMW-SAME:   tensor<?xf32> {fsdp.optimizer = {name = "grad", role = "grad"}}
// ADAMW-SAME:   tensor<?xf32> {fsdp.optimizer = {init = 0.000000e+00 : f64, name = "exp_avg", role = "state"}}
// ADAMW-SAME:   tensor<?xf32> {fsdp.optimizer = {init = 0.000000e+00 : f64, name = "exp_avg_sq", role = "state"}}
// ADAMW-SAME:   tensor<f32> {fsdp.optimizer = {init = 0.000000e+00 : f64, name = "step", role = "state"}}
// ADAMW-SAME:   tensor<f32> {fsdp.optimizer = {default = 1.000000e-03 : f64, name = "lr", role = "scalar"}}
// ADAMW-SAME:   attributes {fsdp.optimizer_spec = "adamw:beta1=0.9,beta2=0.999,eps=1e-08,weight_decay=0.01"}
// ADAMW-DAG:    %[[DECAY:.*]] = arith.constant 1.000000e-02 : f64
// ADAMW-DAG:    %[[BETA1:.*]] = arith.constant 9.000000e-01 : f64
// ADAMW-DAG:    %[[BETA2:.*]] = arith.constant 0.99899999999999999 : f64
// ADAMW-DAG:    %[[REST1:.*]] = arith.constant 1.000000e-01 : f32
// ADAMW-DAG:    %[[KEEP2:.*]] = arith.constant 9.990000e-01 : f32
// ADAMW-DAG:    %[[REST2:.*]] = arith.constant 1.000000e-03 : f32
// ADAMW-DAG:    %[[EPS:.*]] = arith.constant 9.99999993E-9 : f32
// ADAMW:        %[[STEP:.*]]:4 = linalg.generic {{.*}}, iterator_types = []}
// ADAMW:          arith.mulf %{{.*}}, %[[DECAY]] : f64
// ADAMW:          math.powf %[[BETA1]], %{{.*}} : f64
// ADAMW:          math.powf %[[BETA2]], %{{.*}} : f64
// ADAMW:        linalg.generic {{.*}}, iterator_types = ["parallel"]}
// ADAMW-NOT:      f64
// ADAMW:          %[[FAR:.*]] = arith.subf
// ADAMW:          arith.mulf %[[REST1]], %[[FAR]]
// ADAMW:          arith.mulf %{{.*}}, %[[KEEP2]]
// ADAMW:          arith.mulf %[[REST2]],
// ADAMW:          arith.addf %{{.*}}, %[[EPS]]
// ADAMW:        return %{{.*}} : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<f32>

// SGD:        func.func @optimizer(
// SGD-NOT:      "state"
// SGD-SAME:     default = 5.000000e-01 : f64, name = "lr"
// SGD-SAME:     attributes {fsdp.optimizer_spec = "sgd:momentum=0,weight_decay=2"}
// SGD-NOT:      iterator_types = []
// SGD:          %[[DECAY:.*]] = arith.constant 2.000000e+00 : f32
// SGD:        ^bb0(%[[P:.*]]: f32, %[[G:.*]]: f32, %[[LR:.*]]: f32, %{{.*}}: f32):
// SGD:          %[[PULL:.*]] = arith.mulf %[[DECAY]], %[[P]]
// SGD:          %[[SUM:.*]] = arith.addf %[[G]], %[[PULL]]
// SGD:          %[[CHANGE:.*]] = arith.mulf %[[LR]], %[[SUM]]
// SGD:          arith.subf %[[P]], %[[CHANGE]]

// MOMENTUM:      func.func @optimizer(
// MOMENTUM-SAME:   init = 0.000000e+00 : f64, name = "momentum_buffer", role = "state"
// MOMENTUM-NOT:  "step"
// MOMENTUM:        %[[MOMENTUM:.*]] = arith.constant 7.500000e-01 : f32
// MOMENTUM:      ^bb0(%{{[a-z0-9_]+}}: f32, %{{[a-z0-9_]+}}: f32, %[[OLD:[a-z0-9_]+]]: f32,
// MOMENTUM:        arith.mulf %[[OLD]], %[[MOMENTUM]]

// Scalars come last, in f64; what is given at run time is not in the name.
// SCALARS:      func.func @optimizer(
// SCALARS-SAME:   name = "max_exp_avg_sq", role = "state"
// SCALARS-SAME:   name = "step", role = "state"
// SCALARS-SAME:   tensor<f32> {fsdp.optimizer = {default = 1.000000e-03 : f64, name = "lr", role = "scalar"}}
// SCALARS-SAME:   %[[BETA2:[a-z0-9]+]]: tensor<f64> {fsdp.optimizer = {default = 7.500000e-01 : f64, name = "beta2", role = "scalar"}}
// SCALARS-SAME:   tensor<f64> {fsdp.optimizer = {default = 1.000000e-02 : f64, name = "weight_decay", role = "scalar"}}
// SCALARS-SAME:   attributes {fsdp.optimizer_spec = "adamw:beta1=0.9,eps=1e-08,amsgrad=true"}
// SCALARS:        %[[ONE:.*]] = arith.constant 1.000000e+00 : f64
// SCALARS:        linalg.generic {{.*}}, iterator_types = []} {{.*}}, %[[BETA2]]
// SCALARS:          %[[REST:.*]] = arith.subf %[[ONE]], %{{.*}} : f64
// SCALARS:          arith.truncf %[[REST]] : f64 to f32

// A truth of the step, which each element reads.
// RADAM:      func.func @optimizer(
// RADAM:        %[[TRUE:.*]] = arith.cmpf ogt, %{{.*}} : f64
// RADAM:        linalg.yield {{.*}}%[[TRUE]]{{.*}} : {{.*}}i1
// RADAM:        linalg.generic {{.*}} ins({{.*}}tensor<i1>
// RADAM:          arith.select
