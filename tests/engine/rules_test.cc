#include "weir/engine/rule_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/engine/support.h"
#include "weir/engine/gate.h"

namespace weir::engine {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

std::string mistakes_of(const RuleSetSpec& spec) {
  const auto rules = compile(spec);
  if (rules) return "";
  EXPECT_EQ(rules.error().code, ErrorCode::kBadArgument);
  return rules.error().message;
}

LimitSpec fine(std::string name) { return {.name = std::move(name), .meter = WindowSpec{1, 1s}}; }

std::string mistakes_of(LimitSpec limit) { return mistakes_of(RuleSetSpec{.limits = {limit}}); }

std::string mistakes_of(const MeterSpec& meter) {
  return mistakes_of(LimitSpec{.name = "uploads", .meter = meter});
}

std::string text(std::size_t bytes) { return std::string(bytes, 'x'); }

struct NoGate final : Gate {
  meter::Check check(const Request&, Instant now, std::int64_t) override {
    return {Verdict::kAllowed, now, 0};
  }
  Instant fits_from(const Request&, Instant from, std::int64_t) const override { return from; }
  void charge(const Request&, Instant, std::int64_t) override {}
  void end(Instant, const HoldEnd&) override {}
  std::int64_t available(const Request&, Instant) override { return 1; }
  std::int64_t capacity(const Request&) const override { return 1; }
};

// --- every mistake

TEST(Compile, TakesAnOverageFromNothingTo2To62) {
  const auto owing = [](std::int64_t overage) {
    return mistakes_of(
        LimitSpec{.name = "uploads", .overage = overage, .meter = WindowSpec{1, 1s}});
  };
  EXPECT_EQ(owing(0), "");
  EXPECT_EQ(owing(kTermMax), "");
  EXPECT_THAT(owing(-1), HasSubstr("limit 'uploads': overage is -1, but it must be between"));
  EXPECT_THAT(owing(kTermMax + 1), HasSubstr("limit 'uploads': overage is 4611686018427387905"));
}

TEST(Compile, RefusesAnOverageWhereNothingIsOwed) {
  EXPECT_THAT(mistakes_of(LimitSpec{.name = "a", .overage = 1, .meter = SlotsSpec{.limit = 1}}),
              HasSubstr("limit 'a': slots never owe anything; leave out 'overage'"));
  EXPECT_THAT(mistakes_of(LimitSpec{.name = "a", .overage = 1, .meter = GateRef{"g"}}),
              HasSubstr("limit 'a': a gate bounds by itself what it owes; leave out 'overage'"));
}

TEST(Compile, AcceptsNoLimitsAtAll) { EXPECT_EQ(mistakes_of(RuleSetSpec{}), ""); }

TEST(Compile, FindsALimitByName) {
  const auto rules = rules_of({.limits = {fine("a"), fine("b")}});
  ASSERT_NE(rules->find("b"), nullptr);
  EXPECT_EQ(rules->find("b")->name, "b");
  EXPECT_EQ(rules->find("c"), nullptr);
}

struct Mistake {
  std::string name;
  LimitSpec limit;
  std::string says;
};

std::ostream& operator<<(std::ostream& out, const Mistake& mistake) { return out << mistake.name; }

// After a semicolon, an order to follow.
auto says_what_to_write() {
  return ContainsRegex(
      "; (or )?(write|declare|use|give|leave|break|correct|add|narrow|name|draw|count|take|raise|"
      "lower|put|make|choose|split|merge|remove|say)");
}

class CompileMistake : public ::testing::TestWithParam<Mistake> {};

TEST_P(CompileMistake, IsReportedWithTheNameOfTheLimit) {
  const std::string message =
      mistakes_of(RuleSetSpec{.limits = {fine("innocent"), GetParam().limit}});
  EXPECT_THAT(message, HasSubstr("limit '" + GetParam().limit.name + "': "));
  EXPECT_THAT(message, Not(HasSubstr("limit 'innocent': ")));
}

TEST_P(CompileMistake, SaysWhatIsWrongAndWhatToWrite) {
  const std::string message =
      mistakes_of(RuleSetSpec{.limits = {fine("innocent"), GetParam().limit}});
  EXPECT_THAT(message, HasSubstr(GetParam().says));
  EXPECT_THAT(message, says_what_to_write());
}

LimitSpec metered(MeterSpec meter) { return {.name = "uploads", .meter = std::move(meter)}; }

INSTANTIATE_TEST_SUITE_P(
    Limits, CompileMistake,
    ::testing::Values(
        Mistake{"NoMeter", {.name = "uploads"}, "amount is 0"},
        Mistake{"ZeroRate", metered(BucketSpec{0, 1s, 5}), "amount is 0"},
        Mistake{"NegativeRate", metered(BucketSpec{-1, 1s, 5}), "amount is -1"},
        Mistake{"ZeroPeriod", metered(BucketSpec{1, 0s}), "period is 0"},
        Mistake{"NegativePeriod", metered(BucketSpec{1, -1s}), "period is -"},
        Mistake{"NegativeBurst", metered(BucketSpec{1, 1s, -1}), "burst is -1"},
        Mistake{"RateTooLarge", metered(BucketSpec{kTermMax + 1, 1s, 1}), "2^62"},
        Mistake{"BurstTooLarge", metered(BucketSpec{1, 1ns, kTermMax + 1}), "2^62"},
        Mistake{"BurstTooSlow", metered(BucketSpec{1, 1h, kTermMax}), "exact arithmetic"},
        Mistake{"ZeroTicks", metered(TickerSpec{.per_tick = 0, .interval = 1s}), "gains 0"},
        Mistake{"NegativeTicks", metered(TickerSpec{.per_tick = -1, .interval = 1s}), "gains -1"},
        Mistake{"ZeroInterval", metered(TickerSpec{.interval = 0s}), "interval is 0"},
        Mistake{"SmallTickerBurst", metered(TickerSpec{.per_tick = 5, .interval = 1s, .burst = 4}),
                "burst is 4"},
        Mistake{"NegativeWindow", metered(WindowSpec{-1, 1s}), "limit is -1"},
        Mistake{"WindowTooLarge", metered(WindowSpec{kTermMax + 1, 1s}), "2^62"},
        Mistake{"ZeroWindowLength", metered(WindowSpec{1, 0s}), "length is 0"},
        Mistake{"NegativeCalendar", metered(CalendarSpec{-1}), "limit is -1"},
        Mistake{"NegativeLog", metered(LogSpec{-1, 1s}), "limit is -1"},
        Mistake{"LogTooLarge", metered(LogSpec{kTermMax + 1, 1s}), "2^62"},
        Mistake{"ZeroLogWindow", metered(LogSpec{1, 0s}), "window is 0"},
        Mistake{"LogWindowTooLong", metered(LogSpec{1, Duration{kTermMax / 2 + 1}}), "2^61"},
        Mistake{"NegativeSlots", metered(SlotsSpec{.limit = -1}), "limit is -1"},
        Mistake{"NegativeSlotsQueue", metered(SlotsSpec{.limit = 1, .queue = -1}), "queue is -1"},
        Mistake{"SlotsQueueTooLong", metered(SlotsSpec{.limit = 1, .queue = (1LL << 31) + 1}),
                "2^31"},
        Mistake{"ZeroSlotsHold", metered(SlotsSpec{.limit = 1, .hold = 0s}), "hold is 0"},
        Mistake{"MissingGate", metered(std::shared_ptr<Gate>{}), "gate is missing"},
        Mistake{"GateWithKey",
                {.name = "uploads", .per = {"client"}, .meter = std::make_shared<NoGate>()},
                "no key"},
        Mistake{"LongName", fine(text(kNameBytesMax + 1)), "129 bytes"},
        Mistake{"NoName", fine(""), "0 bytes"},
        Mistake{"UnknownUnit",
                {.name = "uploads", .unit = "pints", .meter = WindowSpec{1, 1s}},
                "unit 'pints' is unknown"},
        Mistake{"NoPatterns",
                {.name = "uploads", .when = {{"op", {}}}, .meter = WindowSpec{1, 1s}},
                "0 patterns"},
        Mistake{"NoAttributeName",
                {.name = "uploads", .when = {{"", {"x"}}}, .meter = WindowSpec{1, 1s}},
                "0 bytes"},
        Mistake{"LongAttributeName",
                {.name = "uploads", .per = {text(kNameBytesMax + 1)}, .meter = WindowSpec{1, 1s}},
                "129 bytes"},
        Mistake{"KeyTwice",
                {.name = "uploads", .per = {"client", "client"}, .meter = WindowSpec{1, 1s}},
                "twice"},
        Mistake{"EmptyExemption",
                {.name = "uploads", .exempt = {{}}, .meter = WindowSpec{1, 1s}},
                "no condition"},
        Mistake{"NegativeWeight",
                {.name = "uploads", .weigh = {"op", {{"put", -1}}}, .meter = WindowSpec{1, 1s}},
                "weight of 'put' is -1"},
        Mistake{"WeightTooLarge",
                {.name = "uploads",
                 .weigh = {"op", {{"put", kWeightMax + 1}}},
                 .meter = WindowSpec{1, 1s}},
                "2^32"},
        Mistake{"WeightTwice",
                {.name = "uploads",
                 .weigh = {"op", {{"put", 1}, {"put", 2}}},
                 .meter = WindowSpec{1, 1s}},
                "given twice"},
        Mistake{"WeightsOfNoAttribute",
                {.name = "uploads", .weigh = {"", {{"put", 2}}}, .meter = WindowSpec{1, 1s}},
                "attribute"},
        Mistake{"UnknownParent",
                {.name = "uploads", .parent = "nobody", .meter = WindowSpec{1, 1s}},
                "parent 'nobody'"},
        Mistake{"OwnParent",
                {.name = "uploads", .parent = "uploads", .meter = WindowSpec{1, 1s}},
                "own ancestor"},
        Mistake{"NegativeQueue",
                {.name = "uploads", .queue_max = -1, .meter = WindowSpec{1, 1s}},
                "queue_max is -1"}),
    [](const auto& tested) { return tested.param.name; });

TEST(Compile, ReportsAllMistakesOfASpecificationInOneErrorALineEach) {
  const std::string message =
      mistakes_of({.limits = {{.name = "a", .unit = "pints", .meter = WindowSpec{1, 1s}},
                              fine("b"),
                              {.name = "c", .queue_max = -1, .meter = BucketSpec{0, 1s}}},
                   .units = {{"tokens"}, {"tokens"}}});
  EXPECT_THAT(message, HasSubstr("units: unit 'tokens' is declared twice"));
  EXPECT_THAT(message, HasSubstr("\nlimit 'a': unit 'pints'"));
  EXPECT_THAT(message, HasSubstr("\nlimit 'c': queue_max"));
  EXPECT_THAT(message, HasSubstr("\nlimit 'c': rate amount"));
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 3);
}

