#include "weir/store/redis/shared/connections.h"

#include <gtest/gtest.h>

#include <array>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "tests/store/redis/shared/support.h"
#include "tests/store/redis/support.h"

namespace weir::store::redis {
namespace {

using testing::RedisServer;

class SharedConnections : public ::testing::Test {
 protected:
  explicit SharedConnections(unsigned count = 2)
      : connections_(loop_, patient_with(redis_.url()), count) {
    loop_.run([this] { connections_.open(nullptr); });
  }
  ~SharedConnections() override { connections_.close(); }

  // Over which connection this thread asks, as Redis numbers them.
  std::string mine() { return ask(connections_.client(), {"CLIENT", "ID"}).text; }
  // The same of a thread that runs a loop, which must not wait.
  std::string of(Thread& thread) {
    Answers answers;
    thread.loop.run([&] {
      const std::array<std::string_view, 2> words = {"CLIENT", "ID"};
      connections_.client().send(words, answers.take(), {.timeout = kPatience});
    });
    return answers.wait().front().text;
  }

  RedisServer redis_;
  Loop loop_;
  Connections connections_;
};

TEST_F(SharedConnections, AreKeptByAThreadThatAsksAgain) {
  const std::string first = mine();
  EXPECT_EQ(mine(), first);
  std::string other;
  std::thread([&] { other = mine(); }).join();
  EXPECT_NE(other, first);  // two threads and two connections
  EXPECT_EQ(mine(), first);
}

TEST_F(SharedConnections, AreLeftByAThreadThatHasADesk) {
  Thread thread;
  const std::string shared = of(thread);
  connections_.attach(thread.loop);
  const std::string own = of(thread);
  EXPECT_NE(own, shared);
  EXPECT_NE(own, mine());
  EXPECT_EQ(connections_.here(), nullptr);  // which is this thread's, not that one's
  bool was_told = false;
  connections_.detach(thread.loop, [&](Desk& desk) { was_told = &desk.loop == &thread.loop; });
  EXPECT_TRUE(was_told);
  EXPECT_EQ(of(thread), shared);
}

TEST_F(SharedConnections, AreEnoughForMoreThreadsThanAreToldApart) {
  Thread late;
  // Each is there until all have asked, so no two have the same id.
  std::latch all_have_asked(kSeatsMax + 1);
  std::vector<std::thread> threads;
  const auto ask_once = [&] {
    EXPECT_EQ(connections_.here(), nullptr);
    EXPECT_TRUE(&connections_.client() == connections_.shared()[0].get() ||
                &connections_.client() == connections_.shared()[1].get());
    all_have_asked.arrive_and_wait();
  };
  for (std::size_t i = 0; i < kSeatsMax + 1; ++i) threads.emplace_back(ask_once);
  for (std::thread& thread : threads) thread.join();
  connections_.attach(late.loop);  // no seat is left, so it shares the others
  EXPECT_FALSE(of(late).empty());
  connections_.detach(late.loop, [](Desk&) { ADD_FAILURE() << "there is no desk"; });
}

}  // namespace
}  // namespace weir::store::redis
