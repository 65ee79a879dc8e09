// Decider, inside. What decide_several() relies on, which takes from several meters in one step:
//
//  1. The locks of all its shards are held from the first look-up to the last write. LockedShards
//     waits for locks in their order only, so no two decisions wait for one another.
//  2. Under these locks it checks that the rules of the plan are in force, and that each key has a
//     slot of its limit's row, without override and without waiters. If not, nothing has been
//     written, and the long way decides.
//  3. All meters see one instant: `now`, or the last charge in any of the shards if that is later.
//  4. What every meter would be afterwards is worked out in `words` first. If one refuses, no slot
//     is written.
//  5. Everything that can fail comes before everything that cannot. Only a log can lack room, and
//     room is made in all logs before a unit is taken from any meter.
//  6. A slot that takes the cost is marked as changed, and no later decision in its shard is
//     earlier than this one.
//
// decide_one() keeps 1 to 4 and 6 for one meter that is no log. It is written apart so that all of
// a bucket stays in registers.

#include "weir/engine/internal/decider.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "weir/engine/ask.h"

namespace weir::engine {
namespace {

constexpr std::size_t kBatch = 16;  // requests planned and prefetched together

template <typename Visitor>
void for_each_bit(std::uint32_t bits, Visitor&& visitor) {
  for (; bits != 0; bits &= bits - 1) visitor(static_cast<std::size_t>(std::countr_zero(bits)));
}

// Kept out of the way of those for which there is room.
[[gnu::cold, gnu::noinline]] Error ad_hoc_share_full(const SettingNames& names) {
  return {
      ErrorCode::kExhausted,
      fmt::format("the share of these keys in the table is full, so a new key is refused; raise "
                  "{} or {}, or let {} be 'evict'",
                  names.ad_hoc_keys, names.keys, names.when_full)};
}

inline void report_row(const PlanItem& item, const meter::Check& check, std::int64_t left,
                       Outcome& row) {
  row.limit = item.limit->name;
  row.verdict = check.verdict;
  row.shadow = false;
  row.overridden = false;  // those take the long way
  row.cost = item.cost;
  row.remaining = std::max<std::int64_t>(0, left);
  row.capacity = item.limit->capacity;
  row.earliest = check.earliest;
}

inline void report_one(const PlanItem& item, const Taken& taken, Decision& decision) {
  const meter::Check& check = taken.check;
  decision.verdict = check.verdict;
  decision.binding_index = check.allowed() ? std::int8_t{-1} : std::int8_t{0};
  decision.outcome_count = 1;
  decision.shortfall = check.shortfall;
  decision.earliest = check.earliest;
  report_row(item, check, taken.left, decision.outcome_rows[0]);
}

// The end of a decision by one meter, whose shard is locked: keeps what was taken, unlocks.
inline void end_one(Shard& shard, Slot& slot, const PlanItem& item, const Taken& taken,
                    const Words& words, Instant at, Decision& decision) {
  const bool allowed = taken.check.allowed();
  if (allowed) {
    slot.set_words(words);
    shard.mark_changed(slot);
    shard.latest_ns.store(at.ns, std::memory_order_relaxed);
  }
  if (shard.denying.load(std::memory_order_relaxed) == allowed) {
    shard.denying.store(!allowed, std::memory_order_relaxed);
  }
  shard.unlock();
  report_one(item, taken, decision);
}

// Apart from buckets, so that their words and what was taken of them stay in registers.
[[gnu::noinline]] void take_other_and_end(Shard& shard, Slot& slot, const PlanItem& item,
                                          Instant at, Decision& decision) {
  Words words = slot.words();
  const Taken taken = take_other(item.limit->shape, words, at, item.cost);
  end_one(shard, slot, item, taken, words, at, decision);
}

}  // namespace

inline bool Decider::plan_one(Local& mine, const Active& rules, const Request& request,
                              PlanItem& item) {
  const ActiveLimit* limit = mine.outlines.sole_limit(request);
  if (limit == nullptr || request.attributes[0].value.size() > kValueBytesMax) return false;
  const Print key = with_value(rules.secret, {}, request.attributes[0].value);
  item = {limit, print_for(limit->seed, key), 1, 1};
  return true;
}

// A limit that is denying is read first, without its lock: a denial writes
// nothing, so any number of threads can be denied at once.
bool Decider::deny_unlocked(const Shard& shard, const PlanItem& item, std::uint64_t planned_under,
                            Instant now, Decision& decision) {
  Words words;
  if (!Table::read_plain(shard, item.print, item.limit->row, words)) return false;
  const Instant at = shard.at_least(now);
  const auto end = [&](const Taken& taken) {
    if (taken.check.allowed()) return false;
    // The rules may have changed since the plan was made; then the lock decides.
    if (!rules_.is_in_force(planned_under)) return false;
    report_one(item, taken, decision);
    return true;
  };
  const auto* bucket = std::get_if<meter::BucketShape>(&item.limit->shape);
  if (bucket != nullptr) [[likely]]
    return end(take(*bucket, words, at, item.cost));
  Words of_other = words;  // its address is taken; what a bucket has stays in registers
  return end(take_other(item.limit->shape, of_other, at, item.cost));
}

inline bool Decider::decide_one(const PlanItem& item, std::uint64_t planned_under, Instant now,
                                Decision& decision) {
  const ActiveLimit& limit = *item.limit;
  Shard& shard = table_.shard_of(item.print);
  if (shard.denying.load(std::memory_order_relaxed) &&
      deny_unlocked(shard, item, planned_under, now, decision)) {
    return true;
  }
  Table::prefetch_if_large(shard, item.print);  // it arrives while the lock is taken
  shard.lock();
  Slot* slot = table_.find(shard, item.print);
  if (slot == nullptr || (slot->meta() & ~meta::kDirty) != limit.row ||
      !rules_.is_in_force(planned_under)) {
    shard.unlock();
    return false;
  }
  const Instant at = shard.at_least(now);
  const auto* bucket = std::get_if<meter::BucketShape>(&limit.shape);
  if (bucket == nullptr) [[unlikely]] {
    take_other_and_end(shard, *slot, item, at, decision);
    return true;
  }
  Words words = slot->words();
  const Taken taken = take(*bucket, words, at, item.cost);
  end_one(shard, *slot, item, taken, words, at, decision);
  return true;
}

inline bool Decider::decide_directly(const Plan& plan, Instant now, Decision& decision) {
  if (!plan.is_direct || !is_acceptable(now)) return false;
  return plan.count == 1 && !plan.items[0].limit->is_log
             ? decide_one(plan.items[0], plan.generation, now, decision)
             : decide_several(plan, now, decision);
}

bool Decider::decide_several(const Plan& plan, Instant now, Decision& decision) {
  std::array<Shard*, kLimitsPerRequestMax> shards;
  std::array<Slot*, kLimitsPerRequestMax> slots;
  std::array<Words, kLimitsPerRequestMax> words;  // afterwards; those of a log without the cost
  const std::size_t count = plan.count;
  // What is not in the cache arrives together, and while the locks are taken.
  for (std::size_t i = 0; i < count; ++i) {
    const Print print = plan.items[i].print;
    shards[i] = &table_.shard_of(print);
    Table::prefetch(*shards[i], print);
  }
  for_each_bit(plan.logs,
               [&](std::size_t i) { table_.prefetch_runs(*shards[i], plan.items[i].print); });
  const LockedShards locked{std::span<Shard* const>(shards.data(), count)};
  if (!rules_.is_in_force(plan.generation)) return false;
  Instant at = now;
  for (std::size_t i = 0; i < count; ++i) {
    const PlanItem& item = plan.items[i];
    slots[i] = table_.find(*shards[i], item.print);
    if (slots[i] == nullptr || (slots[i]->meta() & ~meta::kDirty) != item.limit->row) return false;
    at = shards[i]->at_least(at);
  }
  Ruling ruling(at);
  for (std::size_t i = 0; i < count; ++i) {
    const PlanItem& item = plan.items[i];
    const ActiveLimit& limit = *item.limit;
    Words after = slots[i]->words();
    const auto* log = std::get_if<meter::LogShape>(&limit.shape);
    const Taken taken = log != nullptr ? check_log(*log, after, table_.logs, at, item.cost)
                                       : take_self_contained(limit.shape, after, at, item.cost);
    words[i][0] = after[0];
    words[i][1] = after[1];
    ruling.add(i, taken.check);
    report_row(item, taken.check, taken.left, decision.outcome_rows[i]);
  }
  ruling.write_to(decision);
  decision.outcome_count = plan.count;
  if (!ruling.allowed()) {
    // Some would have admitted it: what they would have given is still there.
    for (std::size_t i = 0; i < count; ++i) {
      Outcome& row = decision.outcome_rows[i];
      if (row.verdict == Verdict::kAllowed) row.remaining += row.cost;
    }
    return true;
  }

  // First everything that can fail, then everything that cannot.
  bool is_room = true;
  for_each_bit(plan.logs, [&](std::size_t i) {
    is_room = is_room && reserve(plan.items[i].limit->shape, words[i], table_.logs, at);
    slots[i]->set_words(words[i]);
  });
  if (!is_room) [[unlikely]] {
    // Logs have forgotten what no longer counts, so no decision may be earlier.
    locked.charged_at(at);
    return false;
  }
  for_each_bit(plan.logs, [&](std::size_t i) {
    const PlanItem& item = plan.items[i];
    charge_log(*std::get_if<meter::LogShape>(&item.limit->shape), words[i], table_.logs, at,
               item.cost);
  });
  for (std::size_t i = 0; i < count; ++i) {
    slots[i]->set_words(words[i]);
    shards[i]->mark_changed(*slots[i]);
    shards[i]->latest_ns.store(at.ns, std::memory_order_relaxed);
  }
  return true;
}

// --- on the stack

Result<Decision> Decider::decide(const Request& request, Instant now) {
  Result<Decision> answer(std::in_place);
  Local& mine = locals_.mine();
  const Active& rules = rules_.current(mine);
  PlanItem item;
  if (plan_one(mine, rules, request, item) && is_acceptable(now)) [[likely]] {
    if (decide_one(item, rules.generation, now, *answer)) [[likely]] {
      mine.tallies.add(item.limit->tally, static_cast<std::size_t>(answer->verdict));
      counting_.sample(mine, rules, {&item, 1}, request);
      return answer;
    }
  }
  decide_planned(mine, rules, request, now, answer);
  return answer;
}

// A request of more than one limit, or whose only limit is not decided the short way.
void Decider::decide_planned(Local& mine, const Active& rules, const Request& request, Instant now,
                             Result<Decision>& answer) {
  if (auto error = mine.outlines.make_plan(rules, request)) {
    answer = std::move(*error);
    return;
  }
  const Plan& plan = mine.outlines.plan();
  counting_.sample(mine, rules, plan.limits(), request);
  if (decide_directly(plan, now, *answer)) [[likely]] {
    return Counting::count_direct(mine, plan, *answer);
  }
  decide_at_length(plan, {.request = request}, now, answer);
}

void Decider::decide(const Ask& ask, Instant now, Result<Decision>& answer) {
  if (ask.wait_until > now) {
    answer = bad_argument(
        "request: it may wait, so its answer comes later; use Engine::ask(), or leave out "
        "'wait_until'");
    return;
  }
  Local& mine = locals_.mine();
  const Active& rules = rules_.current(mine);
  if (auto error = mine.outlines.make_plan(rules, ask.request)) {
    answer = std::move(*error);
    return;
  }
  if (!ask.is_peek) counting_.sample(mine, rules, mine.outlines.plan().limits(), ask.request);
  decide_at_length(mine.outlines.plan(), ask, now, answer);
}

bool Decider::plan_again(const Request& request, Plan& plan, Result<Decision>& answer) {
  Local& mine = locals_.mine();
  const Active& rules = rules_.current(mine);
  if (auto error = mine.outlines.make_plan(rules, request)) {
    answer = std::move(*error);
    return false;
  }
  plan = mine.outlines.plan();
  return true;
}

// It cannot wait: there is nothing that it waits for.
[[gnu::noinline]] bool Decider::decide_unmatched(const Plan& plan, const Ask& ask, Instant now,
                                                 Result<Decision>& answer) {
  const Active& active = rules_.current(locals_.mine());
  if (active.generation != plan.generation) return false;
  const RuleSet& rules = *active.rules;
  if (rules.unmatched() == Unmatched::kAllow) {
    const Mode mode = ask.is_peek ? Mode::kPeek : Mode::kCharge;
    if (!resolver_.decide(plan, ask, mode, now, answer)) return false;
  } else if (rules.unmatched() == Unmatched::kDeny) {
    answer->verdict = Verdict::kDenied;
    answer->earliest = kForever;
  } else {
    answer = Error{ErrorCode::kUnmatched,
                   fmt::format("request: it meets no limit, since it has none of what one reads; "
                               "limits read the attributes {}; write all that one of them reads",
                               rules.attributes().joined())};
  }
  if (!ask.is_peek) counting_.count_unmatched();
  return true;
}

// Requires that there is one.
const ActiveLimit& first_shared(const Plan& plan) {
  const auto is_shared = [](const PlanItem& item) { return item.limit->is_shared; };
  return *std::find_if(plan.limits().begin(), plan.limits().end(), is_shared)->limit;
}

// What is wrong with an ask, beside its plan.
std::optional<Error> Decider::objection(const Ask& ask, Instant now) const {
  if (!is_acceptable(now)) return unacceptable_instant(now);
  return check_ask(options_, ask, now);
}

[[gnu::noinline]] void Decider::decide_at_length(const Plan& made, const Ask& ask, Instant now,
                                                 Result<Decision>& answer) {
  if (auto error = objection(ask, now)) {
    answer = std::move(*error);
    return;
  }
  Plan plan = made;  // callbacks may make other plans in its place
  do {
    if (plan.is_unmatched) [[unlikely]] {
      if (decide_unmatched(plan, ask, now, answer)) return;
      continue;
    }
    if (plan.has_shared && rules_.is_in_force(plan.generation)) [[unlikely]] {
      if (ask.is_plain() && elsewhere_.decide_leased(plan, now, *answer)) return;
      answer = needs_store(plan);
      return;
    }
    const Mode mode = ask.is_peek ? Mode::kPeek : Mode::kCharge;
    if (!plan.has_shared && resolver_.decide(plan, ask, mode, now, answer)) return;
  } while (plan_again(ask.request, plan, answer));
}

Result<Decision> Decider::decide(Prepared::Impl& prepared, Instant now) {
  Result<Decision> answer(std::in_place);
  if (decide_directly(prepared.plan, now, *answer)) [[likely]] {
    Local& mine = locals_.mine();
    Counting::count_direct(mine, prepared.plan, *answer);
    counting_.sample(mine, *prepared.active, prepared.plan.limits(), prepared.request.view());
    return answer;
  }
  decide_prepared_at_length(prepared, now, answer);
  return answer;
}

void Decider::decide_prepared_at_length(Prepared::Impl& prepared, Instant now,
                                        Result<Decision>& answer) {
  if (!rules_.is_in_force(prepared.plan.generation)) {
    prepared.active = rules_.current();
    if (auto error = make_plan(*prepared.active, prepared.request.view(), prepared.plan)) {
      prepared.plan.clear();  // it is of rules that are gone
      answer = std::move(*error);
      return;
    }
  }
  const Request request = prepared.request.view();
  counting_.sample(locals_.mine(), *prepared.active, prepared.plan.limits(), request);
  decide_at_length(prepared.plan, {.request = request}, now, answer);
}

// --- asks

void Decider::answer_now(const Ask& ask, Instant now, std::size_t i, const Result<Decision>& answer,
                         Answers& answers) {
  if (sink_ != nullptr && answer && !ask.is_peek) sink_->record(ask, now, *answer);
  answers.now(i, answer);
}

[[gnu::noinline]] void Decider::ask_at_length(const Plan& made, const Ask& ask, Instant now,
                                              std::size_t i, Answers& answers) {
  Result<Decision> answer(std::in_place);
  if (auto error = objection(ask, now)) {
    answer = std::move(*error);
    return answers.now(i, answer);
  }
  const bool may_wait = ask.wait_until > now;
  const Mode mode = ask.is_peek ? Mode::kPeek : may_wait ? Mode::kTry : Mode::kCharge;
  Plan plan = made;  // callbacks may make other plans in its place
  do {
    const std::shared_ptr<const Active> active = locals_.mine().active;
    if (active->generation != plan.generation) continue;
    if (plan.is_unmatched) [[unlikely]] {
      if (decide_unmatched(plan, ask, now, answer)) break;
      continue;
    }
    if (plan.has_shared) [[unlikely]] {
      if (!rules_.is_in_force(plan.generation)) continue;
      if (ask.is_plain() && elsewhere_.decide_leased(plan, now, *answer)) break;
      if (ask.book_within.count() > 0) {
        answer = not_bookable(first_shared(plan));
        return answers.now(i, answer);
      }
      return elsewhere_.ask(ask, active, plan, now, i, answers);
    }
    if (!resolver_.decide(plan, ask, mode, now, answer)) continue;
    if (!may_wait || !answer) break;
    if (answer->verdict != Verdict::kDenied) {
      counting_.count(*rules_.current(), *answer);
      break;
    }
    if (!waiting_.wait(ask, active, plan, now, i, answers, answer)) break;
    const bool is_queued = answer->verdict == Verdict::kQueued;  // else the store has it
    if (sink_ != nullptr && is_queued) sink_->record(ask, now, *answer);
    return;
  } while (plan_again(ask.request, plan, answer));
  answer_now(ask, now, i, answer, answers);
}

// --- several at once

// Requests of a program, answered in place.
struct Decider::Requests {
  Decider& decider;
  std::span<const Request> requests;
  std::span<Result<Decision>> answers;

