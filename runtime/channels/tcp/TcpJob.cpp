//===- TcpJob.cpp - Processes that have met -------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "channels/tcp/TcpJob.h"

#include "core/Clock.h"
#include "core/StableHash.h"
#include "core/WaitLimit.h"
#include "fsdp-rt/abi.h"

#include <poll.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace fsdp::rt {

using namespace tcp;

namespace {

/// How long a peer may take for its hello, and a listener for its greeting;
/// what is no rank of a job may be at either end and send nothing.
constexpr int64_t helloNanoseconds = 10'000'000'000,
                  greetingNanoseconds = 2'000'000'000;
/// How long one try to connect may take. A listener whose backlog is full drops
/// what comes; the next try is sooner than the system's own, which it delays
/// more and more.
constexpr int64_t tryNanoseconds = 2'000'000'000;
/// How much longer than rank 0, which tells who is missing, the others wait.
constexpr int64_t patienceNanoseconds = 2'000'000'000;
/// How long ranks wait without a word, and then between lines.
constexpr int64_t silentNanoseconds = 5'000'000'000,
                  lineNanoseconds = 60'000'000'000;
/// Files that a process opens beside its connections.
constexpr int64_t otherFiles = 128;

/// "0, 2 and 4 to 9", of the ranks for which `has` is `wanted`.
std::string listRanks(const std::vector<bool> &has, bool wanted) {
  constexpr size_t longRun = 4;
  std::vector<std::string> names;
  for (size_t rank = 0; rank < has.size(); ++rank) {
    if (has[rank] != wanted)
      continue;
    size_t end = rank;
    while (end < has.size() && has[end] == wanted)
      ++end;
    names.push_back(std::to_string(rank));
    if (end - rank < longRun)
      continue;
    names.back() += " to " + std::to_string(end - 1);
    rank = end - 1;
  }
  return listWords(names, "and");
}

std::string describeSeconds(double seconds) {
  std::string text = std::to_string(seconds);
  text.erase(text.find_last_not_of('0') + 1);
  return text.substr(0, text.size() - (text.back() == '.')) + " s";
}

std::string portsOf(const MeetingPoint &point) {
  std::string text = describeEndpoint(point.host, point.ports.front());
  return point.ports.size() == 1
             ? text
             : text + " to " + std::to_string(point.ports.back());
}

/// If the launcher has told that all ranks are on this host, and MASTER_ADDR is
/// a loopback address, rank 0 listens at it alone; null: on all interfaces. (A
/// host's own name may be a loopback address on that host alone.)
const Address *onlyAddress(const LaunchInfo &launch, const Address &master) {
  bool isOneHost = launch.hasLocalSize && launch.localSize == launch.size;
  return isOneHost && master.isLoopback() ? &master : nullptr;
}

std::string describeVersion(uint32_t abi, uint32_t protocol) {
  return std::to_string(abi) + "." + std::to_string(protocol);
}

Status versionsDiffer(const std::string &first, const std::string &other,
                      const std::string &who) {
  return Status::failed("expected a runtime of version " + first +
                        ", as on rank 0, got " + other + " on " + who);
}

std::string describeRank(int rank, int process, const HostId &host) {
  return "rank " + std::to_string(rank) + " (process " +
         std::to_string(process) + " on " + host.name + ")";
}

template <typename T>
void eraseClosed(std::vector<T> &connections) {
  connections.erase(
      std::remove_if(connections.begin(), connections.end(),
                     [](const T &one) { return !one.socket.isOpen(); }),
      connections.end());
}

} // namespace

Result<TcpJob> TcpJob::meet(const LaunchInfo &launch, const MeetingPoint &point,
                            double seconds,
                            std::function<void(const std::string &)> tell,
                            double reachSeconds) {
  TcpJob job;
  bool isTeller =
      launch.rank == 0 || (launch.hasLocalRank && launch.localRank == 0);
  if (isTeller)
    job.tell_ = std::move(tell);
  job.nextLine_ = nowNanoseconds() + silentNanoseconds;
  job.rank_ = launch.rank;
  job.places_.resize(static_cast<size_t>(launch.size));
  job.seconds_ = seconds;
  job.reachSeconds_ = std::min(seconds, reachSeconds);
  job.reserved_ = countOpenFiles() + otherFiles;
  if (Status s = job.reserve(launch.rank == 0 ? launch.size : 1))
    return s;
  int64_t deadline = nowNanoseconds() + static_cast<int64_t>(seconds * 1e9);
  Status status = launch.rank == 0 ? job.host(launch, point, deadline)
                                   : job.join(launch, point, deadline);
  if (status)
    return status;
  return job;
}

