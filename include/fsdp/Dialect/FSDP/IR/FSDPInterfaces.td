//===- FSDPInterfaces.td - Op interfaces of the dialect ----*- tablegen -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DIALECT_FSDP_IR_FSDPINTERFACES_TD
#define FSDP_DIALECT_FSDP_IR_FSDPINTERFACES_TD

include "mlir/IR/OpBase.td"

def FSDP_TransferOpInterface : OpInterface<"TransferOpInterface"> {
  let cppNamespace = "::mlir::fsdp";
  let description = [{
    What a queue can run beside compute: one value in, one out. fsdp.start holds
    such ops. Collectives are transfers among ranks, copies are transfers between
    a rank's device and its host.
  }];
  let methods = [
    InterfaceMethod<"What it reads.", "::mlir::Value", "getSource", (ins), "",
                    "return $_op.getInput();">,
    InterfaceMethod<"What it brings.", "::mlir::OpResult", "getBrought",
                    (ins), "", "return $_op->getResult(0);">,
    StaticInterfaceMethod<"Its row of include/fsdp-rt/transfers.def.",
                          "::mlir::fsdp::TransferKind", "getKind">,
    InterfaceMethod<"Whether it may run on the queue.", "bool", "runsOn",
                    (ins "::mlir::fsdp::TransferQueue":$queue), "", [{
        return ::mlir::fsdp::runsOn(ConcreteOp::getKind(),
                                    ::mlir::fsdp::Queue(queue));
      }]>
  ];
}

def FSDP_CollectiveOpInterface
    : OpInterface<"CollectiveOpInterface", [FSDP_TransferOpInterface]> {
  let cppNamespace = "::mlir::fsdp";
  let description = [{
    An L2 collective: one tensor in, one out, among the ranks that differ only
    in the named axes of a mesh. docs/architecture.md says how to add one.
  }];
  let methods = [
    InterfaceMethod<"The mesh.", "::mlir::FlatSymbolRefAttr", "getMeshAttr">,
    InterfaceMethod<"The axes, a subset of the mesh's, in its order.",
                    "::mlir::ArrayAttr", "getAxesAttr">,
    InterfaceMethod<"Replaces the axes.", "void", "setAxesAttr",
                    (ins "::mlir::ArrayAttr":$axes)>,
    InterfaceMethod<"What this rank contributes.",
                    "::mlir::TypedValue<::mlir::RankedTensorType>", "getInput">,
    InterfaceMethod<"What this rank receives.",
                    "::mlir::TypedValue<::mlir::RankedTensorType>", "getResult">,
    InterfaceMethod<[{
        What a sum over the group is divided by; 1 where nothing is added up.
      }], "int64_t", "getDivisor", (ins), "", "return 1;">,
    InterfaceMethod<[{
        Elements of one part in a group of `ranks`: the count of the runtime's
        descriptor.
      }], "int64_t", "getCount", (ins "int64_t":$ranks), "", [{
        int64_t elements = $_op.getInput().getType().getNumElements();
        bool isWhole = ::mlir::fsdp::getShape(ConcreteOp::getKind()).source ==
                       ::mlir::fsdp::OperandSize::Whole;
        return isWhole ? elements / ranks : elements;
      }]>,
    InterfaceMethod<[{
        Bytes that one rank must receive in a group of `ranks`: the formula of
        docs/traffic.md, which the runtime's counters are compared with.
      }], "int64_t", "getTrafficBytes", (ins "int64_t":$ranks), "", [{
        unsigned bits = $_op.getInput().getType().getElementTypeBitWidth();
        return ::mlir::fsdp::getReceived(ConcreteOp::getKind(), ranks,
                                         $_op.getCount(ranks)) *
               ::llvm::divideCeil(bits, 8);
      }]>
  ];
}

#endif // FSDP_DIALECT_FSDP_IR_FSDPINTERFACES_TD