  std::size_t size() const noexcept { return requests.size(); }
  const Request& request(std::size_t i) const noexcept { return requests[i]; }
  static bool is_plain(std::size_t) noexcept { return true; }
  static bool is_peek(std::size_t) noexcept { return false; }
  Result<Decision>& begin(std::size_t i) noexcept {
    answers[i].renew();
    return answers[i];
  }
  void end(std::size_t) noexcept {}
  void go_at_length(std::size_t i, const Plan& plan, Instant now) {
    decider.decide_at_length(plan, {.request = requests[i]}, now, begin(i));
  }
};

// Asks of a protocol: each answer is told before the next is decided, while it is near.
struct Decider::Asks {
  Decider& decider;
  std::span<const Ask> asks;
  std::size_t first;  // the place of the first of them
  Instant now;
  Answers& answers;
  Result<Decision> answer{std::in_place};

  std::size_t size() const noexcept { return asks.size(); }
  const Request& request(std::size_t i) const noexcept { return asks[i].request; }
  bool is_plain(std::size_t i) const noexcept { return asks[i].is_plain(); }
  bool is_peek(std::size_t i) const noexcept { return asks[i].is_peek; }
  Result<Decision>& begin(std::size_t) noexcept {
    answer.renew();
    return answer;
  }
  void end(std::size_t i) { decider.answer_now(asks[i], now, first + i, answer, answers); }
  void go_at_length(std::size_t i, const Plan& plan, Instant at) {
    decider.ask_at_length(plan, asks[i], at, first + i, answers);
  }
};

// Planned and prefetched together, decided one after the other.
template <typename Batch>
[[gnu::always_inline]] inline void Decider::run(Batch& batch, Instant now) {
  const bool is_now_acceptable = is_acceptable(now);
  Table& table = table_;
  Local& mine = locals_.mine();
  const Active& rules = rules_.current(mine);
  // The plans of this batch point into the rules, also after one of its decisions
  // has met newer ones.
  const std::shared_ptr<const Active> kept = mine.active;
  std::array<bool, kBatch> is_one{};
  std::array<PlanItem, kBatch> ones;
  std::array<Plan, kBatch> plans;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Request& request = batch.request(i);
    if (batch.is_plain(i) && plan_one(mine, rules, request, ones[i]) && is_now_acceptable)
        [[likely]] {
      is_one[i] = true;
      table.prefetch_both(ones[i].print);
      continue;
    }
    if (mine.outlines.make_plan(rules, request) != nullptr) {
      plans[i].clear();  // what is wrong is told when its turn comes
      continue;
    }
    plans[i] = mine.outlines.plan();
    if (!batch.is_peek(i)) counting_.sample(mine, rules, plans[i].limits(), request);
    for (const PlanItem& item : plans[i].limits()) {
      if (!item.limit->seat) table.prefetch_both(item.print);
    }
  }
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (is_one[i]) [[likely]] {
      Result<Decision>& answer = batch.begin(i);
      if (decide_one(ones[i], kept->generation, now, *answer)) [[likely]] {
        mine.tallies.add(ones[i].limit->tally, static_cast<std::size_t>(answer->verdict));
        counting_.sample(mine, *kept, {&ones[i], 1}, batch.request(i));
        batch.end(i);
        continue;
      }
      // Its key is new, for one.
      plans[i].begin(kept->generation);
      plans[i].add(*ones[i].limit) = ones[i];
      counting_.sample(mine, *kept, {&ones[i], 1}, batch.request(i));
    } else if (batch.is_plain(i)) {
      Result<Decision>& answer = batch.begin(i);
      if (decide_directly(plans[i], now, *answer)) {
        Counting::count_direct(mine, plans[i], *answer);
        batch.end(i);
        continue;
      }
    }
    batch.go_at_length(i, plans[i], now);
  }
}

