//===- TcpJob.cpp - Processes that have met -------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "channels/tcp/TcpJob.h"

#include "core/Clock.h"
#include "fsdp-rt/abi.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iterator>
#include <random>
#include <thread>

namespace fsdp::rt {

namespace {

constexpr uint64_t magic = 0x3170637470647366;
/// What is said below, in which order.
constexpr uint32_t protocol = 1;
/// How long a peer may take to send its hello, and a listener its greeting;
/// what is no rank of a job may be at either end and send nothing.
constexpr int64_t helloNanoseconds = 2'000'000'000;
/// How long a connection may take to be made.
constexpr int64_t connectNanoseconds = 10'000'000'000;

uint64_t hashOf(const std::string &text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

/// "0, 2 and 3", of the ranks for which `has` is `wanted`.
std::string listRanks(const std::vector<bool> &has, bool wanted) {
  std::vector<std::string> names;
  for (size_t rank = 0; rank < has.size(); ++rank)
    if (has[rank] == wanted)
      names.push_back(std::to_string(rank));
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

std::string describeSeconds(double seconds) {
  std::string text = std::to_string(seconds);
  text.erase(text.find_last_not_of('0') + 1);
  return text.substr(0, text.size() - (text.back() == '.')) + " s";
}

std::string portsOf(const MeetingPoint &point) {
  std::string text = point.host + ":" + std::to_string(point.ports.front());
  return point.ports.size() == 1
             ? text
             : text + " to " + std::to_string(point.ports.back());
}

/// If all ranks are on this host and MASTER_ADDR is a loopback address, rank 0
/// listens at it alone; null: on all interfaces.
const Address *onlyAddress(const LaunchInfo &launch, const Address &master) {
  return launch.localSize == launch.size && master.isLoopback() ? &master
                                                                : nullptr;
}

} // namespace

/// What rank 0 says to who has been connected.
struct TcpJob::Greeting {
  uint64_t magic, job;
  uint32_t protocol, abi;
};

/// What the other says then.
struct TcpJob::Hello {
  uint64_t magic, job;
  int32_t rank, size, process, port;
  char host[64];
};

/// Rank 0's answer, when all have come or not: the text of a refusal, or all
/// places.
struct Answer {
  uint64_t token;
  uint32_t isRefusal, bytes;
};

struct TcpJob::DataHello {
  uint64_t token, channel;
  int32_t rank;
};

/// Who has been connected with rank 0 and has not said all of its hello.
struct TcpJob::Visitor {
  Socket socket;
  Hello hello = {};
  size_t has = 0;
};

Result<TcpJob> TcpJob::meet(const LaunchInfo &launch, const MeetingPoint &point,
                            double seconds) {
  TcpJob job;
  job.rank_ = launch.rank;
  job.places_.resize(static_cast<size_t>(launch.size));
  job.seconds_ = seconds;
  int64_t deadline = nowNanoseconds() + static_cast<int64_t>(seconds * 1e9);
  Status status = launch.rank == 0 ? job.host(launch, point, deadline)
                                   : job.join(launch, point, deadline);
  if (status)
    return status;
  return job;
}

std::string TcpJob::describe(int rank) const {
  const Place &place = places_[static_cast<size_t>(rank)];
  return "rank " + std::to_string(rank) + " (process " +
         std::to_string(place.process) + " on " + place.host + ")";
}

TcpJob::Hello TcpJob::hello(const LaunchInfo &launch) const {
  Hello hello = {};
  hello.magic = magic;
  hello.rank = launch.rank;
  hello.size = launch.size;
  hello.process = getpid();
  hello.port = portOf(listener_);
  (void)gethostname(hello.host, sizeof(hello.host) - 1);
  return hello;
}

//===----------------------------------------------------------------------===//
// Rank 0
//===----------------------------------------------------------------------===//

Status TcpJob::host(const LaunchInfo &launch, const MeetingPoint &point,
                    int64_t deadline) {
  Result<std::vector<Address>> own = resolve(point.host, point.ports.front());
  if (!own.isOk())
    return own.status();
  const Address *only = onlyAddress(launch, own->front());
  Result<Socket> data = listenAt(0, only);
  if (!data.isOk())
    return data.status();
  listener_ = std::move(*data);
  Result<Socket> listener = Status::failed("");
  for (int port : point.ports) {
    listener = listenAt(port, only);
    if (listener.isOk())
      break;
  }
  if (!listener.isOk())
    return listener.status().withContext("rank 0 at " + portsOf(point));
  Status status = gather(*listener, hello(launch), hashOf(point.job), deadline);
  Answer answer = {};
  std::string text = status.message();
  if (status.isOk()) {
    std::random_device random;
    token_ = uint64_t(random()) << 32 | random();
    text.assign(reinterpret_cast<const char *>(places_.data()),
                places_.size() * sizeof(Place));
  }
  answer.token = token_;
  answer.isRefusal = !status.isOk();
  answer.bytes = static_cast<uint32_t>(text.size());
  for (const Socket &socket : control_) {
    if (!socket.isOpen())
      continue;
    int64_t until = nowNanoseconds() + helloNanoseconds;
    Status sent = sendAll(socket, &answer, sizeof(answer), until);
    if (sent.isOk())
      sent = sendAll(socket, text.data(), text.size(), until);
    if (sent && status.isOk())
      return sent.withContext("the start of the job");
  }
  return status;
}

Status TcpJob::gather(const Socket &listener, const Hello &own, uint64_t job,
                      int64_t deadline) {
  std::vector<bool> hasCome(places_.size(), false);
  hasCome[0] = true;
  places_[0].process = own.process;
  places_[0].address.setPort(own.port);
  places_[0].isBesideRankZero = 1;
  std::memcpy(places_[0].host, own.host, sizeof(own.host));
  control_.resize(places_.size());
  std::vector<Visitor> visitors;
  while (std::find(hasCome.begin(), hasCome.end(), false) != hasCome.end()) {
    if (nowNanoseconds() >= deadline)
      return Status::failed("expected " + std::to_string(places_.size()) +
                            " ranks within " + describeSeconds(seconds_) +
                            ", got " + listRanks(hasCome, true) + " and not " +
                            listRanks(hasCome, false));
    std::vector<pollfd> polled = {{listener.get(), POLLIN, 0}};
    for (const Visitor &visitor : visitors)
      polled.push_back({visitor.socket.get(), POLLIN, 0});
    constexpr int milliseconds = 50;
    (void)poll(polled.data(), polled.size(), milliseconds);
    for (Socket made; (made = acceptOne(listener)).isOpen();) {
      Greeting greeting = {magic, job, protocol, FSDP_RT_ABI_VERSION};
      if (sendAll(made, &greeting, sizeof(greeting), deadline).isOk())
        visitors.push_back({std::move(made)});
    }
    for (Visitor &visitor : visitors) {
      auto to = reinterpret_cast<char *>(&visitor.hello) + visitor.has;
      ssize_t got =
          recv(visitor.socket.get(), to, sizeof(Hello) - visitor.has, 0);
      if (got > 0)
        visitor.has += static_cast<size_t>(got);
      bool isWhole = visitor.has == sizeof(Hello);
      bool isOurs = visitor.hello.magic == magic && visitor.hello.job == job;
      if (isWhole && isOurs)
        if (Status s = takeVisitor(visitor, hasCome))
          return s;
      bool isGone = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
      if (isWhole || isGone)
        visitor.socket = Socket();
    }
    visitors.erase(std::remove_if(visitors.begin(), visitors.end(),
                                  [](const Visitor &visitor) {
                                    return !visitor.socket.isOpen();
                                  }),
                   visitors.end());
  }
  return Status::ok();
}

Status TcpJob::takeVisitor(Visitor &visitor, std::vector<bool> &hasCome) {
  const Hello &hello = visitor.hello;
  std::string who = "process " + std::to_string(hello.process) + " on " +
                    std::string(hello.host, strnlen(hello.host, 63));
  auto keep = [&](size_t place) {
    control_[place] = std::move(visitor.socket);
  };
  if (hello.size != size() || hello.rank < 1 || hello.rank >= size()) {
    control_.push_back(std::move(visitor.socket));
    return Status::failed("expected rank 1 to " + std::to_string(size() - 1) +
                          " of " + std::to_string(size()) + ", got rank " +
                          std::to_string(hello.rank) + " of " +
                          std::to_string(hello.size) + " in " + who);
  }
  auto rank = static_cast<size_t>(hello.rank);
  if (hasCome[rank]) {
    control_.push_back(std::move(visitor.socket));
    return Status::failed("expected each rank once, got rank " +
                          std::to_string(hello.rank) +
                          " twice: " + describe(hello.rank) + " and " + who);
  }
  Place &place = places_[rank];
  place.address = peerOf(visitor.socket);
  place.isBesideRankZero = place.address.isLoopback();
  place.address.setPort(hello.port);
  place.process = hello.process;
  std::memcpy(place.host, hello.host, sizeof(place.host) - 1);
  hasCome[rank] = true;
  keep(rank);
  return Status::ok();
}

//===----------------------------------------------------------------------===//
// The others
//===----------------------------------------------------------------------===//

Status TcpJob::join(const LaunchInfo &launch, const MeetingPoint &point,
                    int64_t deadline) {
  uint64_t job = hashOf(point.job);
  Result<std::vector<Address>> addresses =
      resolve(point.host, point.ports.front());
  if (!addresses.isOk())
    return addresses.status();
  Result<Socket> data = listenAt(0, onlyAddress(launch, addresses->front()));
  if (!data.isOk())
    return data.status();
  listener_ = std::move(*data);
  Hello mine = hello(launch);
  mine.job = job;
  Status last = Status::failed("nobody listens");
  // Rank 0 tells who is missing; who waits for it has some more patience.
  constexpr int64_t patience = 2'000'000'000;
  for (int64_t until = deadline + patience; nowNanoseconds() < until;) {
    for (int port : point.ports)
      for (Address address : *addresses) {
        address.setPort(port);
        bool isOver = false;
        Status status = tryJoin(address, mine, job, until, isOver);
        if (status.isOk() || isOver)
          return status;
        last = status;
      }
    constexpr std::chrono::milliseconds pause(50);
    std::this_thread::sleep_for(pause);
  }
  return Status::failed("expected rank 0 at " + portsOf(point) + " within " +
                        describeSeconds(seconds_) + ", got: " + last.message());
}

/// `isOver`: another try would be in vain.
Status TcpJob::tryJoin(const Address &address, const Hello &hello, uint64_t job,
                       int64_t deadline, bool &isOver) {
  int64_t soon = std::min(deadline, nowNanoseconds() + helloNanoseconds);
  Result<Socket> socket = connectTo(address, soon);
  if (!socket.isOk())
    return socket.status();
  Greeting greeting;
  if (Status s = receiveAll(*socket, &greeting, sizeof(greeting), soon))
    return s.withContext(address.describe());
  if (greeting.magic != magic || greeting.job != job)
    return Status::failed(address.describe() + " is not of this job");
  isOver = true;
  if (greeting.protocol != protocol || greeting.abi != FSDP_RT_ABI_VERSION)
    return Status::failed(
        "expected a runtime of version " + std::to_string(greeting.abi) + "." +
        std::to_string(greeting.protocol) + ", as on rank 0, got " +
        std::to_string(FSDP_RT_ABI_VERSION) + "." + std::to_string(protocol) +
        " on rank " + std::to_string(rank_));
  if (Status s = sendAll(*socket, &hello, sizeof(hello), soon))
    return s.withContext(address.describe());
  Answer answer;
  if (Status s = receiveAll(*socket, &answer, sizeof(answer), deadline))
    return s.withContext("rank 0 at " + address.describe());
  std::string text(answer.bytes, '\0');
  if (Status s = receiveAll(*socket, text.data(), text.size(), deadline))
    return s.withContext("rank 0 at " + address.describe());
  if (answer.isRefusal)
    return Status::failed(text);
  token_ = answer.token;
  std::memcpy(places_.data(), text.data(),
              std::min(text.size(), places_.size() * sizeof(Place)));
  // Rank 0 sees ranks of its own host at a loopback address, of no use to other
  // hosts: the address at which this rank reached rank 0 replaces it.
  for (Place &place : places_)
    if (place.isBesideRankZero) {
      int port = place.address.port();
      place.address = address;
      place.address.setPort(port);
    }
  control_.push_back(std::move(*socket));
  return Status::ok();
}

//===----------------------------------------------------------------------===//
// Connections of channels
//===----------------------------------------------------------------------===//

Result<Socket> TcpJob::connect(int peer, uint64_t channel, int wakeup) {
  if (rank_ < peer)
    return accept(peer, channel, wakeup);
  int64_t deadline = nowNanoseconds() + connectNanoseconds;
  Result<Socket> socket =
      connectTo(places_[static_cast<size_t>(peer)].address, deadline);
  DataHello hello = {token_, channel, rank_};
  Status status = socket.status();
  if (socket.isOk())
    status = sendAll(*socket, &hello, sizeof(hello), deadline);
  if (status)
    return status.withContext(describe(peer));
  return socket;
}

void TcpJob::takeArrivals() {
  for (Socket made; (made = acceptOne(listener_)).isOpen();) {
    DataHello hello;
    int64_t deadline = nowNanoseconds() + helloNanoseconds;
    // Others than this job's ranks are sent away.
    if (receiveAll(made, &hello, sizeof(hello), deadline).isOk() &&
        hello.token == token_)
      arrived_[{hello.channel, hello.rank}] = std::move(made);
  }
}

Result<Socket> TcpJob::accept(int peer, uint64_t channel, int wakeup) {
  for (;;) {
    {
      std::lock_guard<std::mutex> lock(*mutex_);
      takeArrivals();
      auto found = arrived_.find({channel, peer});
      if (found != arrived_.end()) {
        Socket socket = std::move(found->second);
        arrived_.erase(found);
        return socket;
      }
    }
    // Another thread may take what comes: it leaves it where this one looks.
    constexpr int milliseconds = 20;
    pollfd polled[] = {{listener_.get(), POLLIN, 0}, {wakeup, POLLIN, 0}};
    (void)poll(polled, std::size(polled), milliseconds);
    if (polled[1].revents)
      return Status::failed("expected " + describe(peer) +
                            ", got the end of the program");
  }
}

} // namespace fsdp::rt
