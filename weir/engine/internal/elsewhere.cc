// Elsewhere, inside. The header says what holds of an asking; this is what its steps rely on:
//
//  1. An asking goes go_on(), charge_local(), ask_store(), hear(), and from there to admit() or
//     back. Each time its local charges have succeeded, hear() follows once: with the store's
//     answer, with its error, or with an empty answer because no limit is shared any more.
//  2. The hold that charge_local() made ends in hear() or admit(): cancelled, settled, or handed on
//     in the answer. Only then is the asking answered, tried later, or asked again for less.
//  3. An asking ends in tell(), which takes its ticket away and then answers it, or drops the
//     answer if it was given up. One that is given up before it is decided again ends in leave()
//     alone.
//  4. No lock is held when limits are charged, the store is asked, or an answer is told. Under the
//     lock there are two calls to the outside: Answers::later(), which must not call the engine,
//     and SharedStore::later(), which must not call back on this stack.
//  5. While there is a store, `alarm_` is not later than the next timer. An alarm that rings early
//     finds nothing due, and sets the next one.
//  6. One that is behind an older one has a timer at its last instant, so it is answered then even
//     if the older one never leaves.

#include "weir/engine/internal/elsewhere.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/container/static_vector.hpp>
#include <mutex>
#include <utility>
#include <vector>

#include "weir/base/recycled.h"
#include "weir/engine/ask.h"
#include "weir/engine/internal/ending.h"

namespace weir::engine {
namespace {

// For the charges of local limits while the store is asked. If no answer came at all they
// would stay, as if the work had been done.
constexpr Duration kHeldWhileAsking = std::chrono::minutes{1};

// Of a request that takes as much as there is: each time it asks for what was there the time
// before. After so many it asks for one unit.
constexpr int kLoweredTimesMax = 8;

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
    const auto value = request.attribute(active.rules->attributes()[place]);
    if (value) key.push_back(*value);
  }
  return key;
}

SharedItem item_of(const KeyedLimit& keyed, std::span<const std::string_view> key) {
  SharedItem item{.rule = keyed.limit->rule, .key = {}, .print = keyed.print};
  item.key.assign(key.begin(), key.end());
  return item;
}

void set_want(Asking& asking, std::int64_t want) {
  asking.want = want;
  for (std::size_t i = 0; i < asking.plan.count; ++i) {
    PlanItem& item = asking.plan.items[i];
    // Not more than it was planned with, so the product fits.
    if (item.limit->unit == asking.up_to) item.cost = want * item.weight;
  }
}

// Whether less may be there than was asked for, of a request that takes what there is.
bool lower_want(Asking& asking, const SharedAnswer& said) {
  if (asking.up_to.empty()) return false;
  std::int64_t grant = asking.want;
  std::size_t place = 0;
  for (const PlanItem& item : asking.plan.limits()) {
    if (!item.limit->is_shared) continue;
    const SharedOutcome& outcome = said.outcomes[place++];
    // One that has room for all of it may not know how much there is.
    const bool is_short = !outcome.check.allowed() && !item.limit->shadow && item.weight > 0;
    if (!is_short || item.limit->unit != asking.up_to) continue;
    grant = std::min(grant, std::max<std::int64_t>(0, outcome.before) / item.weight);
  }
  if (grant >= asking.want || asking.want == 1) return false;
  asking.lowered_times += 1;
  const bool is_last = asking.lowered_times >= kLoweredTimesMax;
  set_want(asking, is_last ? 1 : std::max<std::int64_t>(1, grant));
  return true;
}

// The row of one shared limit, before anything is charged.
Outcome row_of(const PlanItem& item, const SharedOutcome& outcome, Instant earliest) {
  return {.limit = item.limit->name,
          .verdict = outcome.check.verdict,
          .shadow = item.limit->shadow,
          .overridden = false,
          .cost = item.cost,
          .remaining = std::max<std::int64_t>(0, outcome.before),
          .capacity = item.limit->capacity,
          .earliest = earliest};
}

