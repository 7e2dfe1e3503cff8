//===- SessionTest.c - The library as C programs use it -----------*- C -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// SessionTest PROGRAM [DIR]: runs LinearProgram.c, which is linked in, for the
// mesh in LINEAR_MESH; PROGRAM is the executable made from it. With DIR, which
// all processes share, this is one rank of an MPI job.
//
//===----------------------------------------------------------------------===//

#include "fsdp-rt/fsdp-rt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROW = 20, STEPS = 6 };

static int failures;

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);          \
      ++failures;                                                              \
    }                                                                          \
  } while (0)

#define CHECK_OK(session, call)                                                \
  do {                                                                         \
    if ((call) != FSDP_OK) {                                                   \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,            \
              fsdp_last_error(session));                                       \
      ++failures;                                                              \
    }                                                                          \
  } while (0)

/* That a call fails, and why. */
#define CHECK_REFUSED(session, call, why)                                      \
  do {                                                                         \
    if ((call) != FSDP_FAILED || !strstr(fsdp_last_error(session), why)) {     \
      fprintf(stderr, "%s:%d: %s: got '%s'\n", __FILE__, __LINE__, #call,      \
              fsdp_last_error(session));                                       \
      ++failures;                                                              \
    }                                                                          \
  } while (0)

static char directory[256];

static const char *in_directory(const char *name) {
  static char path[2][400];
  static int turn;
  turn = !turn;
  snprintf(path[turn], sizeof path[turn], "%s/%s", directory, name);
  return path[turn];
}

static void set_batch(fsdp_session *s, int step) {
  int64_t ids[ROW], labels[ROW];
  int32_t first, count;
  CHECK_OK(s, fsdp_ranks(s, NULL, &first, &count));
  for (int i = 0; i < ROW; ++i) {
    ids[i] = (step * 31 + i * 7) % 128;
    labels[i] = (step * 17 + i * 3) % 128;
  }
  for (int rank = first; rank < first + count; ++rank) {
    CHECK_OK(s, fsdp_set_input(s, NULL, rank, "input_ids", ids, sizeof ids));
    CHECK_OK(s, fsdp_set_input(s, NULL, rank, "labels", labels, sizeof labels));
  }
}

static void train(fsdp_session *s, int from, int to) {
  for (int step = from; step < to; ++step) {
    set_batch(s, step);
    CHECK_OK(s, fsdp_step(s, 1e-3));
  }
}

static void read_weight(fsdp_session *s, float *weight) {
  CHECK_OK(s, fsdp_read_parameter(s, "weight", weight, 5 * sizeof(float)));
}

static void test_creation(void) {
  fsdp_session *s = (fsdp_session *)1;
  fsdp_session_options options = {.size = sizeof options};
  fsdp_rt_artifact other = fsdp_rt_artifact_entry;
  CHECK_REFUSED(NULL, fsdp_create(&fsdp_rt_artifact_entry, NULL, NULL),
                "expected 'session'");
  options.ranks = 77;
  CHECK_REFUSED(NULL, fsdp_create(&fsdp_rt_artifact_entry, &options, &s),
                "the size of the mesh that the program was compiled for, got "
                "77");
  CHECK(s == NULL);
  options.ranks = 0;
  options.backend = "gloo";
  CHECK_REFUSED(NULL, fsdp_create(&fsdp_rt_artifact_entry, &options, &s),
                "got 'gloo'");
  options.backend = "local";
  options.threads = -1;
  CHECK_REFUSED(NULL, fsdp_create(&fsdp_rt_artifact_entry, &options, &s),
                "got -1");
  options.size = 3;
  CHECK_REFUSED(NULL, fsdp_create(&fsdp_rt_artifact_entry, &options, &s),
                "got size 3");
  other.abi_version = 99;
  CHECK_REFUSED(NULL, fsdp_create(&other, NULL, &s), "got version 99");
  CHECK(fsdp_create(NULL, NULL, &s) == FSDP_INTERNAL);
  fsdp_destroy(NULL);
  CHECK(fsdp_step(NULL, 0) == FSDP_FAILED);
}