/// "waiting for `what`", where a line is due.
void TcpJob::tellWaiting(const std::string &what) {
  int64_t now = nowNanoseconds();
  if (!tell_ || now < nextLine_)
    return;
  nextLine_ = now + lineNanoseconds;
  tell_("rank " + std::to_string(rank_) + " waits for " + what +
        ", for up to " + describeSeconds(seconds_) + " (" +
        connectTimeoutVariable + ")");
}

std::string TcpJob::describe(int rank) const {
  const Place &place = places_[static_cast<size_t>(rank)];
  return describeRank(rank, place.process, place.host);
}

int TcpJob::localRank() const {
  const HostId &host = places_[static_cast<size_t>(rank_)].host;
  return static_cast<int>(
      std::count_if(places_.begin(), places_.begin() + rank_,
                    [&](const Place &place) { return place.host == host; }));
}

int TcpJob::localSize() const {
  const HostId &host = places_[static_cast<size_t>(rank_)].host;
  return static_cast<int>(
      std::count_if(places_.begin(), places_.end(),
                    [&](const Place &place) { return place.host == host; }));
}

Status TcpJob::reserve(int64_t connections) {
  std::lock_guard<std::mutex> lock(*mutex_);
  if (Status s = allowOpenFiles(reserved_ + connections))
    return s.withContext("connections of " + std::to_string(size()) + " ranks");
  reserved_ += connections;
  return Status::ok();
}

void TcpJob::release(int64_t connections) {
  std::lock_guard<std::mutex> lock(*mutex_);
  reserved_ -= connections;
}

Hello TcpJob::hello(const LaunchInfo &launch, uint64_t job) const {
  Hello hello = {};
  hello.magic = magic;
  hello.job = job;
  hello.protocol = protocol;
  hello.abi = FSDP_RT_ABI_VERSION;
  hello.rank = launch.rank;
  hello.size = launch.size;
  hello.process = getpid();
  hello.port = portOf(listener_);
  hello.host = thisHost();
  return hello;
}

//===----------------------------------------------------------------------===//
// Rank 0
//===----------------------------------------------------------------------===//

static Result<Socket> listenFor(const MeetingPoint &point,
                                const Address *only) {
  if (point.listener >= 0)
    return adoptListener(point.listener);
  Result<Socket> listener = Status::failed("");
  for (int port : point.ports) {
    listener = listenAt(port, only);
    if (listener.isOk())
      break;
  }
  return listener;
}

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
  Result<Socket> listener = listenFor(point, only);
  if (!listener.isOk())
    return listener.status().withContext("rank 0 at " + portsOf(point));
  return answer(
      gather(*listener, hello(launch, stableHash(point.job)), deadline));
}

/// Tells all that have come the outcome, and returns it.
Status TcpJob::answer(const Status &status) {
  std::string text = status.message().substr(0, maxText);
  if (status.isOk()) {
    // (std::random_device would ask for a newer C library.)
    if (getrandom(&token_, sizeof(token_), 0) != ssize_t(sizeof(token_)))
      return answer(Status::failed("cannot draw a number for the job: " +
                                   lastSystemError()));
    text.assign(reinterpret_cast<const char *>(places_.data()),
                places_.size() * sizeof(Place));
  }
  Answer answer = {token_, !status.isOk(), static_cast<uint32_t>(text.size())};
  for (const Socket &socket : control_) {
    if (!socket.isOpen())
      continue;
    int64_t until = nowNanoseconds() + greetingNanoseconds;
    Status sent = sendAll(socket, &answer, sizeof(answer), until);
    if (sent.isOk())
      sent = sendAll(socket, text.data(), text.size(), until);
    if (sent && status.isOk())
      return sent.withContext("the start of the job");
  }
  return status;
}

