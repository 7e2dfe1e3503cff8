// RUN: fsdp-opt %s --allow-unregistered-dialect --fsdp-scale-loss=loss-scale=dynamic:init=1024,growth=4,backoff=0.25,interval=100,min=2 | FileCheck %s --check-prefix=DYNAMIC
// RUN: fsdp-opt %s --allow-unregistered-dialect --fsdp-scale-loss=loss-scale=8 | FileCheck %s --check-prefix=STATIC
// RUN: fsdp-opt %s --allow-unregistered-dialect -o %t.same && fsdp-opt %s --allow-unregistered-dialect --fsdp-scale-loss | diff %t.same -
// RUN: fsdp-opt %s --allow-unregistered-dialect --fsdp-scale-loss=loss-scale=8 --convert-fsdp-logical-to-collectives | FileCheck %s --check-prefix=LOCAL
// RUN: not fsdp-opt %s --allow-unregistered-dialect --convert-fsdp-logical-to-collectives 2>&1 | FileCheck %s --check-prefix=LEFT
// RUN: not fsdp-opt %t.same --allow-unregistered-dialect --fsdp-scale-loss=loss-scale=dynamic --fsdp-scale-loss=loss-scale=dynamic 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: sed 's/ if_finite %n//; s/ if_finite tensor<f32>//' %s > %t.always && not fsdp-opt %t.always --allow-unregistered-dialect --fsdp-scale-loss=loss-scale=dynamic 2>&1 | FileCheck %s --check-prefix=ALWAYS
// ALWAYS: error: expected an update that skips what is not finite {{.*}} beside a dynamic loss-scale, got one without if_finite
// LEFT: error: failed to legalize operation 'fsdp.loss_scale'
// TWICE: error: expected a name other than 'loss_scale' for a state of @optimizer beside loss-scale
// TWICE: note: it is here

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @a on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 64 [
  <"a.w", tensor<64xf32> at 0>] {trainable, unit = "a"}
fsdp.state @a.param parameter of @a : !fsdp.sharded<@a, f32>

// Two states of all ranks, after the others.
// DYNAMIC:       module attributes {fsdp.loss_scale = {backoff = 2.500000e-01 : f64, min = 2.000000e+00 : f64}}
// DYNAMIC:       fsdp.state @a.param
// DYNAMIC-NEXT:  fsdp.state @optimizer.loss_scale optimizer "loss_scale" : tensor<f32> init 1.024000e+03 : f64
// DYNAMIC-NEXT:  fsdp.state @optimizer.loss_scale_growth optimizer "loss_scale_growth" : tensor<i32> init 0.000000e+00 : f64

// Backward reads the scale as the step finds it; norm and updates read 1 / scale,
// these times what clips.
// DYNAMIC-LABEL: fsdp.program @train(
// DYNAMIC-SAME:  %[[S:[a-z0-9]+]]: tensor<f32> {fsdp.state = @optimizer.loss_scale}
// DYNAMIC-SAME:  %[[T:[a-z0-9]+]]: tensor<i32> {fsdp.state = @optimizer.loss_scale_growth}
// DYNAMIC-SAME:  -> (tensor<f32> {fsdp.loss}, !fsdp.sharded<@a, f32> {fsdp.state = @a.param}, tensor<f32> {fsdp.grad_norm},
// DYNAMIC-SAME:      tensor<f32> {fsdp.state = @optimizer.loss_scale}, tensor<i32> {fsdp.state = @optimizer.loss_scale_growth}, tensor<f32> {fsdp.output = {name = "loss_scale"}})
// DYNAMIC:       %[[ONE:.*]] = linalg.generic {{.*}} ins(%[[S]] : tensor<f32>)
// DYNAMIC:         %[[C1:.*]] = arith.constant 1.000000e+00 : f32
// DYNAMIC-NEXT:    arith.divf %[[C1]], %{{.*}} : f32
// DYNAMIC:       "test.grad"(%[[S]])
// DYNAMIC:       %[[N:.*]] = fsdp.grad_norm %{{.*}} scale %[[ONE]] : !fsdp.sharded<@a, f32> scale tensor<f32> -> tensor<f32>
// DYNAMIC:       %[[CLIP:.*]] = "test.clip"(%[[N]])
// DYNAMIC-NEXT:  tensor.empty
// DYNAMIC-NEXT:  %[[BOTH:.*]] = linalg.generic {{.*}} ins(%[[CLIP]], %[[ONE]] : tensor<f32>, tensor<f32>)
// DYNAMIC:         arith.mulf
// DYNAMIC:       fsdp.update @optimizer({{.*}}) scale %[[BOTH]] if_finite %[[N]] :