/* Whose ranks are threads of this process; NULL: the first device that can. */
static fsdp_session *open_session(const char *device) {
  fsdp_session *s = NULL;
  fsdp_session_options options = {
      .size = sizeof options, .backend = "local", .device = device};
  CHECK_OK(NULL, fsdp_create(&fsdp_rt_artifact_entry, &options, &s));
  return s;
}

/* Options of the device, by name, before its ranks start. */
static void test_options(void) {
  fsdp_session *s = open_session("cpu");
  CHECK_REFUSED(s, fsdp_set_option(s, NULL, "auto"), "expected 'name'");
  CHECK_REFUSED(s, fsdp_set_option(s, "blas", NULL), "expected 'value'");
  CHECK_REFUSED(s, fsdp_set_option(s, "blas", "none"),
                "blas: expected auto, openblas or onednn, got 'none'");
  CHECK_REFUSED(s, fsdp_set_option(s, "graph", "off"),
                "graph: expected a setting of processors, queue-threads or "
                "blas, got 'graph'");
  CHECK_REFUSED(s, fsdp_step(s, 0), "expected an initial state");
  CHECK_OK(s, fsdp_set_option(s, "blas", "auto"));
  CHECK_OK(s, fsdp_set_option(s, "queue-threads", "off"));
  CHECK_OK(s, fsdp_init_from_seed(s, 0));
  CHECK_REFUSED(s, fsdp_set_option(s, "blas", "auto"),
                "expected 'blas' before the first initial state");
  fsdp_destroy(s);
}

/* A norm that clips, set before the ranks start, after, or not at all. */
static void train_clipped(int before, int after, float *weight) {
  fsdp_session *s = open_session(NULL);
  if (before)
    CHECK_OK(s, fsdp_set_scalar(s, "clip_norm", 1e-3));
  CHECK_OK(s, fsdp_init_from_seed(s, 0));
  if (after)
    CHECK_OK(s, fsdp_set_scalar(s, "clip_norm", 1e-3));
  train(s, 0, 2);
  read_weight(s, weight);
  fsdp_destroy(s);
}

static void test_scalars_before_the_state(void) {
  float before[5], after[5], without[5];
  train_clipped(1, 0, before);
  train_clipped(0, 1, after);
  train_clipped(0, 0, without);
  CHECK(memcmp(before, after, sizeof before) == 0);
  CHECK(memcmp(before, without, sizeof before) != 0);
}

/* For a device: NULL leaves an option out. */
static void set_options(fsdp_session *s, const char *graph,
                        const char *reduction, const char *channel) {
  const char *const given[][2] = {
      {"graph", graph}, {"reduction", reduction}, {"channel", channel}};
  for (size_t i = 0; i < sizeof given / sizeof *given; ++i)
    if (given[i][1])
      CHECK_OK(s, fsdp_set_option(s, given[i][0], given[i][1]));
}

/* The rate is in the device's memory: a graph that was captured once reads
 * what each step was given. */
static void train_at_rates(const char *device, const char *graph, int changes,
                           float *weight) {
  fsdp_session *s = open_session(device);
  set_options(s, graph, NULL, NULL);
  CHECK_OK(s, fsdp_init_from_seed(s, 0));
  for (int step = 0; step < STEPS; ++step) {
    set_batch(s, step);
    CHECK_OK(s, fsdp_step(s, changes ? 1e-3 * (1 + step * step) : 1e-3));
    read_weight(s, weight + 5 * step);
  }
  fsdp_destroy(s);
}