TEST(Compile, RefusesTwoLimitsOfOneName) {
  EXPECT_THAT(mistakes_of({.limits = {fine("uploads"), fine("uploads")}}),
              HasSubstr("limit 'uploads': the name is used twice"));
}

TEST(Compile, FindsACircleOfParents) {
  const std::string message =
      mistakes_of({.limits = {{.name = "a", .parent = "b", .meter = WindowSpec{1, 1s}},
                              {.name = "b", .parent = "c", .meter = WindowSpec{1, 1s}},
                              {.name = "c", .parent = "a", .meter = WindowSpec{1, 1s}}}});
  EXPECT_THAT(message, HasSubstr("limit 'a': it is its own ancestor"));
}

TEST(Compile, WantsAParentToBeKeyedByWhatItsChildReads) {
  const LimitSpec parent{.name = "team", .per = {"team"}, .meter = WindowSpec{1, 1s}};
  LimitSpec child{.name = "user", .per = {"user"}, .parent = "team", .meter = WindowSpec{1, 1s}};
  EXPECT_THAT(mistakes_of({.limits = {parent, child}}),
              HasSubstr("limit 'user': its parent 'team' has a key for each 'team'"));
  child.per.push_back("team");
  EXPECT_EQ(mistakes_of({.limits = {parent, child}}), "");
}

