//===- TrainSteps.c - A C program that trains compiled steps ------*- C -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// train-steps DIR STEPS SAVES: five libraries that fsdp-compile wrote take
// turns in this process: one model for one rank and for two, and another model
// on meshes of one axis and of two.
// Reads DIR/<library>.params and the inputs
// DIR/<library>.<input>.<step>.<rank>; prints the loss and the gradient's norm
// of every step; saves to SAVES/<library>.saved.
//
//===----------------------------------------------------------------------===//

#include "libgpt-one.h"
#include "libgpt-two.h"
#include "libhybrid.h"
#include "libmixed.h"
#include "libreplicas.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct input {
  const char *name;
  size_t bytes;
};

struct library {
  const char *name, *fingerprint;
  const fsdp_rt_artifact *program;
  int ranks;
  struct input inputs[3];
  int input_count;
  fsdp_session *session;
};

static void check(fsdp_code code, const fsdp_session *session,
                  const char *what) {
  if (code == FSDP_OK)
    return;
  fprintf(stderr, "%s: %s\n", what, fsdp_last_error(session));
  exit(code);
}

static void expect(int condition, const char *what) {
  if (condition)
    return;
  fprintf(stderr, "expected %s\n", what);
  exit(1);
}

static void set_input(struct library *it, const char *directory, int step,
                      int rank, const struct input *input) {
  char path[1000];
  FILE *file;
  char *data = malloc(input->bytes + 1);
  expect(data != NULL, "memory");
  snprintf(path, sizeof path, "%s/%s.%s.%d.%d", directory, it->name,
           input->name, step, rank);
  file = fopen(path, "rb");
  expect(file != NULL, path);
  expect(fread(data, 1, input->bytes + 1, file) == input->bytes, path);
  fclose(file);
  check(
      fsdp_set_input(it->session, NULL, rank, input->name, data, input->bytes),
      it->session, "fsdp_set_input");
  free(data);
}

static void start(struct library *it, const char *directory) {
  fsdp_session_options options = {0};
  char path[1000];
  const char *json;
  int32_t world;
  options.size = sizeof options;
  options.ranks = it->ranks;
  options.threads = 1;
  check(fsdp_create(it->program, &options, &it->session), NULL, "fsdp_create");
  check(fsdp_ranks(it->session, &world, NULL, NULL), it->session, "fsdp_ranks");
  expect(world == it->ranks, "as many ranks as the header says");
  check(fsdp_describe(it->session, &json), it->session, "fsdp_describe");
  expect(strstr(json, it->fingerprint) != NULL, "the header's fingerprint");
  snprintf(path, sizeof path, "%s/%s.params", directory, it->name);
  check(fsdp_init_from_file(it->session, path, 0), it->session,
        "fsdp_init_from_file");
}

static void train(struct library *it, const char *directory, int step) {
  double loss, grad_norm;
  int rank, i;
  for (rank = 0; rank < it->ranks; ++rank)
    for (i = 0; i < it->input_count; ++i)
      set_input(it, directory, step, rank, &it->inputs[i]);
  check(fsdp_step(it->session, (double)NAN), it->session, "fsdp_step");
  check(fsdp_results(it->session, &loss, &grad_norm), it->session,
        "fsdp_results");
  printf("%s %d %a %a\n", it->name, step, loss, grad_norm);
}

static void finish(struct library *it, const char *directory) {
  char path[1000];
  snprintf(path, sizeof path, "%s/%s.saved", directory, it->name);
  check(fsdp_save(it->session, path), it->session, "fsdp_save");
  fsdp_destroy(it->session);
}

int main(int argc, char **argv) {
  struct library libraries[] = {
      {"gpt-one",
       GPT_ONE_FINGERPRINT,
       gpt_one_artifact(),
       GPT_ONE_RANKS,
       {{GPT_ONE_INPUT_INPUT_IDS, GPT_ONE_BYTES_INPUT_IDS},
        {GPT_ONE_INPUT_LABELS, GPT_ONE_BYTES_LABELS}},
       2,
       NULL},
      {"gpt-two",
       GPT_TWO_FINGERPRINT,
       gpt_two_artifact(),
       GPT_TWO_RANKS,
       {{GPT_TWO_INPUT_INPUT_IDS, GPT_TWO_BYTES_INPUT_IDS},
        {GPT_TWO_INPUT_LABELS, GPT_TWO_BYTES_LABELS}},
       2,
       NULL},
      {"hybrid",
       HYBRID_FINGERPRINT,
       hybrid_artifact(),
       HYBRID_RANKS,
       {{HYBRID_INPUT_TOKENS, HYBRID_BYTES_TOKENS},
        {HYBRID_INPUT_LABELS, HYBRID_BYTES_LABELS},
        {HYBRID_INPUT_WEIGHT, HYBRID_BYTES_WEIGHT}},
       3,
       NULL},
      {"replicas",
       REPLICAS_FINGERPRINT,
       replicas_artifact(),
       REPLICAS_RANKS,
       {{REPLICAS_INPUT_TOKENS, REPLICAS_BYTES_TOKENS},
        {REPLICAS_INPUT_LABELS, REPLICAS_BYTES_LABELS},
        {REPLICAS_INPUT_WEIGHT, REPLICAS_BYTES_WEIGHT}},
       3,
       NULL},
      {"mixed",
       MIXED_FINGERPRINT,
       mixed_artifact(),
       MIXED_RANKS,
       {{MIXED_INPUT_TOKENS, MIXED_BYTES_TOKENS},
        {MIXED_INPUT_LABELS, MIXED_BYTES_LABELS},
        {MIXED_INPUT_WEIGHT, MIXED_BYTES_WEIGHT}},
       3,
       NULL}};
  const int count = sizeof libraries / sizeof *libraries;
  int i, step, steps;
  if (argc != 4)
    return 2;
  steps = atoi(argv[2]);
  /* All are open at once, and take turns. */
  for (i = 0; i < count; ++i)
    start(&libraries[i], argv[1]);
  for (step = 1; step <= steps; ++step)
    for (i = 0; i < count; ++i)
      train(&libraries[i], argv[1], step);
  for (i = 0; i < count; ++i)
    finish(&libraries[i], argv[3]);
  return 0;
}
