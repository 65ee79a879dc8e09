// Every named bound, at it and one beyond.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "tests/config/support.h"

namespace weir::config {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string limits(std::size_t count) {
  std::string text = "limits:\n";
  for (std::size_t i = 0; i < count; ++i) {
    text += "  - { name: l" + std::to_string(i) + ", window: { limit: 1, every: 1s } }\n";
  }
  return text;
}

std::string listeners(std::size_t count) {
  std::string text = "listen: { resp: [";
  for (std::size_t i = 0; i < count; ++i) text += "127.0.0.1:" + std::to_string(i + 1) + ", ";
  return text + "] }";
}

std::string tokens(std::size_t count) {
  std::string text = "auth:\n";
  for (std::size_t i = 0; i < count; ++i) {
    text += "  - { role: decide, token: t" + std::to_string(i) + " }\n";
  }
  return text;
}

TEST(ConfigBound, AcceptsAFileOf1MiBAndNoMore) {
  std::string text = "threads: 2\n#";
  text.resize(kFileBytesMax, '#');
  EXPECT_EQ(mistakes_of(text), "");
  EXPECT_EQ(mistakes_of(text + '#'),
            "f:1:1: file: it has 1048577 bytes, but at most 1048576 are read; write a smaller one");
}

TEST(ConfigBound, HoldsForALoadedFileToo) {
  const std::string path = ::testing::TempDir() + "/config_test_bound.yaml";
  std::ofstream(path) << std::string(kFileBytesMax * 2, '#');
  const Result<Config> config = load(path);
  std::remove(path.c_str());
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(config.error().message, HasSubstr("but at most 1048576 are read"));
}

TEST(ConfigBound, AcceptsSixteenLevelsAndNoMore) {
  // The map of the top level is the first.
  const auto nested = [](std::size_t levels) {
    return "a: " + repeated("[", levels - 1) + repeated("]", levels - 1);
  };
  EXPECT_THAT(mistakes_of(nested(kNestingMax)), Not(HasSubstr("nested")));
  EXPECT_EQ(
      mistakes_of(nested(kNestingMax + 1)),
      "f:1:19: file: lists and maps are nested deeper than 16 levels; write the file flatter");
}

TEST(ConfigBound, Accepts1024LimitsAndNoMore) {
  EXPECT_EQ(config_of(limits(engine::kLimitsMax)).rules->rules().size(), engine::kLimitsMax);
  EXPECT_EQ(mistakes_of(limits(engine::kLimitsMax + 1)),
            "f:1026:5: top level: there are 1025 limits, but at most 1024 are allowed; merge some, "
            "or run several servers");
}

TEST(ConfigBound, Accepts16ListenersAndNoMore) {
  EXPECT_EQ(config_of(listeners(kListenersMax)).resp.size(), kListenersMax);
  EXPECT_EQ(mistakes_of(listeners(kListenersMax + 1)),
            "f:1:17: listen: resp has 17 addresses, but it must have 1 to 16; write some, or "
            "'none'");
}

TEST(ConfigBound, Accepts1024TokensAndNoMore) {
  EXPECT_EQ(config_of(tokens(kAuthTokensMax)).auth.size(), kAuthTokensMax);
  EXPECT_EQ(mistakes_of(tokens(kAuthTokensMax + 1)),
            "f:2:3: top level: auth has 1025 tokens, but it must have 1 to 1024; write some, or "
            "leave out the key");
}

TEST(ConfigBound, AcceptsATokenOf512BytesAndNoMore) {
  const auto token = [](std::size_t bytes) {
    return "auth: [ { role: admin, token: " + std::string(bytes, 't') + " } ]";
  };
  EXPECT_EQ(mistakes_of(token(kTokenBytesMax)), "");
  EXPECT_EQ(mistakes_of(token(kTokenBytesMax + 1)),
            "f:1:31: auth 1: token has 513 bytes, but it must have 1 to 512; write a shorter one");
}

TEST(ConfigBound, AcceptsAUnixPathOf107BytesAndNoMore) {
  EXPECT_TRUE(parse_address("unix:" + std::string(kUnixPathBytesMax, 'p')).ok());
  const Result<Address> beyond = parse_address("unix:" + std::string(kUnixPathBytesMax + 1, 'p'));
  ASSERT_FALSE(beyond.ok());
  EXPECT_THAT(beyond.error().message, HasSubstr("a path of 1 to 107 bytes; write a shorter path"));
}

TEST(ConfigBound, Accepts1To256Threads) {
  EXPECT_EQ(config_of("threads: 1").threads, 1u);
  EXPECT_EQ(config_of("threads: 256").threads, kThreadsMax);
  for (const std::string count : {"0", "257"}) {
    EXPECT_EQ(mistakes_of("threads: " + count),
              "f:1:10: top level: threads is '" + count +
                  "', but it must be a whole number from 1 to 256; write one of them");
  }
}

TEST(ConfigBound, AcceptsAQueueOf2To31AndNoMore) {
  EXPECT_EQ(limit_of("bucket: { rate: 1/s }, queue: 2147483648").queue_max, kQueueMax);
  EXPECT_THAT(
      mistakes_of("limits: [ { name: a, bucket: { rate: 1/s }, queue: 2147483649 } ]"),
      HasSubstr("queue is '2147483649', but it must be a whole number from 0 to 2147483648"));
}

TEST(ConfigBound, ShowsAThousandMistakesAndCountsTheRest) {
  const auto lines = [](const std::string& text) {
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  };
  std::string text;
  for (std::size_t i = 0; i < kMistakesMax; ++i) text += "x" + std::to_string(i) + ": 1\n";
  EXPECT_EQ(lines(mistakes_of(text)), kMistakesMax);
  EXPECT_THAT(mistakes_of(text), Not(HasSubstr("not shown")));
  const std::string beyond = mistakes_of(text + "y: 1\nz: 1\n");
  EXPECT_EQ(lines(beyond), kMistakesMax + 1);
  EXPECT_THAT(beyond, HasSubstr("\nf: 2 more mistakes are not shown; correct these first"));
}

TEST(ConfigBound, OfWaitingAndBookingMayBeNothing) {
  const Bounds bounds = config_of("bounds: { wait: 0s, book: 0s }").bounds;
  EXPECT_EQ(bounds.wait, Duration{0});
  EXPECT_EQ(bounds.book, Duration{0});
  EXPECT_THAT(mistakes_of("bounds: { hold: 0s }"), HasSubstr("hold is '0s'"));
}

TEST(ConfigBound, OfHoldsIsTheMostThatSlotsSay) {
  const auto slots = [](const std::string& hold) {
    return "bounds: { hold: 2h }\nlimits: [ { name: a, slots: { limit: 1, hold: " + hold + " } } ]";
  };
  EXPECT_EQ(mistakes_of(slots("2h")), "");
  EXPECT_EQ(mistakes_of(slots("7201s")),
            "f:2:47: limit 'a': hold is '2h1s', but bounds.hold allows at most '2h'; write a "
            "shorter one, or raise bounds.hold");
  EXPECT_EQ(mistakes_of("bounds: { hold: 59s }\nlimits: [ { name: a, slots: { limit: 1 } } ]"),
            "f:2:29: limit 'a': hold is '1m', but bounds.hold allows at most '59s'; write a "
            "shorter one, or raise bounds.hold")
      << "the default";
}

struct Range {
  std::string key;
  std::int64_t least;
  std::int64_t most;
};

TEST(ConfigBound, OfTheServerHasARangeOfItsOwn) {
  const std::vector<Range> ranges = {
      {"connections", 1, 1'000'000},    {"request_bytes", 1'024, 1 << 30},
      {"header_bytes", 1'024, 1 << 20}, {"batch", 1, 1'000'000},
      {"waiting", 0, 10'000'000},       {"keys", 1, 1'000'000'000},
      {"holds", 1, 1'000'000'000},      {"log_runs", 1, 1'000'000'000},
      {"streams", 0, 1'000'000},        {"reply_bytes_all", 1 << 20, std::int64_t{1} << 40}};
  const auto bound = [](const Range& range, std::int64_t value) {
    return mistakes_of("bounds: { " + range.key + ": " + std::to_string(value) + " }");
  };
  for (const Range& range : ranges) {
    EXPECT_EQ(bound(range, range.least), "");
    EXPECT_EQ(bound(range, range.most), "");
    EXPECT_THAT(bound(range, range.least - 1), HasSubstr(range.key + " is '"));
    EXPECT_THAT(bound(range, range.most + 1), HasSubstr(range.key + " is '"));
  }
}

}  // namespace
}  // namespace weir::config