TEST(Compile, WantsAParentToCountTheUnitOfItsChild) {
  EXPECT_THAT(
      mistakes_of({.limits = {{.name = "top", .unit = "tokens", .meter = WindowSpec{1, 1s}},
                              {.name = "child", .parent = "top", .meter = WindowSpec{1, 1s}}},
                   .units = {{"tokens"}}}),
      HasSubstr("limit 'child': "));
}

TEST(Compile, RefusesOneGateForTwoLimits) {
  const auto gate = std::make_shared<NoGate>();
  EXPECT_THAT(mistakes_of({.limits = {{.name = "a", .meter = gate}, {.name = "b", .meter = gate}}}),
              HasSubstr("limit 'b': its gate is already used by limit 'a'"));
}

TEST(Compile, BindsAGateByItsName) {
  const auto gate = std::make_shared<NoGate>();
  const RuleSetSpec spec{.limits = {{.name = "a", .meter = GateRef{"tolls"}},
                                    {.name = "b", .meter = WindowSpec{1, 1s}}}};
  const auto rules = compile(spec, {{"tolls", gate}});
  ASSERT_TRUE(rules.ok()) << rules.error().message;
  EXPECT_EQ((*rules)->find("a")->gate, gate);
  EXPECT_EQ((*rules)->find("b")->gate, nullptr);
}

