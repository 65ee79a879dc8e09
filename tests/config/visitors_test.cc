// `http:`.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/config/support.h"

namespace weir::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ConfigVisitors, AreNoneUnlessWritten) {
  EXPECT_THAT(config_of("{}").visitors.origins, IsEmpty());
  EXPECT_THAT(config_of("{}").visitors.hosts, IsEmpty());
}

TEST(ConfigVisitors, AreReadInLowerCase) {
  const Config config = config_of(
      "http: { origins: ['https://Dash.Example', 'http://127.0.0.1:3000', 'http://[::1]:81'],\n"
      "        hosts: Weir.internal }");
  EXPECT_THAT(config.visitors.origins,
              ElementsAre("https://dash.example", "http://127.0.0.1:3000", "http://[::1]:81"));
  EXPECT_THAT(config.visitors.hosts, ElementsAre("weir.internal"));
  EXPECT_THAT(describe(config),
              HasSubstr("http origins: https://dash.example, http://127.0.0.1:3000, "
                        "http://[::1]:81\nhttp hosts: weir.internal\n"));
}

TEST(ConfigVisitors, AreOriginsAsABrowserSendsThem) {
  for (const std::string text :
       {"dash.example", "*", "null", "https://", "https://dash.example/", "https://a b", "ftp://a",
        "https://dash.example:443", "http://dash.example:80", "https://dash.example:0",
        "https://dash.example:65536", "https://dash.example:08", "https://dash.example:",
        "https://me@dash.example", "http://[::1", "http://[::x]", "https://.a", "https://a..b"}) {
    EXPECT_EQ(mistakes_of("http: { origins: ['" + text + "'] }"),
              "f:1:19: http: origins has '" + text +
                  "', but it must be scheme and host as a browser sends them, without a path and "
                  "without the usual port; write one such as 'https://dash.example' or "
                  "'http://127.0.0.1:3000'");
  }
  EXPECT_EQ(mistakes_of("http: { origins: ['http://dash.example:443', 'https://a:65535'] }"), "");
}

TEST(ConfigVisitors, AreNamesWithoutSchemeAndPort) {
  for (const std::string text :
       {"weir:8080", "http://weir", "*.internal", "a/b", "a..b", "a.", ""}) {
    EXPECT_THAT(mistakes_of("http: { hosts: [a, '" + text + "'] }"),
                HasSubstr("f:1:20: http: hosts has '" + text + "', but it must be a name without"));
  }
  EXPECT_EQ(mistakes_of("http: { hosts: " + std::string(253, 'a') + " }"), "");
  EXPECT_THAT(mistakes_of("http: { hosts: " + std::string(254, 'a') + " }"),
              HasSubstr("but it must be a name"));
}

TEST(ConfigVisitors, AreAtMost64OfEach) {
  for (const std::string key : {"hosts: [", "origins: ["}) {
    const std::string one = key == "hosts: [" ? "a" : "'http://a'";
    const std::string most = one + repeated(", " + one, 63);
    EXPECT_EQ(mistakes_of("http: { " + key + most + "] }"), "");
    EXPECT_THAT(mistakes_of("http: { " + key + most + ", " + one + "] }"),
                HasSubstr("has 65 values, but it must have 1 to 64"));
    EXPECT_THAT(mistakes_of("http: { " + key + "] }"), HasSubstr("has 0 values"));
  }
}

TEST(ConfigVisitors, HaveNoOtherKeys) {
  EXPECT_EQ(mistakes_of("http: { host: a }"),
            "f:1:9: http: key 'host' is unknown, but it must be one of origins, hosts; write "
            "'hosts'");
}

}  // namespace
}  // namespace weir::config