static void test_changing_rates(void) {
  float cpu[5 * STEPS], graph[5 * STEPS], eager[5 * STEPS], same[5 * STEPS];
  train_at_rates("cpu", NULL, 1, cpu);
  train_at_rates("cuda", "on", 1, graph);
  train_at_rates("cuda", "off", 1, eager);
  train_at_rates("cuda", "on", 0, same);
  CHECK(memcmp(graph, eager, sizeof graph) == 0);
  CHECK(memcmp(graph, cpu, sizeof graph) == 0);
  CHECK(memcmp(graph, same, 5 * sizeof(float)) == 0);
  for (int step = 1; step < STEPS; ++step)
    CHECK(memcmp(graph + 5 * step, same + 5 * step, 5 * sizeof(float)) != 0);
}

/* With LINEAR_CUDA: what a session is told of CUDA devices. */
static void train_on(const char *device, const char *graph,
                     const char *reduction, const char *channel,
                     float *weight) {
  fsdp_session *s = open_session(device);
  set_options(s, graph, reduction, channel);
  CHECK_OK(s, fsdp_init_from_seed(s, 0));
  train(s, 0, 3);
  read_weight(s, weight);
  fsdp_destroy(s);
}

static void test_cuda(void) {
  static const char *const told[][3] = {{NULL, NULL, NULL},
                                        {"off", "exact", "nccl"},
                                        {"on", NULL, NULL},
                                        {NULL, NULL, "host"}};
  static const char *const refused[][3] = {
      {"graph", "maybe", "graph: expected auto, off or on, got 'maybe'"},
      {"reduction", "fast", "reduction: expected auto, exact or nccl, got 'fast'"},
      {"channel", "tcp", "channel: expected nccl or host, got 'tcp'"}};
  fsdp_session *s;
  float expected[5], weight[5];
  train_on("cpu", NULL, NULL, NULL, expected);
  for (size_t i = 0; i < sizeof told / sizeof *told; ++i) {
    train_on("cuda", told[i][0], told[i][1], told[i][2], weight);
    CHECK(memcmp(weight, expected, sizeof weight) == 0);
  }
  train_on("cuda", NULL, "nccl", NULL, weight);
  for (int i = 0; i < 5; ++i)
    CHECK(weight[i] - expected[i] < 1e-5 && expected[i] - weight[i] < 1e-5);
  s = open_session("cuda");
  for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i)
    CHECK_REFUSED(s, fsdp_set_option(s, refused[i][0], refused[i][1]),
                  refused[i][2]);
  set_options(s, "on", NULL, "host");
  for (int i = 0; i < 2; ++i)
    CHECK_REFUSED(s, fsdp_init_from_seed(s, 0),
                  "expected auto or off beside --channel host");
  CHECK_REFUSED(s, fsdp_set_option(s, "graph", "off"),
                "expected 'graph' before the first initial state");
  fsdp_destroy(s);
}

