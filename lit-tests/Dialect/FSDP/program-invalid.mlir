// RUN: fsdp-opt %s -split-input-file -verify-diagnostics

// state_c1
// expected-error @below {{expected a flat parameter named @nowhere in the module, got none}}
fsdp.state @p parameter of @nowhere : tensor<4xf32>

// -----

// expected-note @below {{it is here}}
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-error @below {{expected a flat parameter named @mesh in the module, got fsdp.mesh}}
fsdp.state @p parameter of @mesh : tensor<4xf32>

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 8 [
  <"w", tensor<8xf32> at 0>
] {trainable, unit = ""}
fsdp.flat_param @h1 on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 8 [
  <"v", tensor<8xf32> at 0>
] {trainable, unit = ""}
// expected-error @below {{expected a type of @h0, got '!fsdp.sharded<@h1, f32>'}}
fsdp.state @p parameter of @h0 : !fsdp.sharded<@h1, f32>

// -----

// expected-error @below {{expected a type of no flat parameter, got '!fsdp.unsharded<@h0, f32>'}}
fsdp.state @p buffer "p" : !fsdp.unsharded<@h0, f32>

// -----

// state_c2
// expected-error @below {{expected no name for kind parameter, got one}}
fsdp.state @p parameter "p" of @h0 : tensor<4xf32>

// -----

// expected-error @below {{expected a flat parameter for kind accumulator, got none}}
fsdp.state @p accumulator : tensor<4xf32>

// -----

// expected-error @below {{expected a name for kind optimizer, got none}}
fsdp.state @p optimizer of @h0 : tensor<4xf32>

// -----

// expected-error @below {{expected a name for kind buffer, got none}}
fsdp.state @p buffer : tensor<4xf32>

// -----

// expected-error @below {{expected no flat parameter for kind buffer, got one}}
fsdp.state @p buffer "p" of @h0 : tensor<4xf32>

// -----

// expected-error @below {{expected a flat parameter for kind residual, got none}}
fsdp.state @p residual "p" : tensor<4xf32>

// -----

// expected-error @below {{expected an initialiser for a state of kind residual, got 0.000000e+00 : f64}}
fsdp.state @p residual "p" of @h0 : tensor<4xf32> init 0.0 : f64

// -----

// state_c3
// expected-error @below {{expected a number for a state of kind optimizer, got {kind = "constant"}}}
fsdp.state @p optimizer "p" : tensor<4xf32> init {kind = "constant"}

// -----

// expected-error @below {{expected an initialiser for a state of kind buffer, got 0.000000e+00 : f64}}
fsdp.state @p buffer "p" : tensor<4xf32> init 0.0 : f64

// -----

// expected-error @below {{expected no init for a state of kind accumulator, got 0.000000e+00 : f64}}
fsdp.state @p accumulator of @h0 : tensor<4xf32> init 0.0 : f64

// -----

// state_c4
// expected-error @below {{expected neither tied nor unsigned for kind optimizer, got one of both}}
fsdp.state @p optimizer "p" : tensor<4xf32> tied ["q"]

// -----

// expected-error @below {{expected neither tied nor unsigned for kind parameter, got one of both}}
fsdp.state @p parameter of @h0 : tensor<4xi8> unsigned

// -----

// expected-error @below {{expected i8 elements in an unsigned buffer, got 'tensor<4xi16>'}}
fsdp.state @p buffer "p" : tensor<4xi16> unsigned

// -----

// state_c5
// expected-error @below {{attribute 'offset' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
fsdp.state @p buffer "p" : tensor<4xf32> at -256

// -----

func.func @state_in_a_function() {
  // state_c6
  // expected-error @below {{expects parent op 'builtin.module'}}
  fsdp.state @p buffer "p" : tensor<4xf32>
  return
}

// -----

// state_c7
// expected-error @below {{expected a parameter, or an optimizer state of a flat parameter, in the host's memory, got kind optimizer of no flat parameter}}
fsdp.state @p optimizer "p" : !fsdp.host<tensor<4xf32>>

// -----

