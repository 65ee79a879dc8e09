#include "weir/engine/reach.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "weir/engine/rules.h"

namespace weir::engine {
namespace {

using namespace std::chrono_literals;

using Attributes = std::vector<Attribute>;

bool reaches(const Reach& reach, const Attributes& attributes) {
  const Status said = reach.covers(Request{.attributes = attributes});
  if (!said) {
    EXPECT_EQ(said.error().code, ErrorCode::kForbidden);
  }
  return said.ok();
}

const Reach kAcme{.only = {{"client", {"acme", "acme-*"}}, {"region", {"eu"}}}};

TEST(Reach, OfATokenWithoutBoundsIsEverything) {
  const Reach open;
  EXPECT_FALSE(open.is_bound());
  EXPECT_TRUE(reaches(open, {}));
  EXPECT_TRUE(reaches(open, {{"portal", "any"}}));
  EXPECT_TRUE(open.covers(kAccountIdentity, "any").ok());
}

TEST(Reach, WantsEveryAttributeOfOnlyWithAValueThatMatches) {
  EXPECT_TRUE(reaches(kAcme, {{"client", "acme"}, {"region", "eu"}}));
  EXPECT_TRUE(reaches(kAcme, {{"operation", "put"}, {"region", "eu"}, {"client", "acme-7"}}));
  EXPECT_FALSE(reaches(kAcme, {{"client", "acme"}}));
  EXPECT_FALSE(reaches(kAcme, {{"region", "eu"}}));
  EXPECT_FALSE(reaches(kAcme, {}));
  for (const std::string_view other : {"", "Acme", "acme2", "xacme", "acme -", "*"}) {
    EXPECT_FALSE(reaches(kAcme, {{"client", other}, {"region", "eu"}})) << other;
  }
}

TEST(Reach, KeepsTheIdentitiesOfSystemsThatItDoesNotNameFromRequests) {
  for (const std::string_view identity : {"portal", "hotkey", "payer"}) {
    EXPECT_FALSE(reaches(kAcme, {{"client", "acme"}, {"region", "eu"}, {identity, "x"}}))
        << identity;
  }
  Reach both = kAcme;
  both.identities = {{"portal", {"p-*"}}};
  EXPECT_TRUE(reaches(both, {{"client", "acme"}, {"region", "eu"}, {"portal", "p-1"}}));
  EXPECT_FALSE(reaches(both, {{"client", "acme"}, {"region", "eu"}, {"portal", "q-1"}}));
  EXPECT_TRUE(reaches(both, {{"client", "acme"}, {"region", "eu"}}));
  const Reach by_attribute{.only = {{"portal", {"p-1"}}}};
  EXPECT_TRUE(reaches(by_attribute, {{"portal", "p-1"}}));
  EXPECT_TRUE(by_attribute.covers(kPortalIdentity, "p-1").ok());
  EXPECT_FALSE(by_attribute.covers(kPortalIdentity, "p-2").ok());
}

TEST(Reach, WantsTheUidOfAHotkeySinceSomeAreExempt) {
  const Reach hotkey{.identities = {{"hotkey", {"h-1"}}}};
  EXPECT_FALSE(reaches(hotkey, {{"hotkey", "h-1"}}));
  EXPECT_FALSE(reaches(hotkey, {{"hotkey", "h-1"}, {"uid", "0"}}));
  const Reach both{.identities = {{"hotkey", {"h-1"}}, {"uid", {"7"}}}};
  EXPECT_TRUE(reaches(both, {{"hotkey", "h-1"}, {"uid", "7"}}));
  EXPECT_FALSE(reaches(both, {{"hotkey", "h-1"}, {"uid", "0"}}));
  EXPECT_FALSE(reaches(both, {{"hotkey", "h-1"}}));
}

TEST(Reach, OfASystemMatchesWhatElseItsCallSays) {
  const Reach reach{.only = {{"environment", {"E"}}}, .identities = {{"hotkey", {"h-1"}}}};
  const auto covers = [&](std::string_view environment) {
    const Attribute others[] = {{"environment", environment}, {"revision", "any"}};
    return reach.covers(kHotkeyIdentity, "h-1", others).ok();
  };
  EXPECT_TRUE(covers("E"));
  EXPECT_FALSE(covers("F"));
  const Attribute exempt[] = {{"uid", "0"}};
  EXPECT_FALSE(reach.covers(kHotkeyIdentity, "h-1", exempt).ok());
}

TEST(Reach, OfTwoBoundsOfOneNameIsWhatBothHave) {
  const Reach reach{.only = {{"portal", {"team-*"}}}, .identities = {{"portal", {"team-a"}}}};
  EXPECT_TRUE(reaches(reach, {{"portal", "team-a"}}));
  EXPECT_FALSE(reaches(reach, {{"portal", "team-b"}}));
  EXPECT_FALSE(reach.covers(kPortalIdentity, "team-b").ok());
}

TEST(Reach, OfANameOfASystemBindsTheAttributeOfThatName) {
  const Reach reach{.only = {{"client", {"acme"}}}, .identities = {{"job_type", {"chat"}}}};
  EXPECT_TRUE(reaches(reach, {{"client", "acme"}, {"job_type", "chat"}}));
  EXPECT_FALSE(reaches(reach, {{"client", "acme"}, {"job_type", "mail"}}));
}

TEST(Reach, OfASystemAloneIsNoReachForOtherRequests) {
  const Reach portal{.identities = {{"portal", {"p-1"}}, {"account", {"team"}}}};
  EXPECT_TRUE(portal.covers(kPortalIdentity, "p-1").ok());
  EXPECT_TRUE(portal.covers(kAccountIdentity, "team").ok());
  EXPECT_FALSE(portal.covers(kAccountIdentity, "team2").ok());
  EXPECT_FALSE(portal.covers(kHotkeyIdentity, "p-1").ok());
  EXPECT_TRUE(reaches(portal, {{"portal", "p-1"}, {"client", "any"}}));
  EXPECT_FALSE(reaches(portal, {{"client", "any"}}));
  EXPECT_TRUE(reaches(portal, {{"account", "team"}}));
  EXPECT_FALSE(reaches(portal, {{"account", "other"}}));
}

TEST(Reach, ShowsTheKeysThatItNames) {
  RuleSetSpec spec;
  const auto limit = [&](std::string name, std::vector<std::string> per) {
    spec.limits.push_back(
        {.name = std::move(name), .per = std::move(per), .meter = WindowSpec{1, 1s}});
  };
  limit("all", {});
  limit("by-client", {"client"});
  limit("by-both", {"region", "client"});
  limit("by-user", {"user"});
  limit("by-portal", {"client", "portal"});
  const auto rules = compile(spec);
  ASSERT_TRUE(rules) << rules.error().message;
  const auto shows = [&](std::string_view name, std::vector<std::string_view> key) {
    return kAcme.covers(**rules, name, key).ok();
  };
  EXPECT_TRUE(shows("by-client", {"acme-1"}));
  EXPECT_FALSE(shows("by-client", {"other"}));
  EXPECT_TRUE(shows("by-both", {"eu", "acme"}));
  EXPECT_FALSE(shows("by-both", {"us", "acme"}));
  EXPECT_FALSE(shows("by-both", {"eu", "other"}));
  EXPECT_FALSE(shows("by-user", {"acme"}));
  EXPECT_FALSE(shows("by-portal", {"acme", "p-9"}));
  EXPECT_FALSE(shows("all", {}));
  EXPECT_TRUE(shows("by-client", {})) << "the engine says what is wrong with it";
  EXPECT_TRUE(shows("no-such", {"acme"}));
  EXPECT_TRUE(Reach{}.covers(**rules, "all", {}).ok());
}

TEST(Reach, SaysWhatIsOutside) {
  const Attribute other[] = {{"client", "other"}, {"region", "eu"}};
  EXPECT_EQ(kAcme.covers(Request{.attributes = other}).error().message,
            "client is 'other', which this token is not for; use the token that is, or "
            "have its bounds changed under 'auth'");
  EXPECT_EQ(kAcme.covers(Request{}).error().message,
            "client is missing, but this token is bound to some of its values; name it");
}

}  // namespace
}  // namespace weir::engine
