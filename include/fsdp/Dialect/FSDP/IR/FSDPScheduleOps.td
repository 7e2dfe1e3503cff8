//===- FSDPScheduleOps.td - Transfers in time --------------*- tablegen -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DIALECT_FSDP_IR_FSDPSCHEDULEOPS_TD
#define FSDP_DIALECT_FSDP_IR_FSDPSCHEDULEOPS_TD

// Included by FSDPOps.td.

//===----------------------------------------------------------------------===//
// L3: schedule
//===----------------------------------------------------------------------===//

// What transfers read and bring.
def FSDP_Transferred : AnyTypeOf<[FSDP_LocalTensor, FSDP_HostType]>;

// What stands before what is the schedule: no upstream pass may change it.
def FSDP_IssueOrder : Resource<"::mlir::fsdp::IssueOrder">;

def FSDP_StartOp : FSDP_Op<"start", [
    IsolatedFromAbove, SingleBlock, AttrSizedOperandSegments,
    MemoryEffects<[MemRead<FSDP_IssueOrder>, MemWrite<FSDP_IssueOrder>]>]> {
  let summary = "starts transfers that run beside the computation";
  let description = [{
    Hands the transfers of its body (collectives, or copies between device and
    host) to a queue and goes on. They begin when
    everything that stands before it on the compute queue is done, the transfers
    that the queue was given before are complete, and so are the transfers in
    `after`; the body's transfers are then issued together. Compute may read
    what they bring, or write what they read, behind the fsdp.wait of the token.
    Tokens in `after` say what the transfer reads of others, or only that their
    memory is free again.

    ```
    compute     | k0 | start | k1 | k2 | wait | k3 |
    all_gather            |---- a, b ----|
    ```

    Constraints:
    - start_c1: the body holds transfers, at least one, and nothing else; all
      are of one kind and, if they are collectives, of one group.
    - start_c2: transfers stand on a queue that include/fsdp-rt/transfers.def
      names for their kind.
    - start_c3: the body's arguments have the inputs' types, and behind them the
      types of what the tokens in `after` bring: a transfer may read what
      another one brought without compute's help.
    - start_c4: the body yields the result of each transfer in their order;
      the token lists their types.
    - start_c5: `event` is not negative.
    - start_c6: tokens in `after` are results of fsdp.start.
    - start_c7: `event` is below 2^31: the runtime counts them in 32 bits.
    - start_c8: `fsdp.held_by`, where it stands, is "memory" or "limit".

    Example:
    ```mlir
    %t = fsdp.start(%a) on all_gather event 4 after(%s : !fsdp.token<tensor<8xf32>>) {
    ^bb0(%x: tensor<384xf32>, %other: tensor<8xf32>):
      %w = fsdp.all_gather %x on @mesh["shard"] for forward : tensor<384xf32> -> tensor<1536xf32>
      fsdp.yield %w : tensor<1536xf32>
    } : (tensor<384xf32>) -> !fsdp.token<tensor<1536xf32>>
    ```
  }];
  let arguments = (ins Variadic<FSDP_Transferred>:$inputs,
                       FSDP_TransferQueueAttr:$queue,
                       // start_c5, start_c7
                       ConfinedAttr<I64Attr, [IntNonNegative,
                                              IntMaxValue<2147483647>]>:$event,
                       Variadic<FSDP_TokenType>:$after);
  let results = (outs FSDP_TokenType:$token);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `(` $inputs `)` `on` `` $queue `event` $event
    (`after` `(` $after^ `:` type($after) `)`)? $body attr-dict
    `:` functional-type($inputs, $token)
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// The transfers, in their order.
    auto getTransfers() {
      return getBody().front().without_terminator();
    }
    /// What a value of the body is to those outside: for an argument an input,
    /// or the value that another start's body yields.
    ::mlir::Value getSource(::mlir::BlockArgument arg);
    /// What the body yields, in the order of the token's types.
    ::mlir::ValueRange getYielded();
    /// The wait of its token; null where there is none.
    WaitOp getWait();
  }];
}

def FSDP_YieldOp : FSDP_Op<"yield", [
    Pure, Terminator, ParentOneOf<["StartOp", "AttentionOp", // yield_c1
                                   "AttentionBackwardOp"]>]> {
  let summary = "ends the body of fsdp.start or of an attention";
  let description = [{
    Constraints:
    - yield_c1: it stands in fsdp.start, fsdp.attention or
      fsdp.attention_backward.

    Example:
    ```mlir
    fsdp.yield %w : tensor<1536xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

def FSDP_WaitOp : FSDP_Op<"wait", [
    MemoryEffects<[MemRead<FSDP_IssueOrder>, MemWrite<FSDP_IssueOrder>]>]> {
  let summary = "compute waits for a transfer";
  let description = [{
    Everything behind it on the compute queue knows that the transfer is
    complete. (That each start is waited for once is a rule of the whole step:
    fsdp-verify-schedule.)

    Constraints:
    - wait_c1: the results are what the token brings.
    - wait_c2: the token is a start's.

    Example:
    ```mlir
    %w = fsdp.wait %t : !fsdp.token<tensor<1536xf32>> -> tensor<1536xf32>
    ```
  }];
  let arguments = (ins FSDP_TokenType:$token);
  let results = (outs Variadic<FSDP_Transferred>:$results);
  let assemblyFormat = "$token attr-dict `:` type($token) `->` type($results)";
  let hasVerifier = 1;
}

#endif // FSDP_DIALECT_FSDP_IR_FSDPSCHEDULEOPS_TD
