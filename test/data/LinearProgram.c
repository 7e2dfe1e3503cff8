//===- LinearProgram.c - A compiled program, written by hand ------*- C -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// y = weight . x + bias + 0 * gain, fitted by SGD with momentum: small enough
// to be checked by hand, but with everything a compiled program has: a sharded
// flat parameter with padding, a frozen one that every rank holds, a buffer
// that changes, token inputs with a shift, clipping, collectives over groups.
//
//   LINEAR_MESH=S or RxS      replicate x shard; 1 if unset
//   LINEAR_QUEUES=1           the collectives run on queues beside the step
//   LINEAR_HOST=1             the momentum is in the host's memory between
//                             programs
//   LINEAR_CUDA=1             there is code for CUDA devices, too, of a mesh of
//                             one rank, without other flaws than check
//   LINEAR_FLAW=manifest      the manifest is no JSON
//               feature       needs a processor that does not exist
//               check:N       step N fails a check
//               nan:N         the loss of step N is not a number
//               norm:N        the gradient of step N is infinite
//               interrupt:N   step N raises SIGINT
//               noclip        compiled without clipping
//               nolr          lr has no default
//               noinit        weight has no initialiser
//               other         another fingerprint
//               step          another traced step
//               optimizer     another constant in the optimizer
//               named         the optimizer has a name, own:k=0.5
//               renamed       the optimizer is another one, own:k=0.9
//               skip          says that it skips steps that are not finite, and
//                             does; norm is not finite in step 3
//               own           the buffer is each rank's own: a sum of inputs
//               noeval        compiled without the evaluation
//   LINEAR_NCCL=1             NCCL should be told NCCL_CROSS_NIC=1
//   LINEAR_BOUND=1            says what its step computes, and takes at least
//   LINEAR_DELAY=N            each step takes N microseconds more
//
//===----------------------------------------------------------------------===//

#include "LinearCuda.h"
#include "fsdp-rt/abi.h"

#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
  BATCH = 4,
  SEQUENCE = 5,
  VOCABULARY = 128,
  PARAMETERS = SEQUENCE + 1, /* weight, bias */
  /* arena */
  SHARD = 0,
  MOMENTUM = 256,
  STEP = 512,
  GAIN = 768,
  COUNT = 1024,
  LR = 1280,
  CLIP = 1536,
  LOSS = 1792,
  NORM = 2048,
  WHOLE = 2304,
  GRADIENT = 2560,
  GRADIENT_SHARD = 2816,
  IDS = 3072,
  LABELS = 3328,
  FLAG = 3584,
  ARENA = 3840,
  /* with LINEAR_HOST: where a step has the momentum, and where it is between
     programs, with bytes behind it that are no state's */
  MOMENTUM_NOW = ARENA,
  HOST_MOMENTUM = 0,
  HOST_STATES = 256,
  HOST_ARENA = 512,
  /* of the evaluation: over what the step has there */
  STATES = LR,
  EVAL_IDS = LR,
  EVAL_LABELS = CLIP,
  EVAL_LOSS = LOSS,
  PREDICTION = NORM,
  EVAL_ARENA = GRADIENT
};

static int replicas, shards, shard_numel, flaw_step;
static char flaw[16];
static int has_queues, has_host;
static unsigned delay; /* of a step, in microseconds */
static char manifest[12288];
#define QUEUES "\"all_gather\", \"reduce\", \"all_reduce\""
#define HOST_QUEUES ", \"d2h\", \"h2d\""

#define CUDA_TARGET                                                            \
  ", {\"kind\": \"cuda\", \"cpu\": \"sm_80\", \"features\": [\"+ptx70\"]}"

