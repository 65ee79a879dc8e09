// The scripts of leases, asked out of turn and late as only a failing network does.

#include "weir/store/redis/shared/scripts.h"

#include <gtest/gtest.h>

#include "tests/store/redis/shared/support.h"
#include "weir/store/redis/shared/keys.h"
#include "weir/store/redis/shared/meter.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;

// One server and one window of a hundred in which nothing happens by itself.
struct LeaseScripts : ::testing::Test {
  static constexpr std::int64_t kNow = kStart.ns / kNsPerUs;
  static constexpr std::int64_t kLength = 1'000'000;  // us
  static constexpr std::string_view kEpoch = "0123456789abcdef";

  struct Draw {
    std::int64_t now;
    std::int64_t units = 0;  // to be held
    std::int64_t kept = 0;
    std::uint64_t word = 1;
    std::int64_t until = 0;
  };

  std::string part(std::int64_t units) const {
    std::string text;
    append_bytes(text, static_cast<std::uint64_t>(stamp_us()), 7);
    append_amount(text, shape, units);
    return text;
  }
  std::int64_t stamp_us() const {
    return kNow;  // since the first draw
  }

  void draw(const Draw& asked) {
    std::string blob;
    append_blob(blob, shape, 0, '0', kStart);
    std::string amounts;
    append_amount(amounts, shape, asked.units);
    append_amount(amounts, shape, asked.units);
    const std::string now = std::to_string(asked.now);
    const std::string length = std::to_string(kLength);
    const std::string kept = asked.kept == 0 ? "" : part(asked.kept);
    const std::string word = std::to_string(asked.word);
    const std::string until = std::to_string(asked.until);
    call(shared_scripts().draw,
         {now, "", "", kEpoch, blob, kServer, length, kept, amounts, word, kEpoch, until});
  }
  void give_back(std::int64_t now, std::int64_t units, std::int64_t until, std::uint64_t word) {
    std::string blob;
    append_blob(blob, shape, 0, '+', kStart);
    const std::string at = std::to_string(now);
    const std::string back = units == 0 ? "" : part(units);
    const std::string till = std::to_string(until);
    const std::string number = std::to_string(word);
    call(shared_scripts().give_back, {at, kEpoch, blob, back, kServer, "", till, number});
  }
  void call(const Script& script, std::vector<std::string_view> arguments) {
    const std::vector<std::string_view> keys = {"{w}:epoch", "{w}:w", "{w}:lease"};
    std::promise<bool> is_done;
    client->call(script, keys, arguments,
                 [&](const Answer& answer) {
                   EXPECT_TRUE(answer.ok()) << (answer.ok() ? "" : answer.failure().message);
                   is_done.set_value(true);
                 },
                 {.timeout = kPatience, .late = {}});
    is_done.get_future().wait();
  }
  std::string get(std::string_view key) {
    const std::vector<std::string_view> words = {"GET", key};
    std::promise<std::string> got;
    client->send(words,
                 [&](const Answer& answer) {
                   got.set_value(std::string(answer.reply().text().value_or("")));
                 },
                 {.timeout = kPatience, .late = {}});
    return got.get_future().get();
  }
  // In the window, counted as used.
  std::int64_t used() {
    std::int64_t count = 0;
    const std::string value = get("{w}:w");
    for (std::size_t i = 8; i < value.size(); ++i)
      count = count * 256 + static_cast<unsigned char>(value[i]);
    return count;
  }

  // Of the only server.
  std::size_t parts_in_record() { return (get("{w}:lease").size() - 1 - 31) / 23; }

  static constexpr std::string_view kServer = "fedcba9876543210";
  const engine::MeterShape shape = *engine::make_shape(engine::WindowSpec{100, 24h});
  testing::RedisServer redis;
  Loop loop;
  std::unique_ptr<Client> client = make_client(loop, [this] {
    ClientOptions options;
    options.address = *parse_address(redis.url());
    options.connect_timeout = kPatience;
    options.silence = kPatience;
    return options;
  }());
};

// The server holds ten and says so with each draw, but all of them reach Redis too late.
TEST_F(LeaseScripts, GiveALeaseBackOnceHoweverManyDrawsComeAfterItsEnd) {
  draw({.now = kNow, .units = 10});
  ASSERT_EQ(used(), 10);
  const std::int64_t end = kNow + kLength;
  draw({.now = end, .kept = 10, .word = 2, .until = end});
  EXPECT_EQ(used(), 0);
  draw({.now = end, .units = 5, .kept = 10, .word = 3, .until = end});
  EXPECT_EQ(parts_in_record(), 1u) << "the five";
}

TEST_F(LeaseScripts, KeepWhatAServerHoldsUntilItsLeaseEnds) {
  draw({.now = kNow, .units = 10});
  const std::int64_t end = kNow + kLength;
  draw({.now = end - 1, .units = 5, .kept = 10, .word = 2, .until = end});
  EXPECT_EQ(parts_in_record(), 2u);
  EXPECT_EQ(used(), 15);
}

TEST_F(LeaseScripts, LeaveTheRecordAsALaterMessageSaidIt) {
  draw({.now = kNow, .units = 10, .word = 2});
  draw({.now = kNow, .units = 5, .word = 1});
  EXPECT_EQ(used(), 15);
  EXPECT_EQ(parts_in_record(), 1u);
}

TEST_F(LeaseScripts, TakeAReturnUntilTheEndAndNoLonger) {
  draw({.now = kNow, .units = 10});
  const std::int64_t end = kNow + kLength;
  give_back(end - 1, 4, end, 2);
  EXPECT_EQ(used(), 6);
  give_back(end, 6, end, 3);
  EXPECT_EQ(used(), 6);
}

}  // namespace
}  // namespace weir::store::redis
