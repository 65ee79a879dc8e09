// WEIR.THROTTLE.*, without a socket and with a clock that stands still.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/engine/support.h"
#include "weir/base/hold_text.h"
#include "weir/base/keyed_word.h"
#include "weir/system/throttle/validate.h"
#include "weir/wire/resp/throttle_commands.h"

namespace weir::wire::resp {
namespace {

namespace throttle = system::throttle;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr Instant kNoon{1'800'000'000'000'000'000};

std::string claim_name(std::uint64_t number) { return hold_text({owned_word(1, number), number}); }

struct OneRoleHost final : Host {
  explicit OneRoleHost(Role role) : of_all(role) {}
  Role role_of(std::string_view) const override { return of_all; }
  void reload_later(engine::StatusCallback told) override { told(Done{}); }
  std::uint64_t token_epoch() const noexcept override { return 1; }
  std::string info() const override { return ""; }
  Role of_all;
};

struct ThrottleCommands : ::testing::Test {
  explicit ThrottleCommands(Role role = Role::kDecide) : host(role) {
    auto definitions = throttle::load_definitions(R"({"buckets":[
        {"name":"Calls","burstPeriod":2000,
         "throttleGroups":[{"milliOpsPerSec":1,"operations":["ContractCall"]}]},
        {"name":"Transfers","burstPeriod":1,
         "throttleGroups":[{"opsPerSec":10,"operations":["CryptoTransfer","ScheduleCreate"]}]}]})",
                                                  "t.json", 1);
    EXPECT_TRUE(definitions.ok());
    throttle::ThrottlesSpec spec{.definitions = *definitions, .owner = 1};
    spec.settings.throttle_by_gas = true;
    spec.settings.front_end_gas_per_second = 1000;
    throttles = *throttle::Throttles::create(spec);
    service.systems = {&table};
  }

  std::string say(std::string_view line) {
    std::string out;
    const std::string bytes = std::string(line) + "\r\n";
    EXPECT_EQ(session.run(bytes, kNoon, scratch, out), bytes.size());
    return out;
  }
  std::int64_t gas() const { return throttles->reading(kNoon).front_end.gas.used; }

  std::unique_ptr<engine::Engine> engine = engine::engine_of({});
  OneRoleHost host;
  ThrottlePart throttles;
  const ThrottleCommandTable table = throttle_commands([this] { return throttles; });
  Service service{engine.get(), &host, Seconds::kCell, {}};
  Scratch scratch;
  Session session{service, 7, {}};
};

TEST_F(ThrottleCommands, DecideManyTransactionsInTheirOrder) {
  const std::string said =
      say("WEIR.THROTTLE.SUBMIT operation=ContractCall gas=600 operation=ContractCall gas=600 "
          "payer=1001 "
          "operation=CryptoTransfer count=10 operation=CryptoTransfer operation=Juggle");
  EXPECT_THAT(said, StartsWith("*5\r\n*14\r\n$6\r\nstatus\r\n$2\r\nOK\r\n"));
  EXPECT_THAT(said, HasSubstr("claim\r\n$18\r\n" + claim_name(1)));
  EXPECT_THAT(said, HasSubstr("$4\r\nBUSY\r\n$7\r\nverdict\r\n$6\r\ndenied\r\n"
                              "$10\r\nrefused_by\r\n$3\r\ngas\r\n$9\r\nshortfall\r\n:200\r\n"
                              "$14\r\nretry_after_ms\r\n:200\r\n"));
  EXPECT_THAT(said, HasSubstr("$9\r\nTransfers\r\n"));
  EXPECT_THAT(said, HasSubstr("$8\r\nunlisted\r\n"));
  EXPECT_EQ(gas(), 600);
}

TEST_F(ThrottleCommands, TakeEveryMember) {
  EXPECT_THAT(say("WEIR.THROTTLE.SUBMIT operation=ScheduleCreate scheduled=CryptoTransfer bytes=1 "
                  "nfts=0 creations=0 associations=0 high_volume=false scheduled_then=99 "
                  "role=front_end dry_run=true"),
              HasSubstr("OK"));
  EXPECT_THAT(say("WEIR.THROTTLE.SUBMIT operation=ScheduleCreate scheduled=CryptoTransfer "
                  "scheduled_then=100"),
              HasSubstr("$8\r\nschedule\r\n"));
  EXPECT_EQ(throttles->reading(kNoon).front_end.buckets[1].used, 0);
}

