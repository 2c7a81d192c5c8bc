// The rendezvous server with clients that know the secret but send damaged messages.
#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "hccl/rendezvous.h"

namespace softnpu::hccl {
namespace {

using namespace std::chrono_literals;

class RendezvousTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<Endpoint> endpoint = Listener::instance().endpoint();
    ASSERT_TRUE(endpoint.ok()) << endpoint.take_status().message();
    point_.endpoint = endpoint.value();
    fill_random(point_.id.data(), point_.id.size());
    fill_random(point_.secret.data(), point_.secret.size());
    RendezvousServer::start(point_, {});
  }

  static RankInfo rank(uint32_t number, uint32_t world) {
    RankInfo info;
    info.rank = number;
    info.world = world;
    info.device = int32_t(number);
    return info;
  }

  Socket client() {
    Result<Socket> socket = join_session(point_.endpoint, point_.id, point_.secret, Deadline::after(10s));
    EXPECT_TRUE(socket.ok());
    return std::move(socket.value());
  }

  // Two ranks join and exchange texts.
  void expect_two_ranks_meet() {
    std::vector<std::thread> threads;
    for (uint32_t number = 0; number < 2; ++number) {
      threads.emplace_back([this, number] {
        Result<Rendezvous> joined = Rendezvous::join(point_, rank(number, 2), Deadline::after(20s), false);
        ASSERT_TRUE(joined.ok()) << joined.take_status().message();
        for (int round = 0; round < Rendezvous::kExchanges; ++round) {
          Result<std::vector<std::string>> all = joined.value().exchange(number == 0 ? "zero" : "one");
          ASSERT_TRUE(all.ok());
          EXPECT_EQ(all.value(), (std::vector<std::string>{"zero", "one"}));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  RendezvousPoint point_;
};

TEST_F(RendezvousTest, TruncatedAndDamagedMessagesAreDropped) {
  const uint32_t lengths[] = {htonl(1000), htonl(5000), 0xFFFFFFFF};
  for (const uint32_t length : lengths) {
    Socket socket = client();
    ASSERT_TRUE(socket.send_all(&length, sizeof length, Deadline::after(5s)).ok());
    (void)socket.send_all("short", 5, Deadline::after(5s));
  }
  ASSERT_TRUE(client().send_frame("no description of a rank", Deadline::after(5s)).ok());
  RankInfo wrong = rank(7, 2);  // a number that the world does not have
  ASSERT_TRUE(client().send_frame({reinterpret_cast<const char*>(&wrong), sizeof wrong}, Deadline::after(5s)).ok());
  expect_two_ranks_meet();
}

TEST_F(RendezvousTest, ARankThatEndsIsReportedToTheOthers) {
  std::thread second([this] {
    const RankInfo info = rank(1, 2);
    const Socket socket = client();
    ASSERT_TRUE(socket.send_frame({reinterpret_cast<const char*>(&info), sizeof info}, Deadline::after(5s)).ok());
    std::string answer;
    ASSERT_TRUE(socket.receive_frame(&answer, 1 << 20, Deadline::after(20s)).ok());
  });
  Result<Rendezvous> joined = Rendezvous::join(point_, rank(0, 2), Deadline::after(20s), false);
  second.join();
  ASSERT_TRUE(joined.ok());
  const Status status = joined.value().exchange("zero").take_status();
  EXPECT_EQ(status.code(), HCCL_E_REMOTE);
  EXPECT_NE(status.message().find("rank 1 (process"), std::string::npos) << status.message();
}

TEST_F(RendezvousTest, AWrongSecretIsRefused) {
  RendezvousPoint wrong = point_;
  wrong.secret[3] ^= 1;
  const Status status = Rendezvous::join(wrong, rank(0, 1), Deadline::after(5s), false).take_status();
  EXPECT_EQ(status.code(), HCCL_E_TCP_CONNECT);
  EXPECT_NE(status.message().find("did not accept this rank"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace softnpu::hccl