// What is left there once the request has been admitted.
std::int64_t left_of(const SharedOutcome& outcome) {
  return std::max<std::int64_t>(0, outcome.check.allowed() ? outcome.after : outcome.before);
}

}  // namespace

Error no_store(std::string_view limit) {
  return {ErrorCode::kUnavailable,
          fmt::format("limit '{}': it is shared, but there is no store to ask; give the engine one",
                      limit)};
}

Error needs_store(const Plan& plan) {
  return bad_argument(
      fmt::format("limit '{}': it is shared, so its store answers later; use Engine::ask(), which "
                  "is told then",
                  first_shared(plan)));
}

Request Asking::lowered(boost::container::small_vector<Cost, 8>& costs) const {
  const Request& asked = request.view();
  if (up_to.empty()) return asked;
  costs.assign(asked.costs.begin(), asked.costs.end());
  for (Cost& cost : costs) {
    if (cost.unit == up_to) cost.amount = want;
  }
  return {asked.attributes, costs};
}

// --- decided here, from a lease

bool Elsewhere::decide_leased(const Plan& plan, Instant now, Decision& decision) {
  SharedStore* const store = this->store();
  if (store == nullptr) return false;
  // Room for all, of which only what is used is made: that is seen in a call this short.
  boost::container::static_vector<LeasedItem, kLimitsPerRequestMax> items;
  for (const PlanItem& item : plan.limits()) {
    // With other limits, or some that never refuse, it is a matter of holds and orders.
    if (!item.limit->is_leased || item.limit->shadow) return false;
    items.push_back({item.limit->rule, item.print, item.cost});
  }
  if (is_waited_for(plan)) return false;
  boost::container::static_vector<SharedOutcome, kLimitsPerRequestMax> outcomes(plan.count);
  if (!store->decide_leased(items, now, outcomes)) return false;
  Ruling ruling(now);
  for (std::size_t i = 0; i < plan.count; ++i) {
    const SharedOutcome& outcome = outcomes[i];
    Outcome& row = decision.outcome_rows[i];
    row = row_of(plan.items[i], outcome, outcome.check.earliest);
    row.remaining = left_of(outcome);
    ruling.add(i, outcome.check);
  }
  decision.outcome_count = plan.count;
  ruling.write_to(decision);
  counting_.count(plan, decision);
  return true;
}

// --- one asking

void Elsewhere::ask(const Ask& ask, std::shared_ptr<const Active> active, const Plan& plan,
                    Instant now, std::size_t i, Answers& answers) {
  auto asking = std::allocate_shared<Asking>(Recycled<Asking>(), ask.request);
  asking->hold = ask.hold;
  asking->up_to = ask.up_to;
  asking->wait_until = ask.wait_until;
  asking->is_peek = ask.is_peek;
  asking->asked_at = now;
  asking->answers = &answers;
  asking->place = i;
  asking->active = std::move(active);
  asking->plan = plan;
  if (!ask.up_to.empty()) asking->want = ask.request.cost(ask.up_to).value_or(0);
  if (ask.wait_until > now) {
    // Its age counts from now on, whether or not it will wait.
    auto waiter = std::make_unique<Waiter>(Request{});
    const std::scoped_lock lock(room_.lock);
    asking->ticket = room_.add(std::move(waiter)).ticket;
    by_ticket_.emplace(asking->ticket, asking);
  }
  go_on(asking, now);
}

std::shared_ptr<Asking> Elsewhere::adopt(Waiter& waiter, Instant now) {
  auto asking = std::allocate_shared<Asking>(Recycled<Asking>(), waiter.request.view());
  asking->hold = waiter.hold;
  asking->wait_until = waiter.deadline;
  asking->asked_at = now;
  asking->late = std::move(waiter.late);
  asking->active = waiter.active;
  asking->plan = waiter.plan;
  asking->ticket = waiter.ticket;
  auto here = std::make_unique<Waiter>(Request{});
  here->ticket = waiter.ticket;
  const std::scoped_lock lock(room_.lock);
  room_.add(std::move(here));
  by_ticket_.emplace(asking->ticket, asking);
  return asking;
}

