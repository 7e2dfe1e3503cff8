//===- generate.c - Text from a trained model of bytes ------------*- C -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Samples from the model of a checkpoint, byte by byte, through the C library:
//
//   generate CHECKPOINT PROMPT COUNT [TEMPERATURE [SEED]]
//
// The step is exported with --eval: its program `evaluate` takes `input_ids`
// and `labels`, [1, T], and returns `logits`, [1, T, V]. A position's logits
// depend on the ids up to it alone, so the bytes stand at the left, and what
// follows them is of no account; of a text longer than T the last T bytes are
// read. With a temperature of 0 the likeliest byte is taken.
//
//===----------------------------------------------------------------------===//

#include "libgpt2.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static fsdp_session *session;

static void check(fsdp_code code) {
  if (code == FSDP_OK)
    return;
  fprintf(stderr, "error: %s\n", fsdp_last_error(session));
  exit(1);
}

/// A number from 0 to 1, below 1: SplitMix64.
static double draw(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

/// An index of @logits by softmax(logits / temperature).
static size_t sample(const float *logits, size_t count, double temperature,
                     uint64_t *state) {
  size_t likeliest = 0;
  for (size_t i = 1; i < count; ++i)
    if (logits[i] > logits[likeliest])
      likeliest = i;
  if (temperature == 0)
    return likeliest;
  double total = 0;
  for (size_t i = 0; i < count; ++i)
    total += exp((logits[i] - logits[likeliest]) / temperature);
  double rest = draw(state) * total;
  for (size_t i = 0; i < count; ++i) {
    rest -= exp((logits[i] - logits[likeliest]) / temperature);
    if (rest < 0)
      return i;
  }
  return likeliest;
}

int main(int argc, char **argv) {
  char *end;
  long count = argc > 3 ? strtol(argv[3], &end, 10) : -1;
  if (argc < 4 || argc > 6 || count < 0 || *end || !*argv[2]) {
    fprintf(stderr, "usage: generate CHECKPOINT PROMPT COUNT "
                    "[TEMPERATURE [SEED]]\n");
    return 1;
  }
  double temperature = argc > 4 ? strtod(argv[4], &end) : 1;
  if ((argc > 4 && *end) || !(temperature >= 0) || isinf(temperature)) {
    fprintf(stderr, "error: expected a temperature of 0 or more, got '%s'\n",
            argv[4]);
    return 1;
  }
  uint64_t state = argc > 5 ? strtoull(argv[5], NULL, 10) : 0;

  if (fsdp_create(gpt2_artifact(), NULL, &session) != FSDP_OK) {
    fprintf(stderr, "error: %s\n", fsdp_last_error(NULL));
    return 1;
  }
  check(fsdp_init_from_seed(session, 0));
  check(fsdp_resume(session, argv[1], NULL));
  fsdp_rt_dtype dtype;
  size_t bytes, rank;
  int64_t shape[3];
  check(fsdp_output_info(session, "evaluate", "logits", &dtype, &bytes, shape,
                         3, &rank));
  if (dtype != FSDP_RT_F32 || rank != 3 || shape[0] != 1 || shape[2] > 256) {
    fprintf(stderr, "error: expected logits of f32 and [1, T, V], V at most "
                    "256\n");
    return 1;
  }
  const size_t places = (size_t)shape[1], values = (size_t)shape[2];

  size_t length = strlen(argv[2]);
  unsigned char *text = malloc(length + (size_t)count);
  float *logits = malloc(bytes);
  int64_t *ids = calloc(places, sizeof *ids);
  if (!text || !logits || !ids) {
    fprintf(stderr, "error: out of memory\n");
    return 1;
  }
  memcpy(text, argv[2], length);
  fwrite(text, 1, length, stdout);
  for (; count > 0; --count) {
    size_t seen = length < places ? length : places;
    for (size_t i = 0; i < seen; ++i)
      ids[i] = text[length - seen + i];
    check(fsdp_set_input(session, "evaluate", 0, "input_ids", ids,
                         places * sizeof *ids));
    check(fsdp_set_input(session, "evaluate", 0, "labels", ids,
                         places * sizeof *ids));
    check(fsdp_run(session, "evaluate"));
    check(fsdp_read_output(session, "evaluate", 0, "logits", logits, bytes));
    text[length] = (unsigned char)sample(logits + (seen - 1) * values, values,
                                         temperature, &state);
    putchar(text[length++]);
    fflush(stdout);
  }
  putchar('\n');
  fsdp_destroy(session);
  free(text);
  free(logits);
  free(ids);
  return 0;
}