// expected-error @below {{expected a parameter, or an optimizer state of a flat parameter, in the host's memory, got kind buffer of no flat parameter}}
fsdp.state @p buffer "p" : !fsdp.host<tensor<4xf32>>

// -----

// expected-error @below {{expected a parameter, or an optimizer state of a flat parameter, in the host's memory, got kind accumulator}}
fsdp.state @p accumulator of @h0 : !fsdp.host<tensor<4xf32>>

// -----

// A place has one size.
// expected-error @below {{attribute 'type' failed to satisfy constraint: type attribute of this rank's piece of a flat parameter, or of something like it or a whole flat parameter, gathered on this rank or statically shaped tensor of floating-point or signless integer values or a tensor in the host's memory}}
fsdp.state @p buffer "p" : tensor<?xf32>

// -----

// expected-error @below {{to be one of: parameter, optimizer, accumulator, buffer}}
// expected-error @below {{failed to parse FSDP_StateKindAttr}}
fsdp.state @p gradient "p" : tensor<4xf32>

// -----

// expected-error @below {{expected a name, train, eval, accumulate, train_accumulated or accumulate_first, got evaluate}}
fsdp.program evaluate @p() {
  fsdp.return
}

// -----

// program_c1
// expected-error @below {{expects a non-empty block}}
"fsdp.program"() <{function_type = () -> (), sym_name = "p"}> ({
^bb0:
}) : () -> ()

// -----

// expected-error @below {{expected a block that fsdp.return ends, got llvm.unreachable}}
fsdp.program @p() {
  llvm.unreachable
}

// -----

// expected-error @below {{region #0 ('body') failed to verify constraint: region with 1 blocks}}
fsdp.program @p(tensor<4xf32>)

// -----

// program_c2
// expected-error @below {{expected fsdp.state on argument 0 to name a state, got "p"}}
fsdp.program @p(%x: tensor<4xf32> {fsdp.state = "p"}) {
  fsdp.return
}

// -----

// expected-error @below {{expected a state named @nowhere in the module, got none}}
fsdp.program @p(%x: tensor<4xf32> {fsdp.state = @nowhere}) {
  fsdp.return
}

// -----

// expected-note @below {{it is here}}
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-error @below {{expected a state named @mesh in the module, got fsdp.mesh}}
fsdp.program @p(%x: tensor<4xf32> {fsdp.state = @mesh}) {
  fsdp.return
}

// -----

// expected-note @below {{the state is here}}
fsdp.state @s buffer "s" : tensor<4xf32>
// expected-error @below {{expected argument 0 to be of the type of @s, 'tensor<4xf32>', got 'tensor<8xf32>'}}
fsdp.program @p(%x: tensor<8xf32> {fsdp.state = @s}) {
  fsdp.return
}

// -----

// expected-note @below {{the state is here}}
fsdp.state @s buffer "s" : tensor<4xf32>
// expected-error @below {{expected result 1 to be of the type of @s, 'tensor<4xf32>', got 'tensor<8xf32>'}}
fsdp.program @p(%x: tensor<4xf32> {fsdp.state = @s}, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32> {fsdp.state = @s}) {
  fsdp.return %y, %y : tensor<8xf32>, tensor<8xf32>
}

// -----

fsdp.state @s buffer "s" : tensor<4xf32>
// program_c3
// expected-error @below {{expected each state once, got @s again as argument 1}}
fsdp.program @p(%x: tensor<4xf32> {fsdp.state = @s}, %y: tensor<4xf32> {fsdp.state = @s}) {
  fsdp.return
}

// -----

fsdp.state @s buffer "s" : tensor<4xf32>
// expected-error @below {{expected each state once, got @s again as result 1}}
fsdp.program @p(%x: tensor<4xf32> {fsdp.state = @s}) -> (tensor<4xf32> {fsdp.state = @s}, tensor<4xf32> {fsdp.state = @s}) {
  fsdp.return %x, %x : tensor<4xf32>, tensor<4xf32>
}

// -----

fsdp.state @s buffer "s" : tensor<4xf32>
// program_c4
// expected-error @below {{expected an argument for the state that result 0 becomes, @s, got none}}
fsdp.program @p(%x: tensor<4xf32>) -> (tensor<4xf32> {fsdp.state = @s}) {
  fsdp.return %x : tensor<4xf32>
}