/* operands: whole, ids, labels, gradient, loss, count, flag */
static void forward_backward(char *const *operands, char *scratch,
                             int64_t begin, int64_t end) {
  const float *whole = (const float *)operands[0];
  const int64_t *ids = (const int64_t *)operands[1];
  const int64_t *labels = (const int64_t *)operands[2];
  float *gradient = (float *)operands[3], *loss = (float *)operands[4];
  int64_t *count = (int64_t *)operands[5];
  (void)scratch, (void)begin, (void)end;
  memset(gradient, 0, sizeof(float) * shard_numel * shards);
  *loss = 0;
  for (int b = 0; b < BATCH; ++b) {
    float y = whole[SEQUENCE], target = 0;
    for (int k = 0; k < SEQUENCE; ++k) {
      y += whole[k] * (ids[b * SEQUENCE + k] / 64.0f);
      target += labels[b * SEQUENCE + k] / 64.0f;
    }
    float error = y - target;
    *loss += error * error / BATCH;
    for (int k = 0; k < SEQUENCE; ++k)
      gradient[k] += 2 * error * (ids[b * SEQUENCE + k] / 64.0f) / BATCH;
    gradient[SEQUENCE] += 2 * error / BATCH;
  }
  *count += strcmp(flaw, "own") == 0 ? ids[0] : 1;
  *operands[6] = !(strcmp(flaw, "check") == 0 && *count == flaw_step);
  if (strcmp(flaw, "nan") == 0 && *count == flaw_step)
    *loss = NAN;
  if ((strcmp(flaw, "norm") == 0 && *count == flaw_step) ||
      (strcmp(flaw, "skip") == 0 && *count == 3))
    gradient[0] = INFINITY;
  if (delay > 0)
    usleep(delay);
  static atomic_flag raised = ATOMIC_FLAG_INIT;
  if (strcmp(flaw, "interrupt") == 0 && *count == flaw_step &&
      !atomic_flag_test_and_set(&raised))
    raise(SIGINT); /* on one rank; it is noted when this returns */
}

/* operands: gradient shard, norm */
static void square(char *const *operands, char *scratch, int64_t begin,
                   int64_t end) {
  const float *shard = (const float *)operands[0];
  float sum = 0;
  (void)scratch, (void)begin, (void)end;
  for (int i = 0; i < shard_numel; ++i)
    sum += shard[i] * shard[i];
  *(float *)operands[1] = sum;
}

/* operands: shard, momentum, step, gradient shard, norm, lr, clip */
static void update(char *const *operands, char *scratch, int64_t begin,
                   int64_t end) {
  float *shard = (float *)operands[0], *momentum = (float *)operands[1];
  const float *gradient = (const float *)operands[3];
  float *norm = (float *)operands[4];
  float lr = *(const float *)operands[5], clip = *(const float *)operands[6];
  (void)scratch, (void)begin, (void)end;
  *norm = sqrtf(*norm);
  if (strcmp(flaw, "skip") == 0 && !isfinite(*norm))
    return;
  float scale = *norm > clip ? clip / *norm : 1.0f;
  for (int i = 0; i < shard_numel; ++i) {
    momentum[i] = 0.5f * momentum[i] + scale * gradient[i];
    shard[i] -= lr * momentum[i];
  }
  *(float *)operands[2] += 1;
}

/* Descriptors outlive the call: there is one for each kernel and operands. */
static int32_t launch(fsdp_rt_context *ctx, const char *name,
                      fsdp_rt_kernel_fn kernel, const int64_t *operands,
                      int64_t count) {
  static const fsdp_rt_cuda_image_desc image = {linear_ptx, 80, NULL, 0, 0};
  static _Thread_local struct {
    fsdp_rt_cpu_kernel_desc code;
    fsdp_rt_cuda_kernel_desc cuda_kernel;
    const fsdp_rt_cuda_kernel_desc *cuda_kernels[1];
    fsdp_rt_cuda_code_desc cuda_code;
    const void *implementations[2];
    fsdp_rt_launch_desc desc;
  } all[8];
  const void *function;
  memcpy(&function, &kernel, sizeof kernel);
  for (int i = 0; i < 8; ++i) {
    if (all[i].code.function &&
        (all[i].code.function != function || all[i].desc.operands != operands))
      continue;
    all[i].code.function = function;
    all[i].code.grid = all[i].code.grain = 1;
    all[i].implementations[0] = &all[i].code;
    all[i].cuda_kernel.image = &image;
    all[i].cuda_kernel.function = name;
    all[i].cuda_kernel.grid = all[i].cuda_kernel.block = 1;
    all[i].cuda_kernels[0] = &all[i].cuda_kernel;
    all[i].cuda_code.kernels = all[i].cuda_kernels;
    all[i].cuda_code.kernel_count = 1;
    all[i].implementations[1] = &all[i].cuda_code;
    all[i].desc.name = name;
    all[i].desc.implementations = all[i].implementations;
    all[i].desc.operands = operands;
    all[i].desc.operand_count = count;
    return fsdp_rt_launch(ctx, &all[i].desc);
  }
  return 2;
}

