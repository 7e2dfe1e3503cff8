//===- FSDPProgramOps.td - State and programs --------------*- tablegen -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DIALECT_FSDP_IR_FSDPPROGRAMOPS_TD
#define FSDP_DIALECT_FSDP_IR_FSDPPROGRAMOPS_TD

// Included by FSDPOps.td.

//===----------------------------------------------------------------------===//
// What lasts between programs, and what runs
//===----------------------------------------------------------------------===//

def FSDP_StateType
    : AnyTypeOf<[FSDP_ShardedType, FSDP_UnshardedType, FSDP_LocalTensor,
                 FSDP_HostType]>;

def FSDP_StateOp : FSDP_Op<"state", [
    Symbol, HasParent<"::mlir::ModuleOp">, // state_c6
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "memory of a rank that outlives the programs that use it";
  let description = [{
    Programs read and write states; all programs of a module find a state at the
    same place. `kind` says what it is for:

    | kind | holds | name in checkpoints |
    |---|---|---|
    | parameter | this rank's shard of the flat parameter | its members' |
    | optimizer | what the optimizer keeps: one element per element of the flat parameter, or one value for all of them | that of the optimizer's argument |
    | accumulator | gradients of earlier micro-batches, summed up | none: between two steps nobody reads it |
    | gathered | the whole flat parameter, gathered by a step's first micro-batch for the others | none: between two steps nobody reads it |
    | buffer | a buffer of the model, each rank's own | its fully qualified name |
    | residual | what a reduction hook keeps for a flat parameter, each rank's own | its own, unique among residuals |

    `init` is the value before the first program runs, where no file gives
    another one: a number for optimizer states, an initialiser of
    docs/input-contract.md for buffers and residuals; members of the flat
    parameter carry their own. `tied` lists further names of a buffer, `unsigned` says that its
    i8 elements hold 0 to 255. The type says where it lies: `!fsdp.host` in the
    host's memory, all others on the device. `offset` is its place in the arena
    of that memory, in bytes from its start, which fsdp-layout-state decides for
    all states at once.

    ```
    device  | h0.param | h1.param | ... | what one program needs while it runs |
             0          4096             state bytes
    host    | h0.exp_avg | ...   | what one program offloads while it runs |
             0                    host state bytes
    ```

    Constraints:
    - state_c1: `flat_param` is a flat parameter of the module; a sharded or
      gathered type names that one.
    - state_c2: a parameter, an accumulator and a gathered state have a
      `flat_param` and no name of their own; an optimizer state has a name; a
      buffer has a name and no `flat_param`, a residual has both.
    - state_c3: `init` is a float on an optimizer state, a dictionary on a
      buffer or a residual, and on nothing else.
    - state_c4: only a buffer has `tied` names and `unsigned`, and only one with
      i8 elements is unsigned.
    - state_c5: `offset` is not negative.
    - state_c6: the op stands at the top of a module.
    - state_c7: only an optimizer state of a flat parameter is on the host.

    Example:
    ```mlir
    fsdp.state @h0.param parameter of @h0 : !fsdp.sharded<@h0, f32>
    fsdp.state @h0.exp_avg optimizer "exp_avg" of @h0 : !fsdp.sharded<@h0, f32> init 0.0 : f64
    fsdp.state @h0.gathered gathered of @h0 : !fsdp.unsharded<@h0, bf16>
    fsdp.state @h1.exp_avg optimizer "exp_avg" of @h1 : !fsdp.host<tensor<8xf32>> init 0.0 : f64
    fsdp.state @step optimizer "step" : tensor<f32> at 4096 init 0.0 : f64
    fsdp.state @count buffer "bn.num_batches_tracked" : tensor<i64>
    ```
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    FSDP_StateKindAttr:$kind,
    OptionalAttr<StrAttr>:$checkpoint_name,
    OptionalAttr<FlatSymbolRefAttr>:$flat_param,
    OptionalAttr<AnyAttr>:$init,
    OptionalAttr<TypedArrayAttrBase<StrAttr, "further names">>:$tied,
    UnitAttr:$is_unsigned,
    TypeAttrOf<FSDP_StateType>:$type,
    OptionalAttr<ConfinedAttr<I64Attr, [IntNonNegative]>>:$offset // state_c5
  );
  let assemblyFormat = [{
    $sym_name `` $kind ($checkpoint_name^)? (`of` $flat_param^)? `:` $type
    (`at` $offset^)? (`init` $init^)? (`tied` $tied^)?
    (`unsigned` $is_unsigned^)? attr-dict
  }];
  let hasVerifier = 1;
}

def FSDP_ProgramOp : FSDP_Op<"program", [
    IsolatedFromAbove, SingleBlock, HasParent<"::mlir::ModuleOp">, // program_c6
    DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    FunctionOpInterface]> {
  let summary = "what every rank runs when it is asked to";
  let description = [{
    A function over the states of its module. Arguments are values when it
    begins: of a state (`fsdp.state = @h0.param`), of a tensor of the batch
    (`fsdp.input`) or of a number that the caller gives (`fsdp.scalar`). Results
    are values when it ends: the new value of a state, or an output (`fsdp.loss`,
    `fsdp.grad_norm`, `fsdp.output = {name = "logits"}`). A state that no result
    names keeps its value.

    | kind | what |
    |---|---|
    | train | forward, backward, reduction, update |
    | eval | forward; no state changes |
    | accumulate | forward and backward of a micro-batch; its gradients are added to the accumulators |
    | accumulate_first | the same of the first micro-batch, which gathers for the others |
    | train_accumulated | the same of the last micro-batch; then reduction and update by the mean of all |

    `arena` says what its values take once they have places, `flops` what its
    products and attention compute (fsdp-count-flops), `schedule` what its order
    costs, `product_type` in which type products of wider floats are computed
    (fsdp-narrow-products); without it as they were traced.

    Constraints:
    - program_c1: it has one block, which fsdp.return ends.
    - program_c2: `fsdp.state` names a state of the module, of the argument's or
      the result's type.
    - program_c3: no two arguments are one state, nor are two results.
    - program_c4: a state that is written is read.
    - program_c5: an argument has one of fsdp.state, fsdp.input and fsdp.scalar,
      a result one of fsdp.state, fsdp.loss, fsdp.grad_norm and fsdp.output, or
      none.
    - program_c6: the op stands at the top of a module.
    - program_c7: an eval program writes no state.
    - program_c8: an accumulate program writes neither parameters nor states of
      the optimizer nor residuals; gathered states are written by
      accumulate_first alone.
    - program_c9: only states are arguments or results in the host's memory.
    - program_c10: fsdp.input, fsdp.scalar and fsdp.output are dictionaries with
      a name, and entries of the types that the input contract says;
      fsdp.offset is a number.

    Example:
    ```mlir
    fsdp.program @train(%w: tensor<8xf32> {fsdp.state = @h0.param},
                        %x: tensor<4xf32> {fsdp.input = {name = "x"}})
        -> (tensor<f32> {fsdp.loss}, tensor<8xf32> {fsdp.state = @h0.param}) {
      %loss, %new = fsdp.launch @k0(%w, %x) : (tensor<8xf32>, tensor<4xf32>) -> (tensor<f32>, tensor<8xf32>)
      fsdp.return %loss, %new : tensor<f32>, tensor<8xf32>
    }
    ```
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    TypeAttrOf<FunctionType>:$function_type,
    DefaultValuedAttr<FSDP_ProgramKindAttr,
                      "::mlir::fsdp::ProgramKind::train">:$kind,
    OptionalAttr<FSDP_ArenaAttr>:$arena,
    OptionalAttr<FSDP_FlopsAttr>:$flops,
    OptionalAttr<FSDP_ScheduleAttr>:$schedule,
    OptionalAttr<TypeAttrOf<AnyFloat>>:$product_type,
    OptionalAttr<DictArrayAttr>:$arg_attrs,
    OptionalAttr<DictArrayAttr>:$res_attrs
  );
  let regions = (region SizedRegion<1>:$body); // program_c1
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The state that an argument is, or that a result becomes; null for
    /// others.
    ::mlir::FlatSymbolRefAttr getReadState(unsigned argument);
    ::mlir::FlatSymbolRefAttr getWrittenState(unsigned result);
    /// The number of the argument that is that state; nullopt where none is.
    std::optional<unsigned> lookupRead(::mlir::FlatSymbolRefAttr state);

    ReturnOp getReturn();

    // FunctionOpInterface
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() {
      return getFunctionType().getInputs();
    }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() {
      return getFunctionType().getResults();
    }
  }];
}

def FSDP_ReturnOp : FSDP_Op<"return", [
    Pure, Terminator, ReturnLike, HasParent<"ProgramOp">]> { // return_c1
  let summary = "ends a program";
  let description = [{
    Constraints:
    - return_c1: it stands in fsdp.program.
    - return_c2: the values have the types of the program's results.

    Example:
    ```mlir
    fsdp.return %loss : tensor<f32>
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
  let hasVerifier = 1;
}

#endif // FSDP_DIALECT_FSDP_IR_FSDPPROGRAMOPS_TD