TEST(Compile, NamesEachLimitWhoseGateIsNotThere) {
  const RuleSetSpec spec{.limits = {{.name = "a", .meter = GateRef{"tolls"}},
                                    {.name = "b", .meter = GateRef{"doors"}}}};
  const auto rules = compile(spec);
  ASSERT_FALSE(rules.ok());
  EXPECT_THAT(rules.error().message, HasSubstr("limit 'a': its gate 'tolls' is not there"));
  EXPECT_THAT(rules.error().message, HasSubstr("\nlimit 'b': its gate 'doors' is not there"));
}

TEST(Compile, RefusesOneGateForTwoLimitsUnderWhateverNames) {
  const RuleSetSpec same{
      .limits = {{.name = "a", .meter = GateRef{"t"}}, {.name = "b", .meter = GateRef{"t"}}}};
  EXPECT_THAT(compile_unbound(same).error().message,
              HasSubstr("limit 'b': its gate is already used by limit 'a'"));
  const auto gate = std::make_shared<NoGate>();
  const RuleSetSpec two{
      .limits = {{.name = "a", .meter = GateRef{"t"}}, {.name = "b", .meter = GateRef{"u"}}}};
  EXPECT_THAT(compile(two, {{"t", gate}, {"u", gate}}).error().message,
              HasSubstr("limit 'b': its gate is already used by limit 'a'"));
}

TEST(Compile, FindsMistakesBeforeThereAreGates) {
  const RuleSetSpec spec{.limits = {{.name = "a", .per = {"client"}, .meter = GateRef{"tolls"}}}};
  EXPECT_THAT(compile_unbound(spec).error().message, HasSubstr("limit 'a': a gate has no key"));
}

TEST(Compile, RefusesAUnitDeclaredTwice) {
  EXPECT_THAT(mistakes_of({.units = {{"tokens"}, {"tokens"}}}), HasSubstr("'tokens'"));
}

// --- bounds, at the bound and one beyond

RuleSetSpec limits(std::size_t count) {
  RuleSetSpec spec;
  for (std::size_t i = 0; i < count; ++i) {
    // No request meets more than one of them.
    spec.limits.push_back({.name = "limit-" + std::to_string(i),
                           .when = {{"n", {std::to_string(i)}}},
                           .meter = WindowSpec{1, 1s}});
  }
  return spec;
}

TEST(Compile, AcceptsAsManyLimitsAsThereMayBeAndNoMore) {
  EXPECT_EQ(mistakes_of(limits(kLimitsMax)), "");
  EXPECT_THAT(mistakes_of(limits(kLimitsMax + 1)), HasSubstr("1025"));
}

TEST(Compile, MakesRulesOfAllLimitsThatThereMayBe) {
  auto engine = engine_of(limits(kLimitsMax));
  EXPECT_EQ(admitted(*engine, RequestOf({{"n", "1023"}}), kStart, 2), 1);
}

