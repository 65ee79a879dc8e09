// What the tests of a session share: a host that knows three tokens, some limits, and a
// client that types lines.

#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/engine/support.h"
#include "weir/engine/shared.h"
#include "weir/wire/resp/pool_commands.h"
#include "weir/wire/resp/session.h"

namespace weir::wire::resp {

using namespace std::chrono_literals;
using engine::kStart;

struct FakeHost final : Host {
  Role role_of(std::string_view token) const override {
    if (token.empty()) return unnamed;
    if (token == revoked) return Role::kNobody;
    if (token == "watch") return Role::kObserve;
    if (token == "decide") return Role::kDecide;
    return token == "admin" ? Role::kAdmin : Role::kNobody;
  }
  void reload_later(engine::StatusCallback told) override {
    reloads += 1;
    if (reloads_later) {
      waiting_reload = std::move(told);
    } else {
      told(Done{});
    }
  }
  std::uint64_t token_epoch() const noexcept override { return epoch; }
  std::string info() const override {
    return "# Server\r\nserver:weir\r\n\r\n# Clients\r\nconnected:2\r\nblocked:1\r\n\r\n# "
           "Engine\r\nkeys:3\r\n";
  }

  Role unnamed = Role::kAdmin;  // of a client that presents no token
  std::string revoked{};
  std::uint64_t epoch = 1;
  int reloads = 0;
  bool reloads_later = false;
  engine::StatusCallback waiting_reload{};
};

inline engine::RuleSetSpec some_limits() {
  return {.limits = {{.name = "per-client",
                      .per = {"client"},
                      .meter = engine::WindowSpec{3, std::chrono::hours{1}}},
                     {.name = "tokens",
                      .per = {"client"},
                      .unit = "tokens",
                      .meter = engine::WindowSpec{1000, std::chrono::hours{1}}},
                     {.name = "units",
                      .per = {"client"},
                      .unit = "pu",
                      .meter = engine::WindowSpec{2'000'000, std::chrono::hours{1}}},
                     {.name = "running",
                      .per = {"worker"},
                      .meter = engine::SlotsSpec{.limit = 1, .queue = 4}}},
          .units = {{"tokens"}, {"pu", engine::UnitScale::kMicro}}};
}

struct SessionTest : ::testing::Test {
  SessionTest() { begin(Role::kAdmin); }

  // With this role for a client that presents no token.
  void begin(Role role) {
    host.unnamed = role;
    session = std::make_unique<Session>(service, 7, [this] {
      return [this](std::size_t place, LateReply reply) {
        late.emplace_back(place, std::move(reply));
      };
    });
  }

  // With one more limit, which this store keeps.
  void use_store(engine::SharedStore& store) {
    engine::RuleSetSpec spec = some_limits();
    spec.limits.push_back({.name = "shared",
                           .per = {"tenant"},
                           .meter = engine::WindowSpec{5, std::chrono::hours{1}},
                           .shared = engine::SharedSpec{}});
    engine = engine::engine_of(spec);
    set_store(*engine, &store);
    service.engine = engine.get();
    begin(Role::kAdmin);
  }

  // The replies to lines as people type them.
  std::string say(std::string_view lines, Instant now = kStart) {
    std::string out;
    unread += lines;
    unread.erase(0, session->run(unread, now, scratch, out));
    return out;
  }

  std::unique_ptr<engine::Engine> engine = engine::engine_of(some_limits());
  FakeHost host;
  const PoolCommandTable pool_table = pool_commands([] { return nullptr; });
  Service service{.engine = engine.get(), .host = &host, .systems = {&pool_table}};
  Scratch scratch;
  std::string unread;
  std::unique_ptr<Session> session;
  std::vector<std::pair<std::size_t, LateReply>> late;  // and their places, as they came
};

}  // namespace weir::wire::resp
