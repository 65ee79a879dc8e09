// Mistakes: what each says, and where it points.

#include "weir/config/mistakes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/config/support.h"

namespace weir::config {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// --- the nearest key

constexpr std::array<std::string_view, 5> kWords = {"per", "bucket", "window", "processing", "log"};

TEST(Nearest, IsAtMostTwoEditsAway) {
  EXPECT_EQ(nearest("bucket", kWords), "bucket");
  EXPECT_EQ(nearest("bukcet", kWords), "bucket");
  EXPECT_EQ(nearest("buckets", kWords), "bucket");
  EXPECT_EQ(nearest("bckt", kWords), "bucket");
  EXPECT_EQ(nearest("bkt", kWords), "");
}

TEST(Nearest, MayBeginTheWordOrBeBegunByIt) {
  EXPECT_EQ(nearest("proc", kWords), "processing");
  EXPECT_EQ(nearest("windowed-limit", kWords), "window");
  EXPECT_EQ(nearest("p", kWords), "");
}

TEST(Nearest, DoesNotReplaceAShortWordEntirely) {
  EXPECT_EQ(nearest("lg", kWords), "log");
  EXPECT_EQ(nearest("xyz", kWords), "");
  EXPECT_EQ(nearest("", kWords), "");
}

TEST(InQuotes, StaysOnOneLineAndShort) {
  EXPECT_EQ(in_quotes("a\nb"), "'a?b'");
  EXPECT_EQ(in_quotes(std::string(80, 'x')), "'" + std::string(80, 'x') + "'");
  EXPECT_EQ(in_quotes(std::string(81, 'x')), "'" + std::string(80, 'x') + "...'");
  EXPECT_EQ(in_quotes(std::string(79, 'x') + "öö"), "'" + std::string(79, 'x') + "...'");
}

// --- one mistake at a time

struct Case {
  std::string text;
  std::string message;
};

class ConfigMistake : public ::testing::TestWithParam<Case> {};

TEST_P(ConfigMistake, IsReportedAloneWithItsPlace) {
  EXPECT_EQ(mistakes_of(GetParam().text), GetParam().message);
}

// The second line of these files is one limit.
Case in_limit(const std::string& rest, const std::string& column, const std::string& message) {
  return {"limits:\n- { name: a, " + rest + " }", "f:2:" + column + ": limit 'a': " + message};
}

INSTANTIATE_TEST_SUITE_P(
    OfSettings, ConfigMistake,
    ::testing::Values(
        Case{
            "limit: []",
            "f:1:1: top level: key 'limit' is unknown, but it must be one of listen, state, units, "
            "auth, http, headers, rounding, bounds, threads, record, attributes, unmatched, "
            "throttles, "
            "contracts, "
            "compute, sampling, redis, pools, limits; "
            "write 'limits'"},
        Case{"zzz: []",
             "f:1:1: top level: key 'zzz' is unknown, but it must be one of listen, state, units, "
             "auth, http, headers, rounding, bounds, threads, record, attributes, unmatched, "
             "throttles, "
             "contracts, "
             "compute, sampling, redis, pools, limits; "
             "write one of "
             "them, or leave it out"},
        Case{"threads: 1\nthreads: 2",
             "f:2:1: top level: key 'threads' is written twice; write it once"},
        Case{"listen: none",
             "f:1:9: top level: listen is 'none', but it must be a map; write 'listen: { resp: "
             "127.0.0.1:6380 }'"},
        Case{"listen: { resp: [] }",
             "f:1:17: listen: resp has 0 addresses, but it must have 1 to 16; write some, or "
             "'none'"},
        Case{
            "listen: { resp: 127.0.0.1:99999 }",
            "f:1:17: listen: resp is '127.0.0.1:99999', but it must be an address with a port from "
            "0 to 65535; write another port"},
        Case{"state: { flush: 1s }",
             "f:1:8: state: dir is missing, but it is needed; write 'dir: ./weir-state'"},
        Case{"state: { dir: '' }",
             "f:1:15: state: dir is '', but it must not be empty; write a value, or leave out the "
             "key"},
        Case{"units: { a: mikro }",
             "f:1:13: units: a is 'mikro', but it must be one of whole, micro; write 'micro'"},
        Case{"units: { a: whole, a: micro }",
             "f:1:20: units: key 'a' is written twice; write it once"},
        Case{"threads: 1\nunits: { requests: whole }",
             "f:2:1: units: unit 'requests' is declared twice; write it once, or not at all"},
        Case{"attributes: [" + std::string(129, 'x') + "]",
             "f:1:1: attributes: the attribute name is 129 bytes long, but it must have 1 to 128; "
             "write a short name"},
        Case{"attributes: []",
             "f:1:13: top level: attributes is an empty list, but it must have a value; write one, "
             "or leave out the key"},
        Case{
            "auth: []",
            "f:1:7: top level: auth has 0 tokens, but it must have 1 to 1024; write some, or leave "
            "out the key"},
        Case{"auth: [ x ]",
             "f:1:9: auth 1: it must be a map; write '{ token: secret, role: decide }'"},
        Case{"auth: [ { role: admin } ]",
             "f:1:9: auth 1: token is missing, but it is needed; write 'token: secret', or "
             "'token_file: ./token'"},
        Case{"auth: [ { token: a } ]",
             "f:1:9: auth 1: role is missing, but it is needed; write 'role: decide'"},
        Case{"headers: x-rate",
             "f:1:10: top level: headers is 'x-rate', but it must be one of ietf, x-ratelimit, "
             "x-ratelimit-epoch, none; write 'x-ratelimit'"},
        Case{"rounding:\nthreads: 1",
             "f:1:1: top level: rounding is empty, but it must be a single value; write one word, "
             "quoted if it is empty or 'null'"},
        Case{"bounds: { idle: 0s }",
             "f:1:17: bounds: idle is '0s', but it must be longer than 0; write a duration such as "
             "'1s' or '15m'"},
        Case{"bounds: { keys: 5, cl_throttle_keys: 6 }",
             "f:1:38: bounds: cl_throttle_keys is 6, but all keys together are 5; write less, or "
             "raise 'keys'"},
        Case{"bounds: { keys: 10, cl_throttle_keys: 1 }\n"
             "limits:\n"
             "  - { name: a, per: [x], keys: 4, bucket: { rate: 1/s } }\n"
             "  - { name: b, per: [x], keys: 6, bucket: { rate: 1/s } }",
             "f:4:32: limit 'b': keys is 6, but those before it leave 5 of the 10 of bounds; write "
             "less, or raise 'keys' in 'bounds'"},
        in_limit("bucket: { rate: 1/s }, keys: 5", "3",
                 "it has no 'per', so it has one key; leave out 'keys'"),
        Case{"bounds: { key: 5 }",
             "f:1:11: bounds: key 'key' is unknown, but it must be one of connections, "
             "request_bytes, header_bytes, reply_bytes, reply_bytes_all, batch, waiting, streams, "
             "idle, slow, keys, cl_throttle_keys, holds, log_runs, overrides, hold, wait, book, "
             "when_full; write 'keys'"},
        Case{"record: [a]",
             "f:1:9: top level: record is a list, but it must be a single value; write one word, "
             "quoted if it is empty or 'null'"}));

INSTANTIATE_TEST_SUITE_P(
    OfALimit, ConfigMistake,
    ::testing::Values(
        Case{
            "limits: { a: b }",
            "f:1:9: top level: limits is a map, but it must be a list; write 'limits: [ { name: a, "
            "bucket: { rate: 100/s } } ]'"},
        Case{"limits:\n  - a",
             "f:2:5: limit 1: it is 'a', but it must be a map; write '{ name: a, bucket: { rate: "
             "100/s } }'"},
        Case{"limits:\n  - bucket: { rate: 1/s }",
             "f:2:5: limit 1: name is missing, but it is needed; write 'name: per-client'"},
        Case{"limits:\n  - name: a",
             "f:2:5: limit 'a': it has no meter; write one such as 'bucket: "
             "{ rate: 100/s }'"},
        in_limit("bucket: { rate: 1/0s }", "30",
                 "rate period is '0s', but it must be longer than 0; write a duration such as '1s' "
                 "or '15m'"),
        in_limit("bucket: { rate: 1/s, burst: 0 }", "42",
                 "burst is '0', but it must be more than 0; write at least the largest cost of one "
                 "request"),
        in_limit(
            "bucket: { rate: 1/s, burst: 4611686018427387904 }", "22",
            "filling a burst of 4611686018427387904 at 1 per 1000000000 ns takes 2^62 ns (146 "
            "years) or more, which exact arithmetic does not cover; write a smaller burst or a "
            "higher rate"),
        in_limit("bucket: { burst: 1 }", "22",
                 "rate is missing, but it is needed; write 'rate: 100/s'"),
        in_limit("bucket: 100/s", "22",
                 "bucket is '100/s', but it must be a map; write 'bucket: { rate: 100/s }'"),
        in_limit("ticker: { interval: 1s, per_tick: 2, burst: 1 }", "22",
                 "burst is 1, but it must be between one tick's gain (2) and 2^62; write a larger "
                 "burst"),
        in_limit("ticker: { interval: 1s, start: ful }", "45",
                 "start is 'ful', but it must be one of full, empty; write 'full'"),
        in_limit("window: { limit: 1, every: fortnight }", "41",
                 "every is 'fortnight', but it must be one of day, week, month, year, or a "
                 "duration; write one of them, or a duration such as '15m'"),
        in_limit("window: { limit: 1, every: monthly }", "41",
                 "every is 'monthly', but it must be one of day, week, month, year, or a duration; "
                 "write 'month'"),
        in_limit("log: { limit: 1.5, window: 1h }", "28",
                 "limit is '1.5', but it must be a whole number, since its unit is counted in "
                 "whole numbers; write one such as '100'"),
        in_limit("slots: { limit: 1 }, queue: 3", "35",
                 "slots have a queue of their own; write 'queue' inside 'slots'"),
        in_limit("bucket: { rate: 1/s }, window: { limit: 1, every: 1s }", "37",
                 "it has a 'bucket' and a 'window', but it must have one meter; write two limits"),
        in_limit("bucket: { rate: 1/s }, shadow: yes", "45",
                 "shadow is 'yes', but it must be true or false; write 'true'"),
        in_limit("window: { limit: 1, every: 1h }, shadow: off", "55",
                 "shadow is 'off', but it must be true or false; write 'false'"),
        in_limit("window: { limit: 1, every: 1h }, shadow: maybe", "55",
                 "shadow is 'maybe', but it must be true or false; write one of them"),
        in_limit("bucket: { rate: 1/s }, unit: token", "43",
                 "unit is 'token', but it must be one of requests; write 'requests'"),
        in_limit("bucket: { rate: 1/s }, when: [x]", "43",
                 "when is a list, but it must be a map; write 'when: { operation: [put, post] }'"),
        in_limit("bucket: { rate: 1/s }, when: { x: [] }", "48",
                 "x is an empty list, but it must have a value; write one, or leave out the key"),
        in_limit("bucket: { rate: 1/s }, when: { x: a, x: b }", "51",
                 "key 'x' is written twice; write it once"),
        in_limit("bucket: { rate: 1/s }, per: [\"a\\n\"]", "43",
                 "per has a control character; write plain text"),
        in_limit(
            "bucket: { rate: 1/s }, weigh: { x: { a: 1 }, y: { a: 1 } }", "44",
            "weigh names 2 attributes, but it must name one; write 'weigh: { operation: { put: "
            "1, post: 5 } }'"),
        in_limit("bucket: { rate: 1/s }, weigh: { x: { a: 4294967297 } }", "54",
                 "a is '4294967297', but it must be a whole number from 0 to 4294967296; write one "
                 "of them"),
        in_limit(
            "bucket: { rate: 1/s }, exempt: [ {} ]", "47",
            "an exemption is an empty map, but it must be a map of conditions; write 'exempt: [ "
            "{ client: internal-* } ]'"),
        in_limit("bucket: { rate: 1/s }, exempt: { x: a }", "45",
                 "exempt is a map, but it must be a list; write 'exempt: [ { client: internal-* } "
                 "]'"),
        in_limit("bucket: { rate: 1/s }, queue: -1", "44",
                 "queue is '-1', but it must be a whole number from 0 to 2147483648; write one of "
                 "them"),
        // What only the compiled rule set shows.
        in_limit("bucket: { rate: 1/s }, parent: b", "3",
                 "its parent 'b' is not a limit; write the name of one"),
        in_limit("bucket: { rate: 1/s }, parent: a", "3",
                 "it is its own ancestor through 'a'; break the circle"),
        in_limit("bucket: { rate: 1/s }, per: [x, x]", "3",
                 "attribute 'x' is twice in its key; write it once")));

// --- several at once

TEST(ConfigMistakes, OfOneLimitAreAllReported) {
  const std::string said =
      mistakes_of("limits: [ { name: a, per: [a1, a2, a3, a4, a5, a6, a7, a8, a9], wehn: {} } ]\n");
  EXPECT_THAT(said, HasSubstr("key 'wehn' is unknown"));
  EXPECT_THAT(said, HasSubstr("it has no meter"));
  EXPECT_THAT(said, HasSubstr("9 attributes"));
}

TEST(ConfigMistakes, AreAllReportedSortedByPlace) {
  EXPECT_EQ(mistakes_of("limits:\n"
                        "  - { name: a, bucket: { rate: x/s, bust: 1 } }\n"
                        "  - { name: b, bucket: { rate: 1/s }, parent: c }\n"
                        "threads: many\n"
                        "headers: [ietf]\n"),
            "f:2:32: limit 'a': rate amount is 'x', but it must be a whole number; write one such "
            "as '100'\n"
            "f:2:37: limit 'a': key 'bust' is unknown, but it must be one of rate, burst; write "
            "'burst'\n"
            "f:3:5: limit 'b': its parent 'c' is not a limit; write the name of one\n"
            "f:4:10: top level: threads is 'many', but it must be a whole number from 1 to 256; "
            "write one of them\n"
            "f:5:10: top level: headers is a list, but it must be a single value; write one word, "
            "quoted if it is empty or 'null'");
}

TEST(ConfigMistakes, OfAParentAreNotHeldAgainstItsChildren) {
  EXPECT_EQ(mistakes_of("limits:\n"
                        "  - { name: up, per: [x], bucket: { rate: 0/s } }\n"
                        "  - { name: down, bucket: { rate: 1/s }, parent: up }\n"),
            "f:2:43: limit 'up': rate is '0/s', but it must be more than 0; write a rate such as "
            "'100/s', or a window of limit 0");
}

TEST(ConfigMistakes, IncludeAMissingParentOfALimitThatHasOthers) {
  EXPECT_EQ(mistakes_of("limits:\n  - { name: a, parent: b, bucket: { rate: 0/s } }\n"),
            "f:2:5: limit 'a': its parent 'b' is not a limit; write the name of one\n"
            "f:2:43: limit 'a': rate is '0/s', but it must be more than 0; write a rate such as "
            "'100/s', or a window of limit 0");
}

TEST(ConfigMistakes, PointAtTheSecondOfTwoEqualNames) {
  EXPECT_EQ(mistakes_of("limits:\n"
                        "  - { name: a, bucket: { rate: 1/s } }\n"
                        "  - { name: a, bucket: { rate: 1/s } }\n"),
            "f:3:13: limit 'a': the name is used twice; write another name");
}

TEST(ConfigMistakes, PointAtTheRightOneOfNamesThatContainEachOther) {
  EXPECT_EQ(mistakes_of("limits:\n"
                        "  - { name: a, bucket: { rate: 1/s } }\n"
                        "  - { name: \"a': b\", bucket: { rate: 1/s }, parent: c }\n"),
            "f:3:5: limit 'a': b': its parent 'c' is not a limit; write the name of one");
}

TEST(ConfigMistakes, PointAtALimitWhoseNameIsTooLong) {
  const std::string name(129, 'n');
  EXPECT_EQ(mistakes_of("limits:\n  - { name: " + name + ", bucket: { rate: 1/s } }\n"),
            "f:2:5: limit '" + name +
                "': the limit name is 129 bytes long, but it must have 1 to 128; write a short "
                "name");
}

TEST(ConfigMistakes, OfUnitsDoNotMakeTheirLimitsWrong) {
  EXPECT_EQ(mistakes_of("units: { t: hole }\n"
                        "limits: [ { name: a, unit: t, window: { limit: 1, every: 1s } } ]\n"),
            "f:1:13: units: t is 'hole', but it must be one of whole, micro; write 'whole'");
}

}  // namespace
}  // namespace weir::config
