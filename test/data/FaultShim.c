//===- FaultShim.c - Failing at the n-th change of a file ---------*- C -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Preloaded, it counts the calls that change files or directories. Call number
// FAULT_AT ends the process as kill -9 would or, with FAULT_ERRNO, fails with
// that error, and so do the FAULT_COUNT - 1 calls after it; so every moment of a
// save can be its last one, and a disk can be full or read-only for a while. At
// the process's end FAULT_COUNTED, a file, is told how many calls there were.
//
//===----------------------------------------------------------------------===//

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_int calls;

/* The error that this call must fail with, or 0. */
static int fault(void) {
  const char *at = getenv("FAULT_AT"), *error = getenv("FAULT_ERRNO"),
             *count = getenv("FAULT_COUNT");
  int number = atomic_fetch_add(&calls, 1) + 1;
  if (!at)
    return 0;
  int past = number - atoi(at);
  if (past < 0 || past >= (count ? atoi(count) : 1))
    return 0;
  if (!error)
    kill(getpid(), SIGKILL);
  return atoi(error);
}

__attribute__((destructor)) static void tell(void) {
  const char *path = getenv("FAULT_COUNTED");
  FILE *file = path ? fopen(path, "w") : NULL;
  if (file) {
    fprintf(file, "%d\n", atomic_load(&calls));
    fclose(file);
  }
}

/* A full disk lets one remove what is there. */
static int removal_fault(void) {
  int error = fault();
  return error == ENOSPC ? 0 : error;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define SHIM(type, name, parameters, arguments)                                \
  SHIM_OF(fault, type, name, parameters, arguments)
#define SHIM_OF(fault, type, name, parameters, arguments)                      \
  type name parameters {                                                       \
    int error = fault();                                                       \
    if (error) {                                                               \
      errno = error;                                                           \
      return -1;                                                               \
    }                                                                          \
    return REAL(name) arguments;                                               \
  }

SHIM(ssize_t, pwrite, (int fd, const void *data, size_t bytes, off_t offset),
     (fd, data, bytes, offset))
SHIM(ssize_t, pwrite64,
     (int fd, const void *data, size_t bytes, off64_t offset),
     (fd, data, bytes, offset))
SHIM(int, fsync, (int fd), (fd))
SHIM(int, rename, (const char *from, const char *to), (from, to))
SHIM(int, renameat2,
     (int a, const char *from, int b, const char *to, unsigned flags),
     (a, from, b, to, flags))
SHIM(int, renameat, (int a, const char *from, int b, const char *to),
     (a, from, b, to))
SHIM(int, mkdirat, (int fd, const char *path, mode_t mode), (fd, path, mode))
SHIM(int, ftruncate, (int fd, off_t bytes), (fd, bytes))
SHIM(int, mkdir, (const char *path, mode_t mode), (path, mode))
SHIM_OF(removal_fault, int, unlink, (const char *path), (path))
SHIM_OF(removal_fault, int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags))
SHIM_OF(removal_fault, int, rmdir, (const char *path), (path))

/* To what is a file: not to pipes and terminals. */
ssize_t write(int fd, const void *data, size_t bytes) {
  struct stat info;
  int error = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? fault() : 0;
  if (error) {
    errno = error;
    return -1;
  }
  return REAL(write)(fd, data, bytes);
}

/* This one returns its error. */
int posix_fallocate(int fd, off_t offset, off_t bytes) {
  int error = fault();
  return error ? error : REAL(posix_fallocate)(fd, offset, bytes);
}

static int isChange(int flags) { return flags & (O_CREAT | O_TRUNC); }

int openat(int fd, const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  mode_t mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
  va_end(list);
  int error = isChange(flags) ? fault() : 0;
  if (error) {
    errno = error;
    return -1;
  }
  return REAL(openat)(fd, path, flags, mode);
}

int open(const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  mode_t mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
  va_end(list);
  int error = isChange(flags) ? fault() : 0;
  if (error) {
    errno = error;
    return -1;
  }
  return REAL(open)(path, flags, mode);
}