static void test_order_and_arguments(fsdp_session *s) {
  int64_t ids[ROW] = {0};
  float weight[5];
  double loss;
  int32_t world, first, count;
  size_t bytes, rank;
  int64_t shape[4] = {0};
  fsdp_rt_dtype dtype;
  const char *json;
  CHECK(strcmp(fsdp_last_error(s), "") == 0);
  CHECK_OK(s, fsdp_ranks(s, &world, &first, &count));
  CHECK(first == 0 && count == world);
  CHECK_OK(s, fsdp_describe(s, &json));
  CHECK(strstr(json, "\"linear\""));

  CHECK_REFUSED(s, fsdp_step(s, 0.1), "expected an initial state");
  CHECK_REFUSED(s, fsdp_save(s, directory), "expected an initial state");
  CHECK_REFUSED(s, fsdp_read_parameter(s, "weight", weight, sizeof weight),
                "expected an initial state");
  CHECK_REFUSED(s, fsdp_results(s, &loss, NULL), "expected a step");
  CHECK_OK(s, fsdp_init_from_seed(s, 0));
  CHECK_REFUSED(s, fsdp_step(s, 0.1), "none for 'input_ids' of rank 0");
  CHECK_REFUSED(s, fsdp_set_input(s, NULL, world, "labels", ids, sizeof ids),
                "expected a rank from 0");
  CHECK_REFUSED(s, fsdp_set_input(s, NULL, 0, "label", ids, sizeof ids),
                "expected one of the inputs 'input_ids', 'labels'");
  CHECK_REFUSED(s, fsdp_set_input(s, NULL, 0, "labels", ids, 8),
                "expected 160 bytes, I64 [4, 5], got 8");
  CHECK_REFUSED(s, fsdp_set_input(s, NULL, 0, "labels", NULL, sizeof ids),
                "expected 'data'");
  ids[3] = 128;
  CHECK_REFUSED(s, fsdp_set_input(s, NULL, 0, "labels", ids, sizeof ids),
                "element 3: expected 0 <= value < 128, got 128");
  CHECK_REFUSED(s, fsdp_set_scalar(s, "beta", 1), "got 'beta'");
  CHECK_REFUSED(s, fsdp_set_scalar(s, "clip_norm", NAN), "clip_norm");
  CHECK_REFUSED(s, fsdp_init_from_file(s, in_directory("none"), 0),
                "No such file");
  CHECK_REFUSED(s, fsdp_resume(s, in_directory("none"), NULL),
                "expected a checkpoint");
  CHECK_OK(s, fsdp_init_from_seed(s, 0));

  CHECK_OK(s, fsdp_parameter_info(s, "head.weight", &dtype, &bytes, shape, 4,
                                  &rank));
  CHECK(dtype == FSDP_RT_F32 && bytes == 20 && rank == 1 && shape[0] == 5);
  CHECK_OK(s, fsdp_parameter_info(s, "count", &dtype, NULL, NULL, 0, &rank));
  CHECK(dtype == FSDP_RT_I64 && rank == 0);
  CHECK_REFUSED(s, fsdp_parameter_info(s, "x", NULL, NULL, NULL, 0, NULL),
                "got 'x'");
  CHECK_REFUSED(s, fsdp_read_parameter(s, "weight", weight, 4),
                "expected 20 bytes, F32 [5], got 4");
}

static void test_parameters(fsdp_session *s) {
  float weight[5] = {1, 2, 3, 4, 5}, back[5];
  int64_t count = 11, count_back = 0;
  CHECK_OK(s, fsdp_write_parameter(s, "weight", weight, sizeof weight));
  read_weight(s, back);
  CHECK(memcmp(weight, back, sizeof back) == 0);
  CHECK_OK(s, fsdp_write_parameter(s, "count", &count, sizeof count));
  CHECK_OK(s, fsdp_read_parameter(s, "count", &count_back, sizeof count));
  CHECK(count_back == 11);
  CHECK_OK(s, fsdp_write_parameter(s, "count", &count_back, 8));
}

/* The evaluation of a state that training has left; it leaves all as it is. */
static void test_evaluation(fsdp_session *s) {
  int64_t ids[ROW], labels[ROW], shape[4];
  float before[5], after[5], prediction[4], loss;
  fsdp_rt_dtype dtype;
  size_t bytes, rank;
  int32_t first, count;
  CHECK_OK(s, fsdp_ranks(s, NULL, &first, &count));
  CHECK_OK(s, fsdp_init_from_seed(s, 0));
  CHECK_REFUSED(s, fsdp_run(s, "evaluate"), "none for 'input_ids' of rank");
  CHECK_REFUSED(s, fsdp_run(s, "test"),
                "expected one of the programs 'train', 'evaluate', got 'test'");
  for (int i = 0; i < ROW; ++i)
    ids[i] = labels[i] = i;
  for (int r = first; r < first + count; ++r) {
    CHECK_OK(s, fsdp_set_input(s, "evaluate", r, "input_ids", ids, sizeof ids));
    CHECK_OK(s,
             fsdp_set_input(s, "evaluate", r, "labels", labels, sizeof labels));
  }
  CHECK_REFUSED(
      s, fsdp_read_output(s, "evaluate", first, "loss", &loss, sizeof loss),
      "expected to read outputs of the program that ran last");
  train(s, 0, 2);
  read_weight(s, before);
  CHECK_OK(s, fsdp_run(s, "evaluate"));
  read_weight(s, after);
  CHECK(memcmp(before, after, sizeof before) == 0);
  CHECK_OK(s,
           fsdp_read_output(s, "evaluate", first, "loss", &loss, sizeof loss));
  CHECK_OK(s, fsdp_read_output(s, "evaluate", first + count - 1, "prediction",
                               prediction, sizeof prediction));
  CHECK(isfinite(loss) && isfinite(prediction[3]));
  CHECK_OK(s, fsdp_output_info(s, "evaluate", "prediction", &dtype, &bytes,
                               shape, 4, &rank));
  CHECK(dtype == FSDP_RT_F32 && bytes == 16 && rank == 1 && shape[0] == 4);
  CHECK_REFUSED(s,
                fsdp_output_info(s, NULL, "logits", NULL, NULL, NULL, 0, NULL),
                "expected one of the outputs 'loss', 'grad_norm' of program "
                "'train', got 'logits'");
  CHECK_REFUSED(s, fsdp_read_output(s, "evaluate", first, "loss", &loss, 8),
                "expected 4 bytes, F32 [], got 8");
  train(s, 2, 3);
  CHECK_REFUSED(
      s, fsdp_read_output(s, "evaluate", first, "loss", &loss, sizeof loss),
      "expected to read outputs of the program that ran last, "
      "'train', got program 'evaluate'");
}

