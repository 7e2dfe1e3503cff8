//===- TcpLaunch.cpp - Starting ranks as processes ------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "channels/tcp/Socket.h"
#include "channels/tcp/TcpBackend.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace fsdp::rt {

namespace {

/// Blocks the signals that a launcher handles, and waits for them in turn;
/// restores the mask afterwards.
class HandledSignals {
public:
  HandledSignals() {
    sigemptyset(&handled_);
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD})
      sigaddset(&handled_, signal);
    sigprocmask(SIG_BLOCK, &handled_, &before_);
  }
  ~HandledSignals() { restore(); }
  HandledSignals(const HandledSignals &) = delete;
  void restore() const { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  int next() const {
    int signal = 0;
    sigwait(&handled_, &signal);
    return signal;
  }

private:
  sigset_t handled_, before_;
};

/// A port of this host that nobody has now.
Result<int> findFreePort() {
  Address loopback = Address::loopback();
  Result<Socket> listener = listenAt(0, &loopback);
  return listener.isOk() ? Result<int>(portOf(*listener))
                         : Result<int>(listener.status());
}

void setNumber(const char *name, int number) {
  (void)setenv(name, std::to_string(number).c_str(), /*overwrite=*/1);
}

[[noreturn]] void becomeRank(int rank, int ranks, int port,
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
  setNumber("MASTER_PORT", port);
  (void)setenv("MASTER_ADDR", "127.0.0.1", /*overwrite=*/1);
  (void)unsetenv("TORCHELASTIC_USE_AGENT_STORE");
  execv(argv[0], argv);
  const char *why = std::strerror(errno);
  (void)!::write(STDERR_FILENO, why, std::strlen(why));
  constexpr int cannotExecute = 126;
  _exit(cannotExecute);
}

struct Child {
  pid_t process;
  bool hasEnded = false;
};

void signalAll(const std::vector<Child> &children, int signal) {
  for (const Child &child : children)
    if (!child.hasEnded)
      (void)kill(child.process, signal);
}

} // namespace

Result<int> launchProcesses(int ranks, char *const *argv) {
  Result<int> port = findFreePort();
  if (!port.isOk())
    return port.status();
  HandledSignals signals;
  std::vector<Child> children;
  Status failure;
  for (int rank = 0; rank < ranks && failure.isOk(); ++rank) {
    pid_t child = fork();
    if (child == 0)
      becomeRank(rank, ranks, *port, signals, argv);
    if (child < 0)
      failure = Status::failed("cannot start a process for rank " +
                               std::to_string(rank) + ": " + lastSystemError());
    else
      children.push_back({child});
  }
  if (failure)
    signalAll(children, SIGKILL);
  int code = 0, interrupts = 0;
  size_t left = children.size();
  while (left > 0) {
    int signal = signals.next();
    if (signal != SIGCHLD) {
      signalAll(children, ++interrupts == 1 ? SIGINT : SIGKILL);
      continue;
    }
    int status = 0;
    for (pid_t ended; (ended = waitpid(-1, &status, WNOHANG)) > 0;) {
      auto child =
          std::find_if(children.begin(), children.end(),
                       [&](const Child &one) { return one.process == ended; });
      if (child == children.end())
        continue;
      child->hasEnded = true;
      --left;
      if (WIFEXITED(status) && WEXITSTATUS(status) != 0 && code == 0)
        code = WEXITSTATUS(status);
      if (WIFSIGNALED(status) && failure.isOk() && interrupts < 2)
        failure = Status::failed(
            "rank " + std::to_string(child - children.begin()) +
            ": killed by signal " + std::to_string(WTERMSIG(status)) + " (" +
            strsignal(WTERMSIG(status)) + ")");
    }
  }
  if (failure)
    return failure;
  return code;
}

} // namespace fsdp::rt