/// Fails where this process has no room for a connection.
static Status greetVisitors(const Socket &listener, uint64_t job,
                            int64_t deadline,
                            std::vector<Incoming<Hello>> &visitors) {
  for (;;) {
    Result<Socket> made = acceptOne(listener);
    if (!made.isOk() || !made->isOpen())
      return made.status();
    int64_t now = nowNanoseconds();
    Greeting greeting = {magic, job, protocol, FSDP_RT_ABI_VERSION,
                         deadline - now};
    if (sendAll(*made, &greeting, sizeof(greeting), deadline).isOk())
      visitors.push_back({std::move(*made), now + helloNanoseconds});
  }
}

Status TcpJob::gather(const Socket &listener, const Hello &own,
                      int64_t deadline) {
  std::vector<bool> hasCome(places_.size(), false);
  hasCome[0] = true;
  places_[0].address.port = static_cast<uint32_t>(own.port);
  places_[0].process = own.process;
  places_[0].isBesideRankZero = 1;
  places_[0].host = own.host;
  control_.resize(places_.size());
  std::vector<Visitor> visitors;
  while (std::find(hasCome.begin(), hasCome.end(), false) != hasCome.end()) {
    if (nowNanoseconds() >= deadline)
      return Status::failed(
          "expected " + std::to_string(places_.size()) + " ranks within " +
          describeSeconds(seconds_) + ", got " + listRanks(hasCome, true) +
          " and not " + listRanks(hasCome, false) + " (" +
          connectTimeoutVariable + " is the number of seconds)");
    tellWaiting("rank " + listRanks(hasCome, false) + " of " +
                std::to_string(places_.size()));
    std::vector<pollfd> polled = {{listener.get(), POLLIN, 0}};
    for (const Visitor &visitor : visitors)
      polled.push_back({visitor.socket.get(), POLLIN, 0});
    constexpr int milliseconds = 50;
    (void)poll(polled.data(), polled.size(), milliseconds);
    if (Status s = greetVisitors(listener, own.job, deadline, visitors))
      return s;
    for (Visitor &visitor : visitors) {
      visitor.take(nowNanoseconds());
      if (!visitor.isWhole())
        continue;
      const Hello &hello = visitor.message;
      if (hello.magic == magic && hello.job == own.job)
        if (Status s = takeVisitor(visitor, hasCome))
          return s;
      visitor.socket = Socket();
    }
    eraseClosed(visitors);
  }
  return Status::ok();
}

/// Keeps the connection of who is refused, too: it hears why.
Status TcpJob::takeVisitor(Visitor &visitor, std::vector<bool> &hasCome) {
  Hello &hello = visitor.message;
  hello.host.terminate();
  auto refuse = [&](const Status &why) {
    control_.push_back(std::move(visitor.socket));
    return why;
  };
  std::string who = "process " + std::to_string(hello.process) + " on " +
                    std::string(hello.host.name);
  if (hello.protocol != protocol || hello.abi != FSDP_RT_ABI_VERSION)
    return refuse(
        versionsDiffer(describeVersion(FSDP_RT_ABI_VERSION, protocol),
                       describeVersion(hello.abi, hello.protocol),
                       describeRank(hello.rank, hello.process, hello.host)));
  if (hello.size != size() || hello.rank < 1 || hello.rank >= size())
    return refuse(Status::failed(
        "expected rank 1 to " + std::to_string(size() - 1) + " of " +
        std::to_string(size()) + ", got rank " + std::to_string(hello.rank) +
        " of " + std::to_string(hello.size) + " in " + who));
  auto rank = static_cast<size_t>(hello.rank);
  if (hasCome[rank])
    return refuse(Status::failed(
        "expected each rank once, got rank " + std::to_string(hello.rank) +
        " twice: " + describe(hello.rank) + " and " + who));
  Place place;
  place.address = peerOf(visitor.socket);
  place.address.port = static_cast<uint32_t>(hello.port);
  place.process = hello.process;
  place.isBesideRankZero = place.address.isLoopback();
  place.host = hello.host;
  if (!place.address.isValid())
    return refuse(Status::failed("expected a port from 1 to 65535, got " +
                                 std::to_string(hello.port) + " from " + who));
  places_[rank] = place;
  hasCome[rank] = true;
  control_[rank] = std::move(visitor.socket);
  return Status::ok();
}

