//===- fsdp-rt.h - Running compiled programs ----------------------*- C -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The runtime as a library. fsdp_rt_main is a compiled program's `main`. A
// session runs an artifact's programs, which share its state, one after the
// other under the caller's control:
//
//   fsdp_session *s;
//   if (fsdp_create(&fsdp_rt_artifact_entry, NULL, &s) != FSDP_OK)
//     return fail(fsdp_last_error(NULL));
//   fsdp_init_from_seed(s, 0);
//   for (int i = 0; i < steps; ++i) {
//     for (int rank = 0; rank < ranks; ++rank)
//       fsdp_set_input(s, NULL, rank, "input_ids", batch(i, rank), bytes);
//     fsdp_step(s, 1e-3);
//   }
//   fsdp_destroy(s);
//
// Functions are called by one thread at a time, for each session; strings and
// memory passed in are copied, strings passed out live until the next call with
// that session. Nothing here throws, ends the process or catches signals.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_FSDP_RT_H
#define FSDP_RT_FSDP_RT_H

#include "fsdp-rt/abi.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FSDP_RT_EXPORT __attribute__((visibility("default")))

/* What every function returns. On any but FSDP_OK, fsdp_last_error says why. */
typedef enum {
  FSDP_OK = 0,
  FSDP_FAILED = 1,  /* the caller's mistake, or the machine's failure */
  FSDP_INTERNAL = 2 /* a fault of the program or the runtime: please report */
} fsdp_code;

/* The command line of a compiled program, `argv[1]` on: see --help. Returns the
 * exit status: 0 done, 1 failed, 2 internal fault. One at a time in a process:
 * it handles SIGINT and SIGTERM while it runs. */
FSDP_RT_EXPORT int fsdp_rt_main(int argc, char **argv,
                                const fsdp_rt_artifact *artifact);

typedef struct fsdp_session fsdp_session;

/* All zero is the default. Set `size` to sizeof(fsdp_session_options). */
typedef struct fsdp_session_options {
  size_t size;
  int32_t ranks;       /* must be the mesh's size; 0: takes it */
  int32_t threads;     /* per rank, no more than the program's memory budget
                          has room for; 0: cores / ranks, at least 1, or as
                          many fewer */
  const char *backend; /* "local": ranks are threads of this process;
                          "mpi" or "tcp": this process is one rank of a job of
                          Open MPI, or of one that connects by TCP; null:
                          local, but refused in one of several processes of a
                          launcher */
  const char *device;  /* what runs the program, "cpu" or "cuda"; null: the
                          first that can */
} fsdp_session_options;

/* `artifact` must outlive the session, `options` may be null. On failure
 * *session is null and the reason is fsdp_last_error(NULL). With "mpi" and
 * "tcp", every process of the job makes all calls below that are marked
 * collective, in the same order. */
FSDP_RT_EXPORT fsdp_code fsdp_create(const fsdp_rt_artifact *artifact,
                                     const fsdp_session_options *options,
                                     fsdp_session **session);

/* Ends the ranks. Null is fine. */
FSDP_RT_EXPORT void fsdp_destroy(fsdp_session *session);

/* The reason of the last failure of a call with this session; "" if none has
 * failed. With null: of this thread's last fsdp_create. Never null. */
FSDP_RT_EXPORT const char *fsdp_last_error(const fsdp_session *session);

/* An option of the device that runs the program, by its name on the command
 * line, where --help lists names and values: "blas", "graph", "channel". Or
 * "lr-schedule", as on the command line but for warm-up by tokens: each step
 * then takes its part of the rates that are set, whatever a checkpoint's
 * schedule was. Before the first initial state. */
FSDP_RT_EXPORT fsdp_code fsdp_set_option(fsdp_session *session,
                                         const char *name, const char *value);

/* The manifest: JSON, see docs/manifest.md. */
FSDP_RT_EXPORT fsdp_code fsdp_describe(fsdp_session *session,
                                       const char **json);

/* Ranks of the whole program, and the first of those in this process with
 * their number (local: 0 and all). Any of the pointers may be null. */
FSDP_RT_EXPORT fsdp_code fsdp_ranks(fsdp_session *session, int32_t *world,
                                    int32_t *first, int32_t *count);

/* The initial state, one of these before the first step. The first one starts
 * the ranks and reserves their memory; where that fails, so does all that
 * follows. Collective: where one process fails, or names another kind, seed or
 * step than rank 0, all fail.
 * From `seed` by the program's initialisers; from a safetensors file, where
 * `cast` lets float types differ; or from a directory that fsdp_save or a
 * program's --save wrote, with the number of its step in *step (may be null).
 * What differs between ranks, such as a BatchNorm's buffers, each rank finds
 * again where as many ranks wrote it; else all start from rank 0's. A
 * checkpoint of --save-trained is read over the state that the session has from
 * one of the first two, whose frozen parameters must be those of the run that
 * saved it. */
