// The routes below /v1/throttle, without a socket and with a clock that stands still.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/wire/http/support.h"
#include "weir/base/hold_text.h"
#include "weir/base/keyed_word.h"
#include "weir/system/throttle/gate.h"
#include "weir/system/throttle/validate.h"
#include "weir/wire/http/routes.h"

namespace weir::wire::http {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Two calls in 2,000 seconds, and 10 transfers a second.
constexpr std::string_view kDefinitions = R"({"buckets":[
  {"name":"Calls","burstPeriod":2000,
   "throttleGroups":[{"milliOpsPerSec":1,"operations":["ContractCall"]}]},
  {"name":"Transfers","burstPeriod":1,
   "throttleGroups":[{"opsPerSec":10,"operations":["CryptoTransfer","ScheduleCreate"]}]}]})";

// The id of a desk's claim, as JSON.
std::string claim_text(std::uint64_t number) {
  return '"' + hold_text({owned_word(1, number), number}) + '"';
}

struct ThrottleDesk : Desk {
  using Change = void (*)(system::throttle::ThrottlesSpec&);

  explicit ThrottleDesk(Change change = [](auto&) {}) : Desk(three_per_second()) {
    auto definitions = system::throttle::load_definitions(kDefinitions, "t.json", 1);
    EXPECT_TRUE(definitions.ok());
    system::throttle::ThrottlesSpec spec{.definitions = *definitions, .owner = 1};
    spec.settings.throttle_by_gas = true;
    spec.settings.front_end_gas_per_second = 1000;
    spec.settings.consensus_gas_per_second = 1000;
    change(spec);
    host.throttles_in_force = *system::throttle::Throttles::create(spec);
  }

  Answer submit(std::string_view body) { return post("/v1/throttle/submit", body); }
  std::int64_t used(std::string_view of, std::size_t bucket) {
    return level(of, [&](const boost::json::value& set) {
      return set.at("buckets").as_array().at(bucket).at("used").as_int64();
    });
  }
  std::int64_t gas(std::string_view of) {
    return level(of,
                 [](const boost::json::value& set) { return set.at("gas").at("used").as_int64(); });
  }

 private:
  template <typename Read>
  std::int64_t level(std::string_view of, Read read) {
    const boost::json::value all = parsed(get("/v1/throttle").body);
    return read(all.at(of));
  }
};

constexpr std::string_view kCall = R"({"operation":"ContractCall","gas":600})";
constexpr std::string_view kConsensusCall =
    R"({"operation":"ContractCall","gas":600,"role":"consensus","at_ns":1800000000000000000})";

TEST(ThrottleRoutes, SayWhatToConfigureWhereThereAreNoThrottles) {
  Desk desk(three_per_second());
  for (const Route* const each : desk.api.routes()) {
    const Route& route = *each;
    if (!route.path.starts_with("/v1/throttle")) continue;
    const Answer answer = desk.ask(route.method, route.path, "{}");
    EXPECT_EQ(answer.status, 404u) << route.name;
    EXPECT_THAT(detail(answer), HasSubstr("throttles: { file: ./throttles.json")) << route.name;
  }
}

TEST(ThrottleSubmit, ClaimsAtTheFrontEnd) {
  ThrottleDesk desk;
  const Answer answer = desk.submit(kCall);
  EXPECT_EQ(answer.status, 200u);
  EXPECT_EQ(answer.body,
            R"({"status":"OK","verdict":"allowed","refused_by":null,"shortfall":0,)"
            R"("earliest":"2027-01-15T08:00:00.000000000Z","earliest_ns":1800000000000000000,)"
            R"("retry_after_ms":0,"multiplier":1,"claim":)" +
                claim_text(1) + "}");
  EXPECT_EQ(desk.gas("front_end"), 600);
  EXPECT_EQ(desk.gas("consensus"), 0);
}

