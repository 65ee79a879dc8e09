// An engine with shared limits on a real Redis, asked as if it answered at once.

#pragma once

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/on_stack.h"
#include "weir/engine/engine.h"
#include "weir/engine/shared.h"
#include "weir/store/redis/shared/limits.h"
#include "weir/testing/manual_clock.h"
#include "weir/testing/redis_server.h"

namespace weir::store::redis {

constexpr Instant kStart{1'800'000'000'000'000'000};

// What a callback was given, waited for.
template <typename Answer>
class Waited {
 public:
  auto callback() {
    return [promise = promise_](const Result<Answer>& answer) { promise->set_value(answer); };
  }
  Result<Answer> get() {
    std::future<Result<Answer>> future = promise_->get_future();
    if (future.wait_for(kPatience) != std::future_status::ready) {
      return Error{ErrorCode::kUnavailable, "the test waited in vain"};
    }
    return future.get();
  }

 private:
  std::shared_ptr<std::promise<Result<Answer>>> promise_ =
      std::make_shared<std::promise<Result<Answer>>>();
};

inline std::shared_ptr<const engine::RuleSet> compiled(engine::RuleSetSpec spec) {
  auto rules = engine::compile(spec);
  EXPECT_TRUE(rules) << (rules ? "" : rules.error().message);
  return rules ? *rules : nullptr;
}

// One server of a fleet.
class SharedEngine {
 public:
  SharedEngine(const std::string& url, engine::RuleSetSpec spec, Clock& clock,
               SharedOptions options = {}, bool has_redis_time = false)
      : clock_(clock) {
    options.address = *parse_address(url);
    if (!has_redis_time) options.redis_clock = &clock;
    limits_ = std::make_unique<SharedLimits>(loop_, std::move(options), clock);
    engine_ = std::move(*engine::Engine::create(compiled(std::move(spec))));
    set_store(*engine_, limits_.get());
  }
  ~SharedEngine() { limits_.reset(); }

  Result<Decision> acquire(const engine::Request& request, engine::Wants options = {},
                           Duration wait = {}) {
    Waited<Decision> waited;
    engine::ask(*engine_,
                {.request = request,
                 .hold = options.hold,
                 .up_to = options.up_to,
                 .book_within = options.book_within,
                 .wait_until = clock_.now() + wait},
                clock_.now(), waited.callback());
    return waited.get();
  }
  Result<Decision> peek(const engine::Request& request) {
    Waited<Decision> waited;
    engine::ask(*engine_, {.request = request, .is_peek = true}, clock_.now(), waited.callback());
    return waited.get();
  }
  Result<engine::HoldState> settle(HoldId hold, std::span<const engine::Cost> actual) {
    Waited<engine::HoldAnswer> waited;
    engine_->settle(hold, actual, clock_.now(), waited.callback());
    return engine::state_of(waited.get());
  }
  Result<engine::HoldState> cancel(HoldId hold) {
    Waited<engine::HoldAnswer> waited;
    engine_->cancel(hold, clock_.now(), waited.callback());
    return engine::state_of(waited.get());
  }
  Result<engine::HoldState> renew(HoldId hold, Duration ttl) {
    Waited<engine::HoldAnswer> waited;
    engine_->renew(hold, ttl, clock_.now(), waited.callback());
    return engine::state_of(waited.get());
  }

  Result<engine::Inspection> inspect(std::string_view limit,
                                     std::vector<std::string_view> key = {}) {
    Waited<engine::Inspection> waited;
    engine_->inspect(limit, key, clock_.now(), waited.callback());
    return waited.get();
  }
  Status reset(std::string_view limit, std::vector<std::string_view> key = {}) {
    Waited<Done> waited;
    engine_->reset(limit, key, clock_.now(), waited.callback());
    return waited.get();
  }
  Result<engine::EndedHolds> end_holds(std::string_view limit,
                                       std::vector<std::string_view> key = {}) {
    Waited<engine::EndedHolds> waited;
    engine::end_holds(*engine_, limit, key, clock_.now(), waited.callback());
    return waited.get();
  }

  engine::Engine& engine() { return *engine_; }
  SharedLimits& limits() { return *limits_; }

 private:
  Clock& clock_;
  Loop loop_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<SharedLimits> limits_;  // answers what is in flight before the engine ends
};

// An event loop that was there before.
class Thread {
 public:
  Thread() : loop(context), thread_([this] { context.run(); }) {}
  ~Thread() {
    context.stop();
    thread_.join();
  }

  boost::asio::io_context context{1};
  Loop loop;

 private:
  std::thread thread_;
};

// Generous: most tests are about what is decided, not how fast.
inline SharedOptions patient() { return {.timeout = std::chrono::seconds{30}}; }

inline engine::RuleSetSpec ten_an_hour(engine::Outage outage = engine::Outage::kDeny) {
  return {
      .limits = {
          {.name = "calls",
           .per = {"client"},
           .meter = engine::BucketSpec{.amount = 10, .period = std::chrono::hours{1}, .burst = 10},
           .shared = engine::SharedSpec{outage}}}};
}

inline const engine::Attribute kAcme[] = {{"client", "acme"}};
inline const engine::Request kCall{.attributes = kAcme};
inline const engine::Request kAny{};

inline int admitted(SharedEngine& server, int asked) {
  int count = 0;
  for (int i = 0; i < asked; ++i) {
    const Result<Decision> decision = server.acquire(kCall);
    EXPECT_TRUE(decision) << decision.error().message;
    if (decision && decision->allowed()) ++count;
  }
  return count;
}

}  // namespace weir::store::redis
