// One decision by the short way: meters whose keys are known, neither waited for nor overridden.
// Plan, lock, check, charge all or none, unlock. Whatever needs more is resolved (resolve.cc).

#include <algorithm>
#include <bit>

#include "weir/engine/engine_impl.h"

namespace weir::engine {
namespace {

constexpr std::size_t kBatch = 16;  // requests planned and prefetched together

const AcquireOptions kPlainOptions;

template <typename Visitor>
void for_each_bit(std::uint32_t bits, Visitor&& visitor) {
  for (; bits != 0; bits &= bits - 1) visitor(static_cast<std::size_t>(std::countr_zero(bits)));
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

inline bool Engine::Impl::plan_one(Local& mine, const Active& rules, const Request& request,
                                   PlanItem& item) {
  const ActiveLimit* limit = mine.outlines.sole_limit(request);
  if (limit == nullptr || request.attributes[0].value.size() > kValueBytesMax) return false;
  const Print key = with_value(rules.secret, {}, request.attributes[0].value);
  item = {limit, print_for(limit->seed, key), 1, 1};
  return true;
}

// A limit that is denying is read first, without its lock: a denial writes
// nothing, so any number of threads can be denied at once.
bool Engine::Impl::deny_unlocked(const Shard& shard, const PlanItem& item,
                                 std::uint64_t planned_under, Instant now, Decision& decision) {
  Words words;
  if (!Table::read_plain(shard, item.print, item.limit->row, words)) return false;
  const Instant at = shard.at_least(now);
  const auto end = [&](const Taken& taken) {
    if (taken.check.allowed()) return false;
    // The rules may have changed since the plan was made; then the lock decides.
    if (generation.load(std::memory_order_acquire) != planned_under) return false;
    report_one(item, taken, decision);
    return true;
  };
  const auto* bucket = std::get_if<meter::BucketShape>(&item.limit->shape);
  if (bucket != nullptr) [[likely]]
    return end(take(*bucket, words, at, item.cost));
  Words of_other = words;  // its address is taken; what a bucket has stays in registers
  return end(take_other(item.limit->shape, of_other, at, item.cost));
}

inline bool Engine::Impl::decide_one(const PlanItem& item, std::uint64_t planned_under, Instant now,
                                     Decision& decision) {
  const ActiveLimit& limit = *item.limit;
  Shard& shard = table.shard_of(item.print);
  if (shard.denying.load(std::memory_order_relaxed) &&
      deny_unlocked(shard, item, planned_under, now, decision)) {
    return true;
  }
  Table::prefetch_if_large(shard, item.print);  // it arrives while the lock is taken
  shard.lock();
  Slot* slot = table.find(shard, item.print);
  if (slot == nullptr || (slot->meta() & ~meta::kDirty) != limit.row ||
      generation.load(std::memory_order_acquire) != planned_under) {
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

inline bool Engine::Impl::decide_directly(const Plan& plan, Instant now, Decision& decision) {
  if (!plan.is_direct || !is_acceptable(now)) return false;
  return plan.count == 1 && !plan.items[0].limit->is_log
             ? decide_one(plan.items[0], plan.generation, now, decision)
             : decide_several(plan, now, decision);
}

void Engine::Impl::decide(const Request& request, Instant now, Result<Decision>& answer) {
  Local& mine = local();
  const Active& rules = current(mine);
  PlanItem item;
  if (plan_one(mine, rules, request, item) && is_acceptable(now)) [[likely]] {
    if (decide_one(item, rules.generation, now, *answer)) [[likely]] {
      mine.tallies.add(item.limit->tally, static_cast<std::size_t>(answer->verdict));
      return sample(mine, rules, {&item, 1}, request);
    }
  } else if (auto error = mine.outlines.make_plan(rules, request)) {
    answer = std::move(*error);
    return;
  } else {
    const Plan& plan = mine.outlines.plan();
    sample(mine, rules, plan.limits(), request);
    if (decide_directly(plan, now, *answer)) [[likely]] {
      return count_direct(mine, plan, *answer);
    }
    if (decide_at_length(plan, request, now, answer)) return;
  }
  acquire(request, kPlainOptions, Mode::kCharge, now, answer);
}

[[gnu::noinline]] bool Engine::Impl::decide_at_length(const Plan& plan, const Request& request,
                                                      Instant now, Result<Decision>& answer) {
  Plan own;
  own = plan;  // callbacks may make other plans in its place
  return decide(own, request, kPlainOptions, Mode::kCharge, now, answer);
}

void Engine::Impl::acquire(const Request& request, const AcquireOptions& asked, Mode mode,
                           Instant now, Result<Decision>& answer) {
  Local& mine = local();
  Plan plan;
  do {
    const Active& rules = current(mine);
    if (auto error = mine.outlines.make_plan(rules, request)) {
      answer = std::move(*error);
      return;
    }
    plan = mine.outlines.plan();  // callbacks may make other plans in its place
    sample(mine, rules, plan.limits(), request);
  } while (!decide(plan, request, asked, mode, now, answer));
}

bool Engine::Impl::decide_several(const Plan& plan, Instant now, Decision& decision) {
  std::array<Shard*, kLimitsPerRequestMax> shards;
  std::array<Slot*, kLimitsPerRequestMax> slots;
  std::array<Words, kLimitsPerRequestMax> words;  // afterwards; those of a log without the cost
  const std::size_t count = plan.count;
  // What is not in the cache arrives together, and while the locks are taken.
  for (std::size_t i = 0; i < count; ++i) {
    const Print print = plan.items[i].print;
    shards[i] = &table.shard_of(print);
    Table::prefetch(*shards[i], print);
  }
  for_each_bit(plan.logs,
               [&](std::size_t i) { table.prefetch_runs(*shards[i], plan.items[i].print); });
  const LockedShards locked{std::span<Shard* const>(shards.data(), count)};
  if (generation.load(std::memory_order_acquire) != plan.generation) return false;
  Instant at = now;
  for (std::size_t i = 0; i < count; ++i) {
    const PlanItem& item = plan.items[i];
    slots[i] = table.find(*shards[i], item.print);
    if (slots[i] == nullptr || (slots[i]->meta() & ~meta::kDirty) != item.limit->row) return false;
    at = shards[i]->at_least(at);
  }
  Ruling ruling(at);
  for (std::size_t i = 0; i < count; ++i) {
    const PlanItem& item = plan.items[i];
    const ActiveLimit& limit = *item.limit;
    Words after = slots[i]->words();
    const auto* log = std::get_if<meter::LogShape>(&limit.shape);
    const Taken taken = log != nullptr ? check_log(*log, after, table.logs, at, item.cost)
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
    is_room = is_room && reserve(plan.items[i].limit->shape, words[i], table.logs, at);
    slots[i]->set_words(words[i]);
  });
  if (!is_room) [[unlikely]] {
    // Logs have forgotten what no longer counts, so no decision may be earlier.
    locked.charged_at(at);
    return false;
  }
  for_each_bit(plan.logs, [&](std::size_t i) {
    const PlanItem& item = plan.items[i];
    charge_log(*std::get_if<meter::LogShape>(&item.limit->shape), words[i], table.logs, at,
               item.cost);
  });
  for (std::size_t i = 0; i < count; ++i) {
    slots[i]->set_words(words[i]);
    shards[i]->mark_changed(*slots[i]);
    shards[i]->latest_ns.store(at.ns, std::memory_order_relaxed);
  }
  return true;
}

Result<Decision> Engine::decide(const Request& request, Instant now) noexcept {
  Result<Decision> answer(std::in_place);
  impl_->decide(request, now, answer);
  return answer;
}

Result<Decision> Engine::acquire(const Request& request, const AcquireOptions& options,
                                 Instant now) noexcept {
  Result<Decision> answer(std::in_place);
  impl_->acquire(request, options, Impl::Mode::kCharge, now, answer);
  return answer;
}

Result<Decision> Engine::peek(const Request& request, Instant now) noexcept {
  Result<Decision> answer(std::in_place);
  impl_->acquire(request, kPlainOptions, Impl::Mode::kPeek, now, answer);
  return answer;
}

Result<Decision> Engine::decide(Prepared& prepared, Instant now) noexcept {
  Result<Decision> answer(std::in_place);
  Prepared::Impl& ready = *prepared.impl_;
  if (impl_->decide_directly(ready.plan, now, *answer)) [[likely]] {
    Local& mine = impl_->local();
    Impl::count_direct(mine, ready.plan, *answer);
    impl_->sample(mine, *ready.active, ready.plan.limits(), ready.request.view());
    return answer;
  }
  while (!impl_->decide(ready.plan, ready.request.view(), kPlainOptions, Impl::Mode::kCharge, now,
                        answer)) {
    ready.active = impl_->current_shared();
    if (auto error = make_plan(*ready.active, ready.request.view(), ready.plan)) {
      ready.plan.clear();  // it is of rules that are gone
      answer = std::move(*error);
      break;
    }
  }
  return answer;
}

Result<Prepared> Engine::prepare(const Request& request) noexcept {
  auto ready = std::make_unique<Prepared::Impl>(request);
  ready->active = impl_->current_shared();
  if (auto error = make_plan(*ready->active, ready->request.view(), ready->plan)) {
    return std::move(*error);
  }
  return Prepared(std::move(ready));
}

void Engine::decide(std::span<const Request> requests, Instant now,
                    std::span<Result<Decision>> answers) noexcept {
  WEIR_ASSERT(requests.size() == answers.size());
  for (std::size_t first = 0; first < requests.size(); first += kBatch) {
    const std::size_t count = std::min(kBatch, requests.size() - first);
    impl_->decide_batch(requests.subspan(first, count), now, answers.subspan(first, count));
  }
}

// Planned and prefetched together, decided one after the other.
void Engine::Impl::decide_batch(std::span<const Request> requests, Instant now,
                                std::span<Result<Decision>> answers) {
  Local& mine = local();
  const Active& rules = current(mine);
  // The plans of this batch point into the rules, also after one of its decisions
  // has met newer ones.
  const std::shared_ptr<const Active> kept = mine.active;
  enum class Planned : std::uint8_t { kNot, kOne, kSeveral };
  std::array<Planned, kBatch> planned{};
  std::array<PlanItem, kBatch> ones;
  std::array<Plan, kBatch> plans;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (plan_one(mine, rules, requests[i], ones[i]) && is_acceptable(now)) [[likely]] {
      planned[i] = Planned::kOne;
      answers[i].renew();
      table.prefetch_both(ones[i].print);
      continue;
    }
    if (auto error = mine.outlines.make_plan(rules, requests[i])) {
      answers[i] = std::move(*error);
      continue;
    }
    plans[i] = mine.outlines.plan();
    planned[i] = Planned::kSeveral;
    answers[i].renew();
    sample(mine, rules, plans[i].limits(), requests[i]);
    for (const PlanItem& item : plans[i].limits()) {
      if (!item.limit->seat) table.prefetch_both(item.print);
    }
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Result<Decision>& answer = answers[i];
    switch (planned[i]) {
      case Planned::kNot:
        continue;
      case Planned::kOne:
        if (decide_one(ones[i], kept->generation, now, *answer)) [[likely]] {
          mine.tallies.add(ones[i].limit->tally, static_cast<std::size_t>(answer->verdict));
          sample(mine, *kept, {&ones[i], 1}, requests[i]);
          continue;
        }
        break;
      case Planned::kSeveral:
        if (decide_directly(plans[i], now, *answer)) {
          count_direct(mine, plans[i], *answer);
          continue;
        }
        if (decide(plans[i], requests[i], kPlainOptions, Mode::kCharge, now, answer)) continue;
        break;
    }
    acquire(requests[i], kPlainOptions, Mode::kCharge, now, answer);
  }
}

}  // namespace weir::engine