static void test_training(fsdp_session *s) {
  double loss, norm, first_loss;
  float whole[5], resumed[5];
  int64_t step;
  CHECK_OK(s, fsdp_init_from_seed(s, 0));
  train(s, 0, 1);
  CHECK_OK(s, fsdp_results(s, &first_loss, &norm));
  CHECK(isfinite(first_loss) && norm > 0);
  train(s, 1, 3);
  CHECK_OK(s, fsdp_save(s, in_directory("saves")));
  train(s, 3, STEPS);
  CHECK_OK(s, fsdp_results(s, &loss, NULL));
  read_weight(s, whole);
  CHECK_OK(s, fsdp_save(s, in_directory("saves"))); /* our own: fine */
  CHECK_OK(s, fsdp_save(s, in_directory("saves"))); /* and again */

  CHECK_OK(s, fsdp_resume(s, in_directory("saves/step-00000003"), &step));
  CHECK(step == 3);
  train(s, 3, STEPS);
  read_weight(s, resumed);
  CHECK(memcmp(whole, resumed, sizeof whole) == 0);

  CHECK_OK(s,
           fsdp_init_from_file(
               s, in_directory("saves/step-00000006/params.safetensors"), 0));
  read_weight(s, resumed);
  CHECK(memcmp(whole, resumed, sizeof whole) == 0);
}

/* Two steps from a checkpoint of a run with a schedule, saved between them: by
 * the schedule, or by rates that the caller gives. */
static void train_scheduled(int is_given, float *weight) {
  const char *saves = is_given ? "given" : "scheduled";
  int64_t step = 0;
  for (int i = 0; i < 2; ++i) {
    fsdp_session *s = open_session("cpu");
    CHECK_OK(s, fsdp_resume(s, in_directory(i ? saves : "program-2"), &step));
    CHECK(step == 2 + i);
    set_batch(s, (int)step);
    CHECK_OK(s, fsdp_step(s, is_given ? 0.5 * (1 - step / 8.0) : NAN));
    CHECK_OK(s, fsdp_save(s, in_directory(saves)));
    read_weight(s, weight + 5 * i);
    fsdp_destroy(s);
  }
}

static void test_schedule(const char *program) {
  char command[1200];
  float given[10], scheduled[10];
  snprintf(command, sizeof command,
           "'%s' --init seed=0 --data random:seed=9 --lr 0.5 --lr-schedule "
           "linear:steps=8 --steps 2 --save '%s/program-2' --quiet",
           program, directory);
  CHECK(system(command) == 0);
  train_scheduled(1, given);
  train_scheduled(0, scheduled);
  CHECK(memcmp(given, scheduled, sizeof given) == 0);
  CHECK(memcmp(given, given + 5, 5 * sizeof(float)) != 0);
}

