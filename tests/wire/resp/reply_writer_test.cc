#include "weir/wire/resp/reply_writer.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace weir::wire::resp {
namespace {

std::string written(int version, const std::function<void(ReplyWriter&)>& write) {
  std::string out;
  ReplyWriter reply(out);
  reply.set_version(version);
  write(reply);
  return out;
}

// What both versions write alike.
std::string written(const std::function<void(ReplyWriter&)>& write) {
  const std::string two = written(2, write);
  EXPECT_EQ(written(3, write), two);
  return two;
}

TEST(ReplyWriter, BeginsInVersionTwo) {
  std::string out;
  EXPECT_EQ(ReplyWriter(out).version(), 2);
}

TEST(ReplyWriter, WritesSimpleStringsAndErrors) {
  EXPECT_EQ(written([](ReplyWriter& to) { to.write_simple("OK"); }), "+OK\r\n");
  EXPECT_EQ(written([](ReplyWriter& to) { to.write_error("BADARG no"); }), "-BADARG no\r\n");
}

TEST(ReplyWriter, KeepsLineEndsOutOfLines) {
  EXPECT_EQ(written([](ReplyWriter& to) { to.write_error("ERR a\r\nb\nc"); }), "-ERR a  b c\r\n");
  EXPECT_EQ(written([](ReplyWriter& to) { to.write_simple("a\r\n+b"); }), "+a  +b\r\n");
}

TEST(ReplyWriter, LeavesWhatWasWrittenBeforeAlone) {
  EXPECT_EQ(written([](ReplyWriter& to) {
              to.write_bulk("a\r\nb");
              to.write_error("c\nd");
            }),
            "$4\r\na\r\nb\r\n-c d\r\n");
}

TEST(ReplyWriter, WritesIntegers) {
  using Limits = std::numeric_limits<std::int64_t>;
  EXPECT_EQ(written([](ReplyWriter& to) { to.write_integer(0); }), ":0\r\n");
  EXPECT_EQ(written([](ReplyWriter& to) { to.write_integer(9); }), ":9\r\n");
  EXPECT_EQ(written([](ReplyWriter& to) { to.write_integer(10); }), ":10\r\n");
  EXPECT_EQ(written([](ReplyWriter& to) { to.write_integer(-1); }), ":-1\r\n");
  EXPECT_EQ(written([](ReplyWriter& to) { to.write_integer(Limits::max()); }),
            ":9223372036854775807\r\n");
  EXPECT_EQ(written([](ReplyWriter& to) { to.write_integer(Limits::min()); }),
            ":-9223372036854775808\r\n");
}

TEST(ReplyWriter, WritesBulkStringsOfAnyBytes) {
  EXPECT_EQ(written([](ReplyWriter& to) { to.write_bulk("foo"); }), "$3\r\nfoo\r\n");
  EXPECT_EQ(written([](ReplyWriter& to) { to.write_bulk(""); }), "$0\r\n\r\n");
  EXPECT_EQ(written([](ReplyWriter& to) { to.write_bulk(std::string_view("\0\r\n", 3)); }),
            std::string("$3\r\n\0\r\n\r\n", 9));
}

TEST(ReplyWriter, WritesArrays) {
  EXPECT_EQ(written([](ReplyWriter& to) { to.begin_array(0); }), "*0\r\n");
  EXPECT_EQ(written([](ReplyWriter& to) { to.begin_array(12); }), "*12\r\n");
}

TEST(ReplyWriter, WritesArraysOfIntegersAtOnce) {
  constexpr std::int64_t throttle[] = {0, 16, 15, -1, 2};
  EXPECT_EQ(written([&](ReplyWriter& to) { to.write_integers(throttle); }),
            "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n");
  EXPECT_EQ(written([](ReplyWriter& to) { to.write_integers({}); }), "*0\r\n");
}

TEST(ReplyWriter, WritesLongArraysOfLongIntegers) {
  const std::vector<std::int64_t> values(19, std::numeric_limits<std::int64_t>::min());
  std::string expected = "*19\r\n";
  for (int i = 0; i < 19; ++i) expected += ":-9223372036854775808\r\n";

  EXPECT_EQ(written([&](ReplyWriter& to) { to.write_integers(values); }), expected);
}

TEST(ReplyWriter, WritesNothingness) {
  EXPECT_EQ(written(2, [](ReplyWriter& to) { to.write_null(); }), "$-1\r\n");
  EXPECT_EQ(written(3, [](ReplyWriter& to) { to.write_null(); }), "_\r\n");
  EXPECT_EQ(written(2, [](ReplyWriter& to) { to.write_null_array(); }), "*-1\r\n");
  EXPECT_EQ(written(3, [](ReplyWriter& to) { to.write_null_array(); }), "_\r\n");
}

TEST(ReplyWriter, WritesBooleans) {
  EXPECT_EQ(written(2, [](ReplyWriter& to) { to.write_boolean(true); }), ":1\r\n");
  EXPECT_EQ(written(2, [](ReplyWriter& to) { to.write_boolean(false); }), ":0\r\n");
  EXPECT_EQ(written(3, [](ReplyWriter& to) { to.write_boolean(true); }), "#t\r\n");
  EXPECT_EQ(written(3, [](ReplyWriter& to) { to.write_boolean(false); }), "#f\r\n");
}

TEST(ReplyWriter, WritesMaps) {
  EXPECT_EQ(written(2, [](ReplyWriter& to) { to.begin_map(3); }), "*6\r\n");
  EXPECT_EQ(written(3, [](ReplyWriter& to) { to.begin_map(3); }), "%3\r\n");
}

TEST(ReplyWriter, WritesVerbatimText) {
  EXPECT_EQ(written(2, [](ReplyWriter& to) { to.write_verbatim("a\nb"); }), "$3\r\na\nb\r\n");
  EXPECT_EQ(written(3, [](ReplyWriter& to) { to.write_verbatim("a\nb"); }), "=7\r\ntxt:a\nb\r\n");
}

}  // namespace
}  // namespace weir::wire::resp
