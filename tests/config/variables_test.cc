// Values that come from the environment.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/config/support.h"

namespace weir::config {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using Environment = std::map<std::string, std::string>;

Result<Config> read_under(std::string_view text, const Environment& environment) {
  return parse(text, "f", {}, [&](const std::string& name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return found->second;
  });
}
Config config_under(std::string_view text, const Environment& environment) {
  Result<Config> config = read_under(text, environment);
  EXPECT_TRUE(config.ok()) << config.error().message;
  return config ? std::move(*config) : Config{};
}
std::string mistakes_under(std::string_view text, const Environment& environment) {
  const Result<Config> config = read_under(text, environment);
  return config ? "" : config.error().message;
}

TEST(Variables, StandInAnyValue) {
  const Config config = config_under(
      "auth: [ { token: \"${TOKEN}\", role: \"${ROLE}\" } ]\n"
      "redis: { url: \"redis://weir:${PASSWORD}@${HOST}:6380\" }\n"
      "threads: ${THREADS}\n"
      "bounds:\n  idle: ${IDLE_S}s\n",
      {{"TOKEN", "a long secret here"},
       {"ROLE", "admin"},
       {"PASSWORD", "hush"},
       {"HOST", "cache"},
       {"THREADS", "3"},
       {"IDLE_S", "30"}});
  EXPECT_EQ(config.auth.at(0).token, "a long secret here");
  EXPECT_EQ(config.auth.at(0).role, Role::kAdmin);
  EXPECT_EQ(config.redis->address.password, "hush");
  EXPECT_EQ(config.redis->address.host, "cache");
  EXPECT_EQ(config.threads, 3u);
  EXPECT_EQ(config.bounds.idle, std::chrono::seconds{30});
}

TEST(Variables, AreTextWhateverTheyHold) {
  const std::string text = "x, role: admin }, { token: y";
  const Config config =
      config_under("auth: [ { token: \"${TOKEN}\", role: decide } ]", {{"TOKEN", text}});
  ASSERT_EQ(config.auth.size(), 1u);
  EXPECT_EQ(config.auth[0].token, text);
  // Nor is what they hold looked at again.
  EXPECT_EQ(config_under("record: ${A}", {{"A", "${B}"}, {"B", "b"}}).record, "${B}");
}

TEST(Variables, LeaveTwoSignsThatAreEscaped) {
  EXPECT_EQ(config_under("record: a$${B}${C}$${D}$E$", {{"C", "c"}}).record, "a${B}c${D}$E$");
}

TEST(Variables, ThatAreNotSetAreMistakesWithTheirPlace) {
  EXPECT_EQ(mistakes_under("threads: 2\nauth: [ { token: \"${TOKEN}\", role: admin } ]\n", {}),
            "f:2:18: file: variable 'TOKEN' is not set; set it in the environment, or write '$${' "
            "for the two signs themselves");
  // Once, also where the value would not have been read.
  EXPECT_EQ(mistakes_under("threads: ${N}", {}),
            "f:1:10: file: variable 'N' is not set; set it in the environment, or write '$${' for "
            "the two signs themselves");
  EXPECT_EQ(mistakes_of("threads: ${N}"),
            "f:1:10: file: variable 'N' is not read here; load the configuration from a file");
}

TEST(Variables, HaveNames) {
  for (const std::string text : {"${", "${}", "${1A}", "${A", "${A-B}", "${A B}", "${${A}}"}) {
    EXPECT_THAT(mistakes_under("record: '" + text + "'", {{"A", "a"}}),
                HasSubstr("f:1:9: file: '${' begins the name of a variable, but no name"))
        << text;
  }
  EXPECT_EQ(config_under("record: ${_a_1}", {{"_a_1", "x"}}).record, "x");
}

TEST(Variables, MustBeQuotedBetweenBraces) {
  EXPECT_THAT(mistakes_under("state: { dir: ${DIR} }", {{"DIR", "d"}}),
              HasSubstr("quote '${NAME}' between braces"));
}

TEST(Variables, AreNotShownInMistakes) {
  const Environment secret = {{"S", "swordfish"}};
  EXPECT_EQ(mistakes_under("threads: ${S}", secret),
            "f:1:10: top level: threads is '${S}', but it must be a whole number from 1 to 256; "
            "write one of them");
  for (const std::string text :
       {"threads: ${S}", "headers: ${S}", "bounds: { idle: \"${S}\" }",
        "listen: { resp: \"${S}\" }", "units: { a: \"${S}\" }", "state: ${S}",
        "redis: { url: \"${S}\" }", "redis: { url: \"redis://a:b@h:${S}\" }",
        "redis: { url: \"redis://h/${S}\" }",
        "limits: [ { name: \"${S}\", bucket: { rate: \"${S}\" } } ]",
        "limits: [ { name: \"${S}\", per: x } ]", "limits: [ { name: a, parent: \"${S}\" } ]",
        "contracts: [ { name: \"${S}\", user_id: u, sync: { url: \"${S}\" } } ]"}) {
    const std::string said = mistakes_under(text, secret);
    EXPECT_THAT(said, Not(HasSubstr("swordfish"))) << text;
    EXPECT_THAT(said, HasSubstr("${S}")) << text;
  }
  // With signs of quotation in it, less is said.
  EXPECT_EQ(mistakes_under("threads: ${S}", {{"S", "sword'fish' is"}}),
            "f:1:10: top level: what '${S}' stands for does not fit here; look at its key in the "
            "reference");
}

TEST(Variables, HaveBounds) {
  const std::string most(kVariableBytesMax, 'x');
  EXPECT_EQ(config_under("record: ${A}", {{"A", most}}).record.size(), kVariableBytesMax);
  EXPECT_THAT(mistakes_under("record: ${A}", {{"A", most + "x"}}),
              HasSubstr("variable 'A' has 1048577 bytes, but all that a file names have at most "
                        "1048576; set a shorter value"));
  EXPECT_EQ(config_under("record: " + repeated("${A}", kVariablesMax), {{"A", "x"}}).record.size(),
            kVariablesMax);
  EXPECT_THAT(mistakes_under("record: " + repeated("${A}", kVariablesMax + 1), {{"A", "x"}}),
              HasSubstr("it names more than 4096 variables"));
  EXPECT_THAT(mistakes_under("record: ${A}", {{"A", "\xff"}}),
              HasSubstr("variable 'A' holds bytes that are not text; set it to UTF-8"));
}

}  // namespace
}  // namespace weir::config
