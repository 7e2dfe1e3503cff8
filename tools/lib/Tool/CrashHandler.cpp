//===- CrashHandler.cpp - What a tool says where it crashes ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The handler runs where the process is broken: it reads static buffers, calls
// only what POSIX allows in a signal handler, and ends with _exit.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Tool/CrashHandler.h"
#include "fsdp/Support/PrintableText.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/Threading.h"
#include "llvm/Support/raw_ostream.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

using namespace mlir;
using namespace mlir::fsdp;

namespace {
/// A text that a signal handler can read at any time: always terminated, cut
/// where it is too long.
class StaticText {
public:
  void set(StringRef value) {
    std::string text = makePrintable(value);
    size_t length = std::min(text.size(), sizeof(bytes) - 1);
    // An empty text between the two: never half of one beside half of another.
    bytes[0] = 0;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    std::memcpy(bytes + 1, text.data() + std::min<size_t>(length, 1),
                length ? length - 1 : 0);
    bytes[length] = 0;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    bytes[0] = length ? text[0] : 0;
  }
  const char *get() const { return bytes; }

private:
  char bytes[512] = {};
};

/// One line, written at once.
class Line {
public:
  Line &operator<<(const char *text) {
    size_t length = std::min(strlen(text), sizeof(bytes) - size - 1);
    std::memcpy(bytes + size, text, length);
    size += length;
    return *this;
  }
  Line &operator<<(int number) {
    char digits[12];
    char *next = digits + sizeof(digits) - 1;
    *next = 0;
    do
      *--next = char('0' + number % 10);
    while (number /= 10);
    return *this << next;
  }
  void write() {
    bytes[size++] = '\n';
    for (size_t done = 0; done < size;) {
      ssize_t count = ::write(STDERR_FILENO, bytes + done, size - done);
      if (count <= 0)
        return;
      done += count;
    }
  }

private:
  char bytes[4096];
  size_t size = 0;
};
} // namespace

static StaticText theTool, theFile;
/// Of each thread: passes may run on several.
static thread_local StaticText theActivity;
static bool dumpsStack;
static std::atomic<bool> isParsing, hasError;
/// What was parsed last was wrong, which has been said. Upstream's parser may
/// have left memory broken (a block that is defined twice is freed twice), of
/// which the process then dies before it ends.
static std::atomic<bool> hasFailedParsing;

void fsdp::setCrashFile(StringRef file) { theFile.set(file); }
void fsdp::setCrashActivity(StringRef activity) { theActivity.set(activity); }

/// Of the process, in seconds. Texts of 10 MB take one.
static uint64_t getMostParsing(uint64_t bytes) { return 10 + (bytes >> 18); }
static std::atomic<uint64_t> mostParsing;

static void setParsingTimer(uint64_t seconds) {
  mostParsing = seconds;
  struct itimerval timer = {};
  timer.it_value.tv_sec = time_t(seconds);
  setitimer(ITIMER_PROF, &timer, nullptr);
}

ParsingScope::ParsingScope(uint64_t bytes) {
  setCrashActivity("parsing");
  hasError = hasFailedParsing = false;
  isParsing = true;
  setParsingTimer(getMostParsing(bytes));
}

ParsingScope::~ParsingScope() {
  setParsingTimer(0);
  isParsing = false;
  hasFailedParsing = bool(hasError);
  setCrashActivity("");
}

void fsdp::noteError() { hasError = true; }

/// " in pass 'fsdp-form-kernels' of model.mlir".
static Line &printPlace(Line &line) {
  if (*theActivity.get())
    line << " in " << theActivity.get();
  if (*theFile.get())
    line << " of " << theFile.get();
  return line;
}

[[noreturn]] static void leave(int status) {
  // Removes temporary files; made for signal handlers.
  llvm::sys::RunInterruptHandlers();
  _exit(status);
}

/// The rest of the line that tells of an internal fault.
[[noreturn]] static void reportFault(Line &line) {
  bool isOfParser = isParsing ? hasError : hasFailedParsing;
  if (isOfParser && !dumpsStack)
    leave(1);
  printPlace(line)
      << "; please report it with the command line and the files that it names";
  if (!dumpsStack)
    line << " (FSDP_STACK_DUMP=1 prints the stack)";
  line.write();
  if (dumpsStack)
    llvm::sys::PrintStackTrace(llvm::errs());
  leave(2);
}

//===----------------------------------------------------------------------===//
// Signals
//===----------------------------------------------------------------------===//

static constexpr std::pair<int, const char *> kSignals[] = {
    {SIGSEGV, "an invalid memory access, or no stack left"},
    {SIGBUS, "a bus error: a file that shrank, or no memory"},
    {SIGABRT, "abort"},
    {SIGFPE, "an arithmetic error"},
    {SIGILL, "an illegal instruction"},
    {SIGTRAP, "a trap"},
    {SIGSYS, "a forbidden system call"}};

