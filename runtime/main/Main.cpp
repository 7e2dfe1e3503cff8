//===- Main.cpp - From a command line to a run ----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "main/Main.h"

#include "core/Host.h"
#include "core/Printable.h"
#include "fsdp-rt/fsdp-rt.h"
#include "main/Interrupt.h"
#include "main/Options.h"
#include "main/Process.h"
#include "main/Training.h"
#include "registry/Registry.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <unistd.h>

namespace fsdp::rt {

namespace {

int print(const std::string &text) {
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
    return reportFailure(Status::failed("cannot write to standard output"));
  return 0;
}

int describe(const data::Manifest &manifest) {
  // Ordered: as the compiler wrote it, which is the order of the page.
  auto json = nlohmann::ordered_json::parse(manifest.text);
  return print(json.dump(2) + "\n");
}

/// How the ranks of this run come to be.
struct Plan {
  const BackendKind *backend = nullptr;
  /// This process starts those of a job, each of which is a rank.
  bool isRelaunch = false;
  int ranks = 1;
  int threadsPerRank = 1;
};

/// The backend that was asked for, or the one that fits how this process was
/// started.
Result<const BackendKind *> chooseBackend(const Options &options,
                                          const LaunchInfo &launch,
                                          bool isOneOfMany) {
  if (!options.backend.empty())
    return findBackend(options.backend);
  if (isOneOfMany)
    return backendFor(launch);
  return &defaultBackend(/*isRankPerProcess=*/false);
}

Result<Plan> planRanks(const Options &options, const data::Manifest &manifest,
                       const LaunchInfo &launch) {
  const int64_t world = manifest.worldSize();
  bool isLaunched = launch.launcher != Launcher::None;
  // A single process that a launcher started may still hold all ranks itself.
  bool isOneOfMany = isLaunched && launch.size > 1;
  Result<const BackendKind *> backend =
      chooseBackend(options, launch, isOneOfMany);
  if (!backend.isOk())
    return backend.status();
  Plan plan;
  plan.backend = *backend;
  const std::string name = plan.backend->name;
  bool isRankPerProcess = plan.backend->isRankPerProcess;
  if (isOneOfMany && !isRankPerProcess)
    return Status::failed("--backend " + name + ": expected one process, got " +
                          std::to_string(launch.size) + " started by " +
                          launcherName(launch.launcher) + " (" +
                          launch.variables +
                          "), each of which would be all ranks");
  if (isOneOfMany)
    if (Status s = plan.backend->checkLaunch(launch))
      return s;
  bool isRank = isOneOfMany || (isLaunched && isRankPerProcess && world == 1);
  if (isRank && launch.size != world)
    return Status::failed("expected " + std::to_string(world) +
                          " processes, the size of the mesh that the program "
                          "was compiled for, got " +
                          std::to_string(launch.size) + " started by " +
                          launcherName(launch.launcher));
  // No launcher's variables would tell the process that is started from this
  // one.
  if (!isRank && name == "tcp" && world == 1)
    return Status::failed("--backend tcp: expected a program of several ranks, "
                          "got one of 1: run it without --backend");
  if (!isRank && isRankPerProcess) {
    if (isLaunched)
      return Status::failed("--backend " + name + ": expected " +
                            std::to_string(world) +
                            " processes, the size of the mesh, got 1 started "
                            "by " +
                            launcherName(launch.launcher));
    plan.isRelaunch = true;
  }
  if (!isRank && world > maxRanksOnHost)
    return Status::failed(
        "expected at most " + std::to_string(maxRanksOnHost) +
        " ranks on one host, got a program compiled for " +
        std::to_string(world) +
        ": start it on several hosts with torchrun, mpirun or srun");
  plan.ranks = static_cast<int>(world);
  if (options.link && isRankPerProcess)
    return Status::failed(std::string("--link: expected the ") +
                          defaultBackend(/*isRankPerProcess=*/false).name +
                          " backend, got " + name);
  Result<int> threads =
      chooseThreads(manifest, options.threads.value_or(0),
                    isRank ? launch.localSize : plan.ranks, availableCores());
  if (!threads.isOk())
    return threads.status().withContext("--threads");
  plan.threadsPerRank = *threads;
  return plan;
}

/// Starts what this process is again, as many ranks. The system's own record
/// of its command line also holds what came before the program's arguments.
Result<int> relaunch(const Plan &plan) {
  std::error_code error;
  std::vector<std::string> words = {
      std::filesystem::read_symlink("/proc/self/exe", error).string()};
  std::ifstream record("/proc/self/cmdline");
  std::string word;
  std::getline(record, word, '\0');
  while (std::getline(record, word, '\0'))
    words.push_back(word);
  if (error || words[0].empty() || !record.eof())
    return Status::failed("cannot read this process's own command line from "
                          "/proc, to start it again");
  std::vector<char *> argv;
  for (std::string &each : words)
    argv.push_back(each.data());
  argv.push_back(nullptr);
  return plan.backend->relaunch(plan.ranks, argv.data());
}

/// Refuses to run before the ranks can talk to each other. What all processes
/// of a job find wrong alike is told by rank 0, and its end makes the launcher
/// end the others. One that is still there after a while was wrong alone.
int refuseIn(const LaunchInfo &launch, const Status &failure) {
  constexpr auto whatLaunchersTake = std::chrono::seconds(2);
  if (launch.rank == 0)
    return reportFailure(failure);
  std::this_thread::sleep_for(whatLaunchersTake);
  return reportFailure(
      failure.withContext("rank " + std::to_string(launch.rank)));
}

int run(const std::string &name, const std::vector<std::string> &arguments,
        const fsdp_rt_artifact *program) {
  Result<Options> options = parseOptions(arguments);
  Result<LaunchInfo> launch = detectLaunch(currentEnvironment());
  // What only prints needs no ranks.
  if (options.isOk() && (options->help || options->describe) && !launch.isOk())
    launch = LaunchInfo();
  if (!launch.isOk())
    return reportFailure(launch.status());
  auto refuse = [&](const Status &failure) {
    return refuseIn(*launch, failure);
  };
  if (!options.isOk())
    return refuse(options.status());
  if (options->help)
    return launch->rank == 0 ? print(helpText(name)) : 0;
  Result<data::Manifest> manifest = readArtifact(program);
  if (!manifest.isOk())
    return refuse(manifest.status());
  if (options->describe)
    return launch->rank == 0 ? describe(*manifest) : 0;
  Result<DeviceChoice> device = chooseDevice(options->device, *manifest);
  if (!device.isOk())
    return refuse(device.status());
  if (Status s = checkOptions(*options, *manifest, *device->device))
    return refuse(s);
  Result<Plan> plan = planRanks(*options, *manifest, *launch);
  if (!plan.isOk())
    return refuse(plan.status());
  if (plan->isRelaunch) {
    Result<int> status = relaunch(*plan);
    return status.isOk() ? *status : reportFailure(status.status());
  }

  InterruptGuard guard;
  std::optional<PipeGuard> pipes(std::in_place);
  if (Status s = guard.start())
    return refuse(s);
  hal::DeviceOptions wanted;
  wanted.threads = plan->threadsPerRank;
  wanted.settings = options->deviceSettings;
  BackendRequest request;
  request.launch = *launch;
  request.link = options->link;
  request.waitLimit = options->watchdogSeconds * 1'000'000'000;
  Result<std::unique_ptr<Backend>> backend = createBackend(
      *plan->backend, *manifest, *device->device, std::move(wanted), request);
  if (!backend.isOk())
    return refuse(backend.status());
  // mpirun gives its processes terminals, whatever it writes to itself.
  bool isLocal = !plan->backend->isRankPerProcess;
  bool isOnTerminal = isLocal && ::isatty(STDOUT_FILENO) == 1;
  FailureRecord record;
  std::vector<std::string> notes;
  if (options->device.empty() && launch->rank == 0)
    if (std::string other = describeOtherDevice(*device, *manifest);
        !other.empty())
      notes.push_back(other);
  if (!device->device->computesOnHost && options->threads && !options->seed)
    notes.push_back("--threads " + std::to_string(*options->threads) +
                    " changes nothing on the device " + device->device->name +
                    ": threads of the host only draw the parameters of --init");
  TrainingRun training{*program,
                       *manifest,
                       *options,
                       *device,
                       notes,
                       plan->threadsPerRank,
                       isLocal ? plan->ranks : 1,
                       isOnTerminal,
                       isLocal && pipes->hasReplacedEnd(),
                       record};
  Status status =
      (*backend)->run([&](World &host) { return train(host, training); });
  // As any program whose reader goes away, but with its state saved.
  if (status && record.isUnread()) {
    pipes.reset();
    std::raise(SIGPIPE);
  }
  if (status && !(*backend)->reportsFailure())
    return static_cast<int>(status.code());
  return status ? reportFailure(record.explain(status)) : 0;
}

} // namespace

int reportFailure(const Status &failure) {
  std::fflush(stdout);
  bool isInternal = failure.code() == Code::Internal;
  std::fprintf(stderr, "error: %s%s\n", isInternal ? "internal: " : "",
               printable(failure.message()).c_str());
  if (isInternal)
    std::fprintf(stderr, "This is a fault of fsdp-mlir, not yours. Please "
                         "report it with this message, the command\nand what "
                         "--describe prints.\n");
  return static_cast<int>(failure.code());
}

int runMain(const std::string &name, const std::vector<std::string> &arguments,
            const fsdp_rt_artifact *program) {
  try {
    return run(name, arguments, program);
  } catch (const std::bad_alloc &) {
    return reportFailure(Status::failed("out of memory"));
  } catch (const std::exception &error) {
    return reportFailure(Status::internal(error.what()));
  }
}

} // namespace fsdp::rt

int fsdp_rt_main(int argc, char **argv, const fsdp_rt_artifact *program) {
  using namespace fsdp::rt;
  if (Status s = prepareProcess())
    return reportFailure(s);
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i)
    arguments.push_back(argv[i]);
  return runMain(argc > 0 ? argv[0] : "program", arguments, program);
}
