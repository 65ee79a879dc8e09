#include "weir/server/tokens.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace weir::server {
namespace {

TEST(Tokens, MakeEverybodyAnAdministratorWhereThereAreNone) {
  const Tokens tokens({});
  EXPECT_EQ(tokens.role_of(""), Role::kAdmin);
  EXPECT_EQ(tokens.role_of("anything"), Role::kAdmin);
  EXPECT_EQ(tokens.name_of("anything"), "");
}

TEST(Tokens, HaveRolesAndNames) {
  const Tokens tokens({{"looker", Role::kObserve, "dashboard"}, {"boss", Role::kAdmin, ""}});
  EXPECT_EQ(tokens.role_of("looker"), Role::kObserve);
  EXPECT_EQ(tokens.name_of("looker"), "dashboard");
  EXPECT_EQ(tokens.role_of("boss"), Role::kAdmin);
  for (const std::string unknown : {"", "look", "looker ", "lookes", "Boss"}) {
    EXPECT_EQ(tokens.role_of(unknown), Role::kNobody) << unknown;
    EXPECT_EQ(tokens.name_of(unknown), "") << unknown;
  }
}

TEST(Tokens, SpeakForConsensusWhereTheirsSaysSo) {
  const Tokens tokens({{"node", Role::kDecide, "", true}, {"boss", Role::kAdmin, ""}});
  EXPECT_TRUE(tokens.speaks_for_consensus("node"));
  for (const std::string other : {"boss", "nod", ""}) {
    EXPECT_FALSE(tokens.speaks_for_consensus(other)) << other;
  }
  EXPECT_FALSE(Tokens({}).speaks_for_consensus("node"));
}

TEST(Tokens, AreAsLongAsTheyMayBeAndNoLonger) {
  const std::string longest(config::kTokenBytesMax, 'x');
  const Tokens tokens({{longest, Role::kAdmin, ""}});
  EXPECT_EQ(tokens.role_of(longest), Role::kAdmin);
  EXPECT_EQ(tokens.role_of(longest + "x"), Role::kNobody);
  EXPECT_EQ(tokens.role_of(std::string(100'000, 'x')), Role::kNobody);
}

TEST(Tokens, OfTwoServersAreTwoOnOneThread) {
  const Tokens one({{"a", Role::kAdmin, "one"}});
  const Tokens two({{"a", Role::kObserve, "two"}});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(one.name_of("a"), "one");
    EXPECT_EQ(two.name_of("a"), "two");
  }
}

TEST(Tokens, ChangeWhileOthersAsk) {
  Tokens tokens({{"a", Role::kAdmin, ""}, {"both", Role::kDecide, ""}});
  const std::uint64_t before = tokens.epoch();
  std::atomic<bool> stop{false};
  std::vector<std::thread> askers;
  for (int i = 0; i < 2; ++i) {
    askers.emplace_back([&] {
      while (!stop.load()) EXPECT_EQ(tokens.role_of("both"), Role::kDecide);
    });
  }
  for (int i = 0; i < 200; ++i) {
    tokens.set({{i % 2 == 0 ? "b" : "a", Role::kAdmin, ""}, {"both", Role::kDecide, ""}});
  }
  stop = true;
  for (std::thread& asker : askers) asker.join();
  EXPECT_NE(tokens.epoch(), before);
  tokens.set({{"b", Role::kAdmin, ""}});
  EXPECT_EQ(tokens.role_of("a"), Role::kNobody);
  EXPECT_EQ(tokens.role_of("b"), Role::kAdmin);
}

}  // namespace
}  // namespace weir::server
