#include "weir/engine/internal/attempt.h"

#include <algorithm>

#include "weir/engine/internal/adopt.h"

namespace weir::engine {
namespace {

constexpr int kEarliestRounds = 8;  // re-checks of gates that may close again

template <typename Visitor>
void for_each_seat_in_order(const Plan& plan, Visitor&& visitor) {
  std::array<GateSeat*, kLimitsPerRequestMax> seats;
  std::size_t count = 0;
  for (std::size_t i = 0; i < plan.count; ++i) {
    if (GateSeat* seat = plan.items[i].limit->seat) seats[count++] = seat;
  }
  std::sort(seats.begin(), seats.begin() + static_cast<std::ptrdiff_t>(count),
            [](const GateSeat* a, const GateSeat* b) { return a->order < b->order; });
  for (std::size_t i = 0; i < count; ++i) visitor(*seats[i]);
}

// The shard of each meter of a plan.
class PlanShards {
 public:
  PlanShards(Table& table, const Plan& plan) noexcept {
    for (const PlanItem& item : plan.limits()) {
      if (item.limit->seat == nullptr) shards_[count_++] = &table.shard_of(item.print);
    }
  }
  std::span<Shard* const> all() const noexcept { return std::span(shards_).first(count_); }

 private:
  std::array<Shard*, kLimitsPerRequestMax> shards_;
  std::size_t count_ = 0;
};

}  // namespace

void LockedShards::lock_in_order(std::span<Shard* const> shards) noexcept {
  const auto end = std::copy(shards.begin(), shards.end(), shards_.begin());
  std::sort(shards_.begin(), end);
  count_ = static_cast<std::size_t>(std::unique(shards_.begin(), end) - shards_.begin());
  for (std::size_t i = 0; i < count_; ++i) shards_[i]->lock();
}

Attempt::Attempt(Table& table, const Rows& rows, const std::atomic<std::uint64_t>& generation,
                 const Plan& plan, const Request& request, Instant now) noexcept
    : table_(table),
      rows_(rows),
      plan_(plan),
      request_(request),
      shards_(PlanShards(table, plan).all()),
      now_(shards_.at_least(now)),
      start_(now_),
      ruling_(now_) {
  if (plan_.has_gates) for_each_seat_in_order(plan_, [](GateSeat& seat) { seat.lock(); });
  // Before any look-up: an old plan must not convert meters back to its rules.
  stale_ = generation.load(std::memory_order_acquire) != plan_.generation;
  for (std::size_t i = 0; !stale_ && i < plan_.count; ++i) look_up(i);
}

Attempt::~Attempt() {
  if (plan_.has_gates) for_each_seat_in_order(plan_, [](GateSeat& seat) { seat.unlock(); });
}

void Attempt::look_up(std::size_t i) noexcept {
  Item& item = items_[i];
  item.cost = planned(i).cost;
  item.shape = &planned(i).limit->shape;
  item.slot = nullptr;
  item.is_self_contained = false;
  item.gate_refused = false;
  item.receipt = 0;
  item.place = planned(i).print;
  if (const GateSeat* gate = seat(i)) {
    const std::optional<std::uint64_t> queue = gate->gate->queue_of(request_);
    item.is_concern = queue.has_value();
    item.place.low ^= queue.value_or(0);
    return;
  }
  item.is_self_contained = is_self_contained(*item.shape);
  item.slot = table_.find(shard(i), planned(i).print);
  if (item.slot != nullptr && is_left_over(rows_, *planned(i).limit, *item.slot)) {
    item.slot = nullptr;
  }
  if (item.slot == nullptr) {
    item.words = initial_words(*item.shape, now_);
    return;
  }
  item.shape = &adopt(rows_, *planned(i).limit, table_, shard(i), *item.slot, now_);
  item.words = item.slot->words();
}

bool Attempt::has_waiters(std::size_t i) const noexcept {
  if (const GateSeat* gate = seat(i)) return items_[i].is_concern && gate->waiters > 0;
  const Slot* slot = items_[i].slot;
  return slot != nullptr && (slot->meta() & meta::kWaiters) != 0;
}

bool Attempt::has_waiters() const noexcept {
  for (std::size_t i = 0; i < plan_.count; ++i) {
    if (has_waiters(i)) return true;
  }
  return false;
}

std::int64_t Attempt::available(std::size_t i) const noexcept {
  if (GateSeat* gate = seat(i)) return gate->gate->available(request_, now_);
  return std::max<std::int64_t>(0, level(*items_[i].shape, items_[i].words, table_.logs, now_));
}

std::int64_t Attempt::limit_to_available(std::string_view unit, std::int64_t want) noexcept {
  std::int64_t grant = want;
  for (std::size_t i = 0; i < plan_.count; ++i) {
    const PlanItem& item = planned(i);
    if (item.limit->unit != unit || item.limit->shadow || item.weight == 0) continue;
    grant = std::min(grant, available(i) / item.weight);
  }
  const std::int64_t asked = std::max<std::int64_t>(grant, 1);
  for (std::size_t i = 0; i < plan_.count; ++i) {
    if (planned(i).limit->unit == unit) items_[i].cost = asked * planned(i).weight;
  }
  return grant;
}

void Attempt::check() noexcept {
  for (std::size_t i = 0; i < plan_.count; ++i) {
    Item& item = items_[i];
    if (item.is_self_contained) {
      item.taken = item.words;
      item.check = take_self_contained(*item.shape, item.taken, now_, item.cost).check;
    } else if (GateSeat* gate = seat(i)) {
      item.check = gate->gate->check(request_, now_, item.cost);
      item.gate_refused = !item.check.allowed();
    } else {
      item.check = engine::check(*item.shape, item.words, table_.logs, now_, item.cost);
    }
  }
  judge();
}

void Attempt::tell_refused() noexcept {
  for (std::size_t i = 0; plan_.has_gates && i < plan_.count; ++i) {
    const Item& item = items_[i];
    if (item.gate_refused) seat(i)->gate->refused(request_, now_, item.cost);
  }
}

void Attempt::refuse(std::size_t i, Instant earliest) noexcept {
  meter::Check& check = items_[i].check;
  if (check.allowed()) check = {Verdict::kDenied, earliest, items_[i].cost};
  check.earliest = later_of(check.earliest, earliest);
  judge();
}

// The verdict over all enforced limits.
void Attempt::judge() noexcept {
  ruling_ = Ruling(now_);
  for (std::size_t i = 0; i < plan_.count; ++i) {
    if (!planned(i).limit->shadow) ruling_.add(i, items_[i].check);
  }
  if (plan_.has_gates && ruling_.verdict == Verdict::kDenied) settle_earliest();
}

// Meters that admit a cost at t admit it at every later instant if no other request
// comes, so the latest of their instants fits all. A system gate may close
// again, so with one of them the instant is moved until all of them agree.
void Attempt::settle_earliest() noexcept {
  for (int round = 0; round < kEarliestRounds && ruling_.earliest != kForever; ++round) {
    const Instant agreed = ruling_.earliest;
    for (std::size_t i = 0; i < plan_.count; ++i) {
      const GateSeat* gate = seat(i);
      if (gate == nullptr || planned(i).limit->shadow) continue;
      const Instant fits = gate->gate->fits_from(request_, ruling_.earliest, items_[i].cost);
      ruling_.earliest = later_of(ruling_.earliest, fits);
    }
    if (agreed == ruling_.earliest) return;
  }
  ruling_.earliest = kForever;
}

// The first start from `from` on that item `i` alone would take; kForever: none.
Instant Attempt::bookable_from(std::size_t i, Instant from) const noexcept {
  if (takes_nothing(i)) return from;
  const Item& item = items_[i];
  if (const GateSeat* gate = seat(i)) {
    return gate->gate->can_book() ? gate->gate->fits_from(request_, from, item.cost) : kForever;
  }
  const auto* bucket = std::get_if<meter::BucketShape>(item.shape);
  if (bucket == nullptr) return kForever;
  const meter::BucketStep step =
      meter::book(*bucket, std::bit_cast<meter::BucketState>(item.words), from, item.cost);
  return step.allowed() ? step.check.earliest : kForever;
}

// A bucket that takes a start takes every later one; a gate may close again, so the
// start is moved until all agree.
bool Attempt::find_booking(Instant latest) noexcept {
  Instant start = now_;
  for (int round = 0; round < kEarliestRounds; ++round) {
    const Instant agreed = start;
    for (std::size_t i = 0; i < plan_.count; ++i) {
      if (!planned(i).limit->shadow) start = later_of(start, bookable_from(i, start));
    }
    if (start == kForever || start > latest) return false;
    if (start != agreed) continue;
    start_ = start;
    booked_ = true;
    leave_out_unbooked();
    return true;
  }
  return false;
}

// A limit in shadow counts what it would have admitted, so not a start that it would not take.
void Attempt::leave_out_unbooked() noexcept {
  for (std::size_t i = 0; i < plan_.count; ++i) {
    if (planned(i).limit->shadow && bookable_from(i, start_) != start_) left_out_.set(i);
  }
}

bool Attempt::leave_out_slots() noexcept {
  for (std::size_t i = 0; i < plan_.count; ++i) {
    const ActiveLimit& limit = *planned(i).limit;
    if (!limit.is_slots) continue;
    if (!limit.shadow) return false;
    left_out_.set(i);
  }
  return true;
}

HoldCharges Attempt::charges(HoldCharges charges) const {
  for (std::size_t i = 0; i < plan_.count; ++i) {
    const PlanItem& item = planned(i);
    if ((!items_[i].check.allowed() && !booked_) || left_out_[i]) continue;
    charges.push_back({item.limit->name, item.limit->unit, item.print, item.limit->owned_seat,
                       items_[i].cost, item.weight, items_[i].charged_at,
                       seat(i) != nullptr ? 0 : rows_.at(item.limit->row).era,
                       kind_of(item.limit->shape), items_[i].receipt});
  }
  return charges;
}

Duration Attempt::shortest_slots_hold() const noexcept {
  ShortestHold shortest;
  for (std::size_t i = 0; i < plan_.count; ++i) {
    shortest.add(*items_[i].shape, planned(i).limit->shadow);
  }
  return shortest.length();
}

Instant Attempt::projected(std::size_t i, std::int64_t ahead) const noexcept {
  if (seat(i) != nullptr) return now_;
  return project(*items_[i].shape, items_[i].words, table_.logs, now_, ahead, items_[i].cost);
}

std::size_t Attempt::queue_max(std::size_t i) const noexcept {
  const auto* slots = std::get_if<meter::SlotsShape>(items_[i].shape);
  const bool own = slots != nullptr && seat(i) == nullptr;
  return static_cast<std::size_t>(own ? slots->queue : planned(i).limit->rule->queue_max);
}

void Attempt::report(Decision& decision) const noexcept {
  // What was booked did not pass at once.
  (charged_ ? Ruling(start_) : ruling_).write_to(decision);
  decision.outcome_count = plan_.count;
  decision.record = record_;
  for (std::size_t i = 0; i < plan_.count; ++i) {
    const Item& item = items_[i];
    const ActiveLimit& limit = *planned(i).limit;
    Outcome& row = decision.outcome_rows[i];
    row.limit = limit.name;
    row.verdict = item.check.verdict;
    row.shadow = limit.shadow;
    row.overridden = item.shape != &limit.shape;
    row.cost = item.cost;
    row.remaining = available(i);
    row.capacity =
        limit.seat ? limit.seat->gate->capacity(request_) : engine::capacity(*item.shape);
    row.earliest = item.check.earliest;
  }
}

}  // namespace weir::engine
