#include "weir/engine/internal/attempt.h"

#include <fmt/format.h>
#include <algorithm>
#include <bit>

#include "weir/engine/internal/rules_in_force.h"

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
                 const SettingNames& names, const Plan& plan, const Request& request,
                 Instant now) noexcept
    : table_(table),
      names_(names),
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
  if (const GateSeat* gate = seat(i)) {
    return items_[i].is_concern && gate->waiters > 0 && !gate->gate->gives_places();
  }
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

void Attempt::enter(std::uint64_t ticket) noexcept {
  for (std::size_t i = 0; i < plan_.count; ++i) {
    if (GateSeat* gate = seat(i)) gate->gate->enter(ticket);
  }
}

// A place that is taken while another limit keeps the request waiting would be in vain: all who
// come after it would wait for that limit too.
Attempt::Items Attempt::settle_places(std::uint64_t ticket) noexcept {
  Items giving;
  Instant start = now_;
  Instant others = now_;
  for (std::size_t i = 0; i < plan_.count; ++i) {
    if (planned(i).limit->shadow) continue;
    const bool gives = gives_places(i) && items_[i].is_concern;
    giving[i] = gives;
    Instant& until = gives ? start : others;
    until = later_of(until, alone_at(i));
  }
  const bool takes = start != kForever && earliest() == start;
  // Several places start together, so that none moves up alone.
  const Instant from = giving.count() == 1 ? others : start;
  for (std::size_t i = 0; i < plan_.count; ++i) {
    if (!giving[i]) continue;
    engine::Gate& gate = *seat(i)->gate;
    if (takes) {
      gate.take_place(request_, from, items_[i].cost);
      items_[i].check = gate.check(request_, now_, items_[i].cost);
    } else {
      gate.leave_place(ticket);
    }
  }
  if (takes) judge();
  return takes ? giving : Items{};
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
  if (!can_book(i)) return kForever;
  if (const GateSeat* gate = seat(i)) {
    return item.is_concern ? gate->gate->fits_from(request_, from, item.cost) : from;
  }
  return engine::bookable_from(*item.shape, item.words, table_.logs, now_, from, item.cost);
}

bool Attempt::can_book(std::size_t i) const noexcept {
  const GateSeat* gate = seat(i);
  if (gate == nullptr) return takes_nothing(i) || engine::can_book(*items_[i].shape);
  return !items_[i].is_concern || gate->gate->can_book();
}

std::size_t Attempt::unbookable() const noexcept {
  std::size_t i = 0;
  while (i < plan_.count && (planned(i).limit->shadow || can_book(i))) ++i;
  return i;
}

// A meter that takes a start takes every later one; a gate may close again, so the
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