// Moves an asking on until it is answered, waits, or the store is asked.
void Elsewhere::go_on(const std::shared_ptr<Asking>& asking, Instant now) {
  if (is_given_up(*asking)) return;
  boost::container::small_vector<Cost, 8> costs;
  const Request request = asking->lowered(costs);
  do {
    if (!rules_.is_in_force(asking->plan.generation)) {
      asking->active = rules_.current();
      if (auto error = make_plan(*asking->active, request, asking->plan)) {
        return tell(asking, std::move(*error), now);
      }
    }
    if (waits_behind(asking, now)) return;
  } while (!charge_local(*asking, request, now));
  if (!asking->local) return tell(asking, asking->local, now);
  if (!asking->local->allowed()) {
    const bool may_wait = !asking->is_peek && asking->behind == 0;
    if (may_wait && try_later(asking, *asking->local, now)) return;
    if (!asking->is_peek) count(*asking->local);
    return tell(asking, asking->local, now);
  }
  ask_store(asking, request, now);
}

bool Elsewhere::charge_local(Asking& asking, const Request& request, Instant now) {
  const bool is_peek = asking.is_peek || asking.behind != 0;
  const Mode mode = is_peek ? Mode::kPeek : asking.wait_until > now ? Mode::kTry : Mode::kAhead;
  Plan local_plan;
  local_plan.begin(asking.plan.generation);
  for (const PlanItem& item : asking.plan.limits()) {
    if (!item.limit->is_shared) local_plan.add(*item.limit) = item;
  }
  asking.wants_hold = !is_peek && (asking.hold.count() > 0 || asking.plan.has_slots);
  asking.ttl = asking.hold.count() > 0 ? asking.hold : shortest_hold(asking.plan);
  asking.local.renew();
  asking.held = {};
  if (local_plan.count == 0 && !asking.wants_hold) return true;
  const Ask held{.request = request,
                 .hold = is_peek             ? Duration{}
                         : asking.wants_hold ? asking.ttl
                                             : kHeldWhileAsking,
                 .up_to = asking.up_to};
  if (!resolver_.decide(local_plan, held, mode, now, asking.local)) return false;
  if (!asking.local) return true;
  asking.held = std::exchange(asking.local->hold, {});
  if (asking.held && !asking.up_to.empty()) set_want(asking, asking.local->granted);
  return true;
}

// As of now: another may override it before the slots are taken.
Duration Elsewhere::shortest_hold(const Plan& plan) {
  Table& table = ground_.table;
  ShortestHold shortest;
  for (const PlanItem& item : plan.limits()) {
    const MeterShape* shape = &item.limit->shape;
    if (!item.limit->is_slots) continue;
    Shard& shard = table.shard_of(item.print);
    const std::scoped_lock lock(shard);
    const Slot* slot = table.find(shard, item.print);
    if (slot != nullptr && (slot->meta() & meta::kOverride) != 0 &&
        is_slots(ground_.rows.at(slot->row()).shape)) {
      shape = &ground_.rows.at(slot->row()).shape;
    }
    shortest.add(*shape, item.limit->shadow);
  }
  return shortest.length();
}

void Elsewhere::ask_store(const std::shared_ptr<Asking>& asking, const Request& request,
                          Instant now) {
  SharedStore* const store = this->store();
  boost::container::small_vector<SharedItem, 4> items;
  for (const PlanItem& item : asking->plan.limits()) {
    if (!item.limit->is_shared) continue;
    items.push_back({item.limit->rule, key_of(*asking->active, *item.limit, request), item.cost,
                     item.weight, item.print});
  }
  // The rules may have changed since: then nothing is shared any more.
  if (items.empty()) return hear(asking, SharedAnswer{now, {}, false}, now);
  if (store == nullptr) return hear(asking, no_store(first_shared(asking->plan)), now);
  {
    const std::scoped_lock lock(room_.lock);
    make_late(asking);
  }
  HoldId hold = asking->wants_hold ? asking->held : HoldId{};
  hold.is_shared = static_cast<bool>(hold);
  const SharedAsk ask{.rules = asking->active->rules,
                      .items = items,
                      .hold = hold,
                      .ttl = asking->ttl,
                      .is_peek = asking->is_peek || asking->behind != 0,
                      .is_partial = !asking->up_to.empty(),
                      .now = now};
  store->decide(
      ask, [this, asking, now](Result<SharedAnswer> said) { hear(asking, std::move(said), now); });
}