FSDP_RT_EXPORT fsdp_code fsdp_init_from_seed(fsdp_session *session,
                                             uint64_t seed);
FSDP_RT_EXPORT fsdp_code fsdp_init_from_file(fsdp_session *session,
                                             const char *path, int32_t cast);
FSDP_RT_EXPORT fsdp_code fsdp_resume(fsdp_session *session,
                                     const char *directory, int64_t *step);

/* Copies an input of a rank of this process: `bytes` must be its size, values
 * within its bounds. It stays until it is set again. Here and below, `program`
 * is one of the manifest's programs, by name; null: the one that trains. */
FSDP_RT_EXPORT fsdp_code fsdp_set_input(fsdp_session *session,
                                        const char *program, int32_t rank,
                                        const char *name, const void *data,
                                        size_t bytes);

/* Sets a scalar of every program that has it for all further runs on all ranks
 * of this process: "clip_norm" and others; fsdp_step sets "lr". Others follow
 * from the micro-batches of a step that were run. "accumulation_weight", which
 * divides their gradients' sum, is their number unless it is set, to a positive
 * and finite one, for the next step alone; a loss that is a sum is divided by
 * its count, and the program does not have it. "accumulated" and
 * "accumulated_count", of those before, are refused. */
FSDP_RT_EXPORT fsdp_code fsdp_set_scalar(fsdp_session *session,
                                         const char *name, double value);

/* Runs a program on all ranks; collective. Needs a state and every input of the
 * program. A training step changes the state, an evaluation does not. A step of
 * several micro-batches runs "accumulate" for each but the last, and
 * "train_accumulated" for that one: until then a step of its own is refused.
 * After a failure within a program the session can only be destroyed. */
FSDP_RT_EXPORT fsdp_code fsdp_run(fsdp_session *session, const char *program);

/* fsdp_set_scalar of "lr", then fsdp_run of the program that trains. With NAN
 * the rate stays: as it was set, or as the resumed checkpoint's --lr-schedule
 * has it for each step, which ends where the caller sets a rate. */
FSDP_RT_EXPORT fsdp_code fsdp_step(fsdp_session *session, double lr);

/* An output of a program, such as "loss" or an evaluation's "logits": its type,
 * its bytes on one rank, and its dimensions, of which at most `max_rank` are
 * written to `shape`. Any pointer but `name` may be null. */
FSDP_RT_EXPORT fsdp_code fsdp_output_info(fsdp_session *session,
                                          const char *program, const char *name,
                                          fsdp_rt_dtype *dtype, size_t *bytes,
                                          int64_t *shape, size_t max_rank,
                                          size_t *rank);

/* Copies an output of a rank of this process to `data`, whose size must be
 * `bytes`. Programs share memory: only of the program that ran last. */
FSDP_RT_EXPORT fsdp_code fsdp_read_output(fsdp_session *session,
                                          const char *program, int32_t rank,
                                          const char *name, void *data,
                                          size_t bytes);

/* Of the last training step: the loss, as the mean over all ranks and
 * micro-batches, or, where programs return "loss_count" beside "loss", both
 * summed up and divided; and the norm of that loss's gradient before clipping.
 * Either pointer may be null. */
FSDP_RT_EXPORT fsdp_code fsdp_results(fsdp_session *session, double *loss,
                                      double *grad_norm);

/* A parameter or buffer: its type, its bytes as a whole, and its dimensions, of
 * which at most `max_rank` are written to `shape`. Any pointer may be null. */
FSDP_RT_EXPORT fsdp_code fsdp_parameter_info(fsdp_session *session,
                                             const char *name,
                                             fsdp_rt_dtype *dtype,
                                             size_t *bytes, int64_t *shape,
                                             size_t max_rank, size_t *rank);

/* Gathers a parameter from its shards, or rank 0's buffer, into `data`, whose
 * size must be `bytes`; the other way round; both collective. Needs a state. */
FSDP_RT_EXPORT fsdp_code fsdp_read_parameter(fsdp_session *session,
                                             const char *name, void *data,
                                             size_t bytes);
FSDP_RT_EXPORT fsdp_code fsdp_write_parameter(fsdp_session *session,
                                              const char *name,
                                              const void *data, size_t bytes);

/* Saves the whole state as a checkpoint in `directory`, under the number of
 * steps since the very first one; collective. Refuses a directory that another
 * run or session saves to, which from the first save on is this one's until its
 * end; one that holds checkpoints which this session neither wrote nor resumed;
 * parameters or optimizer states that are not finite; and a step of which only
 * some micro-batches have run. */
FSDP_RT_EXPORT fsdp_code fsdp_save(fsdp_session *session,
                                   const char *directory);

#ifdef __cplusplus
}
#endif

#endif /* FSDP_RT_FSDP_RT_H */
