// Units with a strategy, types and reshard-after-forward of their own.
//
// RUN: fsdp-opt %S/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-assign-units -o %t
// RUN: fsdp-opt %t --allow-unregistered-dialect --fsdp-flatten-parameters='unit=blocks.0:strategy=no_shard' | FileCheck %s --check-prefix=WHOLE
// RUN: fsdp-opt %t --allow-unregistered-dialect --fsdp-flatten-parameters='mesh=shard=2,replicate=3 unit={blocks.0:strategy=full_shard},{root:strategy=no_shard}' | FileCheck %s --check-prefix=AXES
// RUN: fsdp-opt %t --allow-unregistered-dialect --fsdp-flatten-parameters='unit={blocks.1:reshard-after-forward=false},{root:reshard-after-forward=true}' | FileCheck %s --check-prefix=KEEP
// RUN: fsdp-opt %t --allow-unregistered-dialect --fsdp-flatten-parameters='param-dtype=bf16 unit={blocks.1:param-dtype=f32},{blocks.0:reduce-dtype=f32}' | FileCheck %s --check-prefix=TYPES
// RUN: fsdp-opt %t --allow-unregistered-dialect --fsdp-flatten-parameters='unit={{blocks.*:param-dtype=f16,reduce-dtype=f32}}' | FileCheck %s --check-prefix=NARROW

// Sums in a narrow type are NCCL's where all of them are in one that was chosen.
// RUN: fsdp-opt %t --allow-unregistered-dialect --fsdp-flatten-parameters='unit=blocks.1:reduce-dtype=bf16' | FileCheck %s --check-prefix=CHOSEN
// RUN: fsdp-opt %t --allow-unregistered-dialect --fsdp-flatten-parameters='reduce-dtype=f32 unit=blocks.1:reduce-dtype=bf16' | FileCheck %s --check-prefix=CHOSEN
// RUN: fsdp-opt %t --allow-unregistered-dialect --fsdp-flatten-parameters='unit=blocks.1:reduce-dtype=bf16,blocks.0:param-dtype=bf16' | FileCheck %s --check-prefix=UNCHOSEN
// RUN: fsdp-opt %t --allow-unregistered-dialect --fsdp-flatten-parameters='unit=blocks.1:reduce-dtype=bf16,blocks.0:reduce-dtype=f16' | FileCheck %s --check-prefix=UNCHOSEN
// CHOSEN: fsdp.reduce_dtype = bf16
// UNCHOSEN-NOT: fsdp.reduce_dtype

// Each has its own ranks: a multiple of 32 elements for each.
// WHOLE: fsdp.flat_param @root on @mesh shard ["shard"] replicate []
// WHOLE: fsdp.flat_param @blocks.0 on @mesh shard [] replicate ["shard"] state f32 gather f32 reduce f32 numel 64 [
// WHOLE:   ] {keep, trainable, unit = "blocks.0"}
// WHOLE: fsdp.flat_param @blocks.1 on @mesh shard ["shard"] replicate []
// WHOLE:   ] {trainable, unit = "blocks.1"}
// WHOLE: fsdp.program @train
// WHOLE-COUNT-1: fsdp.unshard {{.*}} -> <@blocks.0, f32>
// WHOLE-NOT:     fsdp.unshard {{.*}} -> <@blocks.0, f32>

// AXES: @root on @mesh shard [] replicate ["replicate", "shard"]
// AXES: @blocks.0 on @mesh shard ["replicate", "shard"] replicate [] {{.*}} numel 192 [
// AXES: @blocks.1 on @mesh shard ["shard"] replicate ["replicate"] {{.*}} numel 64 [

// KEEP: @root on
// KEEP:   ] {trainable, unit = ""}
// KEEP: @blocks.0 on
// KEEP:   ] {trainable, unit = "blocks.0"}
// KEEP: @blocks.1 on
// KEEP:   ] {keep, trainable, unit = "blocks.1"}

// RUN: fsdp-opt %t --allow-unregistered-dialect --fsdp-flatten-parameters='unit=blocks.1:reshard-after-backward=false' | FileCheck %s --check-prefix=STAY
// RUN: fsdp-opt %t --allow-unregistered-dialect --fsdp-flatten-parameters='reshard-after-backward=false unit=root:strategy=no_shard,blocks.1:reshard-after-backward=true' | FileCheck %s --check-prefix=STAYS
// One rank has all of it anyway.
// RUN: fsdp-opt %t --allow-unregistered-dialect --fsdp-flatten-parameters='mesh=shard=1 reshard-after-backward=false' | FileCheck %s --check-prefix=ALONE
// STAY-NOT: persistent
// STAY: @blocks.1 on
// STAY:   ] {keep, persistent, trainable, unit = "blocks.1"}
// STAYS: @root on
// STAYS:   ] {keep, trainable, unit = ""}
// STAYS: @blocks.0 on
// STAYS:   ] {keep, persistent, trainable, unit = "blocks.0"}
// STAYS: @blocks.1 on
// STAYS:   ] {trainable, unit = "blocks.1"}
// ALONE-NOT: persistent

// What reads no unit with a type of its own has that of the module, else that
// of the trace.
// TYPES: @root {{.*}} gather bf16 reduce bf16
// TYPES: @blocks.0 {{.*}} gather bf16 reduce f32
// TYPES: @blocks.1 {{.*}} gather f32 reduce f32
// TYPES: product_type = bf16
// NARROW: @root {{.*}} gather f32 reduce f32
// NARROW: @blocks.0 {{.*}} gather f16 reduce f32
// NARROW: @blocks.1 {{.*}} gather f16 reduce f32
// NARROW: product_type = f32