void Decider::decide(std::span<const Request> requests, Instant now,
                     std::span<Result<Decision>> answers) {
  for (std::size_t first = 0; first < requests.size(); first += kBatch) {
    const std::size_t count = std::min(kBatch, requests.size() - first);
    Requests batch{*this, requests.subspan(first, count), answers.subspan(first, count)};
    run(batch, now);
  }
}

void Decider::ask(std::span<const Ask> asks, Instant now, Answers& answers) {
  for (std::size_t first = 0; first < asks.size(); first += kBatch) {
    const std::size_t count = std::min(kBatch, asks.size() - first);
    Asks batch{*this, asks.subspan(first, count), first, now, answers};
    run(batch, now);
  }
}

// --- ad hoc

Result<AdHocStep> Decider::take_ad_hoc(Print print, const meter::BucketShape& shape,
                                       std::int64_t cost, Instant now) {
  Shard& shard = table_.shard_of(print);
  const std::scoped_lock lock(shard);
  Slot* slot = table_.find(shard, print);
  const Instant at = shard.at_least(now);
  const Words words = slot == nullptr ? Words{} : slot->words();
  const meter::BucketState before{Instant{static_cast<std::int64_t>(words[0])},
                                  static_cast<std::int64_t>(words[1])};
  if (cost < 0 && slot == nullptr) return AdHocStep{{{Verdict::kAllowed, at, 0}, before}, at};
  const meter::BucketStep step =
      cost >= 0 ? meter::take(shape, before, at, cost)
                : meter::BucketStep{{Verdict::kAllowed, at, 0},
                                    meter::give_back(shape, before, at, -cost)};
  if (!step.allowed() || cost == 0) return AdHocStep{step, at};
  if (slot == nullptr) slot = table_.insert(shard, print, ad_hoc_row_, words, at);
  if (slot == nullptr) return ad_hoc_share_full(options_.names);
  slot->set_words({static_cast<std::uint64_t>(step.state.full_at.ns),
                   static_cast<std::uint64_t>(step.state.full_at_parts)});
  shard.mark_changed(*slot);
  shard.latest_ns.store(at.ns, std::memory_order_relaxed);
  return AdHocStep{step, at};
}

}  // namespace weir::engine
