//===- ToyOps.td - A foreign compute dialect ---------------*- tablegen -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TOY_OPS_TD
#define TOY_OPS_TD

include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def ToyDialect : Dialect {
  let name = "toy";
  let cppNamespace = "::toy";
  let summary = "Another compiler's compute ops, of which FSDP knows nothing";
}

class ToyOp<string mnemonic, list<Trait> traits = []>
    : Op<ToyDialect, mnemonic, !listconcat([Pure], traits)> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def MatmulOp : ToyOp<"matmul"> {
  let summary = "A product of matrices";
  let arguments = (ins AnyRankedTensor:$a, AnyRankedTensor:$b);
  let results = (outs AnyRankedTensor:$result);
}

def TransposeOp : ToyOp<"transpose"> {
  let summary = "A transposed matrix";
  let arguments = (ins AnyRankedTensor:$input);
  let results = (outs AnyRankedTensor:$result);
}

def ReluOp : ToyOp<"relu"> {
  let summary = "max(x, 0)";
  let arguments = (ins AnyRankedTensor:$input);
  let results = (outs AnyRankedTensor:$result);
}

def ReluGradOp : ToyOp<"relu_grad"> {
  let summary = "The gradient where the input was positive, else 0";
  let arguments = (ins AnyRankedTensor:$input, AnyRankedTensor:$grad);
  let results = (outs AnyRankedTensor:$result);
}

def SquaredErrorOp : ToyOp<"squared_error"> {
  let summary = "Mean of squared differences, and its gradient";
  let arguments = (ins AnyRankedTensor:$output, AnyRankedTensor:$target);
  let results = (outs AnyRankedTensor:$loss, AnyRankedTensor:$grad);
}

#endif // TOY_OPS_TD
