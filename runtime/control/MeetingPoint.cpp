//===- MeetingPoint.cpp - Where processes of a job meet -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "control/MeetingPoint.h"

#include <charconv>
#include <cstdint>

namespace fsdp::rt {

namespace {

constexpr int maxPort = 65535;
/// Others may have taken some of them.
constexpr int numPorts = 16;

std::string get(const Environment &environment, const char *name) {
  auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

std::vector<int> portsFrom(int first) {
  std::vector<int> ports;
  for (int port = first; port < first + numPorts && port <= maxPort; ++port)
    ports.push_back(port);
  return ports;
}

Result<int> readPort(const std::string &text) {
  int port = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port < 1 ||
      port > maxPort)
    return Status::failed("environment: expected MASTER_PORT to be a port from "
                          "1 to 65535, got '" +
                          text + "'");
  return port;
}

/// Away from well-known ports and those that systems give to clients.
int portOfStep(const std::string &step) {
  constexpr int first = 16384, count = 16000;
  uint32_t hash = 2166136261u;
  for (char c : step)
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return first + static_cast<int>(hash % count);
}

Status missing(const LaunchInfo &launch) {
  return Status::failed(
      "expected MASTER_ADDR, the host of rank 0, and MASTER_PORT, a free port "
      "there, in the environment of processes of " +
      std::string(launcherName(launch.launcher)) + " (" + launch.variables +
      "), got "
      "none: set both, or start the program with torchrun, srun or "
      "mpirun of Open MPI");
}

} // namespace

std::string firstSlurmHost(const std::string &list) {
  std::string host;
  for (size_t at = 0; at < list.size() && list[at] != ',';) {
    if (list[at] == ']')
      return "";
    if (list[at] != '[') {
      host += list[at++];
      continue;
    }
    // Of ranges in brackets, the first number of the first.
    size_t close = list.find_first_of("[]", at + 1);
    size_t end = list.find_first_of("-,]", at + 1);
    if (close == std::string::npos || list[close] == '[' || end == at + 1)
      return "";
    host += list.substr(at + 1, end - at - 1);
    at = close + 1;
  }
  return host;
}

/// Of the launcher that left rank 0 a socket; -1 where none has.
static Result<int> readListener(const Environment &environment) {
  std::string text = get(environment, listenerVariable);
  if (text.empty())
    return -1;
  int fd = -1;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), fd);
  if (error != std::errc() || end != text.data() + text.size() || fd < 0)
    return Status::failed(
        std::string("environment: expected ") + listenerVariable +
        " to be the number of a descriptor, got '" + text + "'");
  return fd;
}

Result<MeetingPoint> findMeetingPoint(const Environment &environment,
                                      const LaunchInfo &launch) {
  MeetingPoint point;
  point.host = get(environment, "MASTER_ADDR");
  std::string port = get(environment, "MASTER_PORT");
  bool isSlurm = launch.launcher == Launcher::Slurm;
  std::string step = get(environment, "SLURM_JOB_ID") + "." +
                     get(environment, "SLURM_STEP_ID");
  if (isSlurm && point.host.empty())
    point.host = firstSlurmHost(get(environment, "SLURM_STEP_NODELIST"));
  if (point.host.empty() || (port.empty() && !isSlurm))
    return missing(launch);
  if (port.empty()) {
    point.ports = portsFrom(portOfStep(step));
    point.job = "srun " + step;
    return point;
  }
  if (launch.rank == 0) {
    Result<int> listener = readListener(environment);
    if (!listener.isOk())
      return listener.status();
    point.listener = *listener;
  }
  Result<int> number = readPort(port);
  if (!number.isOk())
    return number.status();
  bool isTaken = get(environment, "TORCHELASTIC_USE_AGENT_STORE") == "True";
  point.ports = {*number};
  if (isTaken)
    point.ports = portsFrom(*number + 1);
  if (point.ports.empty())
    return Status::failed(
        "environment: expected ports behind MASTER_PORT, got " + port + " of " +
        std::to_string(maxPort));
  point.job = "port " + port + " run " +
              get(environment, "TORCHELASTIC_RUN_ID") + " restart " +
              get(environment, "TORCHELASTIC_RESTART_COUNT");
  // Ranks of torchrun may be of several steps: one for each host.
  if (isSlurm)
    point.job += " step " + step;
  return point;
}

} // namespace fsdp::rt
