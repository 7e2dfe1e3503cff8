//===- SessionApi.cpp - Sessions for C ------------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp-rt/fsdp-rt.h"
#include "main/Session.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <new>

using namespace fsdp::rt;

struct fsdp_session {
  std::unique_ptr<Session> session;
  std::string lastError;
};

namespace {

thread_local std::string lastCreateError;

/// Runs `body`, which returns a Status, and keeps its message.
template <typename Body>
fsdp_code guarded(std::string &lastError, const Body &body) {
  Status status;
  try {
    status = body();
  } catch (const std::bad_alloc &) {
    status = Status::failed("out of memory");
  } catch (const std::exception &error) {
    status = Status::internal(error.what());
  }
  if (status)
    lastError = status.message();
  return static_cast<fsdp_code>(status.code());
}

template <typename Body>
fsdp_code withSession(fsdp_session *session, const Body &body) {
  if (!session)
    return FSDP_FAILED;
  return guarded(session->lastError,
                 [&]() -> Status { return body(*session->session); });
}

Status missing(const char *argument) {
  return Status::failed(std::string("expected '") + argument +
                        "', got a null pointer");
}

/// Fields that a caller compiled against an older header does not have keep
/// their defaults.
Result<fsdp_session_options> completed(const fsdp_session_options *given) {
  fsdp_session_options options = {};
  if (!given)
    return options;
  if (given->size < offsetof(fsdp_session_options, ranks) ||
      given->size > sizeof options)
    return Status::failed("expected options of " +
                          std::to_string(sizeof options) + " bytes, got size " +
                          std::to_string(given->size));
  std::copy_n(reinterpret_cast<const char *>(given), given->size,
              reinterpret_cast<char *>(&options));
  return options;
}

/// What a tensor is, to wherever the caller wants to know it.
void describe(Dtype is, int64_t size, const data::Shape &extents,
              fsdp_rt_dtype *dtype, size_t *bytes, int64_t *shape,
              size_t max_rank, size_t *rank) {
  if (dtype)
    *dtype = is;
  if (bytes)
    *bytes = static_cast<size_t>(size);
  if (shape)
    std::copy_n(extents.begin(), std::min(max_rank, extents.size()), shape);
  if (rank)
    *rank = extents.size();
}

} // namespace

fsdp_code fsdp_create(const fsdp_rt_artifact *artifact,
                      const fsdp_session_options *options,
                      fsdp_session **session) {
  return guarded(lastCreateError, [&]() -> Status {
    if (!session)
      return missing("session");
    *session = nullptr;
    Result<fsdp_session_options> wanted = completed(options);
    if (!wanted.isOk())
      return wanted.status();
    Result<std::unique_ptr<Session>> created =
        Session::create(artifact, *wanted);
    if (!created.isOk())
      return created.status();
    *session = new fsdp_session{std::move(*created), ""};
    return Status::ok();
  });
}

void fsdp_destroy(fsdp_session *session) { delete session; }

const char *fsdp_last_error(const fsdp_session *session) {
  return session ? session->lastError.c_str() : lastCreateError.c_str();
}

fsdp_code fsdp_set_option(fsdp_session *session, const char *name,
                          const char *value) {
  return withSession(session, [&](Session &it) -> Status {
    if (!name)
      return missing("name");
    if (!value)
      return missing("value");
    return it.setOption(name, value);
  });
}

fsdp_code fsdp_describe(fsdp_session *session, const char **json) {
  return withSession(session, [&](Session &it) -> Status {
    if (!json)
      return missing("json");
    *json = it.manifest().text.c_str();
    return Status::ok();
  });
}

fsdp_code fsdp_ranks(fsdp_session *session, int32_t *world, int32_t *first,
                     int32_t *count) {
  return withSession(session, [&](Session &it) -> Status {
    if (world)
      *world = static_cast<int32_t>(it.manifest().worldSize());
    if (first)
      *first = it.firstRank();
    if (count)
      *count = it.rankCount();
    return Status::ok();
  });
}

fsdp_code fsdp_init_from_seed(fsdp_session *session, uint64_t seed) {
  return withSession(session,
                     [&](Session &it) { return it.initializeFromSeed(seed); });
}

