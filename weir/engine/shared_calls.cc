// Limits that are kept elsewhere: charge what is here under a hold, ask, then keep or cancel.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "weir/base/recycled.h"
#include "weir/engine/engine_impl.h"

namespace weir::engine {
namespace {

// For the charges of local limits while the store is asked. If no answer came at all they
// would stay, as if the work had been done.
constexpr Duration kHeldWhileAsking = std::chrono::minutes{1};

// When a full limit of slots frees is not known, so a request that waits for one looks again.
constexpr Duration kLookAgain = std::chrono::milliseconds{20};

std::string_view first_shared(const Plan& plan) {
  for (const PlanItem& item : plan.limits()) {
    if (item.limit->is_shared) return item.limit->name;
  }
  return {};
}

// The values of a limit's key, in their order.
boost::container::small_vector<std::string_view, 2> key_of(const Active& active,
                                                           const ActiveLimit& limit,
                                                           const Request& request) {
  boost::container::small_vector<std::string_view, 2> key;
  for (const std::size_t place : limit.rule->per) {
    const std::string& name = active.rules->attributes()[place];
    for (const Attribute& attribute : request.attributes) {
      if (attribute.name == name) key.push_back(attribute.value);
    }
  }
  return key;
}

Duration shortest_hold(const Plan& plan) {
  std::int64_t shortest_ns = kForever.ns;
  for (const PlanItem& item : plan.limits()) {
    if (const auto* slots = std::get_if<meter::SlotsShape>(&item.limit->shape)) {
      shortest_ns = std::min(shortest_ns, slots->hold_ns);
    }
  }
  return Duration{shortest_ns};
}

}  // namespace

Error no_store(std::string_view limit) {
  return {ErrorCode::kUnavailable,
          fmt::format("limit '{}': it is shared, but there is no store to ask; give the engine one",
                      limit)};
}

// One request on its way to the store and back.
struct Engine::Impl::Asking {
  explicit Asking(const Request& asked) : request(asked) {}

  OwnedRequest request;
  AcquireOptions options;
  Instant deadline{};
  bool is_peek = false;
  WaitCallback callback;

