//===- Recorder.cpp - Profile and trace of a step's calls -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "program/Recorder.h"

#include <algorithm>
#include <map>
#include <utility>

namespace fsdp::rt {

const char *callKindName(CallKind kind) {
  switch (kind) {
#define FSDP_RT_CATEGORY(Name, spelling, time)                                 \
  case CallKind::Name:                                                         \
    return spelling;
#include "fsdp-rt/calls.def"
  }
  return "unknown";
}

Recorder::Recorder(bool profile, int64_t traceEvents) {
  if (profile)
    sites_.resize(2 * maxSites);
  if (traceEvents > 0)
    events_.reserve(traceEvents);
  capacity_ = traceEvents;
  overflow_.name = "(other call sites)";
  overflow_.order = maxSites;
}

Recorder::Site &Recorder::siteOf(const CallRecord &call) {
  uint64_t hash = reinterpret_cast<uintptr_t>(call.site) * 0x9E3779B97F4A7C15u;
  for (size_t at = hash >> 32;; ++at) {
    Site &site = sites_[at % sites_.size()];
    if (site.site == call.site && site.kind == call.kind)
      return site;
    if (site.site)
      continue;
    if (used_ == maxSites)
      return overflow_;
    site.site = call.site;
    site.name = call.name;
    site.kind = call.kind;
    site.order = used_++;
    return site;
  }
}

void Recorder::record(const CallRecord &call) {
  if (!sites_.empty()) {
    Site &site = siteOf(call);
    int64_t busy = call.end - call.begin - call.waiting;
    site.best = site.calls == 0 ? busy : std::min(site.best, busy);
    ++site.calls;
    site.nanoseconds += call.end - call.begin;
    site.waiting += call.waiting;
    site.bytes += call.bytes;
    site.flops += call.flops;
  }
  if (static_cast<int64_t>(events_.size()) < capacity_)
    events_.push_back(call);
  else if (capacity_ > 0)
    ++dropped_;
}

std::vector<SiteTotals> Recorder::sites() const {
  std::vector<const Site *> used;
  for (const Site &site : sites_)
    if (site.site)
      used.push_back(&site);
  std::sort(used.begin(), used.end(),
            [](const Site *a, const Site *b) { return a->order < b->order; });
  if (overflow_.calls > 0)
    used.push_back(&overflow_);
  std::vector<SiteTotals> totals;
  for (const Site *site : used)
    totals.push_back(*site);
  return totals;
}

std::vector<ProfileRow> Recorder::profile() const {
  std::vector<ProfileRow> rows;
  std::map<std::pair<std::string, CallKind>, size_t> rowOf;
  for (const SiteTotals &site : sites()) {
    auto [found, isNew] =
        rowOf.try_emplace({site.name, site.kind}, rows.size());
    if (isNew)
      rows.push_back({site.name, site.kind});
    ProfileRow &row = rows[found->second];
    row.calls += site.calls;
    row.nanoseconds += site.nanoseconds;
    row.best += site.best;
    row.waiting += site.waiting;
    row.bytes += site.bytes;
    row.flops += site.flops;
  }
  return rows;
}

} // namespace fsdp::rt
