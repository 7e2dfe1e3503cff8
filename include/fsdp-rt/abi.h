//===- abi.h - C ABI of compiled programs and the runtime --------*- C
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A compiled object defines one symbol, `fsdp_rt_artifact_entry`; its programs
// call the functions of abi.def. Nothing here depends on MLIR, CUDA, MPI or
// NCCL.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_ABI_H
#define FSDP_RT_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// One rank of one running program. Owned by the runtime; a step may use it
/// only on the thread that entered the step.
typedef struct fsdp_rt_context fsdp_rt_context;

/// Element types, as they appear in descriptors. The manifest and safetensors
/// use the names on the right.
typedef enum {
  FSDP_RT_F32 = 0,  /* "F32"  */
  FSDP_RT_F64 = 1,  /* "F64"  */
  FSDP_RT_F16 = 2,  /* "F16"  */
  FSDP_RT_BF16 = 3, /* "BF16" */
  FSDP_RT_I64 = 4,  /* "I64"  */
  FSDP_RT_I32 = 5,  /* "I32"  */
  FSDP_RT_I16 = 6,  /* "I16"  */
  FSDP_RT_I8 = 7,   /* "I8"   */
  FSDP_RT_U8 = 8,   /* "U8"   */
  FSDP_RT_BOOL = 9  /* "BOOL", one byte, 0 or 1 */
} fsdp_rt_dtype;

/// What a transfer does: a collective among the ranks of a group, or a copy
/// between the two memories of one rank.
typedef enum {
#define FSDP_RT_TRANSFER(number, NAME, Name, spelling, QUEUE)                  \
  FSDP_RT_##NAME = number,
#include "fsdp-rt/transfers.def"
} fsdp_rt_transfer_kind;

/// What runs beside each other, each in its order. The manifest uses the
/// spellings of transfers.def.
typedef enum {
  FSDP_RT_QUEUE_COMPUTE = 0,
#define FSDP_RT_QUEUE(number, NAME, Name, spelling)                            \
  FSDP_RT_QUEUE_##NAME = number,
#include "fsdp-rt/transfers.def"
} fsdp_rt_queue;

/// Which arena of a rank an offset counts from.
typedef enum { FSDP_RT_DEVICE = 0, FSDP_RT_HOST = 1 } fsdp_rt_memory;

/* Bits of a product's epilogue. */
typedef enum {
  FSDP_RT_EPILOGUE_BIAS = 1,
  FSDP_RT_EPILOGUE_ADDEND = 2
} fsdp_rt_epilogue;

typedef enum {
  FSDP_RT_GUARD_FILL = 0,
  FSDP_RT_GUARD_BEGIN = 1,
  FSDP_RT_GUARD_END = 2,
  FSDP_RT_GUARD_KEEP = 3
} fsdp_rt_guard_action;

/// A kernel compiled for processors: handles work items [begin, end).
/// `operands` are addresses, in the order of the launch's offsets. `scratch` is
/// this thread's own, 64-byte aligned, of the kernel's scratch_bytes. Never
/// fails, never allocates.
typedef void (*fsdp_rt_kernel_fn)(char *const *operands, char *scratch,
                                  int64_t begin, int64_t end);

#define FSDP_RT_STRUCT_BEGIN(desc) typedef struct fsdp_rt_##desc##_desc {
#define FSDP_RT_FIELD_PTR(name) const void *name;
#define FSDP_RT_FIELD_STR(name) const char *name;
#define FSDP_RT_FIELD_I32(name) int32_t name;
#define FSDP_RT_FIELD_I64(name) int64_t name;
#define FSDP_RT_FIELD_F64(name) double name;
#define FSDP_RT_FIELD_I64x4(name) int64_t name[4];
#define FSDP_RT_FIELD(desc, kind, name) FSDP_RT_FIELD_##kind(name)
#define FSDP_RT_STRUCT_END(desc)                                               \
  }                                                                            \
  fsdp_rt_##desc##_desc;
#include "fsdp-rt/abi.def"

/// Each returns 0, or the code with which the step ends at once.
#define FSDP_RT_CALL(name, desc, Category, WORKSPACE)                          \
  int32_t fsdp_rt_##name(fsdp_rt_context *ctx,                                 \
                         const fsdp_rt_##desc##_desc *desc);
#include "fsdp-rt/calls.def"

/// A program of a compiled object: a training step, an evaluation.
typedef struct fsdp_rt_program {
  const char *name; /* as the manifest has it */
  /// Runs it on the rank behind `ctx`: inputs, scalars and states are read and
  /// written at their arena offsets. Returns 0, or the code of the call that
  /// failed.
  int32_t (*run)(fsdp_rt_context *ctx);
  /// SHA-256 of the program that was lowered, in hexadecimal; null where the
  /// manifest has no certificate of it.
  const char *certificate;
} fsdp_rt_program;

/// What a compiled object exports: programs that share one state.
typedef struct fsdp_rt_artifact {
  uint32_t abi_version; /* FSDP_RT_ABI_VERSION */
  uint32_t program_count;
  const char *manifest;            /* JSON, NUL-terminated: docs/manifest.md */
  const fsdp_rt_program *programs; /* in the manifest's order */
  /// SHA-256 of the manifest's text, in hexadecimal; null where no program has
  /// a certificate.
  const char *manifest_digest;
} fsdp_rt_artifact;

extern const fsdp_rt_artifact fsdp_rt_artifact_entry;

#ifdef __cplusplus
}
#endif

#endif /* FSDP_RT_ABI_H */
