//===- MpirunJob.cpp - One running mpirun ---------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MpirunJob.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <vector>

namespace fsdp::rt {

namespace {

/// What a pipe takes without waiting once it says that it takes something.
constexpr size_t pieceBytes = 4096;

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

/// Children, their children, and so on.
std::vector<pid_t> descendantsOf(pid_t parent) {
  std::vector<pid_t> found = childrenOf(parent);
  for (size_t i = 0; i < found.size(); ++i) {
    std::vector<pid_t> more = childrenOf(found[i]);
    found.insert(found.end(), more.begin(), more.end());
  }
  return found;
}

} // namespace

int MpirunJob::watch() {
  int status = 0;
  while (true) {
    // poll() passes over descriptors below 0.
    pollfd fds[4] = {{signals_, POLLIN, 0},
                     {errors_, POLLIN, 0},
                     {pending_.empty() ? output_ : -1, POLLIN, 0},
                     {pending_.empty() ? -1 : STDOUT_FILENO, POLLOUT, 0}};
    if (poll(fds, 4, millisecondsLeft()) < 0 && errno != EINTR)
      break;
    readSignals();
    if (killAt_ && Clock::now() >= *killAt_)
      kill();
    if (fds[1].revents)
      readErrors();
    if (fds[2].revents)
      readOutput();
    if (fds[3].revents)
      writeOutput();
    if (waitpid(mpirun_, &status, WNOHANG) == mpirun_) {
      hasEnded_ = true; // its number may be another process's by now
      break;
    }
  }
  drain();
  return status;
}

int MpirunJob::millisecondsLeft() const {
  if (!killAt_)
    return -1;
  auto left =
      std::chrono::ceil<std::chrono::milliseconds>(*killAt_ - Clock::now());
  return std::max<int>(0, static_cast<int>(left.count()));
}

void MpirunJob::readSignals() {
  signalfd_siginfo info;
  while (::read(signals_, &info, sizeof info) == sizeof info)
    if (info.ssi_signo != SIGCHLD)
      interrupt();
}

void MpirunJob::interrupt() {
  if (hasEnded_) {
    ++interrupts_;
    return;
  }
  std::vector<pid_t> ranks = childrenOf(mpirun_);
  // The ranks end after their step, however long that takes; who asks twice
  // does not want to wait.
  if (interrupts_++ > 0 || ranks.empty()) {
    askToEnd();
    return;
  }
  for (pid_t rank : ranks)
    ::kill(rank, SIGINT);
}

void MpirunJob::askToEnd() {
  ::kill(mpirun_, SIGTERM);
  wasAskedToEnd_ = true;
  if (!killAt_ && !wasKilled_)
    killAt_ = Clock::now() + std::chrono::seconds(graceSeconds);
}

void MpirunJob::kill() {
  // Stopped, it starts no more ranks.
  ::kill(mpirun_, SIGSTOP);
  std::vector<pid_t> ranks = descendantsOf(mpirun_);
  ::kill(mpirun_, SIGKILL);
  for (pid_t rank : ranks)
    ::kill(rank, SIGKILL);
  killAt_.reset();
  wasKilled_ = true;
}

void MpirunJob::readErrors() {
  char buffer[pieceBytes];
  ssize_t n = ::read(errors_, buffer, sizeof buffer);
  if (n > 0)
    show(said_.feed(std::string(buffer, static_cast<size_t>(n))));
  else if (n == 0 || errno != EINTR)
    errors_ = -1;
}

void MpirunJob::readOutput() {
  char buffer[pieceBytes];
  ssize_t n = ::read(output_, buffer, sizeof buffer);
  if (n > 0 && !hasLostOutput_)
    pending_.assign(buffer, static_cast<size_t>(n));
  else if (n == 0 || (n < 0 && errno != EINTR))
    output_ = -1;
}

void MpirunJob::writeOutput() {
  ssize_t n = ::write(STDOUT_FILENO, pending_.data(), pending_.size());
  if (n >= 0) {
    pending_.erase(0, static_cast<size_t>(n));
    return;
  }
  if (errno == EINTR || errno == EAGAIN)
    return;
  // A terminal that was closed must not keep the ranks from saving.
  hasLostOutput_ = true;
  pending_.clear();
  if (errno == EPIPE)
    loseReader();
}

/// Ends the ranks as they end where they write by themselves and nobody reads
/// it: after their step, with their state saved. Says nothing of it.
void MpirunJob::loseReader() {
  if (!endsWithOutput_ || isMute_ || hasEnded_)
    return;
  isMute_ = true;
  std::vector<pid_t> ranks = childrenOf(mpirun_);
  if (ranks.empty())
    askToEnd();
  for (pid_t rank : ranks)
    ::kill(rank, SIGINT);
}

/// What mpirun has left in the pipes. A rank's own children may hold them open.
void MpirunJob::drain() {
  for (int fd : {errors_, output_})
    if (fd >= 0)
      fcntl(fd, F_SETFL, O_NONBLOCK);
  while (errors_ >= 0)
    readErrors();
  show(said_.finish());
  while (output_ >= 0 || !pending_.empty()) {
    if (pending_.empty()) {
      readOutput();
      continue;
    }
    pollfd fds[2] = {{signals_, POLLIN, 0}, {STDOUT_FILENO, POLLOUT, 0}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR)
      return;
    int before = interrupts_;
    readSignals();
    if (interrupts_ != before)
      return;
    if (fds[1].revents)
      writeOutput();
  }
}

void MpirunJob::show(const std::string &text) {
  for (size_t done = 0; done < text.size() && !isMute_;) {
    ssize_t n = ::write(STDERR_FILENO, text.data() + done, text.size() - done);
    if (n < 0 && errno == EPIPE)
      loseReader();
    if (n < 0 && errno != EINTR)
      return;
    done += n > 0 ? static_cast<size_t>(n) : 0;
  }
}

} // namespace fsdp::rt