/* What steps change alone is read over the state that a session has. */
static void test_trained_only(const char *program) {
  char command[1200];
  float drawn[5], trained[5];
  fsdp_session *s = open_session("cpu");
  snprintf(command, sizeof command,
           "'%s' --init seed=0 --data random:seed=9 --lr 0.5 --steps 2 "
           "--save-trained --save '%s/trained' --quiet",
           program, directory);
  CHECK(system(command) == 0);
  CHECK_REFUSED(s, fsdp_resume(s, in_directory("trained"), NULL),
                "expected a session with an initial state");
  CHECK_OK(s, fsdp_init_from_seed(s, 1));
  read_weight(s, drawn);
  CHECK_OK(s, fsdp_resume(s, in_directory("trained"), NULL));
  read_weight(s, trained);
  CHECK(memcmp(trained, drawn, sizeof drawn) != 0);
  fsdp_destroy(s);
}

/* The executable goes on from a session's checkpoint, and the other way. */
static void test_together_with_program(fsdp_session *s, const char *program) {
  char command[1200];
  float mine[5], its[5];
  int64_t step;
  CHECK_OK(s, fsdp_resume(s, in_directory("saves/step-00000003"), NULL));
  snprintf(command, sizeof command,
           "'%s' --resume '%s/saves/step-00000003' --data random:seed=9 "
           "--lr 0 --steps 4 --save '%s/program' --quiet",
           program, directory, directory);
  CHECK(system(command) == 0);
  read_weight(s, mine);
  CHECK_OK(s, fsdp_resume(s, in_directory("program"), &step));
  CHECK(step == 4);
  read_weight(s, its);
  CHECK(memcmp(mine, its, sizeof mine) == 0); /* a rate of 0 changes nothing */
  CHECK_REFUSED(s, fsdp_init_from_file(s, program, 0), program);
}

static void test_failing_step(fsdp_session *s) {
  float nan_weight[5] = {NAN, 0, 0, 0, 0};
  double loss;
  CHECK_OK(s, fsdp_init_from_seed(s, 0));
  CHECK_OK(s, fsdp_write_parameter(s, "weight", nan_weight, 20));
  set_batch(s, 1);
  CHECK_OK(s, fsdp_step(s, NAN)); /* no rate: the last one stays */
  CHECK_OK(s, fsdp_results(s, &loss, NULL));
  CHECK(isnan(loss));
}

/* Ranks of one process. */
static void test_local(const char *program) {
  fsdp_session *s = NULL, *second = NULL;
  test_creation();
  test_options();
  test_scalars_before_the_state();
  CHECK_OK(NULL, fsdp_create(&fsdp_rt_artifact_entry, NULL, &s));
  if (!s)
    return;
  test_order_and_arguments(s);
  test_parameters(s);
  test_evaluation(s);
  test_training(s);
  test_together_with_program(s, program);
  test_schedule(program);
  test_failing_step(s);
  /* Sessions do not know of each other. */
  CHECK_OK(NULL, fsdp_create(&fsdp_rt_artifact_entry, NULL, &second));
  if (second) {
    CHECK_OK(second, fsdp_init_from_seed(second, 1));
    CHECK_REFUSED(second, fsdp_save(second, in_directory("saves")),
                  "expected no other run that saves");
    train(second, 0, 2);
    fsdp_destroy(second);
  }
  fsdp_destroy(s);
}

/* A step that fails ends the session, and every call says so. */
static void test_end(void) {
  fsdp_session *s = NULL;
  CHECK_OK(NULL, fsdp_create(&fsdp_rt_artifact_entry, NULL, &s));
  if (!s)
    return;
  CHECK_OK(s, fsdp_init_from_seed(s, 0));
  set_batch(s, 0);
  CHECK_REFUSED(s, fsdp_step(s, 0), "the data is flawed");
  CHECK_REFUSED(s, fsdp_step(s, 0), "the data is flawed");
  CHECK_REFUSED(s, fsdp_init_from_seed(s, 0), "the session ended");
  fsdp_destroy(s);
}