  std::shared_ptr<const Active> active;
  Plan plan;                              // all limits
  Result<Decision> local{std::in_place};  // what those of this engine said
  HoldId held{};                          // their charges
  bool wants_hold = false;
  Duration ttl{};
};

void Engine::Impl::point_elsewhere(const Plan& plan, Result<Decision>& answer) const {
  if (shared_store.load(std::memory_order_acquire) == nullptr) {
    answer = no_store(first_shared(plan));
    return;
  }
  answer->verdict = Verdict::kElsewhere;
  answer->outcome_count = 0;
}

// Charges the limits of this engine. False: the answer has been given.
bool Engine::Impl::charge_local(const std::shared_ptr<Asking>& shared_asking,
                                const Request& request, Instant now) {
  Asking& asking = *shared_asking;
  Plan local_plan;
  const Mode mode = asking.is_peek          ? Mode::kPeek
                    : asking.deadline > now ? Mode::kTry
                                            : Mode::kAhead;
  for (;;) {
    asking.active = current_shared();
    if (auto error = make_plan(*asking.active, request, asking.plan)) {
      asking.callback(std::move(*error));
      return false;
    }
    local_plan.generation = asking.plan.generation;
    local_plan.count = 0;
    local_plan.has_gates = asking.plan.has_gates;
    local_plan.has_slots = false;
    local_plan.has_shared = false;
    local_plan.is_direct = false;
    for (const PlanItem& item : asking.plan.limits()) {
      if (item.limit->is_shared) continue;
      local_plan.items[local_plan.count++] = item;
      local_plan.has_slots |= item.limit->is_slots;
    }
    asking.wants_hold =
        !asking.is_peek && (asking.options.hold.count() > 0 || asking.plan.has_slots);
    asking.ttl = asking.options.hold.count() > 0 ? asking.options.hold : shortest_hold(asking.plan);
    asking.local.renew();
    asking.held = {};
    if (local_plan.count == 0 && !asking.wants_hold) return true;
    const AcquireOptions held{.hold = asking.is_peek      ? Duration{}
                                      : asking.wants_hold ? asking.ttl
                                                          : kHeldWhileAsking};
    if (!decide(local_plan, request, held, mode, now, asking.local)) {
      continue;
    }
    break;
  }
  if (!asking.local) {
    asking.callback(asking.local);
    return false;
  }
  asking.held = std::exchange(asking.local->hold, {});
  if (asking.local->allowed()) return true;
  if (!asking.is_peek && try_later(shared_asking, *asking.local, now)) return false;
  if (!asking.is_peek) count(*asking.local);
  asking.callback(asking.local);
  return false;
}

void Engine::Impl::ask(const std::shared_ptr<Asking>& asking, Instant now) {
  const Request& request = asking->request.view();
  if (!charge_local(asking, request, now)) return;
  SharedStore* const store = shared_store.load(std::memory_order_acquire);
  boost::container::small_vector<SharedItem, 4> items;
  for (const PlanItem& item : asking->plan.limits()) {
    if (!item.limit->is_shared) continue;
    items.push_back({item.limit->rule, key_of(*asking->active, *item.limit, request), item.cost,
                     item.weight, item.print});
  }
  if (items.empty() || store == nullptr) {
    // The rules have changed since: nothing is shared any more, or nobody is there to ask.
    if (items.empty()) return answer_shared(asking, SharedAnswer{now, {}, false}, now);
    return answer_shared(asking, no_store(first_shared(asking->plan)), now);
  }
  HoldId hold = asking->wants_hold ? asking->held : HoldId{};
  hold.is_shared = static_cast<bool>(hold);
  const SharedAsk ask{.rules = asking->active->rules,
                      .items = items,
                      .hold = hold,
                      .ttl = asking->ttl,
                      .is_peek = asking->is_peek,
                      .now = now};
  store->decide(ask, [this, asking, now](Result<SharedAnswer> said) {
    answer_shared(asking, std::move(said), now);
  });
}

// The part of a hold that is kept here, if it is.
void Engine::Impl::end_local(HoldId hold, HoldState as, std::span<const Cost> actual, Instant now) {
  if (hold) static_cast<void>(end_hold(hold, as, actual, now).ok());
}

// Puts what both sides said together, in the order of the rules.
void Engine::Impl::answer_shared(const std::shared_ptr<Asking>& asking, Result<SharedAnswer> said,
                                 Instant now) {
  if (!said) {
    end_local(asking->held, HoldState::kCancelled, {}, now);
    return asking->callback(std::move(said).error());
  }
  Result<Decision> answer(std::in_place);
  Decision& decision = *answer;
  // Instants of the store are told as this process counts, so that what is left to wait is
  // right whatever the clocks say.
  const auto here = [&](Instant at) {
    return at == kForever ? kForever : Instant{saturate(Wide{at.ns} - said->now.ns + now.ns)};
  };
  Ruling ruling(now);
  std::size_t local_place = 0;
  std::size_t shared_place = 0;
  for (std::size_t i = 0; i < asking->plan.count; ++i) {
    const PlanItem& item = asking->plan.items[i];
    Outcome& row = decision.outcome_rows[i];
    if (!item.limit->is_shared) {
      row = asking->local->outcome_rows[local_place++];
      continue;
    }
    const SharedOutcome& outcome = said->outcomes[shared_place++];
    row = {.limit = item.limit->name,
           .verdict = outcome.check.verdict,
           .shadow = item.limit->shadow,
           .overridden = false,
           .cost = item.cost,
           .remaining = std::max<std::int64_t>(0, outcome.before),
           .capacity = item.limit->capacity,
           .earliest = outcome.check.allowed() ? now : here(outcome.check.earliest)};
    if (!item.limit->shadow) {
      ruling.add(i, {row.verdict, row.earliest, outcome.check.shortfall});
    }
  }
  decision.outcome_count = asking->plan.count;
  decision.verdict = ruling.verdict;
  decision.binding_index = static_cast<std::int8_t>(ruling.binding);
  decision.earliest = ruling.earliest;
  decision.shortfall = ruling.shortfall;
  if (ruling.allowed() && !asking->is_peek) {
    shared_place = 0;
    for (std::size_t i = 0; i < asking->plan.count; ++i) {
      if (!asking->plan.items[i].limit->is_shared) continue;
      const SharedOutcome& outcome = said->outcomes[shared_place++];
      decision.outcome_rows[i].remaining =
          std::max<std::int64_t>(0, outcome.check.allowed() ? outcome.after : outcome.before);
    }
    if (asking->wants_hold) {
      decision.hold = asking->held;
      decision.hold.is_shared = said->is_held;
      decision.hold_expires = now + asking->ttl;
    } else {
      end_local(asking->held, HoldState::kSettled, {}, now);  // the charges stay
    }
    count(decision);
    return asking->callback(answer);
  }
  if (asking->is_peek) return asking->callback(answer);

  // What local limits gave is given back.
  end_local(asking->held, HoldState::kCancelled, {}, now);
  for (std::size_t i = 0; i < asking->plan.count; ++i) {
    Outcome& row = decision.outcome_rows[i];
    if (!asking->plan.items[i].limit->is_shared && row.verdict == Verdict::kAllowed) {
      row.remaining = std::min(row.capacity, row.remaining + row.cost);
    }
  }
  if (try_later(asking, decision, now)) return;
  count(decision);
  asking->callback(answer);
}

bool Engine::Impl::try_later(const std::shared_ptr<Asking>& asking, Decision& decision,
                             Instant now) {
  SharedStore* const store = shared_store.load(std::memory_order_acquire);
  const Instant again =
      decision.earliest == kForever ? now + kLookAgain : later_of(decision.earliest, now);
  if (decision.verdict != Verdict::kDenied || asking->deadline <= now || again > asking->deadline ||
      store == nullptr) {
    return false;
  }
  if (shared_waiters.fetch_add(1, std::memory_order_relaxed) >= options.waiters_max) {
    shared_waiters.fetch_sub(1, std::memory_order_relaxed);
    decision.verdict = Verdict::kOverloaded;
    return false;
  }
  store->later(again - now, [this, asking](Instant then) {
    shared_waiters.fetch_sub(1, std::memory_order_relaxed);
    ask(std::shared_ptr(asking), then);  // whatever becomes of this function meanwhile
  });
  return true;
}

void Engine::ask(const Request& request, const AcquireOptions& options, Instant now,
                 Instant deadline, WaitCallback callback) noexcept {
  if (!is_acceptable(now)) return callback(unacceptable_instant(now));
  if (!options.up_to.empty() || options.book_within.count() > 0) {
    return callback(bad_argument(
        "request: it meets a shared limit, of which neither 'up_to' nor 'book_within' can be "
        "asked; leave them out"));
  }
  auto asking = std::allocate_shared<Impl::Asking>(Recycled<Impl::Asking>(), request);
  asking->options = options;
  asking->deadline = deadline;
  asking->callback = std::move(callback);
  impl_->ask(asking, now);
}

void Engine::ask_peek(const Request& request, Instant now, WaitCallback callback) noexcept {
  if (!is_acceptable(now)) return callback(unacceptable_instant(now));
  auto asking = std::allocate_shared<Impl::Asking>(Recycled<Impl::Asking>(), request);
  asking->is_peek = true;
  asking->callback = std::move(callback);
  impl_->ask(asking, now);
}

// The store first: if it cannot be asked, the caller may try again, and nothing has changed
// here.
void Engine::Impl::end_shared(HoldId hold, HoldState as, std::span<const Cost> actual, Instant now,
                              HoldCallback callback) {
  SharedStore* const store = shared_store.load(std::memory_order_acquire);
  if (store == nullptr) {
    return callback(Error{ErrorCode::kUnavailable,
                          "hold: it is shared, but no limit here is; ask a server that shares it"});
  }
  std::vector<std::pair<std::string, std::int64_t>> kept;
  for (const Cost& cost : actual) kept.emplace_back(cost.unit, cost.amount);
  store->end(hold, as, actual, current_shared()->rules, now,
             [this, hold, as, now, kept = std::move(kept),
              callback = std::move(callback)](Result<HoldState> state) {
               if (state) {
                 std::vector<Cost> costs;
                 for (const auto& [unit, amount] : kept) costs.push_back({unit, amount});
                 // How it ended elsewhere, it ends here.
                 const bool is_ours = *state == as || *state == HoldState::kGone;
                 if (!is_ours) costs.clear();
                 end_local(hold, is_ours ? as : *state, costs, now);
               }
               callback(std::move(state));
             });
}

void Engine::ask_settle(HoldId hold, std::span<const Cost> actual, Instant now,
                        std::function<void(Result<HoldState>)> callback) noexcept {
  if (!is_acceptable(now)) return callback(unacceptable_instant(now));
  if (auto error = impl_->check_settlement(hold, actual)) return callback(std::move(*error));
  impl_->end_shared(hold, HoldState::kSettled, actual, now, std::move(callback));
}

void Engine::ask_cancel(HoldId hold, Instant now,
                        std::function<void(Result<HoldState>)> callback) noexcept {
  impl_->end_shared(hold, HoldState::kCancelled, {}, now, std::move(callback));
}

void Engine::ask_renew(HoldId hold, Duration ttl, Instant now,
                       std::function<void(Result<HoldState>)> callback) noexcept {
  if (!is_acceptable(now)) return callback(unacceptable_instant(now));
  SharedStore* const store = impl_->shared_store.load(std::memory_order_acquire);
  Result<HoldState> local = renew(hold, ttl, now);
  if (!local || store == nullptr) return callback(std::move(local));
  store->renew(hold, ttl, now, std::move(callback));
}

void Engine::abandon(HoldId hold, Instant now) noexcept {
  if (hold.is_shared) {
    ask_cancel(hold, now, [](const Result<HoldState>&) {});
  } else if (hold) {
    cancel(hold, now);
  }
}

void Engine::set_shared_store(SharedStore* store) noexcept {
  impl_->shared_store.store(store, std::memory_order_release);
}

}  // namespace weir::engine
