// Limits that are kept elsewhere: charge what is here under a hold, ask, then keep or cancel.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "weir/base/recycled.h"
#include "weir/engine/asking.h"

namespace weir::engine {
namespace {

// For the charges of local limits while the store is asked. If no answer came at all they
// would stay, as if the work had been done.
constexpr Duration kHeldWhileAsking = std::chrono::minutes{1};

// Of a request that takes as much as there is: each time it asks for what was there the time
// before. After so many it asks for one unit.
constexpr int kLoweredTimesMax = 8;

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

}  // namespace

// As of now: another may override it before the slots are taken.
Duration Engine::Impl::shortest_hold(const Plan& plan) {
  ShortestHold shortest;
  for (const PlanItem& item : plan.limits()) {
    const MeterShape* shape = &item.limit->shape;
    if (!item.limit->is_slots) continue;
    Shard& shard = table.shard_of(item.print);
    const std::scoped_lock lock(shard);
    if (const Slot* slot = table.find(shard, item.print); slot != nullptr &&
                                                          (slot->meta() & meta::kOverride) != 0 &&
                                                          is_slots(rows.at(slot->row()).shape)) {
      shape = &rows.at(slot->row()).shape;
    }
    shortest.add(*shape, item.limit->shadow);
  }
  return shortest.length();
}

Error no_store(std::string_view limit) {
  return {ErrorCode::kUnavailable,
          fmt::format("limit '{}': it is shared, but there is no store to ask; give the engine one",
                      limit)};
}

Request Engine::Impl::Asking::lowered(boost::container::small_vector<Cost, 8>& costs) const {
  const Request& asked = request.view();
  if (options.up_to.empty()) return asked;
  costs.assign(asked.costs.begin(), asked.costs.end());
  for (Cost& cost : costs) {
    if (cost.unit == options.up_to) cost.amount = want;
  }
  return {asked.attributes, costs};
}

void Engine::Impl::point_elsewhere(const Plan& plan, Result<Decision>& answer) const {
  if (shared_store.load(std::memory_order_acquire) == nullptr) {
    answer = no_store(first_shared(plan));
    return;
  }
  answer->verdict = Verdict::kElsewhere;
  answer->outcome_count = 0;
}

void Engine::Impl::set_want(Asking& asking, std::int64_t want) {
  asking.want = want;
  for (std::size_t i = 0; i < asking.plan.count; ++i) {
    PlanItem& item = asking.plan.items[i];
    // Not more than it was planned with, so the product fits.
    if (item.limit->unit == asking.options.up_to) item.cost = want * item.weight;
  }
}

// Charges the limits of this engine. False: newer rules are in force, plan again.
bool Engine::Impl::charge_local(Asking& asking, const Request& request, Instant now) {
  const bool is_peek = asking.is_peek || asking.behind != 0;
  const Mode mode = is_peek ? Mode::kPeek : asking.deadline > now ? Mode::kTry : Mode::kAhead;
  Plan local_plan;
  local_plan.begin(asking.plan.generation);
  for (const PlanItem& item : asking.plan.limits()) {
    if (!item.limit->is_shared) local_plan.add(*item.limit) = item;
  }
  asking.wants_hold = !is_peek && (asking.options.hold.count() > 0 || asking.plan.has_slots);
  asking.ttl = asking.options.hold.count() > 0 ? asking.options.hold : shortest_hold(asking.plan);
  asking.local.renew();
  asking.held = {};
  if (local_plan.count == 0 && !asking.wants_hold) return true;
  const AcquireOptions held{.hold = is_peek             ? Duration{}
                                    : asking.wants_hold ? asking.ttl
                                                        : kHeldWhileAsking,
                            .up_to = asking.options.up_to};
  if (!decide(local_plan, request, held, mode, now, asking.local)) return false;
  if (!asking.local) return true;
  asking.held = std::exchange(asking.local->hold, {});
  if (asking.held && !asking.options.up_to.empty()) set_want(asking, asking.local->granted);
  return true;
}

void Engine::Impl::ask(const std::shared_ptr<Asking>& asking, Instant now) {
  boost::container::small_vector<Cost, 8> costs;
  const Request request = asking->lowered(costs);
  do {
    asking->active = current_shared();
    if (auto error = make_plan(*asking->active, request, asking->plan)) {
      return finish(asking, std::move(*error));
    }
    if (waits_behind(asking, now)) return;
  } while (!charge_local(*asking, request, now));
  if (!asking->local) return finish(asking, asking->local);
  if (!asking->local->allowed()) {
    const bool may_wait = !asking->is_peek && asking->behind == 0;
    if (may_wait && try_later(asking, *asking->local, now)) return;
    if (!asking->is_peek) count(*asking->local);
    return finish(asking, asking->local);
  }
  ask_store(asking, request, now);
}

void Engine::Impl::ask_store(const std::shared_ptr<Asking>& asking, const Request& request,
                             Instant now) {
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
                      .is_peek = asking->is_peek || asking->behind != 0,
                      .is_partial = !asking->options.up_to.empty(),
                      .now = now};
  store->decide(ask, [this, asking, now](Result<SharedAnswer> said) {
    answer_shared(asking, std::move(said), now);
  });
}

