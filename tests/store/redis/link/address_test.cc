#include "weir/store/redis/link/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::store::redis {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Address good(std::string_view url) {
  const auto address = parse_address(url);
  EXPECT_TRUE(address.ok()) << address.error().message;
  return address.ok() ? *address : Address{};
}

std::string message(std::string_view url) {
  const auto address = parse_address(url);
  EXPECT_FALSE(address.ok()) << url;
  return address.ok() ? "" : address.error().message;
}

TEST(Address, HasThePortAndDatabaseOfARedisAsInstalled) {
  EXPECT_EQ(good("redis://localhost"), (Address{.host = "localhost"}));
  EXPECT_EQ(good("redis://localhost/"), (Address{.host = "localhost"}));
}

TEST(Address, NamesUserPasswordPortAndDatabase) {
  EXPECT_EQ(
      good("redis://ann:s%40%3Ae@10.0.0.7:6380/2"),
      (Address{
          .host = "10.0.0.7", .port = 6380, .user = "ann", .password = "s@:e", .database = 2}));
  EXPECT_EQ(good("redis://:secret@h").password, "secret");
}

TEST(Address, KeepsTheColonsOfIpv6InBrackets) {
  EXPECT_EQ(good("redis://[::1]:7000/1"), (Address{.host = "::1", .port = 7000, .database = 1}));
  EXPECT_EQ(good("redis://[::1]"), (Address{.host = "::1"}));
}

TEST(Address, IsAUnixSocket) {
  EXPECT_EQ(good("unix:///run/redis.sock"), (Address{.path = "/run/redis.sock"}));
  EXPECT_EQ(good("unix://:pw@/run/redis.sock?db=3"),
            (Address{.path = "/run/redis.sock", .password = "pw", .database = 3}));
}

TEST(Address, IsDescribedWithoutThePassword) {
  for (const char* url : {"redis://ann:hush@[::1]:7000/1", "unix://ann:hush@/run/r.sock?db=3"}) {
    const std::string text = describe(good(url));
    EXPECT_THAT(text, Not(HasSubstr("hush")));
    EXPECT_THAT(text, Not(HasSubstr("ann")));
  }
  EXPECT_EQ(describe(good("redis://u:p@[::1]:7000/1")), "redis://[::1]:7000/1");
  EXPECT_EQ(describe(good("unix:///r.sock?db=3")), "unix:///r.sock?db=3");
}

TEST(Address, NamesWhatIsWrongAndWhatToWrite) {
  EXPECT_EQ(
      message("http://localhost"),
      "Redis address 'http://localhost': it begins neither with 'redis://' nor with 'unix://'; "
      "write redis://[user:password@]host[:port][/database] or unix:///path/to/socket[?db=number]");
  EXPECT_THAT(message("rediss://localhost"), HasSubstr("TLS is not supported yet"));
  for (const char* url : {"redis-sentinel://a:26379", "redis+sentinel://a", "sentinel://a"}) {
    EXPECT_THAT(message(url), HasSubstr("Sentinel is not supported yet")) << url;
  }
  for (const char* url : {"redis-cluster://a:7000", "redis+cluster://a", "cluster://a"}) {
    EXPECT_THAT(message(url), HasSubstr("Cluster is not supported yet")) << url;
  }
  EXPECT_THAT(message("redis://"), HasSubstr("there is no host"));
  EXPECT_THAT(message("redis://:6379"), HasSubstr("there is no host"));
  EXPECT_THAT(message("redis://h:0"), HasSubstr("port '0' is not a number from 1 to 65535"));
  EXPECT_THAT(message("redis://h:65536"), HasSubstr("port '65536'"));
  EXPECT_THAT(message("redis://h/x"), HasSubstr("database 'x' is not a number from 0 to 16383"));
  EXPECT_THAT(message("redis://h/16384"), HasSubstr("database '16384'"));
  EXPECT_THAT(message("redis://h/-1"), HasSubstr("database '-1'"));
  EXPECT_THAT(message("redis://[::1"), HasSubstr("'[' has no ']'"));
  EXPECT_THAT(message("redis://[::1]x"), HasSubstr("more than a port after ']'"));
  EXPECT_THAT(message("redis://ann@h"), HasSubstr("no password"));
  EXPECT_THAT(message("redis://ann:@h"), HasSubstr("the password before '@' is empty"));
  EXPECT_THAT(message("redis://ann:%4@h"), HasSubstr("two hex digits"));
  EXPECT_THAT(message("unix://relative"), HasSubstr("does not begin with '/'"));
  EXPECT_THAT(message("unix:///s?db=x"), HasSubstr("'db=x' after '?'"));
  EXPECT_THAT(message(std::string("redis://h\0st", 12)), HasSubstr("a zero byte"));
}

TEST(Address, ShowsNoPasswordInAMessage) {
  EXPECT_THAT(message("redis://ann:hush@h:99999"), Not(HasSubstr("hush")));
  EXPECT_THAT(message("redis://ann:hush%zz@h"), Not(HasSubstr("hush")));
}

TEST(Address, IsBounded) {
  std::string url = "redis://";
  url.append(kAddressBytesMax - url.size(), 'h');
  EXPECT_TRUE(parse_address(url).ok());
  url += 'h';
  EXPECT_THAT(message(url), HasSubstr("it has 1025 bytes, but at most 1024 are read"));

  std::string path = "unix:///";
  path.append(106, 's');
  EXPECT_EQ(good(path).path.size(), 107);
  path += 's';
  EXPECT_THAT(message(path), HasSubstr("has 108 bytes, but at most 107 are possible"));
}

}  // namespace
}  // namespace weir::store::redis
