//===- FSDPRandomOps.td - Random numbers of a step ---------*- tablegen -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DIALECT_FSDP_IR_FSDPRANDOMOPS_TD
#define FSDP_DIALECT_FSDP_IR_FSDPRANDOMOPS_TD

// Included by FSDPOps.td.

def FSDP_RandomKind : I32EnumAttr<"RandomKind",
    "what a word of 32 random bits becomes", [
    I32EnumAttrCase<"bits", 0>,
    I32EnumAttrCase<"uniform", 1>,
    I32EnumAttrCase<"normal", 2>
  ]> {
  let cppNamespace = "::mlir::fsdp";
  let genSpecializedAttr = 0;
}
def FSDP_RandomKindAttr
    : EnumAttr<FSDP_Dialect, FSDP_RandomKind, "random_kind">;

def FSDP_RandomOp : FSDP_Op<"random", [Pure]> {
  let summary = "random numbers of one place of the step";
  let description = [{
    A tensor that a run of a program draws. Each element is a function of the
    run's seed, the step's number, the micro-batch, the rank, `site` and its own
    row-major number, by Philox4x32-10 (docs/random.md); where it is `shared`,
    not of the rank. Within a run of a program it is a constant: two ops with
    the same attributes and type have the same elements, and an op may be
    repeated where its result is read again.

    | kind | element | type |
    |---|---|---|
    | bits | the word | i32 |
    | uniform | its upper 24 bits, times 2^-24: in [0, 1) | f32 |
    | normal | of mean 0 and variance 1, by Box and Muller's method of two words | f32 |

    fsdp-expand-random makes arithmetic of it.

    Constraints:
    - random_c1: the site is from 0 to 2^16 - 1.
    - random_c2: elements are of the kind's type.
    - random_c3: there are at most 2^42 elements.

    Example:
    ```mlir
    %u = fsdp.random uniform site 3 : tensor<8x1024xf32>
    %n = fsdp.random normal site 4 shared : tensor<64xf32>
    ```
  }];
  let arguments = (ins FSDP_RandomKindAttr:$kind, I64Attr:$site,
                       UnitAttr:$shared);
  let results = (outs FSDP_LocalTensor:$result);
  let assemblyFormat = [{
    $kind `site` $site (`shared` $shared^)? attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
}

// i32, or a vector of it.
def FSDP_Word
    : AnyTypeOf<[I32, VectorOfAnyRankOf<[I32]>]>;

def FSDP_RandomWordOp : FSDP_Op<"random_word", [
    Pure, SameOperandsAndResultType, Elementwise, Scalarizable, Vectorizable,
    Tensorizable]> {
  let summary = "a word of a block of Philox4x32-10";
  let description = [{
    The word with the number `word` (0 to 3) of the block that ten rounds of
    Philox4x32 make of the counter and the key (Salmon et al., "Parallel random
    numbers: as easy as 1, 2, 3", SC'11). fsdp-expand-random-words makes
    arithmetic of it; words of one block have their rounds in common.

    Operands and result are i32, or vectors of it.

    Example:
    ```mlir
    %w = fsdp.random_word %i of %c0, %c1, %c2, %c3 by %k0, %k1 : i32
    ```
  }];
  let arguments = (ins FSDP_Word:$word, FSDP_Word:$counter0, FSDP_Word:$counter1,
                       FSDP_Word:$counter2, FSDP_Word:$counter3,
                       FSDP_Word:$key0, FSDP_Word:$key1);
  let results = (outs FSDP_Word:$result);
  let assemblyFormat = [{
    $word `of` $counter0 `,` $counter1 `,` $counter2 `,` $counter3
    `by` $key0 `,` $key1 attr-dict `:` type($result)
  }];
}

#endif // FSDP_DIALECT_FSDP_IR_FSDPRANDOMOPS_TD