// The part of a hold that is kept here, if it is.
std::uint64_t Elsewhere::end_local(HoldId hold, HoldState as, std::span<const Cost> actual,
                                   Instant now) {
  return hold ? ending_.end(hold, as, actual, now).record : 0;
}

// Puts what both sides said together, in the order of the rules.
void Elsewhere::hear(const std::shared_ptr<Asking>& asking, Result<SharedAnswer> said,
                     Instant now) {
  if (!said) {
    end_local(asking->held, HoldState::kCancelled, {}, now);
    return tell(asking, std::move(said).error(), now);
  }
  Result<Decision> answer(std::in_place);
  Decision& decision = *answer;
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
    row = row_of(item, outcome, outcome.check.allowed() ? now : here(outcome.check.earliest));
    if (is_behind) row.earliest = later_of(row.earliest, asking->behind_until);
    if (!item.limit->shadow) ruling.add(i, {row.verdict, row.earliest, outcome.check.shortfall});
  }
  decision.outcome_count = asking->plan.count;
  ruling.write_to(decision);
  if (asking->is_peek) return tell(asking, answer, now);
  if (ruling.allowed()) return admit(asking, *said, answer, now);
  if (asking->behind != 0) {
    if (asking->is_overloaded) decision.verdict = Verdict::kOverloaded;
    count(decision);
    return tell(asking, answer, now);
  }

  // What local limits gave is given back.
  end_local(asking->held, HoldState::kCancelled, {}, now);
  if (lower_want(*asking, *said)) return go_on(asking, now);
  for (std::size_t i = 0; i < asking->plan.count; ++i) {
    Outcome& row = decision.outcome_rows[i];
    if (!asking->plan.items[i].limit->is_shared && row.verdict == Verdict::kAllowed) {
      row.remaining = std::min(row.capacity, row.remaining + row.cost);
    }
  }
  if (try_later(asking, decision, now)) return;
  count(decision);
  tell(asking, answer, now);
}

// Both sides have charged it.
void Elsewhere::admit(const std::shared_ptr<Asking>& asking, const SharedAnswer& said,
                      Result<Decision>& answer, Instant now) {
  Decision& decision = *answer;
  std::size_t place = 0;
  for (std::size_t i = 0; i < asking->plan.count; ++i) {
    if (!asking->plan.items[i].limit->is_shared) continue;
    decision.outcome_rows[i].remaining = left_of(said.outcomes[place++]);
  }
  if (asking->wants_hold) {
    decision.hold = asking->held;
    decision.hold.is_shared = said.is_held;
    if (said.is_held) ending_.holds().note_shared(decision.hold);
    decision.hold_expires = now + asking->ttl;
  } else {
    // The charges stay.
    decision.record = end_local(asking->held, HoldState::kSettled, {}, now);
  }
  decision.record = std::max(decision.record, asking->local->record);
  if (!asking->up_to.empty()) decision.granted = asking->want;
  count(decision);
  tell(asking, answer, now);
}

// Whether it was given up meanwhile; then it leaves.
bool Elsewhere::is_given_up(Asking& asking) {
  if (asking.ticket == 0) return false;
  const std::scoped_lock lock(room_.lock);
  if (asking.is_given_up) leave(asking);
  return asking.is_given_up;
}