// The part of a hold that is kept here, if it is.
void Engine::Impl::end_local(HoldId hold, HoldState as, std::span<const Cost> actual, Instant now) {
  if (hold) end_hold(hold, as, actual, now);
}

// Puts what both sides said together, in the order of the rules.
void Engine::Impl::answer_shared(const std::shared_ptr<Asking>& asking, Result<SharedAnswer> said,
                                 Instant now) {
  if (!said) {
    end_local(asking->held, HoldState::kCancelled, {}, now);
    return finish(asking, std::move(said).error());
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
    SharedOutcome& outcome = said->outcomes[shared_place++];
    const bool is_behind = (asking->behind >> i & 1) != 0;
    if (is_behind && outcome.check.allowed()) {
      outcome.check = {Verdict::kDenied, said->now, item.cost};
    }
    row = {.limit = item.limit->name,
           .verdict = outcome.check.verdict,
           .shadow = item.limit->shadow,
           .overridden = false,
           .cost = item.cost,
           .remaining = std::max<std::int64_t>(0, outcome.before),
           .capacity = item.limit->capacity,
           .earliest = outcome.check.allowed() ? now : here(outcome.check.earliest)};
    if (is_behind) row.earliest = later_of(row.earliest, asking->behind_until);
    if (!item.limit->shadow) {
      ruling.add(i, {row.verdict, row.earliest, outcome.check.shortfall});
    }
  }
  decision.outcome_count = asking->plan.count;
  ruling.write_to(decision);
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
    if (!asking->options.up_to.empty()) decision.granted = asking->want;
    count(decision);
    return finish(asking, answer);
  }
  if (asking->is_peek) return finish(asking, answer);
  if (asking->behind != 0) {
    if (asking->is_overloaded) decision.verdict = Verdict::kOverloaded;
    count(decision);
    return finish(asking, answer);
  }

  // What local limits gave is given back.
  end_local(asking->held, HoldState::kCancelled, {}, now);
  if (lower_want(*asking, *said)) return ask(asking, now);
  for (std::size_t i = 0; i < asking->plan.count; ++i) {
    Outcome& row = decision.outcome_rows[i];
    if (!asking->plan.items[i].limit->is_shared && row.verdict == Verdict::kAllowed) {
      row.remaining = std::min(row.capacity, row.remaining + row.cost);
    }
  }
  if (try_later(asking, decision, now)) return;
  count(decision);
  finish(asking, answer);
}

// Whether less may be there than was asked for, of a request that takes what there is.
bool Engine::Impl::lower_want(Asking& asking, const SharedAnswer& said) {
  if (asking.options.up_to.empty()) return false;
  std::int64_t grant = asking.want;
  std::size_t place = 0;
  for (const PlanItem& item : asking.plan.limits()) {
    if (!item.limit->is_shared) continue;
    const SharedOutcome& outcome = said.outcomes[place++];
    // One that has room for all of it may not know how much there is.
    const bool is_short = !outcome.check.allowed() && !item.limit->shadow && item.weight > 0;
    if (!is_short || item.limit->unit != asking.options.up_to) continue;
    grant = std::min(grant, std::max<std::int64_t>(0, outcome.before) / item.weight);
  }
  if (grant >= asking.want || asking.want == 1) return false;
  asking.lowered_times += 1;
  asking.want = asking.lowered_times < kLoweredTimesMax ? std::max<std::int64_t>(1, grant) : 1;
  return true;
}

void Engine::ask(const Request& request, const AcquireOptions& options, Instant now,
                 Instant deadline, WaitCallback callback) noexcept {
  if (!is_acceptable(now)) return callback(unacceptable_instant(now));
  if (auto error = check_options(options, request)) return callback(std::move(*error));
  if (options.book_within.count() > 0) {
    return callback(bad_argument(
        "request: it meets a shared limit, which cannot be booked ahead; leave 'book_within' out"));
  }
  if (!options.up_to.empty() && deadline > now) {
    return callback(bad_argument(
        "request: it would wait for as much as there is; leave out 'up_to', or the deadline"));
  }
  impl_->ask(request, options, now, deadline, std::move(callback));
}

void Engine::Impl::ask(const Request& request, const AcquireOptions& asked, Instant now,
                       Instant deadline, WaitCallback callback) {
  auto asking = std::allocate_shared<Asking>(Recycled<Asking>(), request);
  asking->options = asked;
  asking->deadline = deadline;
  asking->callback = std::move(callback);
  if (!asked.up_to.empty()) asking->want = wanted(request, asked.up_to);
  if (deadline > now) enter(asking);
  ask(asking, now);
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
  if (auto error = impl_->check_settlement(hold, actual, now)) return callback(std::move(*error));
  impl_->end_shared(hold, HoldState::kSettled, actual, now, std::move(callback));
}

void Engine::ask_cancel(HoldId hold, Instant now,
                        std::function<void(Result<HoldState>)> callback) noexcept {
  if (!is_acceptable(now)) return callback(unacceptable_instant(now));
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