// After a norm that is not finite times 0.25, after 100 finite ones times 4.
// DYNAMIC:       %[[NEW:.*]] = linalg.generic {{.*}} ins(%[[S]], %[[T]], %[[N]] :
// DYNAMIC-NEXT:  ^bb0(%[[X:.*]]: f32, %[[K:.*]]: i32, %[[M:.*]]: f32, %{{.*}}: f32):
// DYNAMIC-DAG:     %[[GROWTH:.*]] = arith.constant 4.000000e+00 : f64
// DYNAMIC-DAG:     %[[WIDE:.*]] = arith.extf %[[X]] : f32 to f64
// DYNAMIC-DAG:     %[[GROWN64:.*]] = arith.mulf %[[WIDE]], %[[GROWTH]] : f64
// DYNAMIC-DAG:     %[[GROWN:.*]] = arith.truncf %[[GROWN64]] : f64 to f32
// DYNAMIC-DAG:     %[[BACKOFF:.*]] = arith.constant 2.500000e-01 : f64
// DYNAMIC-DAG:     %[[LESS64:.*]] = arith.mulf %{{.*}}, %[[BACKOFF]] : f64
// DYNAMIC-DAG:     %[[LESS:.*]] = arith.truncf %[[LESS64]] : f64 to f32
// DYNAMIC:         arith.cmpi sge, %{{.*}}, %{{.*}} : i32
// DYNAMIC:         %[[MORE:.*]] = arith.select %{{.*}}, %[[GROWN]], %[[X]] : f32
// DYNAMIC:         %[[FINITE:.*]] = arith.cmpf olt, %{{.*}}, %{{.*}} : f32
// DYNAMIC-NEXT:    arith.select %[[FINITE]], %[[MORE]], %[[LESS]] : f32
// DYNAMIC:       %[[COUNT:.*]] = linalg.generic {{.*}} ins(%[[T]], %[[N]] :
// DYNAMIC:       fsdp.return {{.*}}, %[[N]], %[[NEW]], %[[COUNT]], %[[S]] :

// A micro-batch reads the scale, and leaves it as it is.
// DYNAMIC-LABEL: fsdp.program accumulate @accumulate(
// DYNAMIC-SAME:  %[[S:[a-z0-9]+]]: tensor<f32> {fsdp.state = @optimizer.loss_scale}) -> (tensor<f32> {fsdp.loss}) {
// DYNAMIC:       "test.grad"(%[[S]])

// STATIC-NOT:    fsdp.state @optimizer
// STATIC-LABEL:  fsdp.program @train(
// STATIC:        %[[S:.*]] = arith.constant dense<8.000000e+00> : tensor<f32>
// STATIC:        "test.grad"(%[[S]])
// STATIC:        fsdp.grad_norm %{{.*}} scale %

// Squares of the gradient without the scale.
// LOCAL-LABEL:   fsdp.program @train(
// LOCAL:         %[[ONE:.*]] = linalg.generic
// LOCAL:         arith.divf
// LOCAL:         linalg.generic {{.*}}iterator_types = ["parallel", "reduction"]} ins(%{{.*}}, %[[ONE]] : tensor<{{.*}}xf32>, tensor<f32>)
// LOCAL-NEXT:    ^bb0(%[[G:.*]]: f32, %[[R:.*]]: f32, %[[SUM:.*]]: f32):
// LOCAL-NEXT:      %[[X:.*]] = arith.mulf %[[G]], %[[R]] : f32
// LOCAL-NEXT:      %[[SQUARE:.*]] = arith.mulf %[[X]], %[[X]] : f32
// LOCAL-NEXT:      arith.addf %[[SUM]], %[[SQUARE]] : f32
fsdp.program @train(%a: !fsdp.sharded<@a, f32> {fsdp.state = @a.param})
    -> (tensor<f32> {fsdp.loss}, !fsdp.sharded<@a, f32> {fsdp.state = @a.param}, tensor<f32> {fsdp.grad_norm}) {
  %s = fsdp.loss_scale : tensor<f32>
  %loss = "test.loss"() : () -> tensor<f32>
  %g = "test.grad"(%s) : (tensor<f32>) -> tensor<64xf32>
  %ga = fsdp.reduce_grad @a(%g) : (tensor<64xf32>) -> !fsdp.sharded<@a, f32>
  %n = fsdp.grad_norm %ga : !fsdp.sharded<@a, f32> -> tensor<f32>
  %c = "test.clip"(%n) : (tensor<f32>) -> tensor<f32>
  %u = fsdp.update @optimizer(%a, %ga) scale %c if_finite %n
      : (!fsdp.sharded<@a, f32>, !fsdp.sharded<@a, f32>), tensor<f32> if_finite tensor<f32> -> (!fsdp.sharded<@a, f32>)
  fsdp.return %loss, %u, %n : tensor<f32>, !fsdp.sharded<@a, f32>, tensor<f32>
}

fsdp.program accumulate @accumulate() -> (tensor<f32> {fsdp.loss}) {
  %s = fsdp.loss_scale : tensor<f32>
  %loss = "test.loss"() : () -> tensor<f32>
  %g = "test.grad"(%s) : (tensor<f32>) -> tensor<64xf32>
  fsdp.return %loss : tensor<f32>
}

func.func @optimizer(%p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "p"}},
                     %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "g"}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "p"}}) {
  %new = arith.subf %p, %g : tensor<?xf32>
  return %new : tensor<?xf32>
}