// A limit in shadow counts what it would have admitted, so not a start that it would not take. A
// gate that the request is no concern of may not be charged at an instant to come.
void Attempt::leave_out_unbooked() noexcept {
  for (std::size_t i = 0; i < plan_.count; ++i) {
    const bool is_aside = planned(i).limit->shadow && bookable_from(i, start_) != start_;
    const GateSeat* gate = seat(i);
    const bool is_strange = gate != nullptr && !items_[i].is_concern && !gate->gate->can_book();
    if (is_aside || is_strange) left_out_.set(i);
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

// --- What an attempt writes: the slots of keys that are new, the costs, and that a waiter has a
// place.

Slot* Attempt::slot_for(std::size_t i) {
  Item& item = items_[i];
  item.slot = table_.find(shard(i), planned(i).print);
  if (item.slot == nullptr) {
    item.slot = table_.insert(shard(i), planned(i).print, planned(i).limit->row, item.words, now_);
    // The one before, if there was one, is gone with what was in use.
    table_.ebbs(shard(i)).drain(planned(i).print);
  } else if (is_left_over(rows_, *planned(i).limit, *item.slot)) {
    adopt(rows_, *planned(i).limit, table_, shard(i), *item.slot, now_);
  }
  return item.slot;
}

bool Attempt::needs_slot(std::size_t i) const noexcept {
  return seat(i) == nullptr && items_[i].slot == nullptr;
}

// Of a ticker whose ticks are counted from when it is first asked, whatever comes of that.
bool Attempt::starts_empty(std::size_t i) const noexcept {
  const auto* ticker = std::get_if<meter::TickerShape>(items_[i].shape);
  return ticker != nullptr && ticker->start == meter::TickerStart::kEmpty;
}

// Slots for the items of `needed` that have none. Making room for one may drop other
// meters and moves those that stay. So all of this plan are pinned before the first is
// made, by the flag that keeps a slot with waiters, and are looked up again at the end.
// Returns the item for which there was no room, or plan_.count.
std::size_t Attempt::make_slots(Items needed) {
  Items pinned;
  const auto pin = [&](std::size_t i) {
    pinned.set(i);
    items_[i].slot->set_meta(items_[i].slot->meta() | meta::kWaiters);
  };
  for (std::size_t i = 0; i < plan_.count; ++i) {
    if (items_[i].slot != nullptr && !has_waiters(i)) pin(i);
  }
  std::size_t full = plan_.count;
  for (std::size_t i = 0; full == plan_.count && i < plan_.count; ++i) {
    if (!needed[i]) continue;
    if (slot_for(i) == nullptr) {
      full = i;
    } else {
      pin(i);
    }
  }
  for (std::size_t i = 0; i < plan_.count; ++i) {
    // What has none may find what is left over of another era, which is nothing yet.
    if (items_[i].slot == nullptr) continue;
    items_[i].slot = table_.find(shard(i), planned(i).print);
    if (pinned[i]) items_[i].slot->set_meta(items_[i].slot->meta() & ~meta::kWaiters);
  }
  return full;
}

// The same, but for a limit in shadow that finds no room: it takes no part then.
Status Attempt::need_slots(Items needed) {
  while (needed.any()) {
    const std::size_t full = make_slots(needed);
    if (full == plan_.count) break;
    if (!planned(full).limit->shadow) return table_full(full);
    left_out_.set(full);
    needed.reset(full);
  }
  return Done{};
}

Status Attempt::charge(bool held) {
  // First everything that can fail, then everything that cannot.
  Items needed;
  for (std::size_t i = 0; i < plan_.count; ++i) {
    needed[i] = needs_slot(i) && (!left_out_[i] || starts_empty(i));
  }
  if (Status made = need_slots(needed); !made) return made;
  for (std::size_t i = 0; i < plan_.count; ++i) {
    Item& item = items_[i];
    if (seat(i) != nullptr || item.is_self_contained || left_out_[i]) continue;
    const bool reserved = engine::reserve(*item.shape, item.words, table_.logs, now_);
    item.slot->set_words(item.words);
    if (reserved) continue;
    if (!planned(i).limit->shadow) return logs_full(i);
    left_out_.set(i);
  }
  for (std::size_t i = 0; i < plan_.count; ++i) charge_item(i, held);
  shards_.charged_at(now_);
  charged_ = true;
  return Done{};
}

void Attempt::charge_item(std::size_t i, bool held) noexcept {
  Item& item = items_[i];
  item.charged_at = start_;
  if (left_out_[i]) return;
  if (!item.check.allowed() && !booked_) {  // a shadow that would have refused
    if (item.gate_refused) seat(i)->gate->refused(request_, now_, item.cost);
    return;
  }
  if (GateSeat* gate = seat(i)) {
    if (held) {
      item.receipt = gate->gate->charge_held(request_, start_, item.cost);
    } else {
      gate->gate->charge(request_, start_, item.cost);
    }
    record_ = std::max(record_, gate->gate->last_record());
    return;
  }
  if (item.cost == 0) return;
  if (booked_) {
    item.charged_at = engine::book(*item.shape, item.words, table_.logs, now_, start_, item.cost);
  } else if (item.is_self_contained) {
    item.words = item.taken;
  } else {
    item.charged_at = engine::charge(*item.shape, item.words, table_.logs, start_, item.cost);
  }
  if (held && has_ebbs(*item.shape)) {
    item.receipt = table_.ebbs(shard(i)).charged(planned(i).print, *item.shape, item.words, now_);
  }
  item.slot->set_words(item.words);
  shard(i).mark_changed(*item.slot);
}

Error Attempt::table_full(std::size_t i) const {
  return share_full(planned(i).limit->name, names_);
}

Error Attempt::logs_full(std::size_t i) const {
  return {ErrorCode::kExhausted,
          fmt::format("limit '{}': the memory for logs is used up; raise {}, or use a window",
                      planned(i).limit->name, names_.log_runs)};
}

Status Attempt::start_fresh_tickers() {
  Items needed;
  for (std::size_t i = 0; i < plan_.count; ++i) needed[i] = starts_empty(i) && needs_slot(i);
  return need_slots(needed);
}

bool Attempt::enqueue(std::size_t i) {
  if (GateSeat* gate = seat(i)) {
    gate->waiters += 1;
    return true;
  }
  Item& item = items_[i];
  if (slot_for(i) == nullptr) return false;
  if (is_slots(*item.shape)) {
    auto state = std::bit_cast<meter::SlotsState>(item.slot->words());
    state.queued += 1;
    item.words = std::bit_cast<Words>(state);
    item.slot->set_words(item.words);
    shard(i).mark_changed(*item.slot);
  }
  item.slot->set_meta(item.slot->meta() | meta::kWaiters);
  return true;
}

}  // namespace weir::engine