// Answers it, unless it was given up: then what it was given is of no use.
void Elsewhere::tell(const std::shared_ptr<Asking>& asking, const Result<Decision>& answer,
                     Instant now) {
  bool is_dropped = false;
  if (asking->ticket != 0) {
    const std::scoped_lock lock(room_.lock);
    is_dropped = asking->is_given_up;
    leave(*asking);
  }
  if (is_dropped) {
    if (!answer || !answer->hold) return;
    if (answer->hold.is_shared)
      return end(answer->hold, HoldState::kCancelled, {}, now, [](const auto&) {});
    end_local(answer->hold, HoldState::kCancelled, {}, now);
    return ended_here(answer->hold, HoldState::kCancelled, {}, now);
  }
  DecisionSink* const sink = ground_.options.sink;
  if (sink != nullptr && answer && !asking->is_peek) {
    sink->record(asking->ask(), asking->asked_at, *answer);
  }
  if (asking->late) {
    asking->late(answer);
  } else {
    asking->answers->now(asking->place, answer);
  }
}

// --- waiting

void Elsewhere::make_late(const std::shared_ptr<Asking>& asking) {
  if (asking->late) return;
  if (asking->ticket == 0) {
    asking->ticket = ground_.next_ticket.fetch_add(1, std::memory_order_relaxed);
  }
  by_ticket_.emplace(asking->ticket, asking);
  asking->late = std::exchange(asking->answers, nullptr)->later(asking->place, asking->ticket);
}

bool Elsewhere::take_place(Waiter& waiter, const PlanItem& item) {
  if (WaitRoom::has_place(waiter, item.print)) return true;
  const auto most = static_cast<std::size_t>(item.limit->rule->queue_max);
  if (room_.waiting_at(item.print) >= most) return false;
  room_.take_place(waiter, {item.print, item.print, item.cost, nullptr});
  return true;
}

void Elsewhere::stay(const std::shared_ptr<Asking>& asking, Waiter& waiter, AskStage stage,
                     Instant until, Instant now) {
  make_late(asking);
  if (!std::exchange(asking->is_waiting, true)) waiters_.fetch_add(1);
  asking->stage = stage;
  room_.set_timer(waiter, until);
  set_alarm(now);
}

bool Elsewhere::waits_behind(const std::shared_ptr<Asking>& asking, Instant now) {
  asking->behind = 0;
  if (asking->is_peek || waiters_.load(std::memory_order_acquire) == 0) return false;
  const std::uint64_t ticket = asking->ticket != 0 ? asking->ticket : kNewcomer;
  const std::scoped_lock lock(room_.lock);
  if (asking->is_given_up) return false;
  std::uint32_t behind = 0;
  Instant until = now;
  for (std::size_t i = 0; i < asking->plan.count; ++i) {
    const PlanItem& item = asking->plan.items[i];
    if (!item.limit->is_shared || item.limit->shadow || item.cost == 0) continue;
    // It can never pass: it is to hear that now.
    if (item.cost > item.limit->capacity) return false;
    if (!room_.older_at(item.print, ticket)) continue;
    behind |= std::uint32_t{1} << i;
    const Instant tried = room_.find(room_.oldest_at(item.print))->try_at;
    until = later_of(until, tried > now ? tried : kForever);
  }
  if (behind == 0) return false;
  if (asking->wait_until > now) {
    Waiter& waiter = *room_.find(ticket);
    bool has_places = asking->is_waiting || waiters_.load() < ground_.options.waiters_max;
    for (std::size_t i = 0; has_places && i < asking->plan.count; ++i) {
      if ((behind >> i & 1) == 0) continue;
      has_places = take_place(waiter, asking->plan.items[i]);
    }
    if (has_places) {
      stay(asking, waiter, AskStage::kBehind, asking->wait_until, now);
      return true;
    }
    asking->is_overloaded = true;
  }
  asking->behind = behind;
  asking->behind_until = until;
  return false;
}

