#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/support.h"
#include "weir/engine/engine.h"

namespace weir::engine {
namespace {

// --- which limits apply

RuleSetSpec one_with(std::vector<Condition> when) {
  return {.limits = {{.name = "one", .when = std::move(when), .meter = WindowSpec{1, 1s}}},
          .attributes = {"op", "client"}};
}

bool applies(Engine& engine, const Request& request) {
  return engine.peek(request, kStart)->outcome("one") != nullptr;
}

TEST(When, HoldsForAnEqualValueOnly) {
  auto engine = engine_of(one_with({{"op", {"put"}}}));
  EXPECT_TRUE(applies(*engine, RequestOf({{"op", "put"}})));
  EXPECT_FALSE(applies(*engine, RequestOf({{"op", "putt"}})));
  EXPECT_FALSE(applies(*engine, RequestOf({{"op", "pu"}})));
}

TEST(When, HoldsForAnyOfItsValues) {
  auto engine = engine_of(one_with({{"op", {"put", "post"}}}));
  EXPECT_TRUE(applies(*engine, RequestOf({{"op", "put"}})));
  EXPECT_TRUE(applies(*engine, RequestOf({{"op", "post"}})));
  EXPECT_FALSE(applies(*engine, RequestOf({{"op", "get"}})));
}

TEST(When, HoldsForAGlob) {
  auto engine = engine_of(one_with({{"op", {"p?t", "del*"}}}));
  EXPECT_TRUE(applies(*engine, RequestOf({{"op", "put"}})));
  EXPECT_TRUE(applies(*engine, RequestOf({{"op", "delete"}})));
  EXPECT_FALSE(applies(*engine, RequestOf({{"op", "post"}})));
}

TEST(When, NeedsAllOfItsConditions) {
  auto engine = engine_of(one_with({{"op", {"put"}}, {"client", {"a*"}}}));
  EXPECT_TRUE(applies(*engine, RequestOf({{"op", "put"}, {"client", "acme"}})));
  EXPECT_FALSE(applies(*engine, RequestOf({{"op", "put"}, {"client", "bob"}})));
  EXPECT_FALSE(applies(*engine, RequestOf({{"op", "get"}, {"client", "acme"}})));
}

TEST(When, DoesNotHoldWithoutTheAttributeEvenForAStar) {
  auto engine = engine_of(one_with({{"op", {"*"}}}));
  EXPECT_TRUE(applies(*engine, RequestOf({{"op", ""}})));
  EXPECT_FALSE(applies(*engine, RequestOf()));
}

TEST(Per, LeavesOutRequestsWithoutTheKeyAttribute) {
  auto engine =
      engine_of({.limits = {{.name = "one", .per = {"client"}, .meter = WindowSpec{1, 1s}}}});
  EXPECT_TRUE(applies(*engine, client("")));
  EXPECT_FALSE(applies(*engine, RequestOf()));
}

TEST(Unit, LeavesOutRequestsThatCostNothingInIt) {
  auto engine =
      engine_of({.limits = {{.name = "one", .unit = "tokens", .meter = WindowSpec{1, 1s}}},
                 .units = {{"tokens"}}});
  EXPECT_TRUE(applies(*engine, RequestOf().costing("tokens", 1)));
  EXPECT_FALSE(applies(*engine, RequestOf()));
}

TEST(Unit, IsOneRequestUnlessARequestSaysOtherwise) {
  auto engine =
      engine_of({.limits = {{.name = "one", .meter = WindowSpec{10, 1s}}}, .units = {{"tokens"}}});
  EXPECT_EQ(engine->decide(RequestOf().costing("tokens", 7), kStart)->outcome("one")->cost, 1);
  EXPECT_EQ(engine->decide(RequestOf().costing(5), kStart)->outcome("one")->cost, 5);
  EXPECT_EQ(engine->decide(RequestOf().costing(0), kStart)->outcome("one")->cost, 0);
}

TEST(Unit, IsCountedInMillionthsWhereItIsAMicroUnit) {
  auto engine =
      engine_of({.limits = {{.name = "one", .unit = "pu", .meter = WindowSpec{1'000'000, 1s}}},
                 .units = {{"pu", UnitScale::kMicro}}});
  ASSERT_TRUE(engine->decide(RequestOf().costing("pu", 640'000), kStart)->allowed());
  EXPECT_FALSE(engine->decide(RequestOf().costing("pu", 360'001), kStart)->allowed());
  EXPECT_TRUE(engine->decide(RequestOf().costing("pu", 360'000), kStart)->allowed());
}

TEST(Exempt, LeavesOutRequestsThatMeetAllConditionsOfAGroup) {
  auto engine = engine_of(
      {.limits = {{.name = "one",
                   .exempt = {{{"client", {"root"}}, {"op", {"get"}}}, {{"client", {"probe-*"}}}},
                   .meter = WindowSpec{1, 1s}}}});
  EXPECT_FALSE(applies(*engine, RequestOf({{"client", "root"}, {"op", "get"}})));
  EXPECT_FALSE(applies(*engine, RequestOf({{"client", "probe-7"}})));
  EXPECT_TRUE(applies(*engine, RequestOf({{"client", "root"}, {"op", "put"}})));
  EXPECT_TRUE(applies(*engine, RequestOf({{"client", "root"}})));
  EXPECT_TRUE(applies(*engine, RequestOf()));
}

RuleSetSpec weighed() {
  return {.limits = {{.name = "one",
                      .weigh = {"op", {{"put", 5}, {"ping", 0}}},
                      .meter = WindowSpec{10, 1min}}}};
}

TEST(Weights, MultiplyTheCost) {
  auto engine = engine_of(weighed());
  EXPECT_EQ(engine->decide(RequestOf({{"op", "put"}}).costing(2), kStart)->outcome("one")->cost,
            10);
  EXPECT_EQ(remaining(*engine, "one", {}, kStart), 0);
}

TEST(Weights, AreOneForOtherValuesAndWithoutTheAttribute) {
  auto engine = engine_of(weighed());
  EXPECT_EQ(engine->decide(RequestOf({{"op", "get"}}), kStart)->outcome("one")->cost, 1);
  EXPECT_EQ(engine->decide(RequestOf(), kStart)->outcome("one")->cost, 1);
}

TEST(Weights, OfZeroMakeARequestFree) {
  auto engine = engine_of(weighed());
  ASSERT_TRUE(engine->decide(RequestOf().costing(10), kStart)->allowed());
  EXPECT_TRUE(engine->decide(RequestOf({{"op", "ping"}}), kStart)->allowed());
}

TEST(Weights, MakeARequestImpossibleThatIsHeavierThanTheLimit) {
  auto engine = engine_of(weighed());
  EXPECT_EQ(engine->decide(RequestOf({{"op", "put"}}).costing(3), kStart)->verdict,
            Verdict::kNever);
}

TEST(Engine, AdmitsARequestToWhichNoLimitApplies) {
  auto engine = engine_of(one_with({{"op", {"put"}}}));
  const auto decision = engine->decide(RequestOf({{"op", "get"}}), kStart);
  EXPECT_TRUE(decision->allowed());
  EXPECT_TRUE(decision->outcomes().empty());
  EXPECT_EQ(decision->earliest, kStart);
  EXPECT_FALSE(decision->hold);
}

TEST(Engine, AdmitsEverythingWithoutLimits) {
  auto engine = engine_of({});
  EXPECT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
}

// --- parents

RuleSetSpec family() {
  return {.limits = {{.name = "top", .when = {{"op", {"nothing"}}}, .meter = WindowSpec{4, 1min}},
                     {.name = "team",
                      .when = {{"op", {"nothing"}}},
                      .per = {"team"},
                      .parent = "top",
                      .meter = WindowSpec{3, 1min}},
                     {.name = "user",
                      .per = {"team", "user"},
                      .parent = "team",
                      .meter = WindowSpec{2, 1min}}}};
}

RequestOf member(std::string_view team, std::string_view user) {
  return RequestOf({{"team", team}, {"user", user}});
}

TEST(Parent, IsDrawnOnWithTheGrandparent) {
  auto engine = engine_of(family());
  ASSERT_TRUE(engine->decide(member("red", "ann"), kStart)->allowed());
  EXPECT_EQ(remaining(*engine, "user", {"red", "ann"}, kStart), 1);
  EXPECT_EQ(remaining(*engine, "team", {"red"}, kStart), 2);
  EXPECT_EQ(remaining(*engine, "top", {}, kStart), 3);
}

TEST(Parent, RefusesForAllItsChildrenTogether) {
  auto engine = engine_of(family());
  ASSERT_EQ(admitted(*engine, member("red", "ann"), kStart, 3), 2);
  ASSERT_EQ(admitted(*engine, member("red", "bob"), kStart, 3), 1);
  EXPECT_EQ(engine->decide(member("red", "bob"), kStart)->binding()->limit, "team");
  EXPECT_EQ(remaining(*engine, "user", {"red", "bob"}, kStart), 1);
}

TEST(Parent, IsDrawnOnOnceThoughItAppliesToTheRequestItself) {
  RuleSetSpec spec = family();
  spec.limits[0].when.clear();
  spec.limits[1].when.clear();
  auto engine = engine_of(spec);
  const auto decision = engine->decide(member("red", "ann"), kStart);
  EXPECT_EQ(decision->outcomes().size(), 3u);
  EXPECT_EQ(remaining(*engine, "team", {"red"}, kStart), 2);
  EXPECT_EQ(remaining(*engine, "top", {}, kStart), 3);
}

TEST(Parent, IsDrawnOnOnceByTwoChildrenOfOneRequest) {
  auto engine = engine_of({.limits = {{.name = "a", .parent = "top", .meter = WindowSpec{5, 1s}},
                                      {.name = "b", .parent = "top", .meter = WindowSpec{5, 1s}},
                                      {.name = "top", .meter = WindowSpec{5, 1s}}}});
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  EXPECT_EQ(remaining(*engine, "top", {}, kStart), 4);
}

TEST(Parent, IsNotDrawnOnByAChildThatDoesNotApply) {
  auto engine =
      engine_of({.limits = {{.name = "top", .when = {{"op", {"put"}}}, .meter = WindowSpec{5, 1s}},
                            {.name = "child",
                             .exempt = {{{"op", {"get"}}}},
                             .parent = "top",
                             .meter = WindowSpec{5, 1s}}}});
  ASSERT_TRUE(engine->decide(RequestOf({{"op", "get"}}), kStart)->allowed());
  EXPECT_EQ(remaining(*engine, "top", {}, kStart), 5);
}

// It changes no answer, so it takes nothing that others could have.
TEST(Parent, IsNotDrawnOnByAChildInShadowUnlessItIsTooItself) {
  for (const bool shadow : {false, true}) {
    auto engine = engine_of({.limits = {{.name = "child",
                                         .when = {{"op", {"get"}}},
                                         .shadow = true,
                                         .parent = "top",
                                         .meter = WindowSpec{5, 1s}},
                                        {.name = "top",
                                         .when = {{"op", {"put"}}},
                                         .shadow = shadow,
                                         .meter = WindowSpec{1, 1s}}}});
    for (int i = 0; i < 3; ++i) {
      const auto decision = engine->decide(RequestOf({{"op", "get"}}), kStart);
      ASSERT_TRUE(decision->allowed());
      EXPECT_EQ(decision->outcome("top") != nullptr, shadow);
    }
  }
}

TEST(Parent, IsNotDrawnOnByARequestExemptFromItButTheGrandparentIs) {
  RuleSetSpec spec = family();
  spec.limits[1].exempt = {{{"user", {"ann"}}}};
  auto engine = engine_of(spec);
  ASSERT_TRUE(engine->decide(member("red", "ann"), kStart)->allowed());
  EXPECT_EQ(remaining(*engine, "team", {"red"}, kStart), 3);
  EXPECT_EQ(remaining(*engine, "top", {}, kStart), 3);
}

TEST(Parent, IsReportedInTheOrderOfTheRules) {
  auto engine =
      engine_of({.limits = {{.name = "child", .parent = "top", .meter = WindowSpec{5, 1s}},
                            {.name = "other", .meter = WindowSpec{5, 1s}},
                            {.name = "top", .meter = WindowSpec{5, 1s}}}});
  Texts order;
  const auto decision = engine->decide(RequestOf(), kStart);
  for (const Outcome& row : decision->outcomes()) order.emplace_back(row.limit);
  EXPECT_EQ(order, (Texts{"child", "other", "top"}));
}

// --- outlines

constexpr int kKinds = 40;  // more than a thread remembers

std::string attribute(int kind) { return "attribute-" + std::to_string(kind); }

// A limit for each of many attributes.
RuleSetSpec many_kinds() {
  RuleSetSpec spec;
  for (int kind = 0; kind < kKinds; ++kind) {
    spec.limits.push_back({.name = "limit-" + std::to_string(kind),
                           .per = {attribute(kind)},
                           .meter = WindowSpec{1000, 1h}});
  }
  return spec;
}

TEST(Outline, IsTheSameForEveryKindHoweverManyThereAre) {
  auto engine = engine_of(many_kinds());
  for (int round = 1; round <= 3; ++round) {
    for (int kind = 0; kind < kKinds; ++kind) {
      const auto answer = engine->decide(RequestOf({{attribute(kind), "x"}}), kStart);
      ASSERT_TRUE(answer);
      ASSERT_EQ(answer->outcomes().size(), 1u);
      EXPECT_EQ(answer->outcomes()[0].limit, "limit-" + std::to_string(kind));
      EXPECT_EQ(answer->outcomes()[0].remaining, 1000 - round);
    }
  }
}

TEST(Outline, FindsTheValuesWhereverTheirNamesStand) {
  auto engine = engine_of(
      {.limits = {
           {.name = "pair", .per = {"client", "operation"}, .meter = WindowSpec{1000, 1h}}}});
  ASSERT_TRUE(engine->decide(RequestOf({{"client", "a"}, {"operation", "b"}}), kStart)->allowed());
  ASSERT_TRUE(engine->decide(RequestOf({{"operation", "b"}, {"client", "a"}}), kStart)->allowed());
  ASSERT_TRUE(engine->decide(RequestOf({{"operation", "a"}, {"client", "b"}}), kStart)->allowed());
  EXPECT_EQ(remaining(*engine, "pair", {"a", "b"}, kStart), 998);
  EXPECT_EQ(remaining(*engine, "pair", {"b", "a"}, kStart), 999);
}

// Names that agree in length and in their first eight bytes.
TEST(Outline, TellsSimilarNamesApart) {
  auto engine =
      engine_of({.limits = {{.name = "one", .per = {"attribute-1"}, .meter = WindowSpec{1000, 1h}},
                            {.name = "two", .per = {"attribute-2"}, .meter = WindowSpec{1000, 1h}},
                            {.name = "ab", .per = {"ab"}, .meter = WindowSpec{1000, 1h}},
                            {.name = "aab", .per = {"aab"}, .meter = WindowSpec{1000, 1h}}}});
  for (const std::string_view name : {"attribute-1", "attribute-2", "ab", "aab"}) {
    ASSERT_TRUE(engine->decide(RequestOf({{name, "x"}}), kStart)->allowed());
  }
  for (const std::string_view limit : {"one", "two", "ab", "aab"}) {
    EXPECT_EQ(remaining(*engine, limit, {"x"}, kStart), 999) << limit;
  }
}

TEST(Outline, CountsACostOnlyWhereItIsGiven) {
  auto engine = engine_of(
      {.limits =
           {{.name = "requests", .per = {"client"}, .meter = WindowSpec{1000, 1h}},
            {.name = "bytes", .per = {"client"}, .unit = "bytes", .meter = WindowSpec{1000, 1h}}},
       .units = {{"bytes"}}});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(engine->decide(client("x"), kStart)->outcomes().size(), 1u);
    EXPECT_EQ(engine->decide(client("x").costing("bytes", 30), kStart)->outcomes().size(), 2u);
    EXPECT_EQ(engine->decide(client("x").costing(5).costing("bytes", 7), kStart)->outcomes().size(),
              2u);
  }
  EXPECT_EQ(remaining(*engine, "requests", {"x"}, kStart), 1000 - 2 * (1 + 1 + 5));
  EXPECT_EQ(remaining(*engine, "bytes", {"x"}, kStart), 1000 - 2 * (30 + 7));
}

TEST(Outline, OfAMistakenRequestIsForgotten) {
  auto engine = engine_of(many_kinds());
  for (int round = 1; round <= 3; ++round) {
    for (int kind = 0; kind < kKinds; ++kind) {
      const auto wrong =
          engine->decide(RequestOf({{attribute(kind), "x"}, {"unheard-of", "y"}}), kStart);
      ASSERT_FALSE(wrong);
      EXPECT_NE(wrong.error().message.find("'unheard-of'"), std::string::npos);
      const auto twice =
          engine->decide(RequestOf({{attribute(kind), "x"}, {attribute(kind), "x"}}), kStart);
      ASSERT_FALSE(twice);
      EXPECT_NE(twice.error().message.find("twice"), std::string::npos);
      ASSERT_EQ(
          engine->decide(RequestOf({{attribute(kind), "x"}}), kStart)->outcomes()[0].remaining,
          1000 - round);
    }
  }
}

TEST(Outline, IsWorkedOutAgainUnderNewRules) {
  const auto limit = [](std::string_view name, std::string_view per) {
    return LimitSpec{
        .name = std::string(name), .per = {std::string(per)}, .meter = WindowSpec{1000, 1h}};
  };
  auto engine = engine_of({.limits = {limit("first", "client")}, .attributes = {"operation"}});
  ASSERT_TRUE(engine->decide(client("x"), kStart)->allowed());
  // The attribute's place changes, and another limit reads it.
  ASSERT_TRUE(engine->swap(
      rules_of({.limits = {limit("other", "operation"), limit("second", "client")}}), kStart));
  const auto answer = engine->decide(client("x"), kStart);
  ASSERT_EQ(answer->outcomes().size(), 1u);
  EXPECT_EQ(answer->outcomes()[0].limit, "second");
  ASSERT_TRUE(engine->swap(rules_of({.limits = {limit("other", "operation")}}), kStart));
  EXPECT_FALSE(engine->decide(client("x"), kStart)) << "no limit reads 'client' any more";
}

TEST(Outline, RefusesALongValueAndABadCostEveryTime) {
  auto engine =
      engine_of({.limits = {{.name = "limit", .per = {"client"}, .meter = WindowSpec{1000, 1h}}}});
  const std::string longest(kValueBytesMax, 'x');
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(engine->decide(client(longest), kStart));
    ASSERT_FALSE(engine->decide(client(longest + "x"), kStart));
    ASSERT_TRUE(engine->decide(client("x").costing(1), kStart));
    ASSERT_FALSE(engine->decide(client("x").costing(-1), kStart));
    ASSERT_FALSE(engine->decide(client("x").costing(kTermMax + 1), kStart));
  }
  EXPECT_EQ(remaining(*engine, "limit", {longest}, kStart), 997);
  EXPECT_EQ(remaining(*engine, "limit", {"x"}, kStart), 997);
}

}  // namespace
}  // namespace weir::engine