/* The collectives, and how they run beside the step: constant once the mesh is
   known, as in a compiled object. Transfers read them when the step has ended
   with a failure, too. */
enum {
  GATHERED,
  SCATTERED,
  REPLICATED,
  NORM_SUMMED,
  LOSS_SUMMED,
  EVENTS,
  /* with LINEAR_HOST */
  RELOADED = EVENTS,
  OFFLOADED,
  HOST_EVENTS
};
static fsdp_rt_collective_desc part[EVENTS];
static const fsdp_rt_collective_desc *const parts[EVENTS] = {
    &part[0], &part[1], &part[2], &part[3], &part[4]};
static const int64_t scattered[] = {SCATTERED}, replicated[] = {REPLICATED};
#define START(event, after, after_count, kind, queue)                          \
  { "transfer", &parts[event], 1, after, after_count, event, kind, queue, NULL }
static const fsdp_rt_start_desc start[EVENTS] = {
    START(GATHERED, NULL, 0, FSDP_RT_ALL_GATHER, FSDP_RT_QUEUE_ALL_GATHER),
    START(SCATTERED, NULL, 0, FSDP_RT_REDUCE_SCATTER, FSDP_RT_QUEUE_REDUCE),
    START(REPLICATED, scattered, 1, FSDP_RT_ALL_REDUCE,
          FSDP_RT_QUEUE_ALL_REDUCE),
    START(NORM_SUMMED, replicated, 1, FSDP_RT_ALL_REDUCE, FSDP_RT_QUEUE_REDUCE),
    START(LOSS_SUMMED, NULL, 0, FSDP_RT_ALL_REDUCE, FSDP_RT_QUEUE_ALL_REDUCE)};
static const fsdp_rt_wait_desc arrival[EVENTS] = {{"gathered", GATHERED},
                                                  {"scattered", SCATTERED},
                                                  {"replicated", REPLICATED},
                                                  {"norm", NORM_SUMMED},
                                                  {"loss", LOSS_SUMMED}};
static fsdp_rt_host_copy_desc reload = {"momentum", HOST_MOMENTUM, MOMENTUM_NOW,
                                        0},
                              offload = {"momentum", MOMENTUM_NOW,
                                         HOST_MOMENTUM, 0};
static const fsdp_rt_host_copy_desc *const reloads[] = {&reload},
                                           *const offloads[] = {&offload};
static const fsdp_rt_start_desc
    start_reload = {"reload",       reloads,           1,   NULL, 0, RELOADED,
                    FSDP_RT_RELOAD, FSDP_RT_QUEUE_H2D, NULL},
    start_offload = {
        "offload",       offloads,          1,   NULL, 0, OFFLOADED,
        FSDP_RT_OFFLOAD, FSDP_RT_QUEUE_D2H, NULL};
static const fsdp_rt_wait_desc reloaded = {"reloaded", RELOADED},
                               offloaded = {"offloaded", OFFLOADED};

static void describe_collectives(void) {
  const fsdp_rt_collective_desc all[EVENTS] = {
      {"gather", SHARD, WHOLE, shard_numel, 1, 0, FSDP_RT_F32},
      {"scatter", GRADIENT, GRADIENT_SHARD, shard_numel, shards, 0,
       FSDP_RT_F32},
      {"replicate", GRADIENT_SHARD, GRADIENT_SHARD, shard_numel, replicas, 1,
       FSDP_RT_F32},
      {"norm", NORM, NORM, 1, 1, 0, FSDP_RT_F32},
      {"loss", LOSS, LOSS, 1, replicas * shards, 2, FSDP_RT_F32}};
  memcpy(part, all, sizeof part);
}

static const int64_t forward_operands[] = {WHOLE, IDS,   LABELS, GRADIENT,
                                           LOSS,  COUNT, FLAG};
static const int64_t square_operands[] = {GRADIENT_SHARD, NORM};
static const int64_t update_operands[] = {SHARD, MOMENTUM, STEP, GRADIENT_SHARD,
                                          NORM,  LR,       CLIP},
                     update_reloaded[] = {
                         SHARD, MOMENTUM_NOW, STEP, GRADIENT_SHARD,
                         NORM,  LR,           CLIP};
