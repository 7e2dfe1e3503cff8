//===- MpiLaunch.cpp - Starting ranks with mpirun -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MpiBackend.h"
#include "MpirunJob.h"
#include "OwnNetwork.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
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

bool isIgnored(int signal) {
  struct sigaction action;
  return sigaction(signal, nullptr, &action) == 0 &&
         action.sa_handler == SIG_IGN;
}

/// Blocks the signals that a launcher handles, so that they queue for a
/// descriptor; restores the mask afterwards. A SIGPIPE waits until then.
class BlockedSignals {
public:
  BlockedSignals() {
    sigset_t handled;
    sigemptyset(&handled);
    for (int signal : {SIGINT, SIGTERM, SIGCHLD})
      sigaddset(&handled, signal);
    // Under nohup it stays ignored; a blocked one would still queue.
    if (!isIgnored(SIGHUP))
      sigaddset(&handled, SIGHUP);
    sigset_t blocked = handled;
    sigaddset(&blocked, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
    fd_.set(signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  ~BlockedSignals() { restore(); }
  void restore() const { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  int fd() const { return fd_.get(); }

private:
  sigset_t before_;
  Descriptor fd_;
};

/// Of the child of a process that may have threads: calls nothing that could
/// wait for one of them.
[[noreturn]] void becomeMpirun(char *const *argv, const Pipe &output,
                               const Pipe &errors, const Pipe &failure,
                               const BlockedSignals &signals) {
  signals.restore();
  // A terminal's Ctrl-C goes to a whole process group, and mpirun would kill
  // the ranks at once; here they are to end their step first. Outside that
  // group nobody may read from the terminal.
  setpgid(0, 0);
  enterOwnNetwork();
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  int null = ::open("/dev/null", O_RDONLY);
  if (null >= 0)
    dup2(null, STDIN_FILENO);
  dup2(output.write.get(), STDOUT_FILENO);
  dup2(errors.write.get(), STDERR_FILENO);
  execvp(argv[0], argv);
  int error = errno;
  ssize_t written = ::write(failure.write.get(), &error, sizeof error);
  _exit(written == sizeof error ? 127 : 126);
}

Status killedBy(const std::string &who, int signal) {
  return Status::failed(who + " was killed by signal " +
                        std::to_string(signal) + " (" + strsignal(signal) +
                        ")");
}

/// What came of a job whose mpirun has this wait status.
Result<int> outcomeOf(const MpirunJob &job, int status) {
  const MpirunOutput &said = job.said();
  if (job.wasKilled())
    return Status::failed("interrupted: mpirun did not end within " +
                          std::to_string(MpirunJob::graceSeconds) +
                          " s and was killed, with its ranks");
  // Killed ranks are what an abort does, not why the job ended.
  if (said.abortCode() >= 0)
    return said.abortCode();
  if (job.wasAskedToEnd() && !said.hasError())
    return Status::failed("interrupted, and not at the end of a step");
  if (said.killedRank() >= 0)
    return killedBy("rank " + std::to_string(said.killedRank()),
                    said.killedBy());
  if (WIFSIGNALED(status))
    return killedBy("mpirun", WTERMSIG(status));
  int code = WEXITSTATUS(status);
  if (code == 0 && job.hasLostOutput())
    return Status::failed("cannot write to standard output");
  if (code == 0)
    return 0;
  // A rank tells why it fails. mpirun's own failures come with other exit
  // statuses, or with the same ones.
  if (!said.hasError())
    return Status::failed("mpirun ended with exit status " +
                          std::to_string(code) +
                          ", and no rank has told an error");
  return code == int(Code::Internal) ? code : int(Code::Failed);
}

} // namespace

Result<int> launchUnderMpirun(int ranks, char *const *argv) {
  if (ranks < 1 || ranks > maxRanksOnHost)
    return Status::failed("expected 1 to " + std::to_string(maxRanksOnHost) +
                          " ranks under one mpirun of this host, got " +
                          std::to_string(ranks));
  if (!argv || !argv[0])
    return Status::failed("expected a program to start, got none");
  if (std::getenv("OMPI_COMM_WORLD_RANK"))
    return Status::failed("expected to start mpirun outside of a job of "
                          "mpirun, got OMPI_COMM_WORLD_RANK in the "
                          "environment");
  // This host alone, with as many slots as ranks, and nothing that reaches
  // others: Open MPI would want an ssh. Threads are not tied to the one core
  // that mpirun would choose for a rank.
  std::vector<std::string> words = {"mpirun",
                                    "-n",
                                    std::to_string(ranks),
                                    "--host",
                                    "localhost:" + std::to_string(ranks),
                                    "--mca",
                                    "plm",
                                    "isolated",
                                    "--mca",
                                    "oob_tcp_if_include",
                                    "lo",
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

  Pipe output, errors, failure;
  BlockedSignals signals;
  if (signals.fd() < 0 || !output.open() || !errors.open() || !failure.open())
    return Status::failed(std::string("cannot start mpirun: ") +
                          std::strerror(errno));
  pid_t mpirun = fork();
  if (mpirun < 0)
    return Status::failed(std::string("cannot start mpirun: ") +
                          std::strerror(errno));
  if (mpirun == 0)
    becomeMpirun(command.data(), output, errors, failure, signals);
  output.write.close();
  errors.write.close();
  failure.write.close();
  int error = 0;
  if (::read(failure.read.get(), &error, sizeof error) == sizeof error) {
    waitpid(mpirun, nullptr, 0);
    return Status::failed(std::string("cannot start mpirun, which the mpi "
                                      "backend needs on PATH: ") +
                          std::strerror(error));
  }

  MpirunJob job(mpirun, output.read.get(), errors.read.get(), signals.fd(),
                /*endsWithOutput=*/!isIgnored(SIGPIPE));
  int status = job.watch();
  return outcomeOf(job, status);
}

static Result<std::unique_ptr<Backend>> create(const BackendRequest &request) {
  if (request.link)
    return Status::failed("--link: expected the local backend, got mpi");
  const LaunchInfo &launch = request.launch;
  MpiBackendOptions options;
  options.waitLimit = request.waitLimit;
  options.threadsPerRank = request.countBusyThreads(
      /*hasLink=*/launch.localSize < launch.size, launch.localSize);
  return createMpiBackend(launch, options);
}

const BackendKind mpiBackend = {"mpi", /*isRankPerProcess=*/true,
                                checkConnected, create, launchUnderMpirun};

} // namespace fsdp::rt
