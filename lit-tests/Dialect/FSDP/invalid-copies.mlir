// RUN: fsdp-opt %s -split-input-file -verify-diagnostics

// host_c1
// expected-error @below {{expected a tensor of static shape with float or signless integer elements, got 'tensor<?xf32>'}}
func.func private @dynamic_on_the_host() -> !fsdp.host<tensor<?xf32>>

// -----

// expected-error @below {{expected a tensor of static shape with float or signless integer elements, got 'tensor<4xindex>'}}
func.func private @indices_on_the_host() -> !fsdp.host<tensor<4xindex>>

// -----

// offload_c1
func.func @offload_changes_shape(%x: tensor<2x4xf32>) {
  // expected-error @below {{expected 'tensor<2x4xf32>' in the host's memory, got 'tensor<8xf32>'}}
  %h = fsdp.offload %x : tensor<2x4xf32> -> !fsdp.host<tensor<8xf32>>
  return
}

// -----

// reload_c1
func.func @reload_changes_type(%h: !fsdp.host<tensor<8xf32>>) {
  // expected-error @below {{expected a result of 'tensor<8xf32>', got 'tensor<8xbf16>'}}
  %x = fsdp.reload %h : !fsdp.host<tensor<8xf32>> -> tensor<8xbf16>
  return
}

// -----

// Nothing else reads the host's memory.
func.func @view_of_the_host(%h: !fsdp.host<tensor<8xf32>>) {
  // expected-error @below {{invalid kind of type specified}}
  %v = fsdp.view %h[0] : !fsdp.host<tensor<8xf32>> -> tensor<4xf32>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 4>]
func.func @collective_of_the_host(%h: !fsdp.host<tensor<8xf32>>) {
  // expected-error @below {{operand #0 must be statically shaped tensor}}
  %g = "fsdp.all_gather"(%h) {axes = ["shard"], mesh = @mesh} : (!fsdp.host<tensor<8xf32>>) -> tensor<32xf32>
  return
}

// -----

func.func @launch_on_the_host(%h: !fsdp.host<tensor<8xf32>>) {
  // expected-error @below {{operand #0 must be variadic of statically shaped tensor}}
  %y = "fsdp.launch"(%h) {kernel = @k} : (!fsdp.host<tensor<8xf32>>) -> tensor<8xf32>
  return
}

// -----

func.func @offload_on_h2d(%x: tensor<8xf32>) {
  // expected-error @below {{expected a queue of fsdp.offload, got h2d}}
  %t = fsdp.start(%x) on h2d event 0 {
  ^bb0(%a: tensor<8xf32>):
    %h = fsdp.offload %a : tensor<8xf32> -> !fsdp.host<tensor<8xf32>>
    fsdp.yield %h : !fsdp.host<tensor<8xf32>>
  } : (tensor<8xf32>) -> !fsdp.token<!fsdp.host<tensor<8xf32>>>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 4>]
func.func @copy_beside_collective(%x: tensor<8xf32>) {
  // expected-error @below {{expected transfers of one kind and one group, got fsdp.all_gather on ["shard"] beside fsdp.offload}}
  %t = fsdp.start(%x) on d2h event 0 {
  ^bb0(%a: tensor<8xf32>):
    %h = fsdp.offload %a : tensor<8xf32> -> !fsdp.host<tensor<8xf32>>
    // expected-note @below {{it is here}}
    %g = fsdp.all_gather %a on @mesh["shard"] : tensor<8xf32> -> tensor<32xf32>
    fsdp.yield %h, %g : !fsdp.host<tensor<8xf32>>, tensor<32xf32>
  } : (tensor<8xf32>) -> !fsdp.token<!fsdp.host<tensor<8xf32>>, tensor<32xf32>>
  return
}