TEST(Compile, AcceptsAsManyAttributesAsThereMayBeAndNoMore) {
  LimitSpec limit = fine("uploads");
  for (std::size_t i = 0; i < kAttributesMax; ++i) {
    limit.when.push_back({"a" + std::to_string(i), {"x"}});
  }
  EXPECT_EQ(mistakes_of(limit), "");
  limit.when.push_back({"one-more", {"x"}});
  EXPECT_THAT(mistakes_of(limit), HasSubstr("limit 'uploads': attribute 'one-more'"));
}

TEST(Compile, AcceptsAKeyOfAsManyAttributesAsItMayHaveAndNoMore) {
  LimitSpec limit = fine("uploads");
  for (std::size_t i = 0; i < kKeyAttributesMax; ++i) limit.per.push_back("a" + std::to_string(i));
  EXPECT_EQ(mistakes_of(limit), "");
  limit.per.push_back("one-more");
  EXPECT_THAT(mistakes_of(limit), HasSubstr("limit 'uploads': its key has 9 attributes"));
}

TEST(Compile, CountsDeclaredAttributesToo) {
  RuleSetSpec spec{.limits = {{.name = "uploads", .per = {"a0"}, .meter = WindowSpec{1, 1s}}}};
  for (std::size_t i = 0; i < kAttributesMax; ++i) {
    spec.attributes.push_back("a" + std::to_string(i));
  }
  EXPECT_EQ(mistakes_of(spec), "");
  spec.limits[0].per = {"one-more"};
  EXPECT_THAT(mistakes_of(spec), HasSubstr("limit 'uploads': attribute 'one-more'"));
}

TEST(Compile, AcceptsAsManyUnitsAsThereMayBeAndNoMore) {
  RuleSetSpec spec;
  for (std::size_t i = 1; i < kUnitsMax; ++i) spec.units.push_back({"u" + std::to_string(i)});
  EXPECT_EQ(mistakes_of(spec), "");  // `requests` is one of them
  spec.units.push_back({"one-more"});
  EXPECT_THAT(mistakes_of(spec), HasSubstr("64 units"));
}

TEST(Compile, AcceptsNamesAsLongAsTheyMayBe) {
  EXPECT_EQ(mistakes_of(fine(text(kNameBytesMax))), "");
  LimitSpec limit = fine("uploads");
  limit.per = {text(kNameBytesMax)};
  EXPECT_EQ(mistakes_of(limit), "");
}

TEST(Compile, AcceptsUnitNamesAsLongAsTheyMayBeAndNoLonger) {
  EXPECT_EQ(mistakes_of({.units = {{text(kNameBytesMax)}}}), "");
  EXPECT_THAT(mistakes_of({.units = {{text(kNameBytesMax + 1)}}}), HasSubstr("129 bytes"));
}

TEST(Compile, AcceptsAsManyPatternsAsThereMayBeAndNoMore) {
  LimitSpec limit = fine("uploads");
  limit.when = {{"op", {}}};
  for (std::size_t i = 0; i < kPatternsMax; ++i) limit.when[0].patterns.push_back(text(i % 9 + 1));
  EXPECT_EQ(mistakes_of(limit), "");
  limit.when[0].patterns.push_back("x");
  EXPECT_THAT(mistakes_of(limit), HasSubstr("4097 patterns"));
}

TEST(Compile, AcceptsAsManyWeightsAsThereMayBeAndNoMore) {
  LimitSpec limit = fine("uploads");
  limit.weigh.attribute = "op";
  for (std::size_t i = 0; i < kPatternsMax; ++i)
    limit.weigh.table.push_back({std::to_string(i), 2});
  EXPECT_EQ(mistakes_of(limit), "");
  limit.weigh.table.push_back({"one more", 2});
  EXPECT_THAT(mistakes_of(limit), HasSubstr("4097 values"));
}

TEST(Compile, AcceptsWeightsFromZeroToTheLargest) {
  LimitSpec limit = fine("uploads");
  limit.weigh = {"op", {{"none", 0}, {"most", kWeightMax}}};
  EXPECT_EQ(mistakes_of(limit), "");
}

TEST(Compile, AcceptsAQueueOfNobody) {
  LimitSpec limit = fine("uploads");
  limit.queue_max = 0;
  EXPECT_EQ(mistakes_of(limit), "");
}