TEST(ThrottleSubmit, IsBusyAtTheFrontEndWhenGasIsOut) {
  ThrottleDesk desk;
  desk.submit(kCall);
  const Answer answer = desk.submit(kCall);
  EXPECT_EQ(answer.status, 429u);
  EXPECT_EQ(text_at(answer, "status"), "BUSY");
  EXPECT_EQ(text_at(answer, "refused_by"), "gas");
  EXPECT_EQ(text_at(answer, "shortfall"), "200");
  EXPECT_EQ(text_at(answer, "retry_after_ms"), "200");
  EXPECT_EQ(text_at(answer, "claim"), "null");
  EXPECT_EQ(answer.headers, "Retry-After: 1\r\n");
}

TEST(ThrottleSubmit, TellsGasFromOperationsAtConsensus) {
  ThrottleDesk desk;
  EXPECT_EQ(text_at(desk.submit(kConsensusCall), "status"), "OK");
  EXPECT_EQ(text_at(desk.submit(kConsensusCall), "status"), "CONSENSUS_GAS_EXHAUSTED");
  constexpr std::string_view kCheap =
      R"({"operation":"ContractCall","gas":1,"role":"consensus","at_ns":1800000000000000000})";
  EXPECT_EQ(text_at(desk.submit(kCheap), "status"), "OK");
  const Answer third = desk.submit(kCheap);
  EXPECT_EQ(text_at(third, "status"), "THROTTLED_AT_CONSENSUS");
  EXPECT_EQ(text_at(third, "refused_by"), "Calls");
  EXPECT_EQ(text_at(third, "retry_after_ms"), "1000000");
  EXPECT_EQ(desk.used("front_end", 0), 0);
}

TEST(ThrottleSubmit, NeverPassesWhatIsUnlistedOrTooMuch) {
  ThrottleDesk desk;
  const Answer unlisted = desk.submit(R"({"operation":"Juggle"})");
  EXPECT_EQ(unlisted.status, 422u);
  EXPECT_EQ(text_at(unlisted, "status"), "BUSY");
  EXPECT_EQ(text_at(unlisted, "verdict"), "never");
  EXPECT_EQ(text_at(unlisted, "refused_by"), "unlisted");
  EXPECT_EQ(text_at(unlisted, "earliest"), "null");
  EXPECT_EQ(desk.submit(R"({"operation":"ContractCall","gas":1001})").status, 422u);
}

TEST(ThrottleSubmit, TakesWhatIsInsideASchedule) {
  ThrottleDesk desk;
  EXPECT_EQ(text_at(desk.submit(R"({"operation":"ScheduleCreate"})"), "refused_by"), "malformed");
  EXPECT_EQ(desk.submit(R"({"operation":"ScheduleCreate","scheduled":{"operation":"CryptoTransfer",
                            "uses_aliases":false,"creations":0}})")
                .status,
            200u);
}

TEST(ThrottleSubmit, ExemptsTheNetworksOwnAccounts) {
  ThrottleDesk desk;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(desk.submit(R"({"operation":"ContractCall","payer":100,"gas":1000})").status, 200u);
  }
  EXPECT_EQ(desk.used("front_end", 0), 0);
}

TEST(ThrottleSubmit, ChangesNothingInADryRun) {
  ThrottleDesk desk;
  const Answer answer = desk.submit(R"({"operation":"ContractCall","gas":600,"dry_run":true})");
  EXPECT_EQ(answer.status, 200u);
  EXPECT_EQ(text_at(answer, "claim"), "null");
  EXPECT_EQ(desk.gas("front_end"), 0);
}

TEST(ThrottleSubmit, RefusesConsensusTimeThatGoesBack) {
  ThrottleDesk desk;
  desk.submit(kConsensusCall);
  const Answer answer =
      desk.submit(R"({"operation":"ContractCall","role":"consensus","at_ns":1799999999999999999})");
  EXPECT_EQ(answer.status, 400u);
  EXPECT_THAT(detail(answer), HasSubstr("time-went-backwards"));
}

