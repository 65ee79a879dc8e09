#include "weir/store/redis/link/subscriber.h"

#include <gtest/gtest.h>

#include "tests/store/redis/support.h"
#include "weir/testing/redis_server.h"

namespace weir::store::redis {
namespace {

using testing::RedisServer;

class Heard {
 public:
  void add(std::string_view channel, std::string_view message) {
    const std::lock_guard lock(mutex_);
    text_.append(channel).append("=").append(message).append(" ");
  }
  std::string text() {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

SubscriberOptions options_of(const RedisServer& redis, Heard& heard, std::atomic<int>& ups) {
  SubscriberOptions options;
  options.address = *parse_address(redis.url());
  options.connect_timeout = kPatience;
  options.silence = kPatience;
  options.retry_most = 50ms;
  options.channels = {"a", "b"};
  options.on_up = [&ups] { ++ups; };
  options.on_message = [&heard](std::string_view channel, std::string_view message) {
    heard.add(channel, message);
  };
  return options;
}

TEST(Subscriber, HearsItsChannelsOnly) {
  RedisServer redis;
  Loop loop;
  Heard heard;
  std::atomic<int> ups{0};
  const auto subscriber = make_subscriber(loop, options_of(redis, heard, ups));
  EXPECT_TRUE(eventually([&] { return ups == 1; }));
  redis.ask("PUBLISH a one");
  redis.ask("PUBLISH c other");
  redis.ask("PUBLISH b two");
  EXPECT_TRUE(eventually([&] { return heard.text() == "a=one b=two "; })) << heard.text();
}

TEST(Subscriber, StaysWhileNothingIsSaid) {
  RedisServer redis;
  Loop loop;
  Heard heard;
  std::atomic<int> ups{0};
  SubscriberOptions options = options_of(redis, heard, ups);
  // A Redis that is held up for half of this counts as silent.
  options.silence = 2s;
  const auto subscriber = make_subscriber(loop, std::move(options));
  EXPECT_TRUE(eventually([&] { return ups >= 1; }));
  std::this_thread::sleep_for(3200ms);  // by then a PING without an answer has broken it
  redis.ask("PUBLISH a one");
  EXPECT_TRUE(eventually([&] { return heard.text() == "a=one "; }));
}

TEST(Subscriber, SubscribesAgainAndSaysSo) {
  RedisServer redis;
  Loop loop;
  Heard heard;
  std::atomic<int> ups{0};
  const auto subscriber = make_subscriber(loop, options_of(redis, heard, ups));
  EXPECT_TRUE(eventually([&] { return ups == 1; }));
  redis.kill();
  EXPECT_TRUE(eventually([&] { return !subscriber->is_up(); }));
  redis.start();
  EXPECT_TRUE(eventually([&] { return ups == 2; }));
  redis.ask("PUBLISH a again");
  EXPECT_TRUE(eventually([&] { return heard.text() == "a=again "; }));
}

}  // namespace
}  // namespace weir::store::redis
