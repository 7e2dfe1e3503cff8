//===- CudaDevice.cpp - Programs on a CUDA device -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/run/CudaDevice.h"

#include "core/Clock.h"
#include "hal/Transfers.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

namespace fsdp::rt {

namespace {

/// For so long the host asks again and again, which answers soonest; then it
/// leaves its core to others in between.
constexpr int64_t spinNanoseconds = 50'000;
constexpr std::chrono::microseconds pause(50);
/// How often it looks how far a run has come.
constexpr int64_t lookNanoseconds = 500'000'000;
/// How long work may make no progress once communicators are aborted, where
/// other ranks wait or nothing has made progress before; and how long
/// communicators may take to end, once graphs are destroyed.
constexpr int64_t drainNanoseconds = 5'000'000'000,
                  endNanoseconds = 3'000'000'000;

} // namespace

Result<std::unique_ptr<CudaDevice>>
CudaDevice::create(World &world, const DriverApi &api,
                   const hal::DeviceOptions &options) {
  Result<CudaSettings> settings = CudaSettings::read(options.settings);
  if (!settings.isOk())
    return settings.status();
  std::unique_ptr<CudaDevice> made(new CudaDevice(world, options, *settings));
  Result<std::unique_ptr<CudaRank>> rank =
      CudaRank::create(world, api, made->layout_, options.target, *settings);
  if (!rank.isOk())
    return rank.status();
  made->rank_ = std::move(*rank);
  if (Status s = made->openQueues())
    return s;
  return made;
}

Status CudaDevice::openQueues() {
  const CudaContext &context = rank_->context();
  streams_.resize(numQueues);
  std::vector<int32_t> queues = layout_.queues;
  queues.push_back(FSDP_RT_QUEUE_COMPUTE);
  for (int32_t queue : queues) {
    // Blocks of transfers start before blocks of computation that wait, too.
    Result<CudaStream> stream = CudaStream::create(
        context, queue == FSDP_RT_QUEUE_COMPUTE ? StreamPriority::Lowest
                                                : StreamPriority::Highest);
    if (!stream.isOk())
      return stream.status();
    streams_[queue].emplace(std::move(*stream));
  }
  for (int64_t i = 0; i < layout_.events; ++i) {
    Result<CudaEvent> event =
        CudaEvent::create(context, cu::eventDisableTiming);
    if (!event.isOk())
      return event.status();
    events_.push_back(std::move(*event));
  }
  Result<CudaEvent> position =
      CudaEvent::create(context, cu::eventDisableTiming);
  if (!position.isOk())
    return position.status();
  position_.emplace(std::move(*position));
  return Status::ok();
}

CudaDevice::~CudaDevice() {
  if (!rank_ || !failure_.isOk())
    return;
  (void)rank_->context().makeCurrent();
  // What still runs uses the memory.
  if (!std::exchange(pending_, {}).empty())
    if (Status s = waitForStreams())
      fail(s);
  // Communicators whose ranks are gone, or whose device has failed, end by an
  // abort, for which a program that its owner destroys later must have no
  // graph.
  if (!failure_.isOk())
    return;
  if (Status s = world_.failure())
    endWork(s);
  else if (Status s = checkStreams())
    endWork(s);
}

hal::DeviceFacts CudaDevice::facts() const {
  hal::DeviceFacts facts;
  facts.name = "cuda";
  facts.products = rank_->products().describe();
  int capability = rank_->context().capability();
  facts.capability =
      std::to_string(capability / 10) + "." + std::to_string(capability % 10);
  facts.threads = threads_;
  facts.memory = {{"arena", rank_->device().mappedBytes()},
                  {"sums over ranks", rank_->transfers().mappedBytes()},
                  {"batches", rank_->device().uploadBytes()},
                  {"code and libraries", codeBytes_},
                  {"graphs", graphBytes_},
                  {"context", rank_->context().contextBytes()}};
  if (int64_t bytes = rank_->products().pointerBytes())
    facts.memory.push_back({"addresses of products", bytes});
  if (int64_t workspace = rank_->attentions().mappedBytes())
    facts.memory.push_back({"workspace of attention", workspace});
  if (std::string by = rank_->attentions().describe(); !by.empty())
    facts.choices["attention"] = by;
  facts.remarks = {rank_->describeLaunches()};
  for (const std::string &remark : rank_->products().remarks())
    facts.remarks.push_back(remark);
  for (const std::string &remark : rank_->attentions().remarks())
    facts.remarks.push_back(remark);
  facts.notes = rank_->images().notes();
  for (const std::string &note : rank_->products().notes())
    facts.notes.push_back(note);
  for (const std::string &note : rank_->attentions().notes())
    facts.notes.push_back(note);
  for (const std::string &note : rank_->transfers().notes())
    facts.notes.push_back(note);
  const Reduction reduction = rank_->transfers().reduction();
  const bool isExact = reduction == Reduction::Exact;
  if (rank_->transfers().hasChannels()) {
    (isExact ? facts.plain : facts.choices)["reduction"] = nameOf(reduction);
    if (!isExact)
      facts.remarks.push_back("sums over ranks are NCCL's (--reduction nccl)");
  } else if (rank_->staged() && !isExact) {
    facts.notes.push_back("sums over ranks are the runtime's, not NCCL's: "
                          "--channel host does without NCCL");
  }
  if (const std::string &why = rank_->context().whyNoPriorities();
      !why.empty() && rank_->transfers().hasChannels())
    facts.notes.push_back("streams have no priorities, so that transfers among "
                          "ranks begin after kernels that were there before: " +
                          why);
  facts.notes.insert(facts.notes.end(), notes_.begin(), notes_.end());
  if (const Status &s = Nvtx::ofProcess().failure())
    facts.notes.push_back(s.message());
  return facts;
}

hal::Memory &CudaDevice::memory(fsdp_rt_memory which) {
  if (which == FSDP_RT_HOST)
    return rank_->host();
  return rank_->device();
}

Status CudaDevice::giveUp(const Status &why) {
  if (world_.size() > 1)
    fail(why);
  return why;
}

void CudaDevice::fail(const Status &status) {
  failure_ = status;
  range_.reset();
  world_.abort(status);
  endWork(status);
}

void CudaDevice::endWork(const Status &why) {
  WaitLimit limit(isStuck_ || world_.size() > 1 ? drainNanoseconds
                                                : world_.waitLimit());
  {
    NcclEnds::Drain draining;
    // What runs waits for ranks that will not come.
    if (!rank_->transfers().abort())
      endProcess(why, "no thread can be started that ends communicators");
    // What has been enqueued uses memory that programs have. No call of the
    // driver that waits for work, as those that free memory, would return.
    if (!drain(limit))
      endProcess(why, "its device does not end the work that it has");
    pending_.clear();
    for (const std::weak_ptr<CudaGraph> &graph : graphs_)
      if (std::shared_ptr<CudaGraph> left = graph.lock())
        left->destroy();
    graphs_.clear();
  }
  if (!checkStreams().isOk())
    NcclEnds::noteFailedDevice();
  if (rank_->transfers().waitForEnds(endNanoseconds) ==
      NcclEnds::Outcome::TimedOut)
    endProcess(why, "NCCL does not end its communicators");
  (void)api().contextSynchronize();
}

void CudaDevice::endProcess(const Status &why, const char *what) const {
  std::fprintf(stderr, "error: rank %d: %s; %s: the process ends at once\n",
               world_.rank(), why.message().c_str(), what);
  std::_Exit(static_cast<int>(Code::Failed));
}

//===----------------------------------------------------------------------===//
// Issue
//===----------------------------------------------------------------------===//

Status CudaDevice::execute(hal::Executable &executable,
                           hal::RunRequest &request) {
  if (!failure_.isOk())
    return failure_;
  auto &program = static_cast<CudaExecutable &>(executable);
  // A program has the events of one run that is recorded.
  bool isRecorded = request.log;
  for (const PendingRun &run : pending_)
    isRecorded |= run.request->log != nullptr;
  size_t most = isRecorded ? 1 : static_cast<size_t>(program.maxPending());
  Status status = rank_->context().makeCurrent();
  while (status.isOk() && pending_.size() >= most)
    status = finishOldest();
  if (status.isOk()) {
    request.isComplete = false;
    pending_.push_back({&program, &request, ++runs_});
    range_.reset();
    range_.emplace(program.recording().name().c_str());
    status = begin(pending_.back());
    while (status && pending_.size() > 1)
      if (Status s = finishOldest()) {
        status = explainIssue(status, s);
        break;
      }
  }
  if (status)
    fail(status);
  return status;
}

/// A run before it is the first that failed, and may be why: errors of a device
/// and of communicators are told by whatever call comes next.
Status CudaDevice::explainIssue(const Status &ofIssue,
                                const Status &before) const {
  if (!world_.failure().isOk())
    return before;
  return Status::failed(
      before.message() +
      "; the next run could not be issued: " + ofIssue.message());
}

Status CudaDevice::begin(const PendingRun &run) {
  cu::Stream compute = stream(FSDP_RT_QUEUE_COMPUTE);
  // Other queues wait for queue 0 before their first work.
  if (Status s = rank_->copies().orderBefore(compute))
    return s;
  if (Status s = rank_->numbers().begin(run.number, *run.request, compute))
    return s;
  if (Status s = issueProgram(run))
    return s;
  if (Status s = rank_->numbers().end(run.number, *run.request, compute))
    return s;
  rank_->copies().setRunEnd(rank_->numbers().endOf(run.number));
  return Status::ok();
}

Status CudaDevice::issueProgram(const PendingRun &run) {
  CudaExecutable &executable = *run.executable;
  // Times are taken between calls, of which a graph has none.
  if (executable.graph() && !run.request->log)
    return executable.graph()->launch(stream(FSDP_RT_QUEUE_COMPUTE));
  RunRecords *records = nullptr;
  if (run.request->log) {
    records = &executable.records();
    if (Status s = records->prepare(rank_->context(), executable.recording()))
      return s;
    if (Status s = records->begin(stream(FSDP_RT_QUEUE_COMPUTE)))
      return s;
  }
  return issue(executable, records);
}

Status CudaDevice::issue(const CudaExecutable &executable,
                         RunRecords *records) {
  // A range ends before the next one begins.
  std::optional<NvtxRange> unit;
  for (size_t i = 0; i < executable.calls().size(); ++i) {
    if (const std::string &next = executable.recording().unitFrom(i);
        !next.empty()) {
      unit.reset();
      unit.emplace(next.c_str());
    }
    Status status = issueCall(executable, i, records);
    if (status.isOk() && settings_.isBlocking)
      status = waitForStreams();
    if (status)
      return status.withContext(executable.recording().describeCall(i));
  }
  // The run's end is a point of queue 0.
  for (int64_t event : executable.lastEvents())
    if (Status s = check(api().streamWaitEvent(stream(FSDP_RT_QUEUE_COMPUTE),
                                               events_[event].get(), 0),
                         "cuStreamWaitEvent"))
      return s;
  return Status::ok();
}

Status CudaDevice::issueCall(const CudaExecutable &executable, size_t index,
                             RunRecords *records) {
  const CudaCall &call = executable.calls()[index];
  cu::Stream compute = stream(FSDP_RT_QUEUE_COMPUTE);
  std::optional<NvtxRange> range;
  if (call.call.function == hal::Function::start) {
    const char *name = call.call.as<fsdp_rt_start_desc>().name;
    range.emplace(name ? name : "transfer");
  }
  Status status;
  if (call.call.function == hal::Function::wait)
    status = check(
        api().streamWaitEvent(
            compute, events_[call.call.as<fsdp_rt_wait_desc>().event].get(), 0),
        "cuStreamWaitEvent");
  if (status)
    return status;
  if (call.call.function == hal::Function::start &&
      call.call.as<fsdp_rt_start_desc>().queue != FSDP_RT_QUEUE_COMPUTE)
    status = issueStart(executable, index, records);
  else
    status = issueWorks(executable, call, compute, records);
  return status.isOk() && records ? records->mark(index, compute) : status;
}

Status CudaDevice::issueStart(const CudaExecutable &executable, size_t index,
                              RunRecords *records) {
  const CudaCall &call = executable.calls()[index];
  auto &desc = call.call.as<fsdp_rt_start_desc>();
  cu::Stream queue = stream(desc.queue);
  if (Status s = check(
          api().eventRecord(position_->get(), stream(FSDP_RT_QUEUE_COMPUTE)),
          "cuEventRecord"))
    return s;
  if (Status s = check(api().streamWaitEvent(queue, position_->get(), 0),
                       "cuStreamWaitEvent"))
    return s;
  auto after = static_cast<const int64_t *>(desc.after);
  for (int64_t i = 0; i < desc.after_count; ++i)
    if (Status s =
            check(api().streamWaitEvent(queue, events_[after[i]].get(), 0),
                  "cuStreamWaitEvent"))
      return s;
  if (records)
    if (Status s = records->beginTransfer(index, queue))
      return s;
  if (Status s = issueWorks(executable, call, queue, records))
    return s;
  if (records)
    if (Status s = records->endTransfer(index, queue))
      return s;
  return check(api().eventRecord(events_[desc.event].get(), queue),
               "cuEventRecord");
}

Status CudaDevice::issueWorks(const CudaExecutable &executable,
                              const CudaCall &call, cu::Stream stream,
                              const RunRecords *records) {
  for (size_t i = call.begin; i < call.end; ++i) {
    const CudaWork &work = *executable.works()[i];
    // Between calls of a run that is recorded lie events.
    bool isDependent = work.isDependent && !(records && i == call.begin);
    if (Status s =
            isDependent ? work.enqueueEarly(stream) : work.enqueue(stream))
      return s;
  }
  return Status::ok();
}

//===----------------------------------------------------------------------===//
// The end of a run
//===----------------------------------------------------------------------===//

Status CudaDevice::checkStreams() const {
  for (const std::optional<CudaStream> &stream : streams_)
    if (cu::Error error =
            stream ? api().streamQuery(stream->get()) : cu::success;
        error != cu::notReady)
      if (Status s = check(error, "cuStreamQuery"))
        return s;
  return Status::ok();
}

size_t CudaDevice::countPassed() const {
  size_t passed = 0;
  for (const PendingRun &run : pending_)
    passed += run.passed();
  return passed;
}

Status CudaDevice::waitWhileNotReady(const std::function<cu::Error()> &query,
                                     const char *call) {
  int64_t begin = nowNanoseconds(), looked = begin;
  size_t passed = countPassed();
  WaitLimit limit(world_.waitLimit());
  for (;;) {
    cu::Error error = query();
    if (error == cu::success)
      return Status::ok();
    // NCCL knows more of its own failures than the driver, and another rank why
    // it left a collective.
    if (Status s = rank_->transfers().poll()) {
      Status first = world_.failure();
      return first.isOk() ? s : first;
    }
    if (error != cu::notReady)
      return check(error, call);
    // What another rank failed in comes after what is complete by now.
    if (Status s = world_.failure())
      return query() == cu::success ? Status::ok() : s;
    int64_t now = nowNanoseconds();
    if (now - begin > spinNanoseconds)
      std::this_thread::sleep_for(pause);
    if (now - looked < lookNanoseconds)
      continue;
    looked = now;
    if (size_t more = countPassed(); more != passed) {
      passed = more;
      limit.restart();
    }
    isStuck_ = limit.isExceeded();
    if (isStuck_)
      return limit.failure("progress of what the device runs", "none");
  }
}

Status CudaDevice::waitForStreams() {
  for (const std::optional<CudaStream> &stream : streams_)
    if (stream)
      if (Status s = waitWhileNotReady(
              [&] { return api().streamQuery(stream->get()); },
              "cuStreamQuery"))
        return s;
  return Status::ok();
}

bool CudaDevice::drain(WaitLimit &limit) {
  size_t passed = 0;
  for (const std::optional<CudaStream> &stream : streams_)
    while (stream && api().streamQuery(stream->get()) == cu::notReady) {
      std::this_thread::sleep_for(pause);
      // What is computed goes on to its end.
      if (size_t more = countPassed(); more != passed) {
        passed = more;
        limit.restart();
      }
      if (limit.isExceeded())
        return false;
    }
  return true;
}

Status CudaDevice::locate(const Status &failure) const {
  // A failure of another rank is told by that rank; blocking, the call is
  // known.
  if (settings_.isBlocking || !world_.failure().isOk())
    return failure;
  std::string where, name;
  for (const PendingRun &run : pending_) {
    const hal::Recording &recording = run.executable->recording();
    name = recording.name();
    where = run.executable->progress().describe(recording, run.number);
    if (!where.empty())
      break;
  }
  return Status::failed(
      failure.message() + ", in a run of program '" + name + "'" +
      (where.empty() ? "" : ": " + where) +
      "; run with CUDA_LAUNCH_BLOCKING=1 to have the failing call named");
}

Status CudaDevice::findFailure() const {
  for (const PendingRun &run : pending_)
    if (Status s =
            run.executable->findFailure(run.number, run.request->checkNote))
      return s;
  return Status::ok();
}

Status CudaDevice::finishOldest() {
  const PendingRun run = pending_.front();
  cu::Event end = rank_->numbers().endOf(run.number);
  if (Status status = waitWhileNotReady([&] { return api().eventQuery(end); },
                                        "cuEventQuery")) {
    // A check that failed comes before what failed after it.
    if (Status s = findFailure())
      return s;
    return locate(status);
  }
  // The next run may have come to its checks.
  if (Status s =
          run.executable->findFailure(run.number, run.request->checkNote))
    return s;
  if (run.request->log)
    if (Status s = run.executable->records().report(run.executable->recording(),
                                                    *run.request->log, times_))
      return s;
  rank_->numbers().take(run.number, *run.request);
  run.request->isComplete = true;
  pending_.erase(pending_.begin());
  if (pending_.empty()) {
    range_.reset();
    rank_->copies().setRunEnd(nullptr);
  }
  return Status::ok();
}

Status CudaDevice::awaitOldest(hal::RunTimes &times) {
  if (failure_.isOk() && !pending_.empty()) {
    Status status = rank_->context().makeCurrent();
    if (status.isOk())
      status = finishOldest();
    if (status)
      fail(status);
  }
  times += times_;
  times_ = {};
  return failure_;
}

Status CudaDevice::synchronize(hal::RunTimes &times) {
  Status status;
  do
    status = awaitOldest(times);
  while (status.isOk() && !pending_.empty());
  return status;
}

//===----------------------------------------------------------------------===//
// In the registry
//===----------------------------------------------------------------------===//

namespace {

/// `cpu` is "sm_80"; `features` are what its text needs of the driver's
/// compiler, which says so itself when it loads it.
Status checkHost(const std::string &cpu, const std::vector<std::string> &) {
  if (cpu.rfind("sm_", 0) != 0)
    return Status::failed("expected a program compiled for CUDA devices of "
                          "sm_N, got '" +
                          cpu + "'");
  Status opened = DriverApi::ofProcess().status();
  return opened.withContext("this program was compiled for CUDA devices of " +
                            cpu);
}

/// The thread that issues.
int countBusyThreads(const hal::DeviceOptions &, bool, int) { return 1; }

Result<std::unique_ptr<hal::Device>> create(World &world,
                                            const hal::DeviceOptions &options) {
  Result<const DriverApi *> api = DriverApi::ofProcess();
  if (!api.isOk())
    return api.status();
  Result<std::unique_ptr<CudaDevice>> device =
      CudaDevice::create(world, **api, options);
  if (!device.isOk())
    return device.status();
  return std::unique_ptr<hal::Device>(std::move(*device));
}

} // namespace

const hal::DeviceKind cudaDevice = {"cuda",
                                    "cuda",
                                    checkHost,
                                    cudaSettings,
                                    countBusyThreads,
                                    /*computesOnHost=*/false,
                                    create};

} // namespace fsdp::rt