// What is 10 s ahead of the clock, and one nanosecond more.
constexpr std::string_view kAhead =
    R"({"operation":"ContractCall","role":"consensus","at_ns":1800000010000000000})";
constexpr std::string_view kTooFarAhead =
    R"({"operation":"ContractCall","role":"consensus","at_ns":1800000010000000001})";

TEST(ThrottleSubmit, RefusesAnInstantTooFarAheadOfTheClock) {
  ThrottleDesk desk;
  const std::string before = desk.get("/v1/throttle/snapshot").body;
  for (const std::string_view body :
       {kTooFarAhead,
        std::string_view(
            R"({"operation":"ContractCall","role":"consensus","at_ns":9000000000000000000})"),
        std::string_view(R"({"operation":"ContractCall","role":"consensus","dry_run":true,
                             "at_ns":1800000010000000001})")}) {
    const Answer answer = desk.submit(body);
    EXPECT_EQ(answer.status, 400u) << body;
    EXPECT_THAT(detail(answer), HasSubstr("at most 10s after the server's clock")) << body;
    EXPECT_THAT(detail(answer), HasSubstr("'throttles: { ahead: off }'")) << body;
  }
  EXPECT_EQ(desk.get("/v1/throttle/snapshot").body, before) << "later ones are decided as ever";
  EXPECT_EQ(desk.submit(kAhead).status, 200u);
}

TEST(ThrottleSubmit, TakesAnyInstantWhereAheadIsOff) {
  ThrottleDesk desk([](system::throttle::ThrottlesSpec& spec) { spec.ahead.reset(); });
  EXPECT_EQ(desk.submit(kTooFarAhead).status, 200u);
}

TEST(ThrottleSubmit, DecidesForConsensusOnlyWhereTheTokenMay) {
  ThrottleDesk desk;
  desk.submit(kConsensusCall);
  desk.role = Role::kDecide;
  const std::string before = desk.get("/v1/throttle/snapshot").body;
  const Answer refused = desk.submit(kAhead);
  EXPECT_EQ(refused.status, 403u);
  EXPECT_THAT(detail(refused), HasSubstr("give it 'consensus: true' under 'auth'"));
  EXPECT_EQ(
      desk.post("/v1/throttle/settle", R"({"claim":)" + claim_text(1) + R"(,"gas":1,"duration":9})")
          .status,
      403u);
  EXPECT_EQ(desk.post("/v1/throttle/cancel", R"({"claim":)" + claim_text(1) + "}").status, 403u);
  EXPECT_EQ(desk.post("/v1/throttle/cancel", R"({"claim":)" + claim_text(2) + "}").status, 404u);
  EXPECT_EQ(desk.get("/v1/throttle/snapshot").body, before);
  EXPECT_EQ(desk.submit(kCall).status, 200u) << "the front end is everybody's";
  desk.host.is_consensus = true;
  EXPECT_EQ(desk.submit(kAhead).status, 200u);
  EXPECT_EQ(
      desk.post("/v1/throttle/settle", R"({"claim":)" + claim_text(1) + R"(,"gas":1,"duration":9})")
          .status,
      200u);
}

TEST(ThrottleSubmit, NamesWhatIsWrongWithABody) {
  ThrottleDesk desk;
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"", "body: it is empty"},
      {"{}", "body: the member 'operation' is missing"},
      {R"({"operation":5})", "body:1:14: operation is a number"},
      {R"({"operation":"A","role":"node"})", "body:1:25: role is 'node'"},
      {R"({"operation":"A","role":"consensus"})", "body: the member 'at_ns' is missing"},
      {R"({"operation":"A","at_ns":1})", "body: the member 'at_ns' is given"},
      {R"({"operation":"A","gas":-1})", "body:1:24: gas is -1"},
      {R"({"operation":"A","count":0})", "body:1:26: count is 0"},
      {R"({"operation":"A","nfts":2147483648})", "body:1:25: nfts is 2147483648"},
      {R"({"operation":"A","high_volume":"true"})", "body:1:32: high_volume is a text"},
      {R"({"operation":"A","scheduled":{"x":1}})", "body:1:31: scheduled has a member 'x'"},
      {R"({"operation":"A","gsa":1})", "body:1:18: the body has a member 'gsa'"},
  };
  for (const auto& [body, message] : cases) {
    const Answer answer = desk.submit(body);
    EXPECT_EQ(answer.status, 400u) << body;
    EXPECT_THAT(detail(answer), StartsWith(std::string(message))) << body;
  }
}

