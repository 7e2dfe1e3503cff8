//===- FSDPTypes.td - Types of the fsdp dialect ------------*- tablegen -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DIALECT_FSDP_IR_FSDPTYPES_TD
#define FSDP_DIALECT_FSDP_IR_FSDPTYPES_TD

include "fsdp/Dialect/FSDP/IR/FSDPBase.td"

class FSDP_Type<string name, string typeMnemonic, list<Trait> traits = []>
    : TypeDef<FSDP_Dialect, name, traits> {
  let mnemonic = typeMnemonic;
}

def FSDP_ShardedType : FSDP_Type<"Sharded", "sharded"> {
  let summary = "this rank's piece of a flat parameter, or of something like it";
  let description = [{
    A gradient or an optimizer state that is laid out like the flat parameter
    has the same type, possibly with another element type. Elements:
    `numel / ranks of the flat parameter's shard axes`.

    Constraints:
    - sharded_c1: the element type is a float.

    ```mlir
    !fsdp.sharded<@h0, f32>
    ```
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$flatParam,
                        "::mlir::Type":$elementType);
  let assemblyFormat = "`<` $flatParam `,` $elementType `>`";
  let genVerifyDecl = 1;
}

def FSDP_UnshardedType : FSDP_Type<"Unsharded", "unsharded"> {
  let summary = "a whole flat parameter, gathered on this rank";
  let description = [{
    Constraints:
    - unsharded_c1: the element type is a float.

    ```mlir
    !fsdp.unsharded<@h0, bf16>
    ```
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$flatParam,
                        "::mlir::Type":$elementType);
  let assemblyFormat = "`<` $flatParam `,` $elementType `>`";
  let genVerifyDecl = 1;
}

def FSDP_SecondaryType : FSDP_Type<"Secondary", "secondary"> {
  let summary = "this rank's secondary shard of a flat parameter";
  let description = [{
    The larger piece that backward gathers the whole of. Elements: `numel / ranks
    of the flat parameter's secondary axes`.

    Constraints:
    - secondary_c1: the element type is a float.

    ```mlir
    !fsdp.secondary<@h0, bf16>
    ```
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$flatParam,
                        "::mlir::Type":$elementType);
  let assemblyFormat = "`<` $flatParam `,` $elementType `>`";
  let genVerifyDecl = 1;
}

def FSDP_HostType : FSDP_Type<"Host", "host"> {
  let summary = "a tensor in the host's memory";
  let description = [{
    fsdp.offload makes one, or a state holds it; only fsdp.reload reads it, so
    that no kernel, view or collective can take it for memory of the device.

    Constraints:
    - host_c1: it is a local tensor: of static shape, with float or signless
      integer elements.

    ```mlir
    !fsdp.host<tensor<64x64xf32>>
    ```
  }];
  let parameters = (ins "::mlir::RankedTensorType":$tensor);
  let assemblyFormat = "`<` $tensor `>`";
  let genVerifyDecl = 1;
}

def FSDP_TokenType : FSDP_Type<"Token", "token"> {
  let summary = "a transfer that was started";
  let description = [{
    Lists what the transfer brings; fsdp.wait gives it.

    Constraints:
    - token_c1: the types are tensors, of the device or the host, at least one.

    ```mlir
    !fsdp.token<tensor<1536xf32>>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::Type">:$types);
  let assemblyFormat = "`<` $types `>`";
  let genVerifyDecl = 1;
}

#endif // FSDP_DIALECT_FSDP_IR_FSDPTYPES_TD