TEST(Compile, AcceptsTheLargestLimitsThatExactArithmeticCovers) {
  EXPECT_EQ(mistakes_of(WindowSpec{kTermMax, Duration{kTermMax}}), "");
  EXPECT_EQ(mistakes_of(LogSpec{kTermMax, Duration{kTermMax / 2}}), "");
  EXPECT_EQ(mistakes_of(SlotsSpec{.limit = kTermMax, .queue = 1LL << 31}), "");
  EXPECT_EQ(mistakes_of(BucketSpec{kTermMax, 1ns, kTermMax}), "");
  EXPECT_EQ(mistakes_of(BucketSpec{1, 1ns, kTermMax - 1}), "");
}

// --- bad requests

RuleSetSpec costly() {
  return {.limits = {{.name = "tokens",
                      .per = {"client"},
                      .unit = "tokens",
                      .weigh = {"op", {{"put", kWeightMax}}},
                      .meter = WindowSpec{100, 1h}},
                     {.name = "requests", .meter = WindowSpec{100, 1h}}},
          .units = {{"tokens"}}};
}

// Asks in every way, and expects an error that says `says` and what to write instead.
void expect_error(Engine& engine, const Request& request, const std::string& says) {
  const auto answer = engine.decide(request, kStart);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kBadArgument);
  EXPECT_THAT(answer.error().message, HasSubstr(says));
  EXPECT_THAT(answer.error().message, says_what_to_write());
  EXPECT_FALSE(engine.peek(request, kStart));
  EXPECT_FALSE(engine.prepare(request));
  EXPECT_FALSE(engine::acquire(engine, request, {.hold = 1s}, kStart));
  EXPECT_FALSE(engine::wait(engine, request, {.deadline = kForever}, kStart, nullptr));
  std::vector<Result<Decision>> answers(1, Result<Decision>(std::in_place));
  engine.decide({&request, 1}, kStart, answers);
  EXPECT_FALSE(answers[0]);
  EXPECT_EQ(engine.usage().holds, 0u);
  EXPECT_EQ(engine.usage().waiters, 0u);
}

// The same of costly(), where nothing must be charged.
void expect_bad(const Request& request, const std::string& says) {
  auto engine = engine_of(costly());
  ASSERT_TRUE(engine->decide(client("acme").costing("tokens", 1), kStart)->allowed());
  expect_error(*engine, request, says);
  EXPECT_EQ(remaining(*engine, "tokens", {"acme"}, kStart), 99);
  EXPECT_EQ(remaining(*engine, "requests", {}, kStart), 99);
}

TEST(BadRequest, NamesAnUnknownUnit) {
  expect_bad(client("acme").costing("pints", 1),
             "unit 'pints' is unknown; known are requests, tokens");
}

TEST(BadRequest, NamesAnUnknownAttribute) {
  expect_bad(RequestOf({{"client", "acme"}, {"colour", "red"}}), "attribute 'colour'");
}

TEST(BadRequest, NamesAnAttributeGivenTwice) {
  expect_bad(RequestOf({{"client", "acme"}, {"client", "acme"}}), "'client' is given twice");
}

TEST(BadRequest, NamesACostGivenTwice) {
  RequestOf ask({{"client", "acme"}});
  ask.costing("tokens", 1).costing("tokens", 1);
  expect_bad(ask, "'tokens' is given twice");
}

TEST(BadRequest, NamesANegativeCost) {
  expect_bad(client("acme").costing("tokens", -1), "limit 'tokens': the cost in 'tokens' is -1");
  expect_bad(client("acme").costing("tokens", std::numeric_limits<std::int64_t>::min()),
             "'tokens' is -9223372036854775808");
}

TEST(BadRequest, NamesACostTooLargeForExactArithmetic) {
  expect_bad(client("acme").costing("tokens", kTermMax + 1), "'tokens' is 4611686018427387905");
  expect_bad(client("acme").costing("tokens", kMost), "2^62");
}

TEST(BadRequest, NamesTheLimitWhoseWeightMakesACostTooLarge) {
  RequestOf ask({{"client", "acme"}, {"op", "put"}});
  ask.costing("tokens", (std::int64_t{1} << 30) + 1);
  expect_bad(ask, "limit 'tokens': a cost of 1073741825 times a weight of 4294967296");
}