//===----------------------------------------------------------------------===//
// The others
//===----------------------------------------------------------------------===//

Status TcpJob::join(const LaunchInfo &launch, const MeetingPoint &point,
                    int64_t deadline) {
  Result<std::vector<Address>> addresses =
      resolve(point.host, point.ports.front());
  if (!addresses.isOk())
    return addresses.status();
  Result<Socket> data = listenAt(0, onlyAddress(launch, addresses->front()));
  if (!data.isOk())
    return data.status();
  listener_ = std::move(*data);
  Hello mine = hello(launch, stableHash(point.job));
  Status last = Status::failed("nobody listens");
  while (nowNanoseconds() < deadline + patienceNanoseconds) {
    for (int port : point.ports)
      for (Address address : *addresses) {
        address.port = static_cast<uint32_t>(port);
        bool isOver = false;
        Status status = tryJoin(address, mine, isOver);
        if (status.isOk() || isOver)
          return status;
        last = status;
      }
    tellWaiting("rank 0 at " + portsOf(point));
    constexpr std::chrono::milliseconds pause(50);
    std::this_thread::sleep_for(pause);
  }
  return Status::failed("expected rank 0 at " + portsOf(point) + " within " +
                        describeSeconds(seconds_) + " (" +
                        connectTimeoutVariable +
                        " is the number of seconds), got: " + last.message());
}

/// `isOver`: another try would be in vain.
Status TcpJob::tryJoin(const Address &address, const Hello &hello,
                       bool &isOver) {
  int64_t soon = nowNanoseconds() + greetingNanoseconds;
  Result<Socket> socket = connectTo(address, soon);
  if (!socket.isOk())
    return socket.status();
  Greeting greeting;
  if (Status s = receiveAll(*socket, &greeting, sizeof(greeting), soon))
    return s.withContext(address.describe());
  if (greeting.magic != magic || greeting.job != hello.job)
    return Status::failed(address.describe() + " is not of this job");
  // Also where versions differ: rank 0 names this rank then.
  if (Status s = sendAll(*socket, &hello, sizeof(hello), soon))
    return s.withContext(address.describe());
  isOver = true;
  if (greeting.protocol != protocol || greeting.abi != FSDP_RT_ABI_VERSION)
    return versionsDiffer(describeVersion(greeting.abi, greeting.protocol),
                          describeVersion(FSDP_RT_ABI_VERSION, protocol),
                          describeRank(rank_, hello.process, hello.host));
  // From here on it is rank 0 that waits for others, which may have begun later
  // than this one.
  constexpr int64_t longest = 1'000'000'000'000'000;
  int64_t left = std::clamp<int64_t>(greeting.nanosecondsLeft, 0, longest);
  if (Status s = takeAnswer(*socket, address,
                            nowNanoseconds() + left + patienceNanoseconds))
    return s;
  control_.push_back(std::move(*socket));
  return Status::ok();
}

/// Of rank 0 at `address`: a refusal, or the places of all ranks.
Status TcpJob::takeAnswer(const Socket &socket, const Address &address,
                          int64_t deadline) {
  std::string from = "rank 0 at " + address.describe();
  Answer answer;
  if (Status s = receiveAll(socket, &answer, sizeof(answer), deadline))
    return s.withContext(from);
  size_t placesBytes = places_.size() * sizeof(Place);
  if (answer.isRefusal ? answer.bytes > maxText : answer.bytes != placesBytes)
    return Status::failed(
        from + ": expected " +
        (answer.isRefusal
             ? "at most " + std::to_string(maxText) + " bytes of a refusal"
             : std::to_string(placesBytes) + " bytes of places") +
        ", got " + std::to_string(answer.bytes));
  std::string text(answer.bytes, '\0');
  if (Status s = receiveAll(socket, text.data(), text.size(), deadline))
    return s.withContext(from);
  if (answer.isRefusal)
    return Status::failed(text);
  token_ = answer.token;
  std::memcpy(places_.data(), text.data(), placesBytes);
  for (size_t rank = 0; rank < places_.size(); ++rank) {
    Place &place = places_[rank];
    place.host.terminate();
    // Rank 0 sees ranks of its own host at a loopback address, of no use to
    // other hosts: the address at which this rank reached rank 0 replaces it.
    if (place.isBesideRankZero) {
      uint32_t port = place.address.port;
      place.address = address;
      place.address.port = port;
    }
    if (!place.address.isValid())
      return Status::failed(from + ": expected the address of rank " +
                            std::to_string(rank) + ", got none");
  }
  return Status::ok();
}

