#include "weir/engine/internal/outline.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/engine/support.h"

namespace weir::engine {
namespace {

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