/* What one process finds wrong fails all, and they start from one state. */
static void test_starts_together(fsdp_session *s, int32_t first) {
  int64_t step = 0;
  int is_first = first == 0;
  CHECK_OK(s, fsdp_init_from_seed(s, 0));
  train(s, 0, 2);
  CHECK_OK(s, fsdp_save(s, in_directory("two")));
  CHECK_OK(s, fsdp_init_from_seed(s, 0));
  train(s, 0, 3);
  CHECK_OK(s, fsdp_save(s, in_directory("three")));

  CHECK_REFUSED(s, fsdp_init_from_seed(s, is_first ? 0 : 1),
                "rank 1: initial state: expected of seed 0 as on rank 0, got "
                "of seed 1");
  CHECK_REFUSED(s,
                fsdp_resume(s, in_directory(is_first ? "two" : "none"), NULL),
                "rank 1: ");
  CHECK_REFUSED(s,
                fsdp_resume(s, in_directory(is_first ? "none" : "two"), NULL),
                "rank 0: ");
  CHECK_REFUSED(s,
                fsdp_resume(s, in_directory(is_first ? "two" : "three"), NULL),
                "rank 1: initial state: expected of a checkpoint of step 2 as "
                "on rank 0, got of a checkpoint of step 3");
  CHECK_REFUSED(s,
                is_first ? fsdp_resume(s, in_directory("two"), NULL)
                         : fsdp_init_from_seed(s, 0),
                "rank 1: initial state: expected of a checkpoint of step 2 as "
                "on rank 0, got of seed 0");
  /* The state is still the one before. */
  train(s, 3, 4);
  CHECK_OK(s, fsdp_resume(s, in_directory("two"), &step));
  CHECK(step == 2);
}

/* One rank of several processes. */
static void test_mpi(void) {
  fsdp_session_options options = {.size = sizeof options, .backend = "mpi"};
  fsdp_session *s = NULL;
  int32_t world, first, count;
  /* Each of the processes would be all ranks. */
  CHECK(fsdp_create(&fsdp_rt_artifact_entry, NULL, &s) == FSDP_FAILED);
  CHECK(strstr(fsdp_last_error(NULL), "expected a backend for one of "));
  CHECK_OK(NULL, fsdp_create(&fsdp_rt_artifact_entry, &options, &s));
  if (!s)
    return;
  CHECK_OK(s, fsdp_ranks(s, &world, &first, &count));
  CHECK(world > 1 && count == 1);
  CHECK_OK(s, fsdp_init_from_seed(s, 0));
  if (failures) {
    fsdp_destroy(s);
    return;
  }
  test_parameters(s);
  test_evaluation(s);
  test_training(s);
  CHECK_REFUSED(s, fsdp_init_from_file(s, in_directory("none"), 0),
                "No such file");
  test_starts_together(s, first);
  test_failing_step(s);
  fsdp_destroy(s);
}

int main(int argc, char **argv) {
  const char *root = getenv("TMPDIR");
  char command[400];
  if (argc == 3) {
    snprintf(directory, sizeof directory, "%s", argv[2]);
    test_mpi();
    return failures != 0;
  }
  snprintf(directory, sizeof directory, "%s/fsdp-session-XXXXXX",
           root ? root : "/tmp");
  if (argc != 2 || !mkdtemp(directory))
    return 2;
  if (getenv("LINEAR_FLAW") && strcmp(getenv("LINEAR_FLAW"), "own") == 0)
    test_trained_only(argv[1]);
  else if (getenv("LINEAR_FLAW"))
    test_end();
  else if (getenv("LINEAR_CUDA")) {
    test_cuda();
    test_changing_rates();
  } else
    test_local(argv[1]);
  snprintf(command, sizeof command, "rm -r '%s'", directory);
  CHECK(system(command) == 0);
  return failures != 0;
}