static const fsdp_rt_check_desc check = {"the data is flawed", FLAG};

/* The same transfers, in the order of the computation. */
static int32_t in_order(fsdp_rt_context *ctx, const fsdp_rt_start_desc *desc) {
  static _Thread_local fsdp_rt_start_desc starts[EVENTS + 2];
  fsdp_rt_start_desc *it = &starts[desc->event];
  *it = *desc;
  it->queue = FSDP_RT_QUEUE_COMPUTE;
  it->event = -1;
  it->after_count = 0;
  return fsdp_rt_start(ctx, it);
}

/* Beside the step. */
static int32_t queued_step(fsdp_rt_context *ctx) {
  int32_t rc;
  if ((rc = fsdp_rt_start(ctx, &start[GATHERED])) ||
      (rc = has_host ? fsdp_rt_start(ctx, &start_reload) : 0) ||
      (rc = fsdp_rt_wait(ctx, &arrival[GATHERED])) ||
      (rc = launch(ctx, "forward_backward", forward_backward, forward_operands,
                   7)) ||
      (rc = fsdp_rt_start(ctx, &start[SCATTERED])) ||
      (rc = fsdp_rt_start(ctx, &start[REPLICATED])) ||
      (rc = fsdp_rt_start(ctx, &start[LOSS_SUMMED])) ||
      (rc = fsdp_rt_check(ctx, &check)) ||
      (rc = fsdp_rt_wait(ctx, &arrival[REPLICATED])) ||
      (rc = fsdp_rt_wait(ctx, &arrival[SCATTERED])) ||
      (rc = launch(ctx, "square", square, square_operands, 2)) ||
      (rc = fsdp_rt_start(ctx, &start[NORM_SUMMED])) ||
      (rc = fsdp_rt_wait(ctx, &arrival[LOSS_SUMMED])) ||
      (rc = fsdp_rt_wait(ctx, &arrival[NORM_SUMMED])))
    return rc;
  if (!has_host)
    return launch(ctx, "update", update, update_operands, 7);
  if ((rc = fsdp_rt_wait(ctx, &reloaded)) ||
      (rc = launch(ctx, "update", update, update_reloaded, 7)) ||
      (rc = fsdp_rt_start(ctx, &start_offload)))
    return rc;
  return fsdp_rt_wait(ctx, &offloaded);
}

static int32_t step(fsdp_rt_context *ctx) {
  int32_t rc;
  if (has_queues)
    return queued_step(ctx);
  if ((rc = in_order(ctx, &start[GATHERED])) ||
      (rc = launch(ctx, "forward_backward", forward_backward, forward_operands,
                   7)) ||
      (rc = fsdp_rt_check(ctx, &check)) ||
      (rc = in_order(ctx, &start[SCATTERED])) ||
      (rc = in_order(ctx, &start[REPLICATED])) ||
      (rc = launch(ctx, "square", square, square_operands, 2)) ||
      (rc = in_order(ctx, &start[NORM_SUMMED])) ||
      (rc = in_order(ctx, &start[LOSS_SUMMED])))
    return rc;
  if (!has_host)
    return launch(ctx, "update", update, update_operands, 7);
  if ((rc = in_order(ctx, &start_reload)) ||
      (rc = launch(ctx, "update", update, update_reloaded, 7)))
    return rc;
  return in_order(ctx, &start_offload);
}

/* operands: whole, ids, labels, loss, prediction */
static void forward(char *const *operands, char *scratch, int64_t begin,
                    int64_t end) {
  const float *whole = (const float *)operands[0];
  const int64_t *ids = (const int64_t *)operands[1];
  const int64_t *labels = (const int64_t *)operands[2];
  float *loss = (float *)operands[3], *prediction = (float *)operands[4];
  (void)scratch, (void)begin, (void)end;
  *loss = 0;
  for (int b = 0; b < BATCH; ++b) {
    float y = whole[SEQUENCE], target = 0;
    for (int k = 0; k < SEQUENCE; ++k) {
      y += whole[k] * (ids[b * SEQUENCE + k] / 64.0f);
      target += labels[b * SEQUENCE + k] / 64.0f;
    }
    prediction[b] = y;
    *loss += (y - target) * (y - target) / BATCH;
  }
}