// --- many at once

TEST(ThrottleBatch, DecidesInOrderEachAsIfItCameAlone) {
  ThrottleDesk desk;
  const Answer answer =
      desk.post("/v1/throttle/batch", R"({"submissions":[{"operation":"ContractCall","gas":600},)"
                                      R"({"operation":"ContractCall","gas":600},)"
                                      R"({"operation":"ContractCall","gas":400,"dry_run":true},)"
                                      R"({"operation":"CryptoTransfer","count":10},)"
                                      R"({"operation":"CryptoTransfer"},{"operation":"Juggle"},)"
                                      R"({"operation":"ContractCall","gas":1,"role":"consensus",)"
                                      R"("at_ns":1800000000000000000}]})");
  EXPECT_EQ(answer.status, 200u);
  const boost::json::value said = parsed(answer.body);
  const boost::json::array& results = said.at("results").as_array();
  ASSERT_EQ(results.size(), 7u);
  const auto status = [&](std::size_t i) {
    return std::string(results[i].at("status").as_string());
  };
  EXPECT_EQ(status(0), "OK");
  EXPECT_EQ(results[0].at("claim").as_string(), claim_text(1).substr(1, claim_text(1).size() - 2));
  EXPECT_EQ(status(1), "BUSY");
  EXPECT_EQ(results[1].at("refused_by").as_string(), "gas");
  EXPECT_EQ(status(2), "OK");
  EXPECT_TRUE(results[2].at("claim").is_null()) << "it was only looked at";
  EXPECT_EQ(status(3), "OK");
  EXPECT_EQ(results[4].at("refused_by").as_string(), "Transfers");
  EXPECT_EQ(results[5].at("verdict").as_string(), "never");
  EXPECT_EQ(status(6), "OK");
  EXPECT_EQ(desk.gas("consensus"), 1);
}

TEST(ThrottleBatch, DecidesNothingIfAnyIsWrong) {
  ThrottleDesk desk;
  const std::string good = R"({"submissions":[{"operation":"ContractCall","gas":600},)";
  for (const auto& [rest, says] :
       {std::pair{R"({"gas":1}]})", "'operation' is missing"},
        std::pair{R"({"operation":"ContractCall","role":"consensus"}]})", "'at_ns' is missing"},
        std::pair{
            R"({"operation":"ContractCall","role":"consensus","at_ns":1800000060000000000}]})",
            "at most 10s after the server's clock"},
        std::pair{R"({"operation":"ContractCall","gsa":1}]})", "gsa"},
        std::pair{"7]}", "a submission"}}) {
    const Answer answer = desk.post("/v1/throttle/batch", good + rest);
    EXPECT_EQ(answer.status, 400u) << rest;
    EXPECT_THAT(detail(answer), HasSubstr(says)) << rest;
  }
  EXPECT_THAT(detail(desk.post("/v1/throttle/batch", "{}")), HasSubstr("submissions is missing"));
  EXPECT_EQ(desk.gas("front_end"), 0);
}

TEST(ThrottleBatch, HasABound) {
  ThrottleDesk desk;
  std::string body = R"({"submissions":[)";
  for (std::size_t i = 0; i <= desk.api.settings().batch_max; ++i) {
    body += std::string(i > 0 ? "," : "") + R"({"operation":"CryptoTransfer"})";
  }
  EXPECT_EQ(desk.post("/v1/throttle/batch", body + "]}").status, 413u);
  EXPECT_EQ(desk.used("front_end", 1), 0);
}

// --- claims

