// WEIR.POOL.*, without a socket and with a clock that stands still.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "tests/engine/support.h"
#include "weir/base/hold_text.h"
#include "weir/base/keyed_word.h"
#include "weir/system/pool/held_jobs.h"
#include "weir/system/pool/local_coordinator.h"
#include "weir/wire/resp/pool_commands.h"
#include "weir/wire/resp/session.h"

namespace weir::wire::resp {
namespace {

using namespace std::chrono_literals;
namespace pool = system::pool;
using ::testing::HasSubstr;

constexpr Instant kMorning{1'800'000'000'000'000'000};  // begins a minute

// The name of the job with this number.
std::string job_name(std::uint64_t number) {
  return hold_text({owned_word(0xc0ffee, number), number});
}

struct OpenHost final : Host {
  Role role_of(std::string_view) const override { return Role::kDecide; }
  void reload_later(engine::StatusCallback told) override { told(Done{}); }
  std::uint64_t token_epoch() const noexcept override { return 1; }
  std::string info() const override { return ""; }
};

struct PoolCommands : ::testing::Test {
  PoolCommands() {
    pool::PoolsSettings settings;
    settings.models = {
        {.name = "big", .limits = {{.tokens_per_minute = 1'000}}, .pricing = {1, 1, 1}},
        {.name = "small", .limits = {{}, 1}}};
    settings.escalation = {"big", "small"};
    settings.types = {{.name = "chat", .tokens = 1'000, .requests = 1, .max_wait = {{"big", 0s}}}};
    auto pools = pool::Pools::create(
        settings, std::make_unique<pool::LocalCoordinator>(std::make_shared<pool::LocalFleet>()));
    EXPECT_TRUE(pools.ok()) << (pools ? "" : pools.error().message);
    jobs = std::make_unique<pool::HeldJobs>(std::move(*pools), pool::HoldSettings{}, 0xc0ffee);
    jobs->pools().start(kMorning, [](Instant, const Status& status) { EXPECT_TRUE(status.ok()); });
    service.systems = {&table};
  }

  std::string say(std::string_view line, Instant now = kMorning) {
    std::string out;
    const std::string bytes = std::string(line) + "\r\n";
    EXPECT_EQ(session.run(bytes, now, scratch, out), bytes.size());
    return out;
  }

  std::unique_ptr<engine::Engine> engine = engine::engine_of({});
  OpenHost host;
  std::unique_ptr<pool::HeldJobs> jobs;
  const PoolCommandTable table = pool_commands([this] { return jobs.get(); });
  Service service{engine.get(), &host, Seconds::kCell, {}};
  Scratch scratch;
  std::optional<std::pair<std::size_t, LateReply>> late;  // and its place
  Session session{service, 7, [this] {
                    return [this](std::size_t place, LateReply reply) {
                      late.emplace(place, std::move(reply));
                    };
                  }};
};

TEST_F(PoolCommands, StartAJobAndSettleIt) {
  EXPECT_EQ(
      say("WEIR.POOL.ACQUIRE chat"),
      "*16\r\n$7\r\nverdict\r\n$7\r\nallowed\r\n$3\r\njob\r\n$18\r\n" + job_name(1) +
          "\r\n"
          "$5\r\nmodel\r\n$3\r\nbig\r\n$7\r\nattempt\r\n:1\r\n$13\r\nexpires_in_ms\r\n:600000\r\n"
          "$6\r\nminute\r\n:1800000000\r\n$3\r\nday\r\n:1799971200\r\n$9\r\nremaining\r\n"
          "*2\r\n$17\r\ntokens_per_minute\r\n:0\r\n");
  EXPECT_EQ(say("WEIR.POOL.RELEASE " + job_name(1) + " requests 1 input 500000 output 600000"),
            "*8\r\n$5\r\nstate\r\n$7\r\nsettled\r\n$4\r\ncost\r\n$3\r\n1.1\r\n"
            "$14\r\noverage_tokens\r\n:1099000\r\n$16\r\noverage_requests\r\n:0\r\n");
}

TEST_F(PoolCommands, LetAJobRunLonger) {
  say("WEIR.POOL.ACQUIRE chat HOLD 30s");
  EXPECT_EQ(say("WEIR.POOL.RENEW " + job_name(1) + " hold 2m", kMorning + 10s),
            "*4\r\n$5\r\nstate\r\n$6\r\nactive\r\n$13\r\nexpires_in_ms\r\n:120000\r\n");
  jobs->pools().advance(kMorning + 130s - 1ns);
  EXPECT_THAT(say("WEIR.POOL.RENEW " + job_name(1), kMorning + 130s - 1ns),
              HasSubstr(":600000\r\n"));
  EXPECT_THAT(say("WEIR.POOL.RENEW " + job_name(2)), HasSubstr("-NOTFOUND"));
  EXPECT_THAT(say("WEIR.POOL.RENEW job"), HasSubstr("-BADARG 'job' is not a job"));
  EXPECT_THAT(say("WEIR.POOL.RENEW " + job_name(1) + " FOR 2m"), HasSubstr("-BADARG 'FOR'"));
  EXPECT_THAT(say("WEIR.POOL.RENEW " + job_name(1) + " HOLD"), HasSubstr("-BADARG"));
}

TEST_F(PoolCommands, RefuseAsAnOrdinaryReply) {
  say("WEIR.POOL.ACQUIRE chat");
  say("WEIR.POOL.RELEASE " + job_name(1) + " INPUT 1000");
  say("WEIR.POOL.ACQUIRE chat");
  const std::string refused = say("WEIR.POOL.ACQUIRE chat WAIT 0s", kMorning + 30s);
  EXPECT_THAT(refused, HasSubstr("$7\r\nverdict\r\n$6\r\ndenied\r\n$6\r\nreason\r\n$20\r\n"
                                 "all_models_exhausted\r\n"));
  EXPECT_THAT(refused, HasSubstr("retry_after_ms\r\n:30000\r\n"));
}

TEST_F(PoolCommands, WaitAndAreAnsweredWhenAPlaceIsFree) {
  say("WEIR.POOL.ACQUIRE chat");
  say("WEIR.POOL.ACQUIRE chat");
  EXPECT_EQ(say("WEIR.POOL.ACQUIRE chat WAIT 40s HOLD 5s"), "");
  EXPECT_TRUE(session.is_waiting());
  ASSERT_TRUE(jobs->finish({owned_word(0xc0ffee, 2), 2}, {.requests = 1}, kMorning + 1s).ok());
  ASSERT_TRUE(late.has_value());
  std::string out;
  EXPECT_TRUE(session.deliver(late->first, late->second, kMorning + 1s, out));
  EXPECT_THAT(out, HasSubstr("$18\r\n" + job_name(3) + "\r\n$5\r\nmodel\r\n$5\r\nsmall\r\n"));
  EXPECT_THAT(out, HasSubstr("expires_in_ms\r\n:5000\r\n"));
  EXPECT_FALSE(session.is_waiting());
}

TEST_F(PoolCommands, DelegateToTheNextModel) {
  say("WEIR.POOL.ACQUIRE chat");
  EXPECT_THAT(say("WEIR.POOL.RELEASE " + job_name(1) + " INPUT 5 DELEGATE"),
              HasSubstr("$5\r\nmodel\r\n$5\r\nsmall\r\n$7\r\nattempt\r\n:2\r\n"));
  EXPECT_THAT(say("WEIR.POOL.RELEASE " + job_name(1) + " FAILED"), HasSubstr("$6\r\nfailed\r\n"));
}

TEST_F(PoolCommands, SayWhatIsWrongWithTheirWords) {
  EXPECT_THAT(say("WEIR.POOL.ACQUIRE chet"), HasSubstr("-NOTFOUND there is no job type 'chet'"));
  EXPECT_THAT(say("WEIR.POOL.ACQUIRE chat WAIT"), HasSubstr("-BADARG WAIT must be written once"));
  EXPECT_THAT(say("WEIR.POOL.ACQUIRE chat SOON 1s"), HasSubstr("-BADARG 'SOON' is no option"));
  EXPECT_THAT(say("WEIR.POOL.RELEASE nonsense FAILED"), HasSubstr("-BADARG 'nonsense' is not"));
  EXPECT_THAT(say("WEIR.POOL.RELEASE " + job_name(1) + " REJECTED"),
              HasSubstr("-BADARG it does not say what was used"));
  EXPECT_THAT(say("WEIR.POOL.RELEASE " + job_name(1) + " INPUT -5"), HasSubstr("-BADARG "));
  EXPECT_THAT(say("WEIR.POOL.RELEASE " + job_name(1) + " FAILED DELEGATE"),
              HasSubstr("-BADARG a job ends once"));
  EXPECT_THAT(say("WEIR.POOL.RELEASE " + job_name(1) + " FAILED"), HasSubstr("-NOTFOUND job 1"));
  jobs.reset();
  EXPECT_THAT(say("WEIR.POOL.ACQUIRE chat"), HasSubstr("-NOTFOUND no pools are configured"));
}

}  // namespace
}  // namespace weir::wire::resp