TEST_F(ThrottleCommands, EndClaims) {
  say("WEIR.THROTTLE.SUBMIT operation=ContractCall gas=600 operation=ContractCall gas=300");
  EXPECT_EQ(say("WEIR.THROTTLE.SETTLE " + claim_name(1) + " gas=100"),
            "*2\r\n$5\r\nstate\r\n$7\r\nsettled\r\n");
  EXPECT_EQ(gas(), 400);
  EXPECT_EQ(say("WEIR.THROTTLE.CANCEL " + claim_name(2)),
            "*2\r\n$5\r\nstate\r\n$9\r\ncancelled\r\n");
  EXPECT_EQ(gas(), 100);
  EXPECT_THAT(say("WEIR.THROTTLE.CANCEL " + claim_name(2)), StartsWith("-NOTFOUND claim "));
  EXPECT_THAT(say("WEIR.THROTTLE.CANCEL 2"), StartsWith("-BADARG '2' is not a claim"));
}

TEST_F(ThrottleCommands, DecideNothingIfAWordIsWrong) {
  for (const auto& [words, says] :
       {std::pair{"ContractCall", "does not begin a transaction"},
        std::pair{"operation=ContractCall operation=", "operation is empty"},
        std::pair{"operation=ContractCall gsa=1", "'gsa' is not known"},
        std::pair{"operation=ContractCall gas=-1", "gas"},
        std::pair{"operation=ContractCall count=0", "count"},
        std::pair{"operation=ContractCall dry_run=yes", "must be true or false"},
        std::pair{"operation=ContractCall role=node", "must be front_end or consensus"},
        std::pair{"operation=ContractCall at_ns=1", "at_ns is given"},
        std::pair{"operation=ContractCall role=consensus", "without at_ns"}}) {
    const std::string said =
        say("WEIR.THROTTLE.SUBMIT operation=ContractCall gas=5 " + std::string(words));
    EXPECT_THAT(said, StartsWith("-")) << words;
    EXPECT_THAT(said, HasSubstr(says)) << words;
  }
  EXPECT_THAT(say("WEIR.THROTTLE.SUBMIT gas=1"), HasSubstr("does not begin a transaction"));
  std::string many = "WEIR.THROTTLE.SUBMIT";
  for (std::size_t i = 0; i < kSubmissionsMax; ++i) many += " operation=Juggle";
  EXPECT_THAT(say(many), StartsWith("*1000\r\n"));
  EXPECT_THAT(say(many + " operation=Juggle"), HasSubstr("more than 1000 transactions"));
}

TEST_F(ThrottleCommands, LeaveConsensusToAdministrators) {
  EXPECT_THAT(say("WEIR.THROTTLE.SUBMIT operation=ContractCall role=consensus "
                  "at_ns=1800000000000000000"),
              StartsWith("-NOPERM consensus"));
  throttle::Submission call{.operation = "ContractCall"};
  const auto made = throttles->submit(throttle::SetRole::kConsensus, call, kNoon);
  EXPECT_THAT(say("WEIR.THROTTLE.CANCEL " + hold_text(made->claim)),
              StartsWith("-NOPERM consensus"));
}

struct ThrottleCommandsOfAnAdmin : ThrottleCommands {
  ThrottleCommandsOfAnAdmin() : ThrottleCommands(Role::kAdmin) {}
};

TEST_F(ThrottleCommandsOfAnAdmin, DecideConsensus) {
  EXPECT_THAT(say("WEIR.THROTTLE.SUBMIT operation=ContractCall gas=5 role=consensus "
                  "at_ns=1800000000000000000 operation=ContractCall role=consensus "
                  "at_ns=1799999999000000000"),
              HasSubstr("-BADARG throttles: time-went-backwards"))
      << "an error in its place";
  EXPECT_THAT(say("WEIR.THROTTLE.SUBMIT operation=ContractCall role=consensus "
                  "at_ns=1800000060000000000"),
              HasSubstr("at most 10s after the server's clock"));
  EXPECT_THAT(say("WEIR.THROTTLE.SETTLE " + claim_name(1) + " gas=1 duration=9"),
              HasSubstr("settled"));
}

TEST_F(ThrottleCommands, SayWhatToConfigureWhereThereAreNone) {
  throttles = nullptr;
  EXPECT_THAT(say("WEIR.THROTTLE.SUBMIT operation=ContractCall"),
              StartsWith("-NOTFOUND no throttles are configured"));
}

}  // namespace
}  // namespace weir::wire::resp
