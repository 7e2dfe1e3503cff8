//===- CudaAttentions.h - Attention by cuDNN --------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Statistics of a forward pass that cuDNN computes mean nothing to our kernels,
// and the other way round; they may be kept, copied to the host and back, or
// computed again. So all attentions of one kind (kindOf()) in a program are
// computed by the same.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_DNN_CUDAATTENTIONS_H
#define FSDP_RT_DEVICES_CUDA_DNN_CUDAATTENTIONS_H

#include "core/Status.h"
#include "devices/cuda/dnn/AttentionTimes.h"
#include "devices/cuda/dnn/CudnnAttention.h"
#include "devices/cuda/driver/AlgorithmCache.h"
#include "devices/cuda/driver/CudaContext.h"
#include "devices/cuda/driver/CudaMemory.h"
#include "devices/cuda/driver/CudaSettings.h"
#include "devices/cuda/driver/CudaWork.h"
#include "devices/cuda/driver/RankZero.h"
#include "hal/Layout.h"
#include "hal/Recording.h"
#include "hal/World.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fsdp::rt {

/// A call of the library, ready to be enqueued.
class CudaAttention final : public CudaWork {
public:
  CudaAttention(dnn::Handle handle, std::shared_ptr<const CudnnPlan> plan,
                CudnnDescriptor bound, std::shared_ptr<DeviceArena> workspace)
      : handle_(handle), plan_(std::move(plan)), bound_(std::move(bound)),
        workspace_(std::move(workspace)) {}

  Status enqueue(cu::Stream stream) const override {
    return plan_->execute(handle_, bound_, stream);
  }

private:
  dnn::Handle handle_;
  std::shared_ptr<const CudnnPlan> plan_;
  CudnnDescriptor bound_;
  std::shared_ptr<DeviceArena> workspace_;
};

/// By call of a program.
using ChosenAttentions = std::map<size_t, std::unique_ptr<CudaAttention>>;

/// The attentions of a rank's programs, and who computes them.
class CudaAttentions {
public:
  /// All must outlive it.
  CudaAttentions(World &world, const CudaContext &context, CudaCopies &copies,
                 const DeviceArena &arena, const hal::Layout &layout,
                 AttentionBy by)
      : world_(world), context_(context), copies_(copies), arena_(arena),
        layout_(layout), by_(by) {}
  ~CudaAttentions();
  CudaAttentions(const CudaAttentions &) = delete;
  CudaAttentions &operator=(const CudaAttentions &) = delete;

  /// Those of the program's attentions that cuDNN computes, the same on all
  /// ranks; `own` is how our kernels compute one. Collective over all ranks,
  /// which have the same program.
  Result<ChosenAttentions> choose(const hal::Recording &recording,
                                  const OwnAttention &own);

  /// For the user to read: what was decided, and what may surprise.
  std::vector<std::string> remarks() const;
  /// "24 of 24 by cuDNN 9.19.0", or "own"; empty: no program has an attention.
  std::string describe() const;
  const std::vector<std::string> &notes() const { return notes_; }

  /// Of the device's memory, beside the arena.
  int64_t mappedBytes() const;

private:
  /// Of one program.
  struct Call {
    size_t index = 0;
    const fsdp_rt_attention_desc *desc = nullptr;
    bool isBackward = false;
    size_t kind = 0;
    std::optional<CudnnAttention> view;
    std::string key;
  };
  /// Nanoseconds; or why the library does not run.
  struct Times {
    int64_t own = 0, cudnn = 0;
    std::string why;
  };
  struct Kind {
    std::string name;
    int64_t calls = 0;
    /// Why cuDNN does not compute them; empty: it can.
    std::string why;
    bool isByCudnn = false;
    /// Where both were timed: of all calls.
    Times times;
  };
  struct Program {
    std::vector<Call> calls;
    std::vector<Kind> kinds;
    const Kind &kindOf(const Call &call) const { return kinds[call.kind]; }
    void refuse(const Call &call, const std::string &why);
  };
  /// A plan, and what it takes; a graph of it has numbers for its tensors.
  struct Planned {
    std::shared_ptr<const CudnnPlan> plan;
    CudnnAttentionGraph graph;
    int64_t rowSumsAt = 0, bytes = 0;
  };

  Status open();
  Status findOther(const std::string &mine);
  Program view(const hal::Recording &recording) const;
  Status plan(Program &program);
  Status planOne(Program &program, const Call &call, uint64_t digest);
  void takeWorkspace(Program &program);
  /// Of a program whose calls do not use it, it is given back.
  void returnWorkspace(const Program &program);
  Status agree(Program &program);
  Status decide(Program &program, const OwnAttention &own);
  Status time(const Call &call, const IssueAttention &own, Times &times);
  Status measure(Program &program, Kind &kind, const OwnAttention &own);
  Result<std::unique_ptr<CudaAttention>> bind(const Call &call) const;
  void remember(const Program &program);

  World &world_;
  const CudaContext &context_;
  CudaCopies &copies_;
  const DeviceArena &arena_;
  const hal::Layout &layout_;
  AttentionBy by_;
  bool isOpened_ = false;
  const CudnnApi *api_ = nullptr;
  /// Why there is no library.
  std::string missing_;
  dnn::Handle handle_ = nullptr;
  std::optional<CudnnDevice> device_;
  RankZero rankZero_{world_};
  /// What rank 0 reads and keeps.
  std::optional<AlgorithmCache> cache_;
  /// By key.
  std::map<std::string, Planned> plans_;
  /// The calls that use it run one after another. Executables keep it, those
  /// of earlier programs perhaps a smaller one.
  std::shared_ptr<DeviceArena> workspace_;
  std::vector<std::weak_ptr<DeviceArena>> workspaces_;
  /// Of all programs: by what is told of them, how many.
  bool hasAny_ = false;
  int64_t calls_ = 0, byCudnn_ = 0;
  std::vector<std::pair<std::string, int64_t>> told_, refused_;
  std::vector<std::string> notes_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_DNN_CUDAATTENTIONS_H