bool Elsewhere::try_later(const std::shared_ptr<Asking>& asking, Decision& decision, Instant now) {
  const Instant again =
      decision.earliest == kForever ? now + kLookAgain : later_of(decision.earliest, now);
  if (decision.verdict != Verdict::kDenied || asking->wait_until <= now ||
      again > asking->wait_until || store() == nullptr) {
    return false;
  }
  const std::scoped_lock lock(room_.lock);
  if (asking->is_given_up) return false;
  Waiter& waiter = *room_.find(asking->ticket);
  bool has_place = asking->is_waiting || waiters_.load() < ground_.options.waiters_max;
  // Of the plan or, if a limit of this engine refused, of those: then it has no place.
  for (const PlanItem& item : asking->plan.limits()) {
    if (item.limit->name != decision.binding()->limit || !item.limit->is_shared) continue;
    has_place = has_place && take_place(waiter, item);
  }
  if (!has_place) {
    decision.verdict = Verdict::kOverloaded;
    return false;
  }
  const bool is_behind = std::any_of(
      waiter.places.begin(), waiter.places.end(),
      [&](const Waiter::Held& held) { return room_.older_at(held.place, asking->ticket); });
  stay(asking, waiter, is_behind ? AskStage::kBehind : AskStage::kTimed,
       is_behind ? asking->wait_until : again, now);
  return true;
}

// Gives up its ticket and its places; the next at each of them is tried.
void Elsewhere::leave(Asking& asking) {
  const std::uint64_t ticket = std::exchange(asking.ticket, 0);
  by_ticket_.erase(ticket);
  if (std::exchange(asking.is_waiting, false)) waiters_.fetch_sub(1);
  const std::unique_ptr<Waiter> waiter = room_.remove(ticket);
  while (waiter != nullptr && !waiter->places.empty()) {
    const Print place = waiter->places.back().place;
    room_.leave_place(*waiter, place);
    const std::uint64_t next = room_.oldest_at(place);
    if (next != 0 && by_ticket_.at(next)->stage == AskStage::kBehind) wake(next);
  }
}

bool Elsewhere::give_up(std::uint64_t ticket) {
  const std::scoped_lock lock(room_.lock);
  const auto found = by_ticket_.find(ticket);
  if (found == by_ticket_.end()) return false;
  const std::shared_ptr<Asking> asking = found->second;
  if (std::exchange(asking->is_given_up, true)) return false;
  // What is being decided is dropped when that is done.
  if (asking->stage != AskStage::kAsking) leave(*asking);
  return true;
}

// Not on this thread's stack, where a long queue would be as deep.
void Elsewhere::wake(std::uint64_t ticket) {
  SharedStore* const store = this->store();
  if (store == nullptr) return;
  std::shared_ptr<Asking> asking = by_ticket_.at(ticket);
  asking->stage = AskStage::kAsking;
  room_.set_timer(*room_.find(ticket), kForever);
  store->later(Duration{0}, [this, asking = std::move(asking)](Instant now) {
    go_on(std::shared_ptr(asking), now);
  });
}

void Elsewhere::set_alarm(Instant now) {
  const Instant due = room_.next_due();
  SharedStore* const store = this->store();
  if (due >= alarm_ || store == nullptr) return;
  alarm_ = due;
  store->later(later_of(due, now) - now, [this, due](Instant then) { ring(due, then); });
}

void Elsewhere::ring(Instant alarm, Instant now) {
  now = later_of(now, alarm);
  std::vector<std::shared_ptr<Asking>> due;
  {
    const std::scoped_lock lock(room_.lock);
    if (alarm_ == alarm) alarm_ = kForever;
    for (const std::uint64_t ticket : room_.due(now)) {
      room_.set_timer(*room_.find(ticket), kForever);
      due.push_back(by_ticket_.at(ticket));
      due.back()->stage = AskStage::kAsking;
    }
    set_alarm(now);
  }
  for (const std::shared_ptr<Asking>& asking : due) go_on(asking, now);
}

bool Elsewhere::is_waited_for(const Plan& plan) {
  if (waiters_.load(std::memory_order_acquire) == 0) return false;
  const std::scoped_lock lock(room_.lock);
  return std::any_of(plan.limits().begin(), plan.limits().end(), [&](const PlanItem& item) {
    return item.cost > 0 && room_.waiting_at(item.print) > 0;
  });
}

std::size_t Elsewhere::waiting_at(Print print) {
  const std::scoped_lock lock(room_.lock);
  return room_.waiting_at(print);
}