fsdp_code fsdp_init_from_file(fsdp_session *session, const char *path,
                              int32_t cast) {
  return withSession(session, [&](Session &it) {
    return path ? it.initializeFromFile(path, cast != 0) : missing("path");
  });
}

fsdp_code fsdp_resume(fsdp_session *session, const char *directory,
                      int64_t *step) {
  return withSession(session, [&](Session &it) -> Status {
    if (!directory)
      return missing("directory");
    Result<int64_t> found = it.resume(directory);
    if (found.isOk() && step)
      *step = *found;
    return found.status();
  });
}

fsdp_code fsdp_set_input(fsdp_session *session, const char *program,
                         int32_t rank, const char *name, const void *data,
                         size_t bytes) {
  return withSession(session, [&](Session &it) {
    if (!name || (!data && bytes > 0))
      return missing(name ? "data" : "name");
    return it.setInput(program ? program : "", rank, name, data, bytes);
  });
}

fsdp_code fsdp_run(fsdp_session *session, const char *program) {
  return withSession(
      session, [&](Session &it) { return it.run(program ? program : ""); });
}

fsdp_code fsdp_output_info(fsdp_session *session, const char *program,
                           const char *name, fsdp_rt_dtype *dtype,
                           size_t *bytes, int64_t *shape, size_t max_rank,
                           size_t *rank) {
  return withSession(session, [&](Session &it) -> Status {
    if (!name)
      return missing("name");
    auto output = it.findOutput(program ? program : "", name);
    if (!output.isOk())
      return output.status();
    describe((*output)->dtype, (*output)->bytes(), (*output)->shape, dtype,
             bytes, shape, max_rank, rank);
    return Status::ok();
  });
}

fsdp_code fsdp_read_output(fsdp_session *session, const char *program,
                           int32_t rank, const char *name, void *data,
                           size_t bytes) {
  return withSession(session, [&](Session &it) {
    if (!name || (!data && bytes > 0))
      return missing(name ? "data" : "name");
    return it.readOutput(program ? program : "", rank, name, data, bytes);
  });
}

fsdp_code fsdp_set_scalar(fsdp_session *session, const char *name,
                          double value) {
  return withSession(session, [&](Session &it) {
    return name ? it.setScalar(name, value) : missing("name");
  });
}

fsdp_code fsdp_step(fsdp_session *session, double lr) {
  return withSession(session, [&](Session &it) { return it.step(lr); });
}

fsdp_code fsdp_results(fsdp_session *session, double *loss, double *grad_norm) {
  return withSession(session,
                     [&](Session &it) { return it.results(loss, grad_norm); });
}

fsdp_code fsdp_parameter_info(fsdp_session *session, const char *name,
                              fsdp_rt_dtype *dtype, size_t *bytes,
                              int64_t *shape, size_t max_rank, size_t *rank) {
  return withSession(session, [&](Session &it) -> Status {
    if (!name)
      return missing("name");
    Result<NamedTensor> tensor = findTensor(it.manifest(), name);
    if (!tensor.isOk())
      return tensor.status();
    describe(tensor->dtype(), tensor->bytes(), tensor->shape(), dtype, bytes,
             shape, max_rank, rank);
    return Status::ok();
  });
}

fsdp_code fsdp_read_parameter(fsdp_session *session, const char *name,
                              void *data, size_t bytes) {
  return withSession(session, [&](Session &it) {
    if (!name || (!data && bytes > 0))
      return missing(name ? "data" : "name");
    return it.readParameter(name, data, bytes);
  });
}

fsdp_code fsdp_write_parameter(fsdp_session *session, const char *name,
                               const void *data, size_t bytes) {
  return withSession(session, [&](Session &it) {
    if (!name || (!data && bytes > 0))
      return missing(name ? "data" : "name");
    return it.writeParameter(name, data, bytes);
  });
}

fsdp_code fsdp_save(fsdp_session *session, const char *directory) {
  return withSession(session, [&](Session &it) {
    return directory ? it.save(directory) : missing("directory");
  });
}
