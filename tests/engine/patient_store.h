// A store that answers when the test says so. It admits, and notes what is ended.

#pragma once

#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "weir/engine/shared.h"

namespace weir::engine {

struct PatientStore final : SharedStore {
  void decide(const SharedAsk& ask, SharedCallback callback) override {
    SharedAnswer answer{ask.now, {}, static_cast<bool>(ask.hold)};
    for (std::size_t i = 0; i < ask.items.size(); ++i) answer.outcomes.push_back({{}, 5, 4});
    asked.push_back([answer, callback = std::move(callback)] { callback(SharedAnswer(answer)); });
  }
  void end(HoldId hold, HoldState as, std::span<const Cost>, std::shared_ptr<const RuleSet>,
           Instant, SharedEndCallback callback) override {
    ended.emplace_back(hold, as);
    callback(SharedEnd{as, {}});
  }
  void renew(HoldId, Duration, Instant, HoldStateCallback) override {}
  void inspect(const SharedItem&, const std::shared_ptr<const RuleSet>&, Instant,
               LevelCallback) override {}
  void reset(const SharedItem&, const std::shared_ptr<const RuleSet>&, Instant,
             StatusCallback) override {}
  void holds(const SharedItem&, std::size_t, HoldsCallback) override {}
  void later(Duration, std::function<void(Instant)>) override {}

  std::vector<std::function<void()>> asked;
  std::vector<std::pair<HoldId, HoldState>> ended;
};

}  // namespace weir::engine