TEST(ThrottleClaims, GiveBackUnusedGasWhenSettled) {
  ThrottleDesk desk;
  desk.submit(kCall);
  const std::int64_t used = desk.used("front_end", 0);
  EXPECT_EQ(
      text_at(desk.post("/v1/throttle/settle", R"({"claim":)" + claim_text(1) + R"(,"gas":200})"),
              "state"),
      "settled");
  EXPECT_EQ(desk.gas("front_end"), 200);
  EXPECT_EQ(desk.used("front_end", 0), used) << "the operation was done";
}

TEST(ThrottleClaims, ChargeTheDurationOfAContractAtConsensus) {
  ThrottleDesk desk;
  constexpr std::string_view kCheap =
      R"({"operation":"ContractCall","gas":1,"role":"consensus","at_ns":1800000000000000000})";
  desk.submit(kCheap);
  EXPECT_EQ(desk.post("/v1/throttle/settle",
                      R"({"claim":)" + claim_text(1) + R"(,"gas":1,"duration":500000500})")
                .status,
            200u);
  const boost::json::value levels = parsed(desk.get("/v1/throttle").body);
  EXPECT_EQ(levels.at("consensus").at("duration").at("used").as_int64(), 500'000'500);
  const Answer refused = desk.submit(kCheap);
  EXPECT_EQ(refused.status, 429u);
  EXPECT_EQ(text_at(refused, "status"), "CONSENSUS_GAS_EXHAUSTED");
  EXPECT_EQ(text_at(refused, "refused_by"), "duration");
  EXPECT_EQ(text_at(refused, "shortfall"), "501");
  EXPECT_EQ(text_at(refused, "earliest_ns"), "1800000000000001002");
  EXPECT_EQ(text_at(refused, "claim"), "null");
  const Answer later = desk.submit(
      R"({"operation":"ContractCall","gas":1,"role":"consensus","at_ns":1800000000000001002})");
  EXPECT_EQ(text_at(later, "status"), "OK");
}

TEST(ThrottleClaims, TakeADurationAtConsensusOnly) {
  ThrottleDesk desk;
  desk.submit(kCall);
  const Answer wrong =
      desk.post("/v1/throttle/settle", R"({"claim":)" + claim_text(1) + R"(,"duration":5})");
  EXPECT_EQ(wrong.status, 400u);
  EXPECT_THAT(detail(wrong), HasSubstr("work is counted at consensus; leave it out"));
  EXPECT_EQ(desk.post("/v1/throttle/settle", R"({"claim":)" + claim_text(1) + R"(,"duration":-5})")
                .status,
            400u);
  EXPECT_EQ(
      desk.post("/v1/throttle/cancel", R"({"claim":)" + claim_text(1) + R"(,"duration":5})").status,
      400u);
  EXPECT_EQ(desk.post("/v1/throttle/settle", R"({"claim":)" + claim_text(1) + "}").status, 200u);
}

TEST(ThrottleClaims, KeepTheirGasWhenNoFigureIsGiven) {
  ThrottleDesk desk;
  desk.submit(kCall);
  EXPECT_EQ(desk.post("/v1/throttle/settle", R"({"claim":)" + claim_text(1) + "}").status, 200u);
  EXPECT_EQ(desk.gas("front_end"), 600);
}

TEST(ThrottleClaims, GiveBackEverythingWhenCancelled) {
  ThrottleDesk desk;
  desk.submit(kCall);
  EXPECT_GT(desk.used("front_end", 0), 0);
  EXPECT_EQ(
      text_at(desk.post("/v1/throttle/cancel", R"({"claim":)" + claim_text(1) + "}"), "state"),
      "cancelled");
  EXPECT_EQ(desk.gas("front_end"), 0);
  EXPECT_EQ(desk.used("front_end", 0), 0);
}

