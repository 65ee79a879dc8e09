#include "apps/weir/tour.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "weir/engine/engine.h"
#include "weir/testing/manual_clock.h"

namespace weir::app {
namespace {

using namespace std::chrono_literals;
using engine::Attribute;
using engine::Cost;

constexpr Instant kStart{1'800'000'000'000'000'000};  // 2027-01-15 08:00:00 UTC

engine::RuleSetSpec tour_rules() {
  engine::RuleSetSpec spec;
  spec.units = {{"tokens"}};
  spec.limits = {
      {.name = "per-client",
       .per = {"client"},
       .meter = engine::BucketSpec{.amount = 2, .period = 1s, .burst = 4}},
      {.name = "tokens-per-minute",
       .per = {"client"},
       .unit = "tokens",
       .meter = engine::WindowSpec{.limit = 1000, .every = 1min}},
      {.name = "any-hour", .per = {"client"}, .meter = engine::LogSpec{.limit = 6, .window = 1h}},
      {.name = "running", .meter = engine::SlotsSpec{.limit = 3, .queue = 8, .hold = 30s}},
  };
  return spec;
}

std::string seconds(Duration span) {
  return fmt::format("{:.3f} s", static_cast<double>(span.count()) / 1e9);
}

class Tour {
 public:
  explicit Tour(engine::Engine& engine) : engine_(engine) {}

  Instant now() { return clock_.now(); }
  void pass(Duration span) {
    fmt::print("  ... {} later\n", seconds(span));
    clock_.advance(span);
    engine_.advance(now());
  }

  HoldId ask(std::string_view client, std::int64_t tokens) {
    const Attribute who[] = {{"client", client}};
    const Cost costs[] = {{"tokens", tokens}};
    const auto decision = engine_.decide({.attributes = who, .costs = costs}, now());
    if (!decision) {
      fmt::print("  {:>6} asks for {:>4} tokens: ERROR {}\n", client, tokens,
                 decision.error().message);
      return {};
    }
    fmt::print("  {:>6} asks for {:>4} tokens: {}\n", client, tokens, explain(*decision));
    return decision->hold;
  }

  void finish(HoldId hold, std::string_view client, std::int64_t tokens) {
    const Cost actual[] = {{"tokens", tokens}};
    engine_.settle(hold, actual, now(), [&](const Result<engine::HoldAnswer>& ended) {
      fmt::print("  {:>6} is done and used {:>4} tokens: {}\n", client, tokens,
                 ended ? to_string(ended->state) : "error");
    });
  }

  void wait(std::string_view client, Duration patience) {
    const Attribute who[] = {{"client", client}};
    const engine::Ask ask{.request = {.attributes = who}, .wait_until = now() + patience};
    Waits waits(*this, std::string(client));
    fmt::print("  {:>6} waits up to {}\n", client, seconds(patience));
    engine_.ask({&ask, 1}, now(), waits);
  }

 private:
  // Prints the answer to a client that may wait, now or later.
  class Waits final : public engine::Answers {
   public:
    Waits(Tour& tour, std::string client) : tour_(tour), client_(std::move(client)) {}

    void now(std::size_t, const Result<Decision>& answer) override {
      fmt::print("  {:>6}: {}\n", client_,
                 answer ? tour_.explain(*answer) : answer.error().message);
    }
    engine::LateAnswer later(std::size_t, std::uint64_t) override {
      return [&tour = tour_, client = client_](const Result<Decision>& answer) {
        fmt::print("  {:>6} waited: {}\n", client,
                   answer ? tour.explain(*answer) : answer.error().message);
      };
    }

   private:
    Tour& tour_;
    const std::string client_;
  };

  std::string explain(const Decision& decision) {
    if (decision.allowed()) {
      std::string left;
      for (const Outcome& outcome : decision.outcomes()) {
        left += fmt::format("{}{} {}", left.empty() ? "" : ", ", outcome.limit, outcome.remaining);
      }
      return "allowed; left: " + left;
    }
    const Outcome* binding = decision.binding();
    const std::string when = decision.verdict == Verdict::kNever ? "it will never fit"
                             : decision.earliest == kForever
                                 ? "when something ends"
                                 : "try again in " + seconds(decision.retry_after(now()));
    return fmt::format("{} by {}, {} short; {}", to_string(decision.verdict), binding->limit,
                       decision.shortfall, when);
  }

  engine::Engine& engine_;
  testing::ManualClock clock_{kStart};
};

}  // namespace

int run_tour() {
  const auto rules = engine::compile(tour_rules());
  if (!rules) return fmt::print(stderr, "weir tour: {}\n", rules.error().message), 1;
  auto made = engine::Engine::create(*rules);
  if (!made) return fmt::print(stderr, "weir tour: {}\n", made.error().message), 1;
  Tour tour(**made);

  fmt::print(
      "Four limits, one atomic decision: each client 2 requests a second with a burst of 4, 1000\n"
      "tokens a minute and 6 requests in any hour; and 3 requests running at once, in all.\n"
      "Time is pretended, so this prints the same every time.\n\n"
      "A burst. Every limit must agree, and a refusal takes nothing from any of them:\n");
  const HoldId first = tour.ask("acme", 300);
  const HoldId second = tour.ask("acme", 300);
  tour.ask("acme", 600);
  tour.ask("acme", 2000);
  tour.ask("bolt", 100);
  tour.ask("bolt", 100);

  fmt::print("\nWork ends. The slot comes back, and what was not used of the estimate:\n");
  tour.finish(first, "acme", 120);
  tour.ask("acme", 500);
  tour.finish(second, "acme", 300);

  fmt::print("\nWaiting, first come first served, until a slot is free or the time is up:\n");
  tour.ask("bolt", 100);
  tour.wait("crux", 10s);
  tour.wait("dune", 60s);
  tour.pass(10s);
  tour.pass(20s);

  fmt::print(
      "\nHolds left open had expired, so dune got a slot. The six in any hour slide: the\n"
      "earliest instant at which a request fits is exact, over all limits together.\n");
  for (int i = 0; i < 4; ++i) {
    if (const HoldId hold = tour.ask("acme", 10)) tour.finish(hold, "acme", 10);
  }
  tour.pass(59min + 29s);
  tour.ask("acme", 10);
  tour.pass(1s);
  tour.ask("acme", 10);
  fmt::print("\nNext: examples/embed shows this in your own program.\n");
  return 0;
}

}  // namespace weir::app