static void handleSignal(int number) {
  const char *what = "a signal";
  for (auto [signal, name] : kSignals)
    if (signal == number)
      what = name;
  Line line;
  line << "error: internal error: " << theTool.get() << " met " << what
       << " (signal " << number << ")";
  reportFault(line);
}

/// Parsing takes too long.
static void handleTimer(int) {
  Line line;
  line << "error: expected " << theFile.get() << " to be parsed within "
       << int(mostParsing) << " seconds, got no end";
  line.write();
  leave(1);
}

static void installSignalHandlers() {
  struct sigaction action = {};
  action.sa_handler = handleSignal;
  // The stack may be what ran out. A second signal, from the handler, kills.
  action.sa_flags = SA_ONSTACK | SA_RESETHAND | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  for (auto [signal, name] : kSignals)
    sigaction(signal, &action, nullptr);
  action.sa_handler = handleTimer;
  sigaction(SIGPROF, &action, nullptr);
}

/// A stack of its own for this thread's signal handlers. Static: only one
/// thread, the tool's, goes as deep as files nest.
static void useSignalStack() {
  alignas(16) static char stack[64 << 10];
  stack_t alternative = {};
  alternative.ss_sp = stack;
  alternative.ss_size = sizeof(stack);
  sigaltstack(&alternative, nullptr);
}

//===----------------------------------------------------------------------===//
// Errors that LLVM ends a process with
//===----------------------------------------------------------------------===//

static void handleFatalError(void *, const char *reason, bool) {
  StaticText printable;
  printable.set(reason);
  Line line;
  line << "error: internal error: " << theTool.get() << " met a fatal error, '"
       << printable.get() << "',";
  reportFault(line);
}

/// Whether the machine could give a gigabyte: then what was asked for was
/// absurd.
static bool hasMemory() {
  struct rlimit space;
  return sysconf(_SC_AVPHYS_PAGES) > (1 << 30) / sysconf(_SC_PAGESIZE) &&
         (getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur == RLIM_INFINITY);
}

static void handleBadAlloc(void *, const char *, bool) {
  Line line;
  if (hasMemory()) {
    line << "error: internal error: " << theTool.get()
         << " asked for more memory than there is";
    reportFault(line);
  }
  line << "error: expected memory for " << theTool.get() << ", got none";
  printPlace(line).write();
  leave(1);
}

//===----------------------------------------------------------------------===//
// The tool
//===----------------------------------------------------------------------===//

namespace {
struct ToolThread {
  llvm::function_ref<int()> main;
  int status = 0;

  static void *run(void *self) {
    auto *thread = static_cast<ToolThread *>(self);
    useSignalStack();
    thread->status = thread->main();
    return nullptr;
  }
};
} // namespace

int fsdp::runTool(StringRef tool, llvm::function_ref<int()> main) {
  theTool.set(tool);
  dumpsStack = std::getenv("FSDP_STACK_DUMP") != nullptr;
  installSignalHandlers();
  llvm::install_fatal_error_handler(handleFatalError);
  llvm::install_bad_alloc_error_handler(handleBadAlloc);

  ToolThread thread{main};
  // Address space, of which only what is used takes memory. Where there is not
  // so much (ulimit -v), less will do for most files.
  for (size_t size = size_t(512) << 20; size >= size_t(16) << 20; size /= 2) {
    pthread_attr_t attributes;
    pthread_t id;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, size);
    int failed = pthread_create(&id, &attributes, ToolThread::run, &thread);
    pthread_attr_destroy(&attributes);
    if (failed)
      continue;
    pthread_join(id, nullptr);
    return thread.status;
  }
  ToolThread::run(&thread);
  return thread.status;
}

//===----------------------------------------------------------------------===//
// Passes
//===----------------------------------------------------------------------===//

namespace {
/// Where a pass runs a pipeline of its own, the innermost pass is said; after
/// it has run, the one around it. MLIR calls these behind a lock.
class CrashInstrumentation : public PassInstrumentation {
public:
  void runBeforePass(Pass *pass, Operation *) override {
    StringRef name = pass->getArgument();
    auto &passes = running[llvm::get_threadid()];
    passes.push_back(
        ("pass '" + (name.empty() ? pass->getName() : name) + "'").str());
    setCrashActivity(passes.back());
  }
  void runAfterPass(Pass *, Operation *) override { leavePass(); }
  void runAfterPassFailed(Pass *, Operation *) override { leavePass(); }

private:
  void leavePass() {
    auto &passes = running[llvm::get_threadid()];
    std::string left = passes.pop_back_val();
    setCrashActivity(passes.empty() ? "what follows " + left : passes.back());
  }
  llvm::DenseMap<uint64_t, SmallVector<std::string>> running;
};
} // namespace

std::unique_ptr<PassInstrumentation> fsdp::createCrashInstrumentation() {
  return std::make_unique<CrashInstrumentation>();
}