static const int64_t evaluate_operands[] = {WHOLE, EVAL_IDS, EVAL_LABELS,
                                            EVAL_LOSS, PREDICTION};

static int32_t evaluate(fsdp_rt_context *ctx) {
  int32_t rc;
  if ((rc = has_queues ? fsdp_rt_start(ctx, &start[GATHERED])
                       : in_order(ctx, &start[GATHERED])) ||
      (rc = has_queues ? fsdp_rt_wait(ctx, &arrival[GATHERED]) : 0) ||
      (rc = launch(ctx, "forward", forward, evaluate_operands, 5)))
    return rc;
  return 0;
}

static const fsdp_rt_program programs[] = {{"train", step, NULL},
                                           {"evaluate", evaluate, NULL}};

/* Outside of write_manifest, so that the artifact is known by then. */
extern fsdp_rt_artifact
    fsdp_rt_artifact_of_tests __asm__("fsdp_rt_artifact_entry");

/* The program that evaluates, as the manifest lists it after the other. */
static void describe_evaluation(char *at, size_t size) {
  if (strcmp(flaw, "noeval") == 0) {
    fsdp_rt_artifact_of_tests.program_count = 1;
    *at = 0;
    return;
  }
  snprintf(
      at, size,
      ", {\"name\": \"evaluate\", \"kind\": \"eval\","
      " \"events\": %d, \"queues\": [%s],"
      " \"arena\": {\"bytes\": %d, \"host_bytes\": %d, \"segments\": []},"
      " \"plan\": {\"parameters\": 1, \"gradients\": 1, \"optimizer\": 1,"
      "  \"gathered\": 1, \"activations\": 1, \"other\": 1, \"workspace\": 0},"
      " \"traffic\": [], \"inputs\": ["
      "  {\"name\": \"input_ids\", \"dtype\": \"I64\", \"shape\": [%d, %d],"
      "   \"offset\": %d, \"low\": 0, \"high\": %d, \"shift\": 0},"
      "  {\"name\": \"labels\", \"dtype\": \"I64\", \"shape\": [%d, %d],"
      "   \"offset\": %d, \"low\": 0, \"high\": %d, \"shift\": 1}],"
      " \"scalars\": [], \"outputs\": ["
      "  {\"name\": \"loss\", \"dtype\": \"F32\", \"shape\": [],"
      "   \"offset\": %d},"
      "  {\"name\": \"prediction\", \"dtype\": \"F32\", \"shape\": [%d],"
      "   \"offset\": %d}]}",
      has_queues ? EVENTS : 0, has_queues ? QUEUES : "", EVAL_ARENA,
      has_host ? HOST_STATES : 0, BATCH, SEQUENCE, EVAL_IDS, VOCABULARY, BATCH,
      SEQUENCE, EVAL_LABELS, VOCABULARY, EVAL_LOSS, BATCH, PREDICTION);
}

/* Writes a number of bytes into the text of a kernel. */
static void write_bytes(const char *place, int elements) {
  char digits[16], *found = strstr(linear_ptx, place);
  snprintf(digits, sizeof digits, "%2d", elements * (int)sizeof(float));
  if (found)
    memcpy(found, digits, 2);
}

/* Of a machine on which the step takes at least a nanosecond. */
#define BOUND                                                                  \
  " \"flops\": 1000000, \"bound\": {\"ns\": 1, \"limit\": \"compute\","        \
  "  \"machine\": \"some-machine\", \"peak_flops\": 1000000000000000},"