//===----------------------------------------------------------------------===//
// Connections of channels
//===----------------------------------------------------------------------===//

Result<Socket> TcpJob::connect(int peer, uint64_t channel, int wakeup,
                               int64_t waitLimit) {
  if (rank_ < peer)
    return accept(peer, channel, wakeup, waitLimit);
  const Address &address = places_[static_cast<size_t>(peer)].address;
  const DataHello hello = {token_, channel, rank_, 0};
  int64_t deadline =
      nowNanoseconds() + static_cast<int64_t>(reachSeconds_ * 1e9);
  for (;;) {
    int64_t soon = nowNanoseconds() + tryNanoseconds;
    Result<Socket> socket = connectTo(address, soon);
    Status status = socket.status();
    if (socket.isOk())
      status = sendAll(*socket, &hello, sizeof(hello), soon);
    if (status.isOk())
      return socket;
    constexpr int milliseconds = 50;
    pollfd polled = {wakeup, POLLIN, 0};
    bool isOver = nowNanoseconds() >= deadline;
    if (poll(&polled, 1, milliseconds) > 0 || isOver)
      return Status::failed(
          "cannot connect with " + describe(peer) + " at " + status.message() +
          (isOver ? ", tried for " + describeSeconds(reachSeconds_) + " (" +
                        connectTimeoutVariable + ")"
                  : ""));
  }
}

/// Takes connections that have come, and what they say, without waiting for
/// any. Others than this job's ranks are sent away.
Status TcpJob::takeArrivals() {
  for (;;) {
    Result<Socket> made = acceptOne(listener_);
    if (!made.isOk())
      return made.status();
    if (!made->isOpen())
      break;
    arrivals_.push_back(
        {std::move(*made), nowNanoseconds() + helloNanoseconds});
  }
  for (Arrival &arrival : arrivals_) {
    arrival.take(nowNanoseconds());
    if (!arrival.isWhole())
      continue;
    const DataHello &hello = arrival.message;
    Socket socket = std::move(arrival.socket);
    if (hello.token == token_ && hello.rank >= 0 && hello.rank < size())
      arrived_[{hello.channel, hello.rank}] = std::move(socket);
  }
  eraseClosed(arrivals_);
  return Status::ok();
}

Result<Socket> TcpJob::accept(int peer, uint64_t channel, int wakeup,
                              int64_t waitLimit) {
  WaitLimit limit(waitLimit);
  for (;;) {
    std::vector<pollfd> polled = {{wakeup, POLLIN, 0},
                                  {listener_.get(), POLLIN, 0}};
    {
      std::lock_guard<std::mutex> lock(*mutex_);
      if (Status s = takeArrivals())
        return s;
      auto found = arrived_.find({channel, peer});
      if (found != arrived_.end()) {
        Socket socket = std::move(found->second);
        arrived_.erase(found);
        return socket;
      }
      for (const Arrival &arrival : arrivals_)
        polled.push_back({arrival.socket.get(), POLLIN, 0});
    }
    // Another thread may take what comes, or end a connection that is polled
    // here: it leaves what it takes where this one looks.
    constexpr int milliseconds = 20;
    (void)poll(polled.data(), polled.size(), milliseconds);
    if (polled[0].revents)
      return Status::failed("expected a connection of " + describe(peer) +
                            ", got the end of the program");
    if (limit.isExceeded())
      return limit.failure(describe(peer) + " to connect", "no sign of it");
  }
}

} // namespace fsdp::rt