// -----

fsdp.state @s buffer "s" : tensor<4xf32>
// program_c5
// expected-error @below {{expected one of fsdp.state and fsdp.input on argument 0, got both}}
fsdp.program @p(%x: tensor<4xf32> {fsdp.input = {name = "x"}, fsdp.state = @s}) {
  fsdp.return
}

// -----

// expected-error @below {{expected one of fsdp.loss and fsdp.grad_norm on result 0, got both}}
fsdp.program @p(%x: tensor<f32>) -> (tensor<f32> {fsdp.grad_norm, fsdp.loss}) {
  fsdp.return %x : tensor<f32>
}

// -----

func.func @program_in_a_function() {
  // program_c6
  // expected-error @below {{expects parent op 'builtin.module'}}
  fsdp.program @p() {
    fsdp.return
  }
  return
}

// -----

fsdp.state @s buffer "s" : tensor<4xf32>
// program_c7
// expected-error @below {{expected an eval program to write no state, got @s as result 0}}
fsdp.program eval @p(%x: tensor<4xf32> {fsdp.state = @s}) -> (tensor<4xf32> {fsdp.state = @s}) {
  fsdp.return %x : tensor<4xf32>
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 64 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}
fsdp.state @s parameter of @h0 : !fsdp.sharded<@h0, f32>
// program_c8
// expected-error @below {{expected an accumulate program to write accumulators and buffers alone, got @s as result 0}}
fsdp.program accumulate @p(%x: !fsdp.sharded<@h0, f32> {fsdp.state = @s}) -> (!fsdp.sharded<@h0, f32> {fsdp.state = @s}) {
  fsdp.return %x : !fsdp.sharded<@h0, f32>
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 64 [<"w", tensor<8xf32> at 0>] {keep, persistent, trainable, unit = ""}
fsdp.state @s gathered of @h0 : !fsdp.unsharded<@h0, f32>
// expected-error @below {{expected a program of kind accumulate_first to write @s, got one of kind accumulate}}
fsdp.program accumulate @p(%x: !fsdp.unsharded<@h0, f32> {fsdp.state = @s}) -> (!fsdp.unsharded<@h0, f32> {fsdp.state = @s}) {
  fsdp.return %x : !fsdp.unsharded<@h0, f32>
}

// -----

// program_c9
// expected-error @below {{expected a tensor of the device as argument 0, which is no state, got '!fsdp.host<tensor<4xf32>>'}}
fsdp.program @p(%h: !fsdp.host<tensor<4xf32>> {fsdp.input = {name = "x"}}) -> tensor<4xf32> {
  %x = fsdp.reload %h : !fsdp.host<tensor<4xf32>> -> tensor<4xf32>
  fsdp.return %x : tensor<4xf32>
}

// -----

// expected-error @below {{expected a tensor of the device as result 0, which is no state, got '!fsdp.host<tensor<4xf32>>'}}
fsdp.program @p(%x: tensor<4xf32>) -> !fsdp.host<tensor<4xf32>> {
  %h = fsdp.offload %x : tensor<4xf32> -> !fsdp.host<tensor<4xf32>>
  fsdp.return %h : !fsdp.host<tensor<4xf32>>
}

// -----

func.func @return_from_a_function() {
  // return_c1
  // expected-error @below {{expects parent op 'fsdp.program'}}
  fsdp.return
}

// -----

// expected-note @below {{the program is here}}
fsdp.program @p(%x: tensor<4xf32>) -> tensor<8xf32> {
  // return_c2
  // expected-error @below {{expected values of the program's result types, 'tensor<8xf32>', got 'tensor<4xf32>'}}
  fsdp.return %x : tensor<4xf32>
}

// -----

// expected-note @below {{the program is here}}
fsdp.program @p(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected values of the program's result types, 'tensor<4xf32>', got }}
  fsdp.return
}

// -----

// arena_c1
// expected-error @below {{expected communicated of at least 0 bytes in an arena, got -256}}
fsdp.program @p() attributes {arena = #fsdp.arena<bytes = 0, communicated = -256, transient = 256>} {
  fsdp.return
}

// -----

// arena_c2
// expected-error @below {{expected segments of 512 bytes together in an arena, got 256}}
fsdp.program @p() attributes {arena = #fsdp.arena<bytes = 512, state = 256>} {
  fsdp.return
}

// -----

// expected-error @below {{expected segments of less than 2^63 bytes in an arena, got more}}
fsdp.program @p() attributes {arena = #fsdp.arena<bytes = 0, state = 4611686018427387904, inputs = 4611686018427387904>} {
  fsdp.return
}

// -----

// arena_c3
// expected-error @below {{expected 7 parts of an arena's peak, got 6}}
fsdp.program @p() attributes {arena = #fsdp.arena<bytes = 256, state = 256, peak = [0, 0, 0, 0, 256, 0]>} {
  fsdp.return
}

// -----

// expected-error @below {{expected parts of an arena's peak from 0 to 256 bytes together, got array<i64: 0, 0, 0, 0, 1, 256, 0>}}
fsdp.program @p() attributes {arena = #fsdp.arena<bytes = 256, state = 256, peak = [0, 0, 0, 0, 1, 256, 0]>} {
  fsdp.return
}

// -----

// expected-error @below {{expected parts of an arena's peak from 0 to 256 bytes together, got array<i64: 0, -1, 0, 0, 0, 256, 0>}}
fsdp.program @p() attributes {arena = #fsdp.arena<bytes = 256, state = 256, peak = [0, -1, 0, 0, 0, 256, 0]>} {
  fsdp.return
}

// -----

// schedule_c1
// expected-error @below {{expected bound and step of at least 0 picoseconds in a schedule, got -1 and 2}}
fsdp.program @p() attributes {schedule = #fsdp.schedule<order = fsdp, bound = -1, step = 2, machine = "m", limit = "compute">} {
  fsdp.return
}

// -----

// schedule_c2
// expected-error @below {{expected a bound of at most the step's 2 picoseconds in a schedule, got 3}}
fsdp.program @p() attributes {schedule = #fsdp.schedule<order = fsdp, bound = 3, step = 2, machine = "m", limit = "compute">} {
  fsdp.return
}

// -----

// schedule_c3
// expected-error @below {{expected peak_flops of at least 0 in a schedule, got -1}}
fsdp.program @p() attributes {schedule = #fsdp.schedule<order = fsdp, bound = 1, step = 2, machine = "m", limit = "compute", peak_flops = -1>} {
  fsdp.return
}

// -----

// flops_c1
// expected-error @below {{expected at least 0 flops of each type, got -4}}
fsdp.program @p() attributes {flops = #fsdp.flops<f32 = 4, bf16 = -4>} {
  fsdp.return
}

// -----

// step_order_c1
// expected-error @below {{expected an entry of known for each of 1 transfers in an order, got 0}}
fsdp.program @p() attributes {fsdp.order = #fsdp.step_order<line = [0], issue = [0], place = [0], known = [], after = [], causes = [0], makespan = 1, peak = 1, arena = 1>} {
  fsdp.return
}

// -----

// expected-error @below {{expected pairs of transfers in after, got 1 entries}}
fsdp.program @p() attributes {fsdp.order = #fsdp.step_order<line = [0], issue = [0], place = [0], known = [0], after = [0], causes = [0], makespan = 1, peak = 1, arena = 1>} {
  fsdp.return
}

// -----

// step_order_c2
// expected-error @below {{expected causes from 0 to 5 in an order, got 6}}
fsdp.program @p() attributes {fsdp.order = #fsdp.step_order<line = [0], issue = [0], place = [0], known = [0], after = [], causes = [6], makespan = 1, peak = 1, arena = 1>} {
  fsdp.return
}

// -----

// expected-error @below {{expected a peak of at least 0 in an order, got -1}}
fsdp.program @p() attributes {fsdp.order = #fsdp.step_order<line = [], issue = [], place = [], known = [], after = [], causes = [], makespan = 1, peak = -1, arena = 1>} {
  fsdp.return
}

// -----

// budget_c1
// expected-error @below {{expected memory of at least 1 byte in a budget, got 0}}
module attributes {fsdp.budget = #fsdp.budget<memory = 0, reserved = 0>} {
}

// -----

// expected-error @below {{expected at least 0 reserved bytes in a budget, got -1}}
module attributes {fsdp.budget = #fsdp.budget<memory = 1, reserved = -1>} {
}

// -----

// reduction_c1
// expected-error @below {{expected at least 0 ranks per node in a reduction, got -1}}
module attributes {fsdp.reduction = #fsdp.reduction<by = nccl, ranks_per_node = -1>} {
}

// -----

// expected-error @below {{expected fsdp.reduction with a #fsdp.reduction, got "exact"}}
module attributes {fsdp.reduction = "exact"} {
}

// -----

// discardable_c6
// expected-error @below {{expected fsdp.budget with a #fsdp.budget, got 4096 : i64}}
module attributes {fsdp.budget = 4096} {
}

// -----

// expected-error @below {{expected fsdp.order with a #fsdp.step_order, got [0]}}
fsdp.program @p() attributes {fsdp.order = [0]} {
  fsdp.return
}

// -----

// expected-error @below {{expected fsdp.name with a string, got 1 : i64}}
module attributes {fsdp.name = 1} {
}

// -----

// discardable_c7
// expected-error @below {{expected fsdp.traced with a list of floats as constants, got [1.000000e+00, 1]}}
module attributes {fsdp.traced = {step = "", optimizer = "", constants = [1.0, 1]}} {
}

// -----

// discardable_c9
// expected-error @below {{expected fsdp.notes with a list of texts, got ["a", ""]}}
module attributes {fsdp.notes = ["a", ""]} {
  fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
}

// -----

// discardable_c8
// expected-error @below {{expected fsdp.modules with a list, got "a"}}
module attributes {fsdp.modules = "a"} {
  fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
}

// -----

// expected-error @below {{expected fsdp.modules at 1 with a dictionary, got 1}}
module attributes {fsdp.modules = [{class = "M", fqn = ""}, 1]} {
  fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
}

// -----

// expected-error @below {{expected fsdp.modules at 0 with a string as class, got none}}
module attributes {fsdp.modules = [{fqn = ""}]} {
  fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
}

// -----

// expected-error @below {{expected fsdp.modules at 0 with true or false as checkpoint, got "yes"}}
module attributes {fsdp.modules = [{checkpoint = "yes", class = "M", fqn = ""}]} {
  fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
}

// -----

func.func private @f(%x: tensor<4xf32>, %o: tensor<f32>) -> tensor<f32>
fsdp.program @step(%x: tensor<4xf32>) -> (tensor<f32> {fsdp.loss}) {
  // expected-error @below {{expected fsdp.checkpoint with a #fsdp.checkpoint, got "h.0"}}
  %l = fsdp.launch @f(%x) {fsdp.checkpoint = "h.0"} : (tensor<4xf32>) -> tensor<f32>
  fsdp.return %l : tensor<f32>
}

// -----

// expected-error @below {{expected fsdp.modules at 0 with a JSON object as text as config, got "x"}}
module attributes {fsdp.modules = [{class = "M", config = "x", fqn = ""}]} {
  fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
}

// -----

// program_c10
// expected-error @below {{expected fsdp.scalar on argument 0 with a string that is not empty as name, got true}}
fsdp.program @p(%lr: tensor<f32> {fsdp.scalar = {name = true}}) -> tensor<f32> {
  fsdp.return %lr : tensor<f32>
}

// -----

// expected-error @below {{expected fsdp.input on argument 0 with two numbers of i64 as draw, got array<i64: 1>}}
fsdp.program @p(%x: tensor<4xi64> {fsdp.input = {name = "x", draw = array<i64: 1>}}) -> tensor<4xi64> {
  fsdp.return %x : tensor<4xi64>
}

// -----

// expected-error @below {{expected fsdp.output on result 0 with a string that is not empty as name, got none}}
fsdp.program eval @p(%x: tensor<4xf32> {fsdp.input = {name = "x"}}) -> (tensor<4xf32> {fsdp.output = {}}) {
  fsdp.return %x : tensor<4xf32>
}
