//===- EventTiming.h - How long what runs takes -----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is under way, as in Timeline.cpp: transfers that have come to work share
// their link evenly, and compute and transfers slow each other down.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_EVENTTIMING_H
#define FSDP_LIB_SCHEDULE_EVENTTIMING_H

#include "EventState.h"

namespace mlir::fsdp::sched::events {

/// Lets all that runs in @x run until any of it is over, if it is not. Returns
/// what is: kCompute, the first stream whose transfer is, or kNothing where
/// nothing runs.
int runOn(const EventStep &step, Label &x);

/// When what runs in @x is over if nothing else begins and nothing slows down
/// what is beside it: no earlier than that.
void findEnds(const EventStep &step, Label &x);

/// A number that states with the same left of everything have in common.
uint64_t hashLeft(const Label &x);

} // namespace mlir::fsdp::sched::events

#endif // FSDP_LIB_SCHEDULE_EVENTTIMING_H
