//===- TcpLaunch.cpp - Starting ranks as processes ------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "channels/tcp/Socket.h"
#include "channels/tcp/TcpBackend.h"
#include "control/MeetingPoint.h"
#include "core/Clock.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bitset>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

namespace fsdp::rt {

namespace {

/// Blocks the signals that a launcher handles, and waits for them in turn;
/// restores the mask afterwards. A signal that is ignored stays so: nohup lets
/// a program outlive its terminal, and a blocked signal would still queue.
class HandledSignals {
public:
  HandledSignals() {
    sigemptyset(&handled_);
    sigaddset(&handled_, SIGCHLD);
    for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction action;
      if (sigaction(signal, nullptr, &action) != 0 ||
          action.sa_handler != SIG_IGN)
        sigaddset(&handled_, signal);
    }
    sigprocmask(SIG_BLOCK, &handled_, &before_);
  }
  ~HandledSignals() { restore(); }
  HandledSignals(const HandledSignals &) = delete;
  void restore() const { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  /// Waits until `deadline`, in nowNanoseconds(), where there is one: 0 then.
  int next(std::optional<int64_t> deadline) const {
    for (;;) {
      constexpr int64_t second = 1'000'000'000;
      int64_t left = deadline ? *deadline - nowNanoseconds() : second;
      left = std::clamp<int64_t>(left, 0, second);
      timespec wait = {left / second, left % second};
      int signal = sigtimedwait(&handled_, nullptr, &wait);
      if (signal > 0)
        return signal;
      if (deadline && nowNanoseconds() >= *deadline)
        return 0;
    }
  }

private:
  sigset_t handled_, before_;
};

void setNumber(const char *name, int number) {
  (void)setenv(name, std::to_string(number).c_str(), /*overwrite=*/1);
}

/// `listener` is where rank 0 listens. It has one from before any rank starts,
/// so that nobody else takes the port, and no rank comes too early.
[[noreturn]] void becomeRank(int rank, int ranks, const Socket &listener,
                             const HandledSignals &signals, char *const *argv) {
  signals.restore();
  // A terminal's signals are the launcher's affair, which passes them on once.
  (void)setpgid(0, 0);
  // Where this process is killed, nobody else would end its ranks.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  setNumber("RANK", rank);
  setNumber("LOCAL_RANK", rank);
  setNumber("WORLD_SIZE", ranks);
  setNumber("LOCAL_WORLD_SIZE", ranks);
  setNumber("MASTER_PORT", portOf(listener));
  (void)setenv("MASTER_ADDR", "127.0.0.1", /*overwrite=*/1);
  (void)unsetenv("TORCHELASTIC_USE_AGENT_STORE");
  (void)unsetenv(listenerVariable);
  if (rank == 0 && fcntl(listener.get(), F_SETFD, 0) == 0)
    setNumber(listenerVariable, listener.get());
  execv(argv[0], argv);
  dprintf(STDERR_FILENO, "error: cannot start a process for rank %d: %s: %s\n",
          rank, argv[0], std::strerror(errno));
  constexpr int cannotExecute = 126;
  _exit(cannotExecute);
}

/// The processes of one host that are a job's ranks.
class LocalJob {
public:
  explicit LocalJob(const TcpLaunchOptions &options) : options_(options) {}

  /// Ends those that it has started where one cannot be.
  void start(int ranks, const Socket &listener, char *const *argv);
  /// Returns when all have ended.
  Result<int> wait();

private:
  struct Child {
    pid_t process;
    bool hasEnded = false;
    /// Whether a signal of this number has been sent to it from here.
    std::bitset<NSIG> sent = {};
  };

  bool isOver() const;
  void signalAll(int signal);
  void interrupt(int signal);
  void takeEnded();
  void noteEnd(size_t rank, int status);
  void escalate();
  void setDeadline(double seconds) {
    deadline_ = nowNanoseconds() + static_cast<int64_t>(seconds * 1e9);
  }

  TcpLaunchOptions options_;
  HandledSignals signals_;
  std::vector<Child> children_;
  /// Since a rank has failed: when the others are ended, next.
  std::optional<int64_t> deadline_;
  bool hasTerminated_ = false;
  int interrupts_ = 0, lastInterrupt_ = 0;
  Status failure_;
  int code_ = 0;
};

bool LocalJob::isOver() const {
  return std::all_of(children_.begin(), children_.end(),
                     [](const Child &child) { return child.hasEnded; });
}

void LocalJob::signalAll(int signal) {
  for (Child &child : children_)
    if (!child.hasEnded) {
      child.sent.set(static_cast<size_t>(signal));
      (void)kill(child.process, signal);
    }
}

void LocalJob::start(int ranks, const Socket &listener, char *const *argv) {
  for (int rank = 0; rank < ranks; ++rank) {
    pid_t child = fork();
    if (child == 0)
      becomeRank(rank, ranks, listener, signals_, argv);
    if (child < 0) {
      failure_ =
          Status::failed("cannot start a process for rank " +
                         std::to_string(rank) + ": " + lastSystemError());
      return signalAll(SIGKILL);
    }
    children_.push_back({child});
  }
}

/// The first asks ranks to end after their step, however long that takes.
void LocalJob::interrupt(int signal) {
  lastInterrupt_ = signal;
  signalAll(++interrupts_ == 1 ? SIGINT : SIGKILL);
}

void LocalJob::takeEnded() {
  int status = 0;
  for (pid_t ended; (ended = waitpid(-1, &status, WNOHANG)) > 0;)
    for (size_t rank = 0; rank < children_.size(); ++rank)
      if (children_[rank].process == ended)
        noteEnd(rank, status);
}

void LocalJob::noteEnd(size_t rank, int status) {
  Child &child = children_[rank];
  child.hasEnded = true;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return;
  if (WIFEXITED(status) && code_ == 0)
    code_ = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) {
    int signal = WTERMSIG(status);
    bool isOurs = child.sent.test(static_cast<size_t>(signal));
    if (isOurs && interrupts_ > 0)
      code_ = 128 + lastInterrupt_;
    if (!isOurs && failure_.isOk())
      failure_ = Status::failed("rank " + std::to_string(rank) +
                                ": killed by signal " + std::to_string(signal) +
                                " (" + strsignal(signal) + ")");
  }
  if (!deadline_ && !hasTerminated_)
    setDeadline(options_.graceSeconds);
}

void LocalJob::escalate() {
  if (hasTerminated_) {
    signalAll(SIGKILL);
    deadline_.reset();
    return;
  }
  signalAll(SIGTERM);
  hasTerminated_ = true;
  setDeadline(options_.terminationSeconds);
}

Result<int> LocalJob::wait() {
  while (!isOver()) {
    int signal = signals_.next(deadline_);
    if (signal == 0)
      escalate();
    else if (signal == SIGCHLD)
      takeEnded();
    else
      interrupt(signal);
  }
  if (failure_)
    return failure_;
  return code_;
}

} // namespace

Result<int> launchProcesses(int ranks, char *const *argv,
                            const TcpLaunchOptions &options) {
  Address loopback = Address::loopback();
  Result<Socket> listener = listenAt(0, &loopback);
  if (!listener.isOk())
    return listener.status();
  LocalJob job(options);
  job.start(ranks, *listener, argv);
  // From now on it is rank 0's alone: nobody listens where that has ended.
  *listener = Socket();
  return job.wait();
}

} // namespace fsdp::rt
