#include "weir/store/redis/link/failure.h"

#include <gtest/gtest.h>

#include <set>

#include "weir/store/redis/link/script.h"

namespace weir::store::redis {
namespace {

TEST(Failure, IsOfTheKindThatTheFirstWordNames) {
  using enum FailureKind;
  EXPECT_EQ(kind_of_error("NOSCRIPT No matching script. Please use EVAL."), kNoScript);
  EXPECT_EQ(kind_of_error("LOADING Redis is loading the dataset in memory"), kLoading);
  EXPECT_EQ(kind_of_error("BUSY Redis is busy running a script."), kBusy);
  EXPECT_EQ(kind_of_error("OOM command not allowed when used memory > 'maxmemory'."), kOutOfMemory);
  EXPECT_EQ(kind_of_error("NOAUTH Authentication required."), kRefusedUser);
  EXPECT_EQ(kind_of_error("WRONGPASS invalid username-password pair"), kRefusedUser);
  EXPECT_EQ(kind_of_error("NOPERM this user has no permissions"), kRefusedUser);
  for (const char* text :
       {"MOVED 3999 127.0.0.1:6381", "ASK 3999 127.0.0.1:6381", "CLUSTERDOWN The cluster is down",
        "TRYAGAIN Multiple keys request", "CROSSSLOT Keys in request don't hash to the same slot",
        "MASTERDOWN Link with MASTER is down"}) {
    EXPECT_EQ(kind_of_error(text), kTopology) << text;
  }
  EXPECT_EQ(kind_of_error("READONLY You can't write against a read only replica."), kTopology);
  EXPECT_EQ(kind_of_error("WRONGTYPE Operation against a key script: 1f, on @user_script:1."),
            kScript);
  EXPECT_EQ(kind_of_error("ERR user_script:1: attempt to index"), kScript);
  EXPECT_EQ(kind_of_error("FOREIGN weir:1:{weir}:b:a script: 1f, on @user_script:1."), kForeign);
  EXPECT_EQ(kind_of_error("CLOCK 5 script: 1f, on @user_script:1."), kClock);
  EXPECT_EQ(kind_of_error("ERR unknown command"), kServer);
  EXPECT_EQ(kind_of_error("NOSCRIPTS"), kServer);
  EXPECT_EQ(kind_of_error(""), kServer);
}

TEST(Failure, HasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (std::size_t kind = 0; kind < kFailureKinds; ++kind) {
    names.insert(name(static_cast<FailureKind>(kind)));
  }
  EXPECT_EQ(names.size(), kFailureKinds);
}

TEST(Script, IsKnownByItsSha1) {
  EXPECT_EQ(Script("empty", "").sha(), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_EQ(Script("one", "return 1").sha(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
}

}  // namespace
}  // namespace weir::store::redis
