//===- TcpJobTest.cpp - How processes of a job meet -----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks are threads of the test. Where a rank must say what no runtime says,
// the test is that rank.
//
//===----------------------------------------------------------------------===//

#include "channels/tcp/TcpJob.h"

#include "core/Clock.h"
#include "core/StableHash.h"
#include "fsdp-rt/abi.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <iterator>
#include <thread>

namespace fsdp::rt {
namespace {

constexpr int64_t second = 1'000'000'000;

int64_t inSeconds(int64_t seconds) {
  return nowNanoseconds() + seconds * second;
}

int optionOf(const Socket &socket, int level, int option) {
  int value = -1;
  socklen_t size = sizeof(value);
  (void)getsockopt(socket.get(), level, option, &value, &size);
  return value;
}

Address sixOf(const char (&bytes)[17], int port) {
  Address address;
  address.version = 6;
  address.port = static_cast<uint32_t>(port);
  std::memcpy(address.ip, bytes, sizeof(address.ip));
  return address;
}

Address atLoopback(int port) {
  Address address = Address::loopback();
  address.port = static_cast<uint32_t>(port);
  return address;
}

//===----------------------------------------------------------------------===//
// Sockets
//===----------------------------------------------------------------------===//

TEST(TcpSocket, AddressesBesidePorts) {
  EXPECT_EQ(atLoopback(80).describe(), "127.0.0.1:80");
  Address one = sixOf("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1", 80);
  EXPECT_EQ(one.describe(), "[::1]:80");
  EXPECT_TRUE(one.isLoopback());
  EXPECT_EQ(describeEndpoint("gpu01", 80), "gpu01:80");
  EXPECT_EQ(describeEndpoint("fd00::1", 80), "[fd00::1]:80");
}

TEST(TcpSocket, AnIPv4AddressInOneOfIPv6IsThatAddress) {
  sockaddr_storage bytes;
  sixOf("\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\3", 80).write(bytes);
  Address address = Address::of(bytes);
  EXPECT_EQ(address.version, 4u);
  EXPECT_EQ(address.describe(), "10.0.0.3:80");
  // As a listener of both families says of its peers.
  Result<Socket> listener = listenAt(0, nullptr);
  ASSERT_TRUE(listener.isOk()) << listener.status().message();
  Result<Socket> socket =
      connectTo(atLoopback(portOf(*listener)), inSeconds(5));
  ASSERT_TRUE(socket.isOk()) << socket.status().message();
  Result<Socket> accepted = acceptOne(*listener);
  ASSERT_TRUE(accepted.isOk() && accepted->isOpen());
  EXPECT_EQ(peerOf(*accepted).version, 4u);
  EXPECT_TRUE(peerOf(*accepted).isLoopback());
}

TEST(TcpSocket, APeerWithoutRoomIsNoDeadHost) {
  Address loopback = Address::loopback();
  Result<Socket> listener = listenAt(0, &loopback);
  ASSERT_TRUE(listener.isOk()) << listener.status().message();
  Result<Socket> socket =
      connectTo(atLoopback(portOf(*listener)), inSeconds(5));
  ASSERT_TRUE(socket.isOk()) << socket.status().message();
  Result<Socket> accepted = acceptOne(*listener);
  ASSERT_TRUE(accepted.isOk() && accepted->isOpen());
  for (const Socket *each : {&*socket, &*accepted}) {
    EXPECT_EQ(optionOf(*each, IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
    EXPECT_EQ(optionOf(*each, SOL_SOCKET, SO_KEEPALIVE), 1);
  }
  endWhenUnacknowledged(*socket);
  EXPECT_EQ(optionOf(*socket, IPPROTO_TCP, TCP_USER_TIMEOUT), 20'000);
}

/// Sets the soft limit of open files while it lives.
class FileLimit {
public:
  explicit FileLimit(rlim_t files) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = files;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~FileLimit() { setrlimit(RLIMIT_NOFILE, &before_); }
  rlim_t hard() const { return before_.rlim_max; }
  static rlim_t now() {
    rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
  }

private:
  rlimit before_;
};

TEST(TcpSocket, NoRoomForAConnectionIsNotNobody) {
  Address loopback = Address::loopback();
  Result<Socket> listener = listenAt(0, &loopback);
  ASSERT_TRUE(listener.isOk()) << listener.status().message();
  Result<Socket> nobody = acceptOne(*listener);
  ASSERT_TRUE(nobody.isOk()) << nobody.status().message();
  EXPECT_FALSE(nobody->isOpen());
  Result<Socket> socket =
      connectTo(atLoopback(portOf(*listener)), inSeconds(5));
  ASSERT_TRUE(socket.isOk()) << socket.status().message();
  int next = dup(socket->get());
  ASSERT_GE(next, 0);
  close(next);
  {
    FileLimit limit(static_cast<rlim_t>(next));
    Result<Socket> refused = acceptOne(*listener);
    EXPECT_EQ(refused.status().message(),
              "cannot accept a connection: Too many open files");
  }
  Result<Socket> accepted = acceptOne(*listener);
  EXPECT_TRUE(accepted.isOk() && accepted->isOpen());
}

TEST(TcpSocket, TheLimitOfOpenFilesIsRaisedUpToTheHardOne) {
  FileLimit limit(64);
  if (limit.hard() < 100 || limit.hard() == RLIM_INFINITY)
    GTEST_SKIP() << "expected a hard limit of at least 100 files";
  EXPECT_TRUE(allowOpenFiles(64).isOk());
  EXPECT_EQ(FileLimit::now(), 64u);
  EXPECT_TRUE(allowOpenFiles(100).isOk());
  EXPECT_EQ(FileLimit::now(), 100u);
  std::string hard = std::to_string(limit.hard()),
              more = std::to_string(limit.hard() + 1);
  EXPECT_EQ(allowOpenFiles(static_cast<int64_t>(limit.hard()) + 1).message(),
            "expected a limit of at least " + more +
                " open files (ulimit -n), got " + hard);
}

//===----------------------------------------------------------------------===//
// Jobs
//===----------------------------------------------------------------------===//

LaunchInfo rankOf(int rank, int size) {
  LaunchInfo launch;
  launch.launcher = Launcher::Torchrun;
  launch.rank = rank;
  launch.size = launch.localSize = size;
  return launch;
}

/// A descriptor that never becomes readable.
class Quiet {
public:
  Quiet() { (void)!pipe2(ends_, O_CLOEXEC); }
  ~Quiet() {
    close(ends_[0]);
    close(ends_[1]);
  }
  int get() const { return ends_[0]; }

private:
  int ends_[2] = {-1, -1};
};

class TcpJobTest : public testing::Test {
protected:
  void SetUp() override {
    Address loopback = Address::loopback();
    Result<Socket> listener = listenAt(0, &loopback);
    ASSERT_TRUE(listener.isOk()) << listener.status().message();
    listener_ = std::move(*listener);
    point_ = {"127.0.0.1", -1, {portOf(listener_)}, "the job of a test"};
  }

  /// Rank 0 in a thread, at the fixture's listener.
  std::future<Result<TcpJob>> startRankZero(int size, double seconds = 10) {
    MeetingPoint point = point_;
    point.listener = dup(listener_.get());
    return std::async(std::launch::async, [=] {
      return TcpJob::meet(rankOf(0, size), point, seconds);
    });
  }
  std::future<Result<TcpJob>> start(int rank, int size, double seconds = 10) {
    return std::async(std::launch::async, [=, this_ = this] {
      return TcpJob::meet(rankOf(rank, size), this_->point_, seconds);
    });
  }

  /// A connection with rank 0, which has greeted.
  Socket visit(tcp::Greeting &greeting) {
    Result<Socket> socket =
        connectTo(atLoopback(point_.ports[0]), inSeconds(5));
    EXPECT_TRUE(socket.isOk()) << socket.status().message();
    EXPECT_TRUE(
        receiveAll(*socket, &greeting, sizeof(greeting), inSeconds(5)).isOk());
    return std::move(*socket);
  }
  /// What a rank says that has been greeted.
  static tcp::Hello answerTo(const tcp::Greeting &greeting, int rank,
                             int size) {
    return {tcp::magic,       greeting.job, greeting.protocol,
            greeting.abi,     rank,         size,
            /*process=*/4711, /*port=*/9,   {}};
  }
  static void send(const Socket &socket, const void *data, size_t bytes) {
    EXPECT_TRUE(sendAll(socket, data, bytes, inSeconds(5)).isOk());
  }

  /// As rank 0: greets the one that comes, and takes its hello.
  Socket greet(tcp::Greeting greeting, tcp::Hello &hello) {
    pollfd polled = {listener_.get(), POLLIN, 0};
    EXPECT_EQ(poll(&polled, 1, 5000), 1);
    Result<Socket> socket = acceptOne(listener_);
    EXPECT_TRUE(socket.isOk() && socket->isOpen());
    send(*socket, &greeting, sizeof(greeting));
    EXPECT_TRUE(
        receiveAll(*socket, &hello, sizeof(hello), inSeconds(5)).isOk());
    return std::move(*socket);
  }
  tcp::Greeting greeting(int64_t left = 5 * second) const {
    return {tcp::magic, stableHash(point_.job), tcp::protocol,
            FSDP_RT_ABI_VERSION, left};
  }
  /// As rank 0: refuses.
  static void refuse(const Socket &socket, const std::string &text) {
    tcp::Answer answer = {0, 1, static_cast<uint32_t>(text.size())};
    send(socket, &answer, sizeof(answer));
    send(socket, text.data(), text.size());
  }

  Socket listener_;
  MeetingPoint point_;
  Quiet quiet_;
};

TEST_F(TcpJobTest, RanksOfAHostHavePlacesThereInTheirOrder) {
  auto zero = startRankZero(3), two = start(2, 3), one = start(1, 3);
  Result<TcpJob> jobs[] = {zero.get(), one.get(), two.get()};
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(jobs[rank].isOk()) << jobs[rank].status().message();
    EXPECT_EQ(jobs[rank]->localRank(), rank);
    EXPECT_EQ(jobs[rank]->localSize(), 3);
  }
  auto accepted = std::async(std::launch::async, [&] {
    return jobs[1]->connect(2, 7, quiet_.get(), /*waitLimit=*/0).status();
  });
  Result<Socket> connected =
      jobs[2]->connect(1, 7, quiet_.get(), /*waitLimit=*/0);
  EXPECT_TRUE(connected.isOk()) << connected.status().message();
  EXPECT_TRUE(accepted.get().isOk());
}

TEST_F(TcpJobTest, VersionsThatDifferAreNamedByBoth) {
  auto zero = startRankZero(2);
  tcp::Greeting theirs;
  Socket socket = visit(theirs);
  tcp::Hello mine = answerTo(theirs, 1, 2);
  mine.protocol = tcp::protocol + 1;
  std::memset(mine.host.name, 'x', sizeof(mine.host.name));
  send(socket, &mine, sizeof(mine));
  std::string abi = std::to_string(FSDP_RT_ABI_VERSION);
  EXPECT_EQ(zero.get().status().message(),
            "expected a runtime of version " + abi + "." +
                std::to_string(tcp::protocol) + ", as on rank 0, got " + abi +
                "." + std::to_string(tcp::protocol + 1) +
                " on rank 1 (process 4711 on " + std::string(63, 'x') + ")");

  auto one = start(1, 2);
  tcp::Greeting other = greeting();
  other.abi = FSDP_RT_ABI_VERSION + 1;
  tcp::Hello hello;
  Socket visitor = greet(other, hello);
  EXPECT_EQ(hello.rank, 1);
  EXPECT_EQ(hello.abi, uint32_t(FSDP_RT_ABI_VERSION));
  std::string newer = std::to_string(FSDP_RT_ABI_VERSION + 1);
  std::string protocol = "." + std::to_string(tcp::protocol);
  std::string message = one.get().status().message();
  EXPECT_EQ(message.find("expected a runtime of version " + newer + protocol +
                         ", as on rank 0, got " + abi + protocol +
                         " on rank 1 (process "),
            0u)
      << message;
}

TEST_F(TcpJobTest, WhoHasBeenGreetedWaitsAsLongAsRankZero) {
  auto one = start(1, 3, /*seconds=*/0.2);
  tcp::Hello hello;
  Socket socket = greet(greeting(4 * second), hello);
  std::this_thread::sleep_for(std::chrono::milliseconds(2600));
  refuse(socket, "rank 2 is missing");
  EXPECT_EQ(one.get().status().message(), "rank 2 is missing");
}

TEST_F(TcpJobTest, SizesOfAnswersAreChecked) {
  for (auto [isRefusal, message] :
       {std::pair(1u, "expected at most 16384 bytes of a refusal, got "
                      "4294967295"),
        std::pair(0u, " bytes of places, got 4294967295")}) {
    auto one = start(1, 2);
    tcp::Hello hello;
    Socket socket = greet(greeting(), hello);
    tcp::Answer answer = {0, isRefusal, 0xffffffff};
    send(socket, &answer, sizeof(answer));
    std::string told = one.get().status().message();
    EXPECT_NE(told.find(message), std::string::npos) << told;
  }
  auto zero = startRankZero(2);
  tcp::Greeting theirs;
  Socket socket = visit(theirs);
  tcp::Hello mine = answerTo(theirs, 1, 2);
  mine.port = 65536;
  send(socket, &mine, sizeof(mine));
  std::string told = zero.get().status().message();
  EXPECT_EQ(told.find("expected a port from 1 to 65535, got 65536"), 0u)
      << told;
}

TEST_F(TcpJobTest, WhoSaysNothingKeepsNobodyWaiting) {
  auto zero = startRankZero(2);
  tcp::Greeting theirs;
  Socket silent = visit(theirs), socket = visit(theirs);
  tcp::Hello mine = answerTo(theirs, 1, 2);
  send(socket, &mine, sizeof(mine));
  tcp::Answer answer;
  tcp::Place places[2];
  ASSERT_TRUE(receiveAll(socket, &answer, sizeof(answer), inSeconds(5)).isOk());
  ASSERT_EQ(answer.bytes, sizeof(places));
  ASSERT_TRUE(receiveAll(socket, places, sizeof(places), inSeconds(5)).isOk());
  Result<TcpJob> job = zero.get();
  ASSERT_TRUE(job.isOk()) << job.status().message();

  Address data = atLoopback(static_cast<int>(places[0].address.port));
  Result<Socket> first = connectTo(data, inSeconds(5)),
                 second = connectTo(data, inSeconds(5)),
                 real = connectTo(data, inSeconds(5));
  ASSERT_TRUE(first.isOk() && second.isOk() && real.isOk());
  int64_t begin = nowNanoseconds();
  auto accepted = std::async(std::launch::async, [&] {
    return job->connect(1, 7, quiet_.get(), /*waitLimit=*/0).status();
  });
  // In two pieces.
  tcp::DataHello hello = {answer.token, 7, 1, 0};
  auto bytes = reinterpret_cast<const char *>(&hello);
  send(*real, bytes, 5);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  send(*real, bytes + 5, sizeof(hello) - 5);
  EXPECT_TRUE(accepted.get().isOk());
  EXPECT_LT(nowNanoseconds() - begin, 1'500'000'000);
}

TEST_F(TcpJobTest, WhatCannotBeConnectedIsToldWithItsAddress) {
  auto one = start(1, 2, /*seconds=*/0.3);
  tcp::Hello hello;
  Socket socket = greet(greeting(), hello);
  // Nobody listens at the port of a socket that is closed.
  Address loopback = Address::loopback();
  int port = 0;
  {
    Result<Socket> closed = listenAt(0, &loopback);
    ASSERT_TRUE(closed.isOk());
    port = portOf(*closed);
  }
  tcp::Place places[2];
  for (tcp::Place &place : places)
    place.address = atLoopback(port);
  places[0].process = 4711;
  std::strcpy(places[0].host.name, "gpu01");
  tcp::Answer answer = {1, 0, sizeof(places)};
  send(socket, &answer, sizeof(answer));
  send(socket, places, sizeof(places));
  Result<TcpJob> job = one.get();
  ASSERT_TRUE(job.isOk()) << job.status().message();
  EXPECT_EQ(
      job->connect(0, 7, quiet_.get(), /*waitLimit=*/0).status().message(),
      "cannot connect with rank 0 (process 4711 on gpu01) at 127.0.0.1:" +
          std::to_string(port) +
          ": Connection refused, tried for 0.3 s (FSDP_CONNECT_TIMEOUT)");
}

TEST_F(TcpJobTest, AHostThatCallsItselfALoopbackAddressCanBeReached) {
  for (bool isTold : {false, true}) {
    LaunchInfo launch = rankOf(0, 2);
    launch.hasLocalSize = isTold;
    MeetingPoint point = point_;
    point.host = "127.0.1.1";
    Result<Socket> any = listenAt(0, nullptr);
    ASSERT_TRUE(any.isOk()) << any.status().message();
    point.ports = {portOf(*any)};
    *any = Socket();
    auto zero = std::async(std::launch::async, [&] {
      return TcpJob::meet(launch, point, /*seconds=*/0.5).status();
    });
    // At another address of this host.
    bool isReached = false;
    for (int64_t until = nowNanoseconds() + second / 4;
         !isReached && nowNanoseconds() < until;)
      isReached = connectTo(atLoopback(point.ports[0]), inSeconds(1)).isOk();
    EXPECT_EQ(isReached, !isTold);
    EXPECT_FALSE(zero.get().isOk());
  }
}

TEST_F(TcpJobTest, ADescriptorThatIsNoListenerIsRefused) {
  MeetingPoint point = point_;
  point.listener = dup(quiet_.get());
  EXPECT_EQ(TcpJob::meet(rankOf(0, 2), point, 1).status().message(),
            "rank 0 at 127.0.0.1:" + std::to_string(point.ports[0]) +
                ": expected a socket that listens as descriptor " +
                std::to_string(point.listener) + ", got none");
  close(point.listener);
}

} // namespace
} // namespace fsdp::rt
