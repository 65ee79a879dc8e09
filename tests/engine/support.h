// What the engine tests share: engines made of a specification, requests that own
// their texts, and an inbox for the answers of waiters.
//
// Every engine gets the same secret unless a test gives it another one, so a
// failure repeats.

#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/on_stack.h"
#include "tests/support/print.h"
#include "weir/base/decision.h"
#include "weir/base/time.h"
#include "weir/engine/ad_hoc.h"
#include "weir/engine/engine.h"
#include "weir/engine/state.h"

namespace weir::engine {

inline std::ostream& operator<<(std::ostream& out, HoldState state) {
  return out << to_string(state);
}

using namespace std::chrono_literals;

constexpr Instant kStart{1'800'000'000'000'000'000};  // 2027, a whole hour
constexpr Secret kSecret{0x243f6a8885a308d3, 0x13198a2e03707344, 0xa4093822299f31d0,
                         0x082efa98ec4e6c89};

inline std::shared_ptr<const RuleSet> rules_of(const RuleSetSpec& spec) {
  auto rules = compile(spec);
  EXPECT_TRUE(rules.ok()) << (rules ? "" : rules.error().message);
  return rules ? *rules : nullptr;
}

inline std::unique_ptr<Engine> engine_of(const RuleSetSpec& spec, EngineOptions options = {}) {
  if (!options.secret) options.secret = kSecret;
  auto engine = Engine::create(rules_of(spec), std::move(options));
  EXPECT_TRUE(engine.ok()) << (engine ? "" : engine.error().message);
  return std::move(*engine);
}

// A request and everything it points to: `RequestOf({{"client", "acme"}}).costing("tokens", 5)`.
class RequestOf {
 public:
  using Text = std::pair<std::string_view, std::string_view>;

  RequestOf() = default;
  explicit RequestOf(std::initializer_list<Text> attributes) {
    for (const auto& [name, value] : attributes) with(name, value);
  }
  RequestOf(RequestOf&&) = default;  // views stay good: a deque moves without its elements moving

  RequestOf& with(std::string_view name, std::string_view value) {
    attributes_.push_back({texts_.emplace_back(name), texts_.emplace_back(value)});
    return *this;
  }
  RequestOf& costing(std::string_view unit, std::int64_t amount) {
    costs_.push_back({texts_.emplace_back(unit), amount});
    return *this;
  }
  RequestOf& costing(std::int64_t requests) { return costing(kRequests, requests); }

  operator Request() const { return {attributes_, costs_}; }

 private:
  std::deque<std::string> texts_;  // never move
  std::vector<Attribute> attributes_;
  std::vector<Cost> costs_;
};

inline RequestOf client(std::string_view name) { return RequestOf({{"client", name}}); }

// A limit of every kind, each with a key of its own; `tight` has room for 2
// requests and the others for 10.
inline RuleSetSpec every_kind(std::string_view tight) {
  const auto room = [&](std::string_view name) { return name == tight ? 2 : 10; };
  return {
      .limits = {
          {.name = "bucket",
           .per = {"client"},
           .meter = BucketSpec{.amount = room("bucket"), .period = 1s}},
          {.name = "ticker",
           .per = {"client"},
           .meter = TickerSpec{.interval = 1s, .burst = room("ticker")}},
          {.name = "window", .meter = WindowSpec{.limit = room("window"), .every = 1min}},
          {.name = "calendar", .per = {"client"}, .meter = CalendarSpec{.limit = room("calendar")}},
          {.name = "log", .per = {"client"}, .meter = LogSpec{.limit = room("log"), .window = 1s}},
          {.name = "slots", .meter = SlotsSpec{.limit = room("slots")}}}};
}

// A window of an hour for each client.
inline RuleSetSpec window_of(std::int64_t limit) {
  return {.limits = {{.name = "window", .per = {"client"}, .meter = WindowSpec{limit, 1h}}}};
}

// How many of `tries` equal requests are admitted.
inline int admitted(Engine& engine, const Request& request, Instant now, int tries) {
  int count = 0;
  for (int i = 0; i < tries; ++i) count += engine.decide(request, now)->allowed() ? 1 : 0;
  return count;
}

using Key = std::vector<std::string_view>;

inline std::int64_t remaining(Engine& engine, std::string_view limit, const Key& key, Instant now) {
  return engine::inspect(engine, limit, key, now)->remaining;
}

// Collects the answers of waiters, in the order in which they come: "first allowed".
class Inbox {
 public:
  LateAnswer as(std::string name) {
    return [this, name](const Result<Decision>& answer) {
      texts_.push_back(name + " " +
                       (answer ? std::string(to_string(answer->verdict)) : answer.error().message));
      if (answer) decisions_.push_back(*answer);
    };
  }

  const std::vector<std::string>& texts() const { return texts_; }
  const Decision& last() const { return decisions_.back(); }

 private:
  std::vector<std::string> texts_;
  std::vector<Decision> decisions_;
};

using Texts = std::vector<std::string>;

}  // namespace weir::engine