TEST(ThrottleClaims, EndOnce) {
  ThrottleDesk desk;
  desk.submit(kCall);
  EXPECT_EQ(desk.post("/v1/throttle/cancel", R"({"claim":)" + claim_text(1) + "}").status, 200u);
  EXPECT_EQ(desk.post("/v1/throttle/cancel", R"({"claim":)" + claim_text(1) + "}").status, 404u);
  EXPECT_EQ(
      desk.post("/v1/throttle/settle", R"({"claim":)" + claim_text(1) + R"(,"gas":0})").status,
      404u);
  EXPECT_EQ(desk.post("/v1/throttle/settle", R"({"claim":99})").status, 400u);
  EXPECT_EQ(desk.post("/v1/throttle/settle", R"({"claim":"00000000000004d2-1"})").status, 404u);
  EXPECT_EQ(desk.post("/v1/throttle/settle", "{}").status, 400u);
  EXPECT_EQ(
      desk.post("/v1/throttle/cancel", R"({"claim":)" + claim_text(1) + R"(,"gas":1})").status,
      400u);
}

// --- levels, snapshots, definitions

TEST(ThrottleLevels, ShowBucketsPercentAndMultipliers) {
  ThrottleDesk desk;
  desk.submit(kCall);
  const boost::json::value all = parsed(desk.get("/v1/throttle").body);
  EXPECT_EQ(all.at("nodes"), 1);
  EXPECT_EQ(all.at("multipliers").at("generic"), 1);
  EXPECT_EQ(all.at("multipliers").at("gas"), 1);
  const auto& calls = all.at("front_end").at("buckets").at(0);
  EXPECT_EQ(calls.at("name"), "Calls");
  EXPECT_EQ(calls.at("percent_used").to_number<double>(), 50.0);
  EXPECT_EQ(all.at("front_end").at("gas").at("percent_used").to_number<double>(), 60.0);
  EXPECT_TRUE(all.at("front_end").at("bytes").is_object());
  EXPECT_TRUE(all.at("consensus").at("bytes").is_null());
}

TEST(ThrottleSnapshots, BringLevelsBackByName) {
  ThrottleDesk desk;
  desk.submit(kConsensusCall);
  const std::string saved = desk.get("/v1/throttle/snapshot").body;
  EXPECT_THAT(saved, HasSubstr(R"("name":"Calls")"));
  ThrottleDesk other;
  const Answer answer = other.ask("PUT", "/v1/throttle/snapshot", saved);
  EXPECT_EQ(answer.body,
            R"({"state":"restored","restored":2,"converted":[],"unknown":[],"missing":[]})");
  EXPECT_EQ(other.get("/v1/throttle/snapshot").body, saved);
  EXPECT_EQ(other.used("consensus", 0), desk.used("consensus", 0));
}

TEST(ThrottleSnapshots, BringLevelsBackByPlace) {
  ThrottleDesk desk;
  desk.submit(kConsensusCall);
  const std::string saved = desk.get("/v1/throttle/snapshot?form=positional").body;
  EXPECT_THAT(saved, StartsWith(R"({"tps":[[)"));
  ThrottleDesk other;
  EXPECT_EQ(text_at(other.ask("PUT", "/v1/throttle/snapshot?form=positional", saved), "state"),
            "restored");
  EXPECT_EQ(other.get("/v1/throttle/snapshot?form=positional").body, saved);
}

TEST(ThrottleSnapshots, AreOfTheFrontEndIfAskedFor) {
  ThrottleDesk desk;
  desk.submit(kCall);
  const std::string saved = desk.get("/v1/throttle/snapshot?role=front_end").body;
  ThrottleDesk other;
  EXPECT_EQ(other.ask("PUT", "/v1/throttle/snapshot?role=front_end", saved).status, 200u);
  EXPECT_EQ(other.gas("front_end"), 600);
  EXPECT_EQ(other.gas("consensus"), 0);
}

