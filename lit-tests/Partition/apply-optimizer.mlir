// RUN: fsdp-opt %S/Inputs/gradients.mlir --allow-unregistered-dialect --fsdp-apply-optimizer | FileCheck %s --check-prefixes=CHECK,PLAIN
// RUN: fsdp-opt %S/Inputs/gradients.mlir --allow-unregistered-dialect --fsdp-apply-optimizer=clip | FileCheck %s --check-prefixes=CHECK,CLIP
// RUN: fsdp-opt %S/Inputs/gradients.mlir --allow-unregistered-dialect --fsdp-apply-optimizer=skip-nonfinite | FileCheck %s --check-prefix=SKIP
// RUN: fsdp-opt %S/Inputs/gradients.mlir --allow-unregistered-dialect --fsdp-apply-optimizer='clip skip-nonfinite' | FileCheck %s --check-prefix=BOTH
// RUN: fsdp-opt %S/Inputs/gradients.mlir --allow-unregistered-dialect --fsdp-apply-optimizer -o %t.once
// RUN: fsdp-opt %t.once --allow-unregistered-dialect --fsdp-apply-optimizer -o %t.twice && diff %t.once %t.twice

// States are one per flat parameter, except those of one element; scalars are
// the step's. Each state and shard comes back; the norm of the whole does too.
// CHECK:         fsdp.state @a.momentum optimizer "momentum" of @a : !fsdp.sharded<@a, f32> init 5.000000e-01 : f64
// CHECK-NEXT:    fsdp.state @optimizer.step optimizer "step" : tensor<f32> init 0.000000e+00 : f64
// CHECK-NEXT:    fsdp.state @b.momentum optimizer "momentum" of @b : !fsdp.sharded<@b, f32> init 5.000000e-01 : f64
// CHECK-NEXT:    fsdp.state @i.momentum optimizer "momentum" of @i : !fsdp.sharded<@i, f32> init 5.000000e-01 : f64
// CHECK-LABEL: fsdp.program @step(
// CHECK-SAME:    %[[A:[a-z0-9]+]]: !fsdp.sharded<@a, f32> {fsdp.state = @a.param}
// CHECK-SAME:    %[[B:[a-z0-9]+]]: !fsdp.sharded<@b, f32> {fsdp.state = @b.param}
// CHECK-SAME:    %[[I:[a-z0-9]+]]: !fsdp.sharded<@i, f32> {fsdp.state = @i.param}
// CLIP-SAME:     %[[LIMIT:[a-z0-9]+]]: tensor<f32> {fsdp.scalar = {name = "clip_norm"}}
// CHECK-SAME:    %[[MA:[a-z0-9]+]]: !fsdp.sharded<@a, f32> {fsdp.state = @a.momentum}
// CHECK-SAME:    %[[S:[a-z0-9]+]]: tensor<f32> {fsdp.state = @optimizer.step}
// CHECK-SAME:    %[[LR:[a-z0-9]+]]: tensor<f32> {fsdp.scalar = {default = 2.500000e-01 : f64, name = "lr"}}
// CHECK-SAME:    %[[MB:[a-z0-9]+]]: !fsdp.sharded<@b, f32> {fsdp.state = @b.momentum}
// CHECK-SAME:    %[[MI:[a-z0-9]+]]: !fsdp.sharded<@i, f32> {fsdp.state = @i.momentum})
// CHECK-SAME:    -> (tensor<f32> {fsdp.loss},
// CHECK-SAME:      !fsdp.sharded<@a, f32> {fsdp.state = @a.param}, !fsdp.sharded<@a, f32> {fsdp.state = @a.momentum}, tensor<f32> {fsdp.state = @optimizer.step},
// CHECK-SAME:      !fsdp.sharded<@b, f32> {fsdp.state = @b.param}, !fsdp.sharded<@b, f32> {fsdp.state = @b.momentum},
// CHECK-SAME:      !fsdp.sharded<@i, f32> {fsdp.state = @i.param}, !fsdp.sharded<@i, f32> {fsdp.state = @i.momentum},
// CHECK-SAME:      tensor<f32> {fsdp.grad_norm})

