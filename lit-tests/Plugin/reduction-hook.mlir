// Hooks of a plugin, which links nothing of the compiler's: in a stock mlir-opt
// beside ours, in fsdp-opt and in fsdp-compile.
// RUN: mlir-opt --load-dialect-plugin=%plugin --load-dialect-plugin=%hook_plugin %fixtures/mixed/model.mlir \
// RUN:   --pass-pipeline='builtin.module(fsdp-partition{mesh=shard=2 strategy=no_shard wrap=none reduction-hook=sign:magnitude=0.5})' -o %t.l2
// RUN: FileCheck %s --input-file=%t.l2
// RUN: fsdp-opt --load-dialect-plugin=%hook_plugin %fixtures/mixed/model.mlir \
// RUN:   --pass-pipeline='builtin.module(fsdp-partition{mesh=shard=2 strategy=no_shard wrap=none reduction-hook=sign:magnitude=0.5})' | diff - %t.l2
// RUN: fsdp-compile %fixtures/mixed/model.mlir --optimizer-file %fixtures/mixed/optimizer.mlir --load-dialect-plugin %hook_plugin \
// RUN:   --mesh replicate=2,shard=2 --reduction-hook sign --emit ir:L3 -o - | FileCheck %s --check-prefix=HYBRID
// RUN: fsdp-compile %fixtures/mixed/model.mlir --optimizer-file %fixtures/mixed/optimizer.mlir --load-dialect-plugin %hook_plugin \
// RUN:   --mesh shard=2 --strategy no_shard --accumulate-in shard --clip-norm --reduction-hook sign -o %t.train
// RUN: %t.train -n 2 --params %fixtures/mixed/params.safetensors --data %fixtures/mixed/batches.safetensors --data-ranks first --steps 2 --save %t.saved
// RUN: rm -r %t.saved
// RUN: fsdp-compile %fixtures/mixed/model.mlir --optimizer-file %fixtures/mixed/optimizer.mlir --load-dialect-plugin %hook_plugin \
// RUN:   --mesh replicate=2,shard=2 --skip-nonfinite --accumulate-in whole --reduction-hook sign -o %t.hybrid
// RUN: %t.hybrid -n 4 --params %fixtures/mixed/params.safetensors --data %fixtures/mixed/batches.safetensors --steps 2
// RUN: fsdp-compile %fixtures/mixed/model.mlir --optimizer-file %fixtures/mixed/optimizer.mlir --load-dialect-plugin %hook_plugin \
// RUN:   --mesh shard=2 --strategy no_shard --skip-nonfinite --reduction-hook view -o %t.view
// RUN: %t.view -n 2 --params %fixtures/mixed/params.safetensors --data %fixtures/mixed/batches.safetensors --data-ranks first --steps 2
// RUN: fsdp-plan %fixtures/mixed/model.mlir --optimizer-file %fixtures/mixed/optimizer.mlir --load-dialect-plugin %hook_plugin \
// RUN:   --mesh replicate=2,shard=2 --cluster h100-sxm --reduction-hook sign | FileCheck %s --check-prefix=PLAN
// PLAN: memory at the peak

// What fsdp-compile prints is what fsdp-opt takes.
// RUN: fsdp-compile %fixtures/mixed/model.mlir --mesh shard=2 --strategy no_shard --reduction-hook powersgd:rank=2,epsilon=1e-8 --emit ir:L2 -o %t.direct
// RUN: fsdp-compile %fixtures/mixed/model.mlir --mesh shard=2 --strategy no_shard --reduction-hook powersgd:rank=2,epsilon=1e-8 --emit ir:L2 --print-pipeline > %t.pipeline
// RUN: fsdp-opt %fixtures/mixed/model.mlir --pass-pipeline="$(cat %t.pipeline)" | diff - %t.direct

// CHECK: reduction_hook = "sign:magnitude=0.5"
// CHECK: fsdp.state @residual.[[NAME:.*]].sign_error residual "[[NAME]].sign_error" of @[[NAME]] : tensor<[[N:.*]]xf32>
// CHECK: arith.select
// CHECK: fsdp.all_reduce %{{.*}} on @mesh["shard"] divisor 2 : tensor<[[N]]xf32>

// A piece, after its reduce_scatter.
// HYBRID: fsdp.reduce_scatter {{.*}} divisor 2 {{.*}}: tensor<[[WHOLE:.*]]xf32> -> tensor<[[PIECE:.*]]xf32>
// HYBRID: fsdp.all_reduce {{.*}}["replicate"] divisor 2 {{.*}}: tensor<[[PIECE]]xf32>

// What a hook does wrong.
// RUN: not fsdp-compile %fixtures/mixed/model.mlir --optimizer-file %fixtures/mixed/optimizer.mlir --load-dialect-plugin %hook_plugin \
// RUN:   --mesh shard=2 --strategy no_shard --reduction-hook local -o %t.local 2>&1 | FileCheck %s --check-prefix=LOCAL
// LOCAL: error: {{.*}}expected gradients that are reduced along all axes before they update a shard of '{{.*}}', got ones that differ along 'shard'
// RUN: not fsdp-compile %fixtures/mixed/model.mlir --optimizer-file %fixtures/mixed/optimizer.mlir --load-dialect-plugin %hook_plugin \
// RUN:   --mesh shard=2 --strategy no_shard --reduction-hook twice -o %t.twice 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: error: {{.*}}expected to reduce what differs along 'shard', got what is reduced along 'shard' already
// RUN: not fsdp-opt --load-dialect-plugin=%hook_plugin %fixtures/mixed/model.mlir \
// RUN:   --pass-pipeline='builtin.module(fsdp-partition{mesh=shard=2 strategy=no_shard reduction-hook=empty})' 2>&1 | FileCheck %s --check-prefix=EMPTY
// EMPTY: error: {{.*}}expected reduction hook 'empty' to return 'tensor<{{.*}}xf32>', got nothing
// RUN: not fsdp-opt --load-dialect-plugin=%hook_plugin %fixtures/mixed/model.mlir \
// RUN:   --pass-pipeline='builtin.module(fsdp-partition{mesh=shard=2 strategy=no_shard reduction-hook=broken})' 2>&1 | FileCheck %s --check-prefix=BROKEN
// BROKEN: error: {{.*}}reduction hook 'broken': expected a state that was read, got 'nobody's'
// RUN: not fsdp-opt --load-dialect-plugin=%hook_plugin %fixtures/mixed/model.mlir \
// RUN:   --pass-pipeline='builtin.module(fsdp-partition{mesh=shard=2 strategy=no_shard reduction-hook=sign:magnitude=0})' 2>&1 | FileCheck %s --check-prefix=VALUE
// VALUE: error: reduction hook 'sign': expected magnitude=NUMBER above 0, got 'magnitude=0'
// RUN: not fsdp-opt --load-dialect-plugin=%hook_plugin %fixtures/mixed/model.mlir \
// RUN:   --pass-pipeline='builtin.module(fsdp-partition{mesh=shard=2 strategy=no_shard reduction-hook=powersgd})' 2>&1 | FileCheck %s --check-prefix=TWO
// TWO: error: reduction hook 'powersgd': expected one hook of that name, got several
// RUN: not fsdp-compile %fixtures/mixed/model.mlir --mesh shard=2 --load-dialect-plugin %t.none --emit ir:L1 -o - 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: --load-dialect-plugin: {{.*}}Could not load library