TEST(ThrottleSnapshots, ThatAreWrongChangeNothing) {
  ThrottleDesk desk;
  desk.submit(kConsensusCall);
  const std::string before = desk.get("/v1/throttle/snapshot").body;
  EXPECT_EQ(desk.ask("PUT", "/v1/throttle/snapshot", "{").status, 400u);
  EXPECT_EQ(
      desk.ask("PUT", "/v1/throttle/snapshot?form=positional", R"({"tps":[[0,null]]})").status,
      400u);
  EXPECT_EQ(desk.get("/v1/throttle/snapshot?form=square").status, 400u);
  EXPECT_EQ(desk.get("/v1/throttle/snapshot?role=node").status, 400u);
  EXPECT_EQ(desk.get("/v1/throttle/snapshot?role=front_end&form=positional").status, 400u);
  EXPECT_EQ(desk.get("/v1/throttle/snapshot").body, before);
}

TEST(ThrottleSnapshots, OfConsensusTooFarAheadOfTheClockAreRefused) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"", R"({"buckets":[],"gas":[0,1800000010,1]})"},
      {"", R"({"buckets":[],"duration":[0,1800000010,1]})"},
      {"", R"({"buckets":[],"genericStarts":[[1800000010,1],null,null]})"},
      {"", R"({"buckets":[],"clock":[9223372036854775807,0]})"},
      {"?form=positional", R"({"tps":[[0,1800000010,1],[0,null]]})"},
      {"?form=positional", R"({"tps":[[0,null],[0,null]],"gasStarts":[[1800000010,1],null,null]})"},
  };
  ThrottleDesk desk;
  const std::string before = desk.get("/v1/throttle/snapshot").body;
  for (const auto& [form, snapshot] : cases) {
    const Answer answer = desk.ask("PUT", "/v1/throttle/snapshot" + std::string(form), snapshot);
    EXPECT_EQ(answer.status, 400u) << snapshot;
    EXPECT_THAT(detail(answer), HasSubstr("after the server's clock")) << snapshot;
  }
  EXPECT_EQ(desk.get("/v1/throttle/snapshot").body, before);
  EXPECT_EQ(
      desk.ask("PUT", "/v1/throttle/snapshot", R"({"buckets":[],"gas":[0,1800000010,0]})").status,
      200u);
}

TEST(ThrottleDefinitions, AreReplacedWhole) {
  ThrottleDesk desk;
  const Answer answer = desk.ask("PUT", "/v1/throttle/definitions",
                                 R"({"buckets":[{"name":"New","burstPeriod":1,"throttleGroups":[
                                     {"opsPerSec":5,"operations":["Juggle"]}]}]})");
  EXPECT_EQ(text_at(answer, "state"), "replaced");
  EXPECT_EQ(desk.submit(R"({"operation":"Juggle"})").status, 200u);
  EXPECT_EQ(desk.submit(R"({"operation":"CryptoTransfer"})").status, 422u);
}

TEST(ThrottleDefinitions, StayWhenTheNewOnesAreWrong) {
  ThrottleDesk desk;
  desk.submit(kCall);
  const std::string before = desk.get("/v1/throttle").body;
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"", "body:1:1: UNPARSEABLE_THROTTLE_DEFINITIONS"},
      {"{\"buckets\":\n[{\"x\":1}]}", "body:2:3: UNPARSEABLE_THROTTLE_DEFINITIONS"},
      {R"({"buckets":[{"name":"A"}]})", "body:1:13: BUCKET_HAS_NO_THROTTLE_GROUPS"},
      {R"({"buckets":[{"name":"A","throttleGroups":[{"opsPerSec":1,"operations":["X"]},
         {"opsPerSec":2,"operations":["X"]}]}]})",
       "body:2:39: OPERATION_REPEATED_IN_BUCKET_GROUPS"},
  };
  for (const auto& [body, message] : cases) {
    const Answer answer = desk.ask("PUT", "/v1/throttle/definitions", body);
    EXPECT_EQ(answer.status, 400u) << body;
    EXPECT_THAT(detail(answer), StartsWith(std::string(message))) << body;
  }
  EXPECT_EQ(desk.get("/v1/throttle").body, before);
}

}  // namespace
}  // namespace weir::wire::http