// Right behind the gradient, but where the parameter is still read behind that.
// PLAIN:         %[[GA:.*]] = fsdp.reduce_grad @a
// PLAIN-NEXT:    %[[UA:.*]]:3 = fsdp.update @optimizer(%[[A]], %[[GA]], %[[MA]], %[[S]], %[[LR]]) :
// PLAIN-NEXT:    %[[GB:.*]] = fsdp.reduce_grad @b
// PLAIN-NEXT:    %[[GI:.*]] = fsdp.reduce_grad @i
// PLAIN-NEXT:    %[[UI:.*]]:3 = fsdp.update @optimizer(%[[I]], %[[GI]], %[[MI]], %[[S]], %[[LR]]) :
// PLAIN-NEXT:    "test.last_reader"
// PLAIN-NEXT:    fsdp.reshard
// PLAIN-NEXT:    %[[UB:.*]]:3 = fsdp.update @optimizer(%[[B]], %[[GB]], %[[MB]], %[[S]], %[[LR]]) :
// PLAIN-NEXT:    "test.end"
// Ignored parameters' gradients count, too: what is clipped is in the norm.
// PLAIN-NEXT:    %[[N:.*]] = fsdp.grad_norm %[[GA]], %[[GB]], %[[GI]] :
// PLAIN-NEXT:    return %{{.*}}, %[[UA]]#0, %[[UA]]#1, %[[UA]]#2, %[[UB]]#0, %[[UB]]#1, %[[UI]]#0, %[[UI]]#1, %[[N]] :

// min(1, clip_norm / (norm + 1e-6)) scales every gradient, behind the norm.
// CLIP:          %[[GA:.*]] = fsdp.reduce_grad @a
// CLIP-NOT:      fsdp.update
// CLIP:          %[[N:.*]] = fsdp.grad_norm
// CLIP:          %[[C:.*]] = linalg.generic {{.*}} ins(%[[LIMIT]], %[[N]] : tensor<f32>, tensor<f32>)
// CLIP-NEXT:     ^bb0(%[[L:.*]]: f32, %[[X:.*]]: f32,
// CLIP-DAG:        %[[EPS:.*]] = arith.constant 9.99999997E-7 : f32
// CLIP-DAG:        %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CLIP:            %[[SUM:.*]] = arith.addf %[[X]], %[[EPS]]
// CLIP-NEXT:       %[[RATIO:.*]] = arith.divf %[[L]], %[[SUM]]
// CLIP-NEXT:       arith.minimumf %[[RATIO]], %[[ONE]]
// CLIP:          fsdp.update @optimizer(%[[A]], %[[GA]], %[[MA]], %[[S]], %[[LR]]) scale %[[C]] :
// CLIP-NEXT:     fsdp.update @optimizer(%[[B]], %{{.*}}, %[[MB]], %[[S]], %[[LR]]) scale %[[C]] :
// CLIP-NEXT:     fsdp.update @optimizer(%[[I]], %{{.*}}, %[[MI]], %[[S]], %[[LR]]) scale %[[C]] :
// CLIP-NEXT:     return {{.*}}, %[[N]] :

// Every update comes after the norm, and depends on it.
// SKIP:          module attributes {fsdp.skips_nonfinite}
// SKIP:          fsdp.reduce_grad @a
// SKIP-NOT:      fsdp.update
// SKIP:          %[[N:.*]] = fsdp.grad_norm
// SKIP-COUNT-3:  fsdp.update {{.*}} if_finite %[[N]] : {{.*}} if_finite tensor<f32> ->
// BOTH:          %[[N:.*]] = fsdp.grad_norm
// BOTH:          %[[C:.*]] = linalg.generic
// BOTH-COUNT-3:  fsdp.update {{.*}} scale %[[C]] if_finite %[[N]] : {{.*}}, tensor<f32> if_finite tensor<f32> ->
