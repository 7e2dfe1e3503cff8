//===- CudaProducts.cpp - Matrix products by cuBLASLt ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/blas/CudaProducts.h"

#include "devices/cuda/blas/ProductTrials.h"
#include "devices/cuda/driver/LibraryVersions.h"
#include "devices/cuda/driver/StreamTime.h"

#include <algorithm>
#include <cstdio>

namespace fsdp::rt {

namespace {

/// Algorithms that are measured.
constexpr int maxProposals = 8;
/// Calls that one with arrays of addresses replaces, at least: a call of
/// matrices at equal distances needs no addresses.
constexpr size_t leastCalls = 4;

} // namespace

CudaProducts::~CudaProducts() {
  if (!handle_)
    return;
  (void)context_.makeCurrent();
  (void)api_->destroy(handle_);
}

Status CudaProducts::open() {
  if (handle_)
    return Status::ok();
  Result<const CublasLtApi *> api = CublasLtApi::ofProcess();
  if (!api.isOk())
    return api.status();
  // An algorithm of rank 0's means something else to another version.
  if (Status s = agreeOnVersion(world_, (*api)->describe()))
    return s;
  api_ = *api;
  if (Status s = api_->check(api_->create(&handle_), "cublasLtCreate"))
    return s;
  if (world_.rank() == 0) {
    cache_.emplace(AlgorithmCache::directoryOfProcess(), context_.name(),
                   api_->version());
    cache_->read(notes_);
  }
  return Status::ok();
}

/// @isReduced: for the multiprocessors that transfers leave.
Result<std::unique_ptr<CudaProduct>>
CudaProducts::prepareCalls(const fsdp_rt_matmul_desc &desc,
                           const BatchCalls &calls, bool hasPointerArrays,
                           bool isReduced) {
  Result<std::unique_ptr<CudaProduct>> made = CudaProduct::create(
      *api_, handle_, desc, calls, arena_.base(), hasPointerArrays);
  if (made.isOk() && isReduced)
    if (Status s = (*made)->setMultiprocessors(freeMultiprocessors()))
      return s;
  return made;
}

/// The whole batch in one call, with pointer arrays; null where the library has
/// no algorithm for that.
Result<std::unique_ptr<CudaProduct>>
CudaProducts::preparePointerArrays(const fsdp_rt_matmul_desc &desc,
                                   const BatchCalls &calls, bool isReduced) {
  using Made = std::unique_ptr<CudaProduct>;
  Result<Made> made = prepareCalls(desc, expandBatch(calls),
                                   /*hasPointerArrays=*/true, isReduced);
  // Versions before 13 do not know the attribute, and not every epilogue goes
  // with it.
  if (!made.isOk())
    return Made();
  // Layers have the same products: each kind is asked for once.
  auto [known, isNew] = hasPointerArrays_.try_emplace((*made)->key_, false);
  if (isNew)
    known->second = (*made)->propose(context_, 1).isOk();
  if (!known->second)
    return Made();
  Result<cu::Pointer> place = pointers_.add((*made)->addresses({}));
  if (!place.isOk())
    return Made();
  (*made)->calls_ = {(*made)->callOfPointerArrays(*place)};
  return made;
}

Result<std::unique_ptr<CudaProduct>>
CudaProducts::prepare(const fsdp_rt_matmul_desc &desc, bool isBesideTransfers) {
  if (Status s = open())
    return s;
  bool isReduced = isBesideTransfers && reserved_ > 0;
  BatchCalls calls = cutBatch(desc);
  Result<std::unique_ptr<CudaProduct>> made = std::unique_ptr<CudaProduct>();
  if (calls.starts.size() >= leastCalls)
    made = preparePointerArrays(desc, calls, isReduced);
  if (made.isOk() && !*made)
    made = prepareCalls(desc, calls, /*hasPointerArrays=*/false, isReduced);
  besideTransfers_ += made.isOk() && isReduced;
  if (made.isOk() && wanted_ == Algorithms::Fastest)
    (*made)->key_ += ", fastest of " + std::to_string(maxProposals);
  return made;
}

std::optional<lt::Algorithm>
CudaProducts::measure(const CudaProduct &product,
                      const std::vector<lt::Algorithm> &proposed,
                      ProductTrials &trials) {
  Result<std::vector<std::optional<double>>> times =
      trials.measure(product, proposed);
  if (!times.isOk()) {
    notes_.push_back("product " + product.key_ +
                     ": no algorithm was measured, the first one is taken: " +
                     times.status().message());
    return std::nullopt;
  }
  std::optional<size_t> best;
  for (size_t i = 0; i < times->size(); ++i)
    if ((*times)[i] && (!best || *(*times)[i] * leastGain < *(*times)[*best]))
      best = i;
  // All fail here as they will in a run, which tells how.
  if (!best)
    return std::nullopt;
  ++measured_;
  chosenTime_ += *(*times)[*best];
  firstTime_ += times->front().value_or(*(*times)[*best]);
  return proposed[*best];
}

std::vector<std::string> CudaProducts::remarks() const {
  std::vector<std::string> lines;
  if (cut_ != 0)
    lines.push_back("products: " + std::to_string(cut_) +
                    " of extents that are no multiples of 16 bytes, each "
                    "computed in parts");
  if (besideTransfers_ != 0)
    lines.push_back("products: " + std::to_string(besideTransfers_) +
                    " beside transfers, for " +
                    std::to_string(freeMultiprocessors()) + " of " +
                    std::to_string(context_.multiprocessors()) +
                    " multiprocessors");
  if (measured_ != 0) {
    char times[64];
    std::snprintf(times, sizeof(times), "%.1f us, %.1f by those proposed first",
                  chosenTime_, firstTime_);
    lines.push_back("algorithms of products: the fastest of " +
                    std::to_string(maxProposals) + ", measured for " +
                    std::to_string(measured_) + " kinds: " + times);
  }
  return lines;
}

Result<lt::Algorithm> CudaProducts::chooseOne(const CudaProduct &product,
                                              ProductTrials &trials) {
  if (const AlgorithmCache::Choice *known = cache_->find(product.key_)) {
    lt::Algorithm algorithm = {};
    std::copy_n(known->data, 8, algorithm.data);
    if (product.check(algorithm).isOk())
      return algorithm;
  }
  bool isMeasured = wanted_ == Algorithms::Fastest;
  Result<std::vector<lt::Algorithm>> proposed =
      product.propose(context_, isMeasured ? maxProposals : 1);
  if (!proposed.isOk())
    return proposed.status();
  std::optional<lt::Algorithm> chosen = proposed->front();
  if (isMeasured && proposed->size() > 1)
    chosen = measure(product, *proposed, trials);
  // A later run may have the memory for it.
  if (!chosen)
    return proposed->front();
  AlgorithmCache::Choice choice = {};
  std::copy_n(chosen->data, 8, choice.data);
  cache_->keep(product.key_, choice);
  return *chosen;
}

Result<std::vector<lt::Algorithm>>
CudaProducts::chooseAll(const std::vector<const CudaProduct *> &products) {
  std::vector<lt::Algorithm> chosen;
  ProductTrials trials(context_, copies_);
  for (const CudaProduct *product : products) {
    Result<lt::Algorithm> one = chooseOne(*product, trials);
    if (!one.isOk())
      return one.status().withContext("product " + product->key_);
    chosen.push_back(*one);
  }
  cache_->write(notes_);
  return chosen;
}

Status CudaProducts::choose(const std::vector<CudaProduct *> &products) {
  std::map<std::string, size_t> places;
  std::vector<const CudaProduct *> fresh; // one of each kind
  for (const CudaProduct *product : products)
    if (algorithms_.count(product->key_) == 0 &&
        places.try_emplace(product->key_, fresh.size()).second)
      fresh.push_back(product);
  std::vector<lt::Algorithm> chosen(fresh.size());
  if (!fresh.empty()) {
    if (world_.rank() == 0) {
      Result<std::vector<lt::Algorithm>> all = chooseAll(fresh);
      if (!all.isOk())
        return all.status();
      chosen = std::move(*all);
    }
    if (Status s = rankZero_.broadcast(chosen))
      return s;
  }
  for (size_t i = 0; i < fresh.size(); ++i) {
    if (world_.rank() != 0)
      if (Status s = fresh[i]->check(chosen[i]))
        return s.withContext("product " + fresh[i]->key_ +
                             ": expected the algorithm of rank 0 to run on " +
                             context_.describe());
    algorithms_[fresh[i]->key_] = chosen[i];
  }
  for (CudaProduct *product : products)
    product->algorithm_ = algorithms_.at(product->key_);
  return Status::ok();
}

} // namespace fsdp::rt