// More may be there than the store has told.
void Elsewhere::try_waiters(Print print) {
  const std::scoped_lock lock(room_.lock);
  const std::uint64_t next = room_.oldest_at(print);
  if (next != 0 && by_ticket_.at(next)->stage != AskStage::kAsking) wake(next);
}

// --- holds and keys

// The store first: if it cannot be asked, the caller may try again, and nothing has changed
// here.
void Elsewhere::end(HoldId hold, HoldState as, std::span<const Cost> actual, Instant now,
                    HoldCallback callback) {
  SharedStore* const store = this->store();
  if (store == nullptr) {
    return callback(Error{ErrorCode::kUnavailable,
                          "hold: it is shared, but no limit here is; ask a server that shares it"});
  }
  std::vector<std::pair<std::string, std::int64_t>> kept;
  for (const Cost& cost : actual) kept.emplace_back(cost.unit, cost.amount);
  store->end(hold, as, actual, rules_.current()->rules, now,
             [this, hold, as, now, kept = std::move(kept),
              callback = std::move(callback)](const Result<SharedEnd>& said) {
               if (!said) return callback(said.error());
               const HoldState state = said->state;
               counting_.count_clipped(*rules_.current(), said->clipped);
               std::vector<Cost> costs;
               for (const auto& [unit, amount] : kept) costs.push_back({unit, amount});
               // How it ended elsewhere, it ends here.
               const bool is_ours = state == as || state == HoldState::kGone;
               if (!is_ours) costs.clear();
               callback(HoldAnswer{state, end_local(hold, is_ours ? as : state, costs, now)});
             });
}

void Elsewhere::renew(HoldId hold, Duration ttl, Instant now, HoldCallback callback) {
  SharedStore* const store = this->store();
  Result<HoldState> local = ending_.renew(hold, ttl, now);
  const auto tell = [callback = std::move(callback)](const Result<HoldState>& state) {
    if (!state) return callback(state.error());
    callback(HoldAnswer{*state});
  };
  if (!local || store == nullptr) return tell(local);
  store->renew(hold, ttl, now, tell);
}

void Elsewhere::inspect(const std::shared_ptr<const Active>& rules, const KeyedLimit& keyed,
                        std::span<const std::string_view> key, Instant now,
                        InspectCallback callback) {
  SharedStore* const store = this->store();
  if (store == nullptr) return callback(no_store(keyed.limit->name));
  store->inspect(item_of(keyed, key), rules->rules, now,
                 [this, rules, capacity = keyed.limit->capacity, print = keyed.print,
                  callback = std::move(callback)](Result<SharedLevel> level) {
                   if (!level) return callback(std::move(level).error());
                   callback(Inspection{.remaining = level->remaining,
                                       .capacity = capacity,
                                       .overridden = false,
                                       .waiters = waiting_at(print),
                                       .leased = level->leased});
                 });
}

void Elsewhere::reset(const std::shared_ptr<const Active>& rules, const KeyedLimit& keyed,
                      std::span<const std::string_view> key, Instant now, StatusCallback callback) {
  // What is in flight was not spent: it comes back when the work ends.
  if (keyed.limit->is_slots) return callback(Done{});
  SharedStore* const store = this->store();
  if (store == nullptr) return callback(no_store(keyed.limit->name));
  store->reset(item_of(keyed, key), rules->rules, now,
               [this, print = keyed.print, callback = std::move(callback)](Status status) {
                 const bool is_reset = status.ok();
                 callback(status);
                 if (is_reset) try_waiters(print);
               });
}

void Elsewhere::holds(const KeyedLimit& keyed, std::span<const std::string_view> key,
                      std::size_t most, HoldsCallback callback) {
  if (!keyed.limit->is_slots) {
    return callback(bad_argument(
        fmt::format("limit '{}': it is shared and counts what was spent, so nobody knows which "
                    "holds were charged there; cancel each by its id, or only forget what was used",
                    keyed.limit->name)));
  }
  SharedStore* const store = this->store();
  if (store == nullptr) return callback(no_store(keyed.limit->name));
  store->holds(item_of(keyed, key), most, std::move(callback));
}

}  // namespace weir::engine