/* The manifest of this mesh; runs before main and when a library is opened. */
__attribute__((constructor)) static void write_manifest(void) {
  const char *mesh = getenv("LINEAR_MESH"), *want = getenv("LINEAR_FLAW"),
             *budget = getenv("LINEAR_BUDGET"), *wait = getenv("LINEAR_DELAY");
  delay = wait ? (unsigned)atoi(wait) : 0;
  has_queues = getenv("LINEAR_QUEUES") != NULL;
  has_host = getenv("LINEAR_HOST") != NULL;
  replicas = 1;
  if (!mesh || sscanf(mesh, "%dx%d", &replicas, &shards) != 2) {
    replicas = 1;
    shards = mesh ? atoi(mesh) : 1;
  }
  if (want)
    sscanf(want, "%15[a-z]:%d", flaw, &flaw_step);
  shard_numel = (PARAMETERS + shards - 1) / shards;
  write_bytes(LINEAR_WHOLE_BYTES, shard_numel * shards);
  write_bytes(LINEAR_SQUARE_BYTES, shard_numel);
  write_bytes(LINEAR_UPDATE_BYTES, shard_numel);
  describe_collectives();
  reload.bytes = offload.bytes = (int64_t)sizeof(float) * shard_numel;
  if (strcmp(flaw, "check") == 0) {
    char digits[16];
    snprintf(digits, sizeof digits, "%9d", flaw_step);
    memcpy(strstr(linear_ptx, LINEAR_FAILING_STEP), digits, 9);
  }
  if (strcmp(flaw, "manifest") == 0) {
    strcpy(manifest, "{\"format\": 3,");
    return;
  }
  int arena = has_host ? MOMENTUM_NOW + 256 : ARENA,
      host = has_host ? HOST_ARENA : 0,
      events = has_host ? HOST_EVENTS : EVENTS;
  int length = snprintf(
      manifest, sizeof manifest,
      "{\"format\": 3, \"name\": \"linear\", \"fingerprint\": \"%s\","
      " \"traced\": {\"step\": \"%064d\", \"optimizer\": \"%064d\","
      "  \"constants\": [%s]%s}, \"skips_nonfinite\": %s,%s"
      " \"targets\": [{\"kind\": \"cpu\", \"cpu\": \"generic\","
      "  \"features\": [%s]}%s],"
      " \"mesh\": [{\"axis\": \"replicate\", \"size\": %d},"
      "            {\"axis\": \"shard\", \"size\": %d}],"
      " \"strategy\": \"hybrid_shard\", \"wrap\": \"none\","
      " \"groups\": [{\"axes\": [\"shard\"]}, {\"axes\": [\"replicate\"]},"
      "  {\"axes\": [\"replicate\", \"shard\"]}],"
      " \"arena\": {\"bytes\": %d, \"host_bytes\": %d, \"state_bytes\": %d,"
      "  \"host_state_bytes\": %d, \"scratch_bytes\": 64,"
      "  \"budget_bytes\": %lld},"
      " \"flat_params\": ["
      "  {\"name\": \"linear\", \"unit\": \"linear\", \"dtype\": \"F32\","
      "   \"numel\": %d, \"shard_numel\": %d, \"shard_axes\": [\"shard\"],"
      "   \"trainable\": true, \"per_rank\": false,"
      "   \"memory\": \"device\", \"offset\": %d,"
      "   \"members\": ["
      "    {\"fqn\": \"weight\", \"tied\": [\"head.weight\"], \"shape\": [%d],"
      "     \"offset\": 0, \"init\": %s},"
      "    {\"fqn\": \"bias\", \"tied\": [], \"shape\": [1], \"offset\": %d,"
      "     \"init\": {\"kind\": \"constant\", \"value\": 0.5}}],"
      "   \"states\": ["
      "    {\"name\": \"momentum\", \"dtype\": \"F32\", \"scalar\": false,"
      "     \"memory\": \"%s\", \"offset\": %d, \"init\": 0.0},"
      "    {\"name\": \"step\", \"dtype\": \"F32\", \"scalar\": true,"
      "     \"memory\": \"device\", \"offset\": %d, \"init\": 0.0}]},"
      "  {\"name\": \"frozen\", \"unit\": \"linear\", \"dtype\": \"F32\","
      "   \"numel\": 1, \"shard_numel\": 1, \"shard_axes\": [],"
      "   \"trainable\": false, \"per_rank\": false,"
      "   \"memory\": \"device\", \"offset\": %d,"
      "   \"members\": ["
      "    {\"fqn\": \"gain\", \"tied\": [], \"shape\": [], \"offset\": 0,"
      "     \"init\": {\"kind\": \"constant\", \"value\": 2.0}}],"
      "   \"states\": []}],"
      " \"buffers\": [{\"fqn\": \"count\", \"dtype\": \"I64\", \"shape\": [],"
      "  \"offset\": %d, \"per_rank\": %s,"
      "  \"init\": {\"kind\": \"values\", \"values\": [0]}}],"
      " \"programs\": [{\"name\": \"train\", \"kind\": \"train\",%s"
      " \"events\": %d, \"queues\": [%s%s],"
      " \"arena\": {\"bytes\": %d, \"host_bytes\": %d, \"segments\": ["
      "  {\"name\": \"state\", \"offset\": 0, \"bytes\": %d},"
      "  {\"name\": \"inputs\", \"offset\": %d, \"bytes\": %d},"
      "  {\"name\": \"transient\", \"offset\": %d, \"bytes\": %d}]},"
      " \"plan\": {\"parameters\": 1, \"gradients\": 1, \"optimizer\": 1,"
      "  \"gathered\": 1, \"activations\": 1, \"other\": 1, \"workspace\": 0},"
      " \"traffic\": [],"
      " \"inputs\": ["
      "  {\"name\": \"input_ids\", \"dtype\": \"I64\", \"shape\": [%d, %d],"
      "   \"offset\": %d, \"low\": 0, \"high\": %d, \"shift\": 0},"
      "  {\"name\": \"labels\", \"dtype\": \"I64\", \"shape\": [%d, %d],"
      "   \"offset\": %d, \"low\": 0, \"high\": %d, \"shift\": 1}],"
      " \"scalars\": ["
      "  {\"name\": \"lr\", \"dtype\": \"F32\", \"offset\": %d,"
      "   \"default\": %s},"
      "  {\"name\": \"%s\", \"dtype\": \"F32\", \"offset\": %d,"
      "   \"default\": %s}],"
      " \"outputs\": ["
      "  {\"name\": \"loss\", \"dtype\": \"F32\", \"shape\": [],"
      "   \"offset\": %d},"
      "  {\"name\": \"grad_norm\", \"dtype\": \"F32\", \"shape\": [],"
      "   \"offset\": %d}]}",
      strcmp(flaw, "other") == 0 ? "abd" : "abc", strcmp(flaw, "step") == 0,
      strcmp(flaw, "optimizer") == 0 || strcmp(flaw, "renamed") == 0,
      strcmp(flaw, "optimizer") == 0 ? "0.9" : "0.5",
      strcmp(flaw, "named") == 0     ? ", \"spec\": \"own:k=0.5\""
      : strcmp(flaw, "renamed") == 0 ? ", \"spec\": \"own:k=0.9\""
                                     : "",
      strcmp(flaw, "skip") == 0 ? "true" : "false",
      getenv("LINEAR_NCCL") ? " \"nccl\": {\"NCCL_CROSS_NIC\": \"1\"}," : "",
      strcmp(flaw, "feature") == 0 ? "\"no-such-feature\"" : "",
      getenv("LINEAR_CUDA") ? CUDA_TARGET : "", replicas, shards, arena, host,
      STATES, has_host ? HOST_STATES : 0, budget ? atoll(budget) : 0LL,
      shard_numel * shards, shard_numel, SHARD, SEQUENCE,
      strcmp(flaw, "noinit") == 0
          ? "null"
          : "{\"kind\": \"normal\", \"mean\": 0.0, \"std\": 0.1}",
      SEQUENCE, has_host ? "host" : "device",
      has_host ? HOST_MOMENTUM : MOMENTUM, STEP, GAIN, COUNT,
      strcmp(flaw, "own") == 0 ? "true" : "false",
      getenv("LINEAR_BOUND") ? BOUND : "", has_queues ? events : 0,
      has_queues ? QUEUES : "", has_queues && has_host ? HOST_QUEUES : "",
      arena, host, STATES, STATES, WHOLE - STATES, WHOLE, arena - WHOLE, BATCH,
      SEQUENCE, IDS, VOCABULARY, BATCH, SEQUENCE, LABELS, VOCABULARY, LR,
      strcmp(flaw, "nolr") == 0 ? "null" : "0.001",
      strcmp(flaw, "noclip") == 0 ? "ceiling" : "clip_norm", CLIP,
      strcmp(flaw, "noclip") == 0 ? "1e30" : "null", LOSS, NORM);
  describe_evaluation(manifest + length, sizeof manifest - (size_t)length);
  strcat(manifest, "]}");
}

fsdp_rt_artifact fsdp_rt_artifact_of_tests = {FSDP_RT_ABI_VERSION, 2, manifest,
                                              programs, NULL};
