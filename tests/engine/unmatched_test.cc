// Requests that meet no limit because no limit reads what they carry.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/engine/support.h"
#include "weir/engine/engine.h"

namespace weir::engine {
namespace {

RuleSetSpec per_client(Unmatched unmatched) {
  return {.limits = {{.name = "rate",
                      .when = {{"operation", {"put"}}},
                      .per = {"client"},
                      .exempt = {{{"client", {"internal"}}}},
                      .meter = WindowSpec{9, 1h}}},
          .attributes = {"region"},
          .unmatched = unmatched};
}
RequestOf put(std::string_view who) { return RequestOf({{"client", who}, {"operation", "put"}}); }

// Every way to ask, with the same request.
std::vector<Result<Decision>> answers_of(Engine& engine, const Request& request) {
  std::vector<Result<Decision>> answers;
  answers.push_back(engine.decide(request, kStart));
  auto prepared = engine.prepare(request);
  answers.push_back(engine.decide(*prepared, kStart));
  std::vector<Result<Decision>> batch(2, Result<Decision>(std::in_place));
  engine.decide(std::vector<Request>(2, request), kStart, batch);
  answers.insert(answers.end(), batch.begin(), batch.end());
  answers.push_back(engine::acquire(engine, request, {.hold = 1s}, kStart));
  engine::ask(engine, {.request = request, .wait_until = kStart + 1min}, kStart,
              [&](const Result<Decision>& answer) { answers.push_back(answer); });
  return answers;
}

TEST(Unmatched, RequestsAreAdmittedAndCountedUnlessTheRulesSayOtherwise) {
  auto engine = engine_of(per_client(Unmatched::kAllow));
  const auto answers = answers_of(*engine, RequestOf({{"region", "eu"}}));
  for (const auto& answer : answers) EXPECT_TRUE(answer->allowed());
  EXPECT_TRUE(answers[4]->hold);
  EXPECT_EQ(engine->counts().unmatched, answers.size());
}

TEST(Unmatched, RequestsAreDeniedByNoLimit) {
  auto engine = engine_of(per_client(Unmatched::kDeny));
  const auto answers = answers_of(*engine, RequestOf());
  for (const auto& answer : answers) {
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    EXPECT_EQ(answer->verdict, Verdict::kDenied);
    EXPECT_EQ(answer->binding(), nullptr);
    EXPECT_TRUE(answer->outcomes().empty());
    EXPECT_EQ(answer->earliest, kForever);
    EXPECT_FALSE(answer->hold);
  }
  EXPECT_EQ(engine->counts().unmatched, answers.size());
}

TEST(Unmatched, RequestsAreAnErrorThatSaysWhatLimitsRead) {
  auto engine = engine_of(per_client(Unmatched::kError));
  const auto answers = answers_of(*engine, RequestOf({{"client", "acme"}}));
  for (const auto& answer : answers) {
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.error().code, ErrorCode::kUnmatched);
    EXPECT_NE(answer.error().message.find("operation, client"), std::string::npos)
        << answer.error().message;
  }
  EXPECT_EQ(engine->counts().unmatched, answers.size());
}

TEST(Unmatched, IsNoRequestWhoseValuesALimitDoesNotMeanOrExempts) {
  auto engine = engine_of(per_client(Unmatched::kError));
  EXPECT_TRUE(engine->decide(put("internal"), kStart)->allowed());
  EXPECT_TRUE(
      engine->decide(RequestOf({{"client", "acme"}, {"operation", "get"}}), kStart)->allowed());
  EXPECT_TRUE(engine->decide(put("acme"), kStart)->allowed());
  EXPECT_EQ(engine->counts().unmatched, 0u);
}

TEST(Unmatched, PeeksAreAnsweredAlikeAndNotCounted) {
  auto engine = engine_of(per_client(Unmatched::kDeny));
  EXPECT_EQ(engine->peek(RequestOf(), kStart)->verdict, Verdict::kDenied);
  EXPECT_EQ(engine->counts().unmatched, 0u);
}

TEST(Unmatched, RequestsAreAnsweredByTheRulesInForce) {
  auto engine = engine_of(per_client(Unmatched::kAllow));
  auto prepared = engine->prepare(RequestOf());
  EXPECT_TRUE(engine->decide(*prepared, kStart)->allowed());
  ASSERT_TRUE(engine->swap(rules_of(per_client(Unmatched::kDeny)), kStart));
  EXPECT_FALSE(engine->decide(*prepared, kStart)->allowed());
  EXPECT_FALSE(engine->decide(RequestOf(), kStart)->allowed());
  RuleSetSpec for_all = per_client(Unmatched::kDeny);
  for_all.limits.push_back({.name = "all", .meter = WindowSpec{9, 1h}});
  ASSERT_TRUE(engine->swap(rules_of(for_all), kStart));
  EXPECT_TRUE(engine->decide(*prepared, kStart)->allowed());
}

TEST(Unmatched, IsNoBucketAdHoc) {
  auto engine = engine_of(per_client(Unmatched::kError));
  const auto shape = std::get<meter::BucketShape>(*make_shape(BucketSpec{1, 1s}));
  AdHoc ad_hoc(*engine);
  EXPECT_TRUE(ad_hoc.take(ad_hoc.key("x"), shape, 1, kStart).ok());
}

}  // namespace
}  // namespace weir::engine
