#include "weir/engine/ask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/engine/support.h"
#include "weir/engine/ad_hoc.h"

namespace weir::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Keeps what it is told, as a line each.
class Lines final : public DecisionSink {
 public:
  void record(const Ask& ask, Instant, const Decision& decision) noexcept override {
    lines.push_back(std::string(ask.request.attributes[0].value) + " " +
                    std::string(to_string(decision.verdict)));
  }
  void record_ad_hoc(const AdHocAsk& ask, Instant, bool allowed) noexcept override {
    lines.push_back(std::string(ask.key) + (allowed ? " allowed" : " denied"));
  }

  std::vector<std::string> lines;
};

struct DecisionSinkTest : ::testing::Test {
  DecisionSinkTest() {
    EngineOptions options;
    options.sink = &sink;
    engine = engine_of({.limits = {{.name = "slots",
                                    .per = {"client"},
                                    .meter = SlotsSpec{.limit = 1, .queue = 4}}}},
                       options);
  }
  void ask(const Request& request, Ask rest = {}) {
    rest.request = request;
    engine::ask(*engine, rest, kStart, [](const Result<Decision>&) {});
  }

  Lines sink;
  std::unique_ptr<Engine> engine;
};

TEST_F(DecisionSinkTest, IsToldOfEveryAskThatIsDecided) {
  ask(client("a"));
  ask(client("a"));
  ask(client("b"), {.hold = 1s});
  EXPECT_THAT(sink.lines, ElementsAre("a allowed", "a denied", "b allowed"));
}

TEST_F(DecisionSinkTest, IsNotToldOfPeeksAndErrors) {
  ask(client("a"), {.is_peek = true});
  ask(client("a").costing("no-such-unit", 1));
  ask(client("a"), {.hold = -1s});
  EXPECT_THAT(sink.lines, IsEmpty());
}

TEST_F(DecisionSinkTest, IsToldOnceOfOneThatWaits) {
  ask(client("a"), {.hold = 1s});
  ask(client("a"), {.wait_until = kStart + 1min});
  engine->advance(kStart + 1s);
  EXPECT_THAT(sink.lines, ElementsAre("a allowed", "a queued"));
}

TEST_F(DecisionSinkTest, IsToldOfBucketsWhoseParametersCome) {
  AdHoc buckets(*engine);
  const meter::BucketShape shape = *meter::make_bucket(1, 1s, 1);
  ASSERT_TRUE(buckets.take(buckets.key("k"), shape, 1, kStart));
  ASSERT_TRUE(buckets.take(buckets.key("k"), shape, 1, kStart));
  EXPECT_THAT(sink.lines, ElementsAre("k allowed", "k denied"));
}

}  // namespace
}  // namespace weir::engine
