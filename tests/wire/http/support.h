// What the HTTP tests share: an engine, a clock that moves only when told, a host that
// does as it is told, and an Api on top, spoken to in methods and targets.

#pragma once

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/wire/http/described.h"
#include "weir/base/role.h"
#include "weir/engine/engine.h"
#include "weir/testing/manual_clock.h"
#include "weir/wire/http/api.h"
#include "weir/wire/http/compute_routes.h"
#include "weir/wire/http/contract_routes.h"
#include "weir/wire/http/pool_routes.h"
#include "weir/wire/http/sampling_routes.h"
#include "weir/wire/http/throttle_routes.h"

namespace weir::wire::http {

using namespace std::chrono_literals;

constexpr Instant kTestStart{1'800'000'000'000'000'000};  // 2027-01-15T08:00:00Z

inline engine::RuleSetSpec tokens() {
  return {.limits = {{.name = "tokens",
                      .unit = "tokens",
                      .meter = engine::WindowSpec{1000, std::chrono::minutes{1}}}},
          .units = {{"tokens"}}};
}

inline engine::RuleSetSpec one_slot(std::int64_t queue) {
  return {.limits = {{.name = "slots", .meter = engine::SlotsSpec{1, queue}}}};
}

// A bucket of two, refilled at three in a second, for each client.
inline engine::RuleSetSpec three_per_second() {
  return {
      .limits = {{.name = "per-client", .per = {"client"}, .meter = engine::BucketSpec{3, 1s, 2}}}};
}

inline std::unique_ptr<engine::Engine> engine_for(const engine::RuleSetSpec& spec,
                                                  engine::EngineOptions options = {}) {
  options.keys_max = 10'000;
  if (!options.secret) options.secret = engine::Secret{1, 2, 3, 4};
  auto rules = engine::compile(spec);
  EXPECT_TRUE(rules.ok()) << (rules ? "" : rules.error().message);
  auto engine = engine::Engine::create(*rules, std::move(options));
  EXPECT_TRUE(engine.ok()) << (engine ? "" : engine.error().message);
  return std::move(*engine);
}

class TestHost final : public Host {
 public:
  explicit TestHost(weir::testing::ManualClock& clock) : clock_(clock) {}

  Instant now() noexcept override { return clock_.now(); }
  void reload_later(engine::StatusCallback told) noexcept override {
    ++reloads;
    if (reloads_later) {
      waiting_reload = std::move(told);
    } else {
      told(reload_status);
    }
  }
  std::string metrics() noexcept override { return "weir_decisions_total 7\n"; }
  bool ready(std::string& why, bool with_reasons) noexcept override {
    why = not_ready_because;
    if (!with_reasons) why.resize(std::min(why.find(':'), why.size()));
    return why.empty();
  }
  std::string name_of(std::string_view) noexcept override { return name; }
  bool speaks_for_consensus(std::string_view) noexcept override { return is_consensus; }

  std::shared_ptr<system::throttle::Throttles> throttles_in_force{};
  std::shared_ptr<system::sampling::Sampling> sampling_in_force{};
  ComputePart compute_in_force{};
  ContractPart contract_in_force{};
  system::pool::HeldJobs* pool_in_force = nullptr;
  std::string name{};
  bool is_consensus = false;
  int reloads = 0;
  Status reload_status = Done{};
  bool reloads_later = false;
  engine::StatusCallback waiting_reload{};
  std::string not_ready_because{};

 private:
  weir::testing::ManualClock& clock_;
};

// The whole thing, as an administrator speaks to it. Whatever is asked and answered must be as
// /openapi.json describes it, or the test fails.
class Desk {
 public:
  explicit Desk(const engine::RuleSetSpec& spec, HttpSettings settings = {},
                engine::EngineOptions options = {})
      : engine(engine_for(spec, std::move(options))),
        api(*engine, host, settings,
            {&throttle_table, &sampling_table, &pool_table, &contract_table, &compute_table}) {}

  Answer ask(std::string_view method, std::string_view target, std::string_view body = {}) {
    Answer answer;
    const Call call{.method = method,
                    .target = target,
                    .body = body,
                    .content_type = content_type,
                    .role = role,
                    .if_none_match = if_none_match,
                    .fields = fields,
                    .visit = visit};
    const bool answered = api.handle(call, clock.now(), answer, [this](Answer late) {
      described.expect(late);
      later.push_back(std::move(late));
    });
    waiting = !answered;
    described.expect(call, answer, waiting);
    return answer;
  }
  Answer get(std::string_view target) { return ask("GET", target); }
  Answer post(std::string_view target, std::string_view body = "{}") {
    return ask("POST", target, body);
  }
  Answer acquire(std::string_view body) { return post("/v1/acquire", body); }

  void pass(Duration span) {
    clock.advance(span);
    engine->advance(clock.now());
  }

  weir::testing::ManualClock clock{kTestStart};
  TestHost host{clock};
  ThrottleRoutes throttle_table = throttle_routes([this] { return host.throttles_in_force; });
  SamplingRoutes sampling_table = sampling_routes([this] { return host.sampling_in_force; });
  PoolRoutes pool_table = pool_routes([this] { return host.pool_in_force; });
  ContractRoutes contract_table = contract_routes([this] { return host.contract_in_force; });
  ComputeRoutes compute_table = compute_routes([this] { return host.compute_in_force; });
  std::unique_ptr<engine::Engine> engine;
  Api api;
  const Described described{api};
  Role role = Role::kAdmin;
  std::string_view content_type = "application/json";
  std::string if_none_match{};
  std::vector<Field> fields{};
  Visit visit{};
  bool waiting = false;         // whether the last call waits
  std::vector<Answer> later{};  // answers to those that waited
};

constexpr std::string_view kAcme = R"({"attributes":{"client":"acme"}})";

// What an independent reader makes of a body. Fails the test if it is not JSON.
inline boost::json::value parsed(std::string_view text) {
  boost::json::error_code error;
  boost::json::value value = boost::json::parse(text, error);
  EXPECT_FALSE(error) << error.message() << " in " << text;
  return value;
}

inline std::string text_at(const Answer& answer, std::string_view member) {
  const boost::json::value value = parsed(answer.body);
  const boost::json::value* found = value.as_object().if_contains(member);
  if (found == nullptr) return "(missing)";
  return found->is_string() ? std::string(found->as_string()) : boost::json::serialize(*found);
}

inline std::string detail(const Answer& answer) { return text_at(answer, "detail"); }

}  // namespace weir::wire::http
