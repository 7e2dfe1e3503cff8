//===- MpiLaunch.cpp - Starting ranks with mpirun -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MpiBackend.h"
#include "MpirunOutput.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace fsdp::rt {

namespace {

/// A file descriptor that is closed with its owner.
class Descriptor {
public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  int get() const { return fd_; }
  void set(int fd) {
    close();
    fd_ = fd;
  }
  void close() {
    if (fd_ >= 0)
      ::close(fd_);
    fd_ = -1;
  }

private:
  int fd_;
};

struct Pipe {
  Descriptor read, write;
  bool open() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      return false;
    read.set(ends[0]);
    write.set(ends[1]);
    return true;
  }
};

/// Blocks the signals that a launcher handles, so that they queue for a
/// descriptor; restores the mask afterwards.
class BlockedSignals {
public:
  BlockedSignals() {
    sigset_t handled;
    sigemptyset(&handled);
    for (int signal : {SIGINT, SIGTERM, SIGCHLD})
      sigaddset(&handled, signal);
    pthread_sigmask(SIG_BLOCK, &handled, &before_);
    fd_.set(signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  ~BlockedSignals() { restore(); }
  void restore() const { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  int fd() const { return fd_.get(); }

private:
  sigset_t before_;
  Descriptor fd_;
};

std::vector<pid_t> childrenOf(pid_t parent) {
  std::vector<pid_t> children;
  DIR *directory = opendir("/proc");
  if (!directory)
    return children;
  while (dirent *entry = readdir(directory)) {
    pid_t pid = std::atoi(entry->d_name);
    if (pid <= 0)
      continue;
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string stat;
    std::getline(file, stat);
    // The name in parentheses may hold anything; state and parent follow it.
    size_t at = stat.rfind(')');
    char state;
    int found = 0;
    if (at != std::string::npos &&
        std::sscanf(stat.c_str() + at + 1, " %c %d", &state, &found) == 2 &&
        found == parent)
      children.push_back(pid);
  }
  closedir(directory);
  return children;
}

/// Of the child of a process that may have threads: calls nothing that could
/// wait for one of them.
[[noreturn]] void becomeMpirun(char *const *argv, const Pipe &errors,
                               const Pipe &failure,
                               const BlockedSignals &signals) {
  signals.restore();
  // A terminal's Ctrl-C goes to a whole process group, and mpirun would kill
  // the ranks at once; here they are to end their step first. Outside that
  // group nobody may read from the terminal.
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  int null = ::open("/dev/null", O_RDONLY);
  if (null >= 0)
    dup2(null, STDIN_FILENO);
  dup2(errors.write.get(), STDERR_FILENO);
  execvp(argv[0], argv);
  int error = errno;
  ssize_t written = ::write(failure.write.get(), &error, sizeof error);
  _exit(written == sizeof error ? 127 : 126);
}

void show(const std::string &text) {
  for (size_t done = 0; done < text.size();) {
    ssize_t n = ::write(STDERR_FILENO, text.data() + done, text.size() - done);
    if (n < 0 && errno != EINTR)
      return;
    done += n > 0 ? static_cast<size_t>(n) : 0;
  }
}

/// One running mpirun.
class Job {
public:
  Job(pid_t mpirun, int errors, int signals)
      : mpirun_(mpirun), errors_(errors), signals_(signals) {}

  /// Shows what the job says and passes signals on until mpirun has ended.
  /// Returns its wait status.
  int watch() {
    int status = 0;
    bool hasOutput = true;
    while (true) {
      pollfd fds[2] = {{signals_, POLLIN, 0}, {errors_, POLLIN, 0}};
      if (poll(fds, hasOutput ? 2 : 1, -1) < 0 && errno != EINTR)
        break;
      signalfd_siginfo info;
      while (::read(signals_, &info, sizeof info) == sizeof info)
        if (info.ssi_signo != SIGCHLD)
          interrupt();
      if (hasOutput && (fds[1].revents & (POLLIN | POLLHUP)))
        hasOutput = readErrors();
      if (waitpid(mpirun_, &status, WNOHANG) == mpirun_)
        break;
    }
    // A rank's own children may hold the pipe open: take what is there.
    fcntl(errors_, F_SETFL, O_NONBLOCK);
    while (hasOutput)
      hasOutput = readErrors();
    show(output_.finish());
    return status;
  }

  const MpirunOutput &output() const { return output_; }

private:
  bool readErrors() {
    char buffer[4096];
    ssize_t n = ::read(errors_, buffer, sizeof buffer);
    if (n > 0)
      show(output_.feed(std::string(buffer, static_cast<size_t>(n))));
    return n > 0 || (n < 0 && errno == EINTR);
  }

  void interrupt() {
    std::vector<pid_t> ranks = childrenOf(mpirun_);
    if (interrupts_++ > 0 || ranks.empty()) {
      kill(mpirun_, SIGTERM);
      return;
    }
    for (pid_t rank : ranks)
      kill(rank, SIGINT);
  }

  pid_t mpirun_;
  int errors_;
  int signals_;
  int interrupts_ = 0;
  MpirunOutput output_;
};

} // namespace

Result<int> launchUnderMpirun(int ranks, char *const *argv) {
  if (ranks < 1)
    return Status::failed("expected at least 1 rank, got " +
                          std::to_string(ranks));
  if (!argv || !argv[0])
    return Status::failed("expected a program to start, got none");
  if (std::getenv("OMPI_COMM_WORLD_RANK"))
    return Status::failed("expected to start mpirun outside of a job of "
                          "mpirun, got OMPI_COMM_WORLD_RANK in the "
                          "environment");
  // This host alone, with as many slots as ranks; threads are not tied to the
  // one core that mpirun would choose for a rank.
  std::vector<std::string> words = {"mpirun",
                                    "-n",
                                    std::to_string(ranks),
                                    "--host",
                                    "localhost:" + std::to_string(ranks),
                                    "--bind-to",
                                    "none"};
  if (geteuid() == 0)
    words.push_back("--allow-run-as-root");
  for (char *const *word = argv; *word; ++word)
    words.push_back(*word);

  std::vector<char *> command;
  for (std::string &word : words)
    command.push_back(word.data());
  command.push_back(nullptr);

  Pipe errors, failure;
  BlockedSignals signals;
  if (signals.fd() < 0 || !errors.open() || !failure.open())
    return Status::failed(std::string("cannot start mpirun: ") +
                          std::strerror(errno));
  pid_t mpirun = fork();
  if (mpirun < 0)
    return Status::failed(std::string("cannot start mpirun: ") +
                          std::strerror(errno));
  if (mpirun == 0)
    becomeMpirun(command.data(), errors, failure, signals);
  errors.write.close();
  failure.write.close();
  int error = 0;
  if (::read(failure.read.get(), &error, sizeof error) == sizeof error) {
    waitpid(mpirun, nullptr, 0);
    return Status::failed(std::string("cannot start mpirun, which the mpi "
                                      "backend needs on PATH: ") +
                          std::strerror(error));
  }

  Job job(mpirun, errors.read.get(), signals.fd());
  int status = job.watch();
  // Killed ranks are what an abort does, not why the job ended.
  if (job.output().abortCode() >= 0)
    return job.output().abortCode();
  int rank = job.output().killedRank(), by = job.output().killedBy();
  if (rank >= 0)
    return Status::failed("rank " + std::to_string(rank) +
                          " was killed by signal " + std::to_string(by) + " (" +
                          strsignal(by) + ")");
  if (WIFSIGNALED(status))
    return Status::failed("mpirun was killed by signal " +
                          std::to_string(WTERMSIG(status)) + " (" +
                          strsignal(WTERMSIG(status)) + ")");
  return WEXITSTATUS(status);
}

} // namespace fsdp::rt