TEST(BadRequest, IsNotOneThatCostsAllThatExactArithmeticCovers) {
  auto engine = engine_of(costly());
  EXPECT_EQ(engine->decide(client("acme").costing("tokens", kTermMax), kStart)->verdict,
            Verdict::kNever);
  RequestOf ask({{"client", "acme"}, {"op", "put"}});
  ask.costing("tokens", std::int64_t{1} << 30);
  EXPECT_EQ(engine->decide(ask, kStart)->verdict, Verdict::kNever);
}

TEST(BadRequest, NamesAnAttributeWhoseValueIsTooLong) {
  expect_bad(client(text(kValueBytesMax + 1)), "attribute 'client' is 513 bytes");
}

TEST(BadRequest, IsNotOneWhoseValueIsAsLongAsItMayBe) {
  auto engine = engine_of(costly());
  EXPECT_TRUE(engine->decide(client(text(kValueBytesMax)), kStart)->allowed());
}

TEST(BadRequest, NamesTheLimitItMeetsWhereOthersCountTheSameUnit) {
  const auto tokens_of = [](std::string name, std::string op) {
    return LimitSpec{.name = std::move(name),
                     .when = {{"op", {std::move(op)}}},
                     .unit = "tokens",
                     .meter = WindowSpec{100, 1h}};
  };
  auto engine = engine_of(
      {.limits = {tokens_of("gets", "get"), tokens_of("puts", "put")}, .units = {{"tokens"}}});
  expect_error(*engine, RequestOf({{"op", "put"}}).costing("tokens", -1),
               "limit 'puts': the cost in");
  expect_error(*engine, RequestOf({{"op", "delete"}}).costing("tokens", -1),
               "request: the cost in");
}

RuleSetSpec on_every_request(std::size_t count) {
  RuleSetSpec spec;
  for (std::size_t i = 0; i < count; ++i) {
    spec.limits.push_back({.name = "limit-" + std::to_string(i), .meter = WindowSpec{1, 1h}});
  }
  return spec;
}

TEST(BadRequest, IsNotOneThatMeetsAsManyLimitsAsItMay) {
  auto engine = engine_of(on_every_request(kLimitsPerRequestMax));
  EXPECT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  EXPECT_EQ(engine->decide(RequestOf(), kStart)->verdict, Verdict::kDenied);
}

TEST(BadRequest, NamesTheLimitThatIsOneTooMany) {
  auto engine = engine_of(on_every_request(kLimitsPerRequestMax + 1));
  expect_error(*engine, RequestOf(), "limit 'limit-16': ");
  EXPECT_EQ(engine->usage().keys, 0u);
}

TEST(BadRequest, IsOneThatMeetsAHundredLimits) {
  auto engine = engine_of(on_every_request(100));
  expect_error(*engine, RequestOf(), "limit 'limit-16': ");
  EXPECT_EQ(engine->usage().keys, 0u);
}

TEST(BadRequest, CountsParentsAmongTheLimitsItMeets) {
  RuleSetSpec spec = on_every_request(kLimitsPerRequestMax);
  spec.limits[15].parent = "top";
  spec.limits.push_back({.name = "top", .when = {{"op", {"x"}}}, .meter = WindowSpec{1, 1h}});
  auto engine = engine_of(spec);
  EXPECT_FALSE(engine->decide(RequestOf(), kStart));
  EXPECT_EQ(engine->usage().keys, 0u);
}

TEST(BadRequest, HoldsForNoNegativeTime) {
  auto engine = engine_of(costly());
  EXPECT_FALSE(engine::acquire(*engine, client("acme"), {.hold = -1ns}, kStart));
  EXPECT_FALSE(
      engine::acquire(*engine, client("acme"), {.hold = Duration{kTermMax / 2 + 1}}, kStart));
  EXPECT_EQ(engine->usage().keys, 0u);
  EXPECT_TRUE(engine::acquire(*engine, client("acme"), {.hold = Duration{kTermMax / 2}}, kStart)
                  ->allowed());
}

}  // namespace
}  // namespace weir::engine
