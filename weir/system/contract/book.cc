// What holds after every public call:
//
//  1. entries_ are numbered from first_number_ on without a gap, and the first is active: what is
//     final in front of it is folded into the anchor.
//  2. Entries that were not cancelled are in order of their start, lowerings_ in order of time.
//  3. Replaying both from anchor_ gives the frontier; frontier_ is that whenever is_current_.
//  4. outstanding_ is the number of active entries.
//  5. No level of the anchor is above what its policy holds, and a debit leaves none above
//     in_hand_fs().
//  6. An entry's `counted` names the policies whose level in the anchor has its debit already:
//     it is never debited again, and gives nothing back there.
//  7. short_runs_ and long_runs_ cover the numbers of entries_, and no whole run before the first.
//     One that is not stale is what replaying its entries does, from anchor_at_ on at the earliest.
//  8. A place is an active entry that does not expire: places_ has each by its number,
//     place_numbers_ each by its id. After settle_places() each has the start of its levels.
//  9. finals_ has the costs of every settled and expired entry, once, and never falls.

#include "weir/system/contract/book.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "weir/base/assert.h"

namespace weir::system::contract {

using engine::HoldState;

Book::Book(std::vector<Policy> policies, Duration jitter, Instant now)
    : policies_(std::move(policies)), jitter_(jitter), anchor_at_(now) {
  WEIR_ASSERT(policies_.size() <= kPoliciesMax);
  WEIR_ASSERT(jitter_.count() >= 0);
  for (std::size_t i = 0; i < policies_.size(); ++i) anchor_.push_back(begun_fs(i));
}

// cppcheck-suppress passedByValue  ; its members are moved
Book::Book(Saved saved, Duration jitter)
    : policies_(std::move(saved.policies)),
      jitter_(jitter),
      anchor_(std::move(saved.levels_fs)),
      anchor_at_(saved.at),
      not_before_(saved.not_before),
      first_number_(saved.first_number),
      entries_(saved.reservations.begin(), saved.reservations.end()),
      lowerings_(saved.lowerings.begin(), saved.lowerings.end()) {
  WEIR_ASSERT(policies_.size() <= kPoliciesMax && anchor_.size() == policies_.size());
  for (std::size_t i = 0; i < policies_.size(); ++i) {
    anchor_[i] = std::min(anchor_[i], full_fs(policies_[i]));
  }
  std::stable_sort(lowerings_.begin(), lowerings_.end(),
                   [](const Lowering& a, const Lowering& b) { return a.at < b.at; });
  outstanding_ = static_cast<std::size_t>(
      std::count_if(entries_.begin(), entries_.end(),
                    [](const Entry& entry) { return entry.state == HoldState::kActive; }));
  // One that is said to start before those in front of it is debited after them all the same.
  Instant last{};
  for (Entry& entry : entries_) {
    if (entry.state == HoldState::kCancelled) continue;
    entry.start = last = later_of(entry.start, last);
  }
  mark_runs();
  fold();
}

Book::Saved Book::saved() const {
  Saved saved{policies_,
              anchor_,
              anchor_at_,
              not_before_,
              first_number_,
              {entries_.begin(), entries_.end()},
              {lowerings_.begin(), lowerings_.end()}};
  // Who waits does not wait in the next process.
  for (const auto& [number, wish] : places_) {
    saved.reservations[static_cast<std::size_t>(number - first_number_)].state =
        HoldState::kCancelled;
  }
  return saved;
}

// Full, less what refills within the jitter; below nothing, where it fills in less. Fixed quotas
// refill nothing.
Wide Book::in_hand_fs(std::size_t policy) const {
  const Wide full = full_fs(policies_[policy]);
  if (policies_[policy].is_fixed()) return full;
  return full - Wide{jitter_.count()} * kMicro;
}

// Who has started before the book was begun may be late.
Wide Book::begun_fs(std::size_t policy) const { return std::max<Wide>(0, in_hand_fs(policy)); }

void Book::set_left(std::size_t policy, std::int64_t left_micro) {
  WEIR_ASSERT(entries_.empty());
  anchor_[policy] = std::min(worth_fs(policies_[policy], left_micro), begun_fs(policy));
  touch();
}

void Book::set_jitter(Duration jitter) {
  WEIR_ASSERT(jitter.count() >= 0);
  jitter_ = jitter;
  for (std::size_t i = 0; i < policies_.size(); ++i) anchor_[i] = std::min(anchor_[i], begun_fs(i));
  mark_runs();
  ++tightenings_;
  touch();
}

void Book::advance(Levels& levels, Instant& at, Instant to) const {
  if (to <= at) return;
  for (std::size_t i = 0; i < policies_.size(); ++i) {
    levels[i] = refilled_fs(policies_[i], levels[i], to - at);
  }
  at = to;
}

void Book::apply(Levels& levels, const Entry& entry) const {
  for (std::size_t i = 0; i < policies_.size(); ++i) {
    const std::int64_t cost_micro = entry.costs.of(policies_[i].resource);
    if (entry.counted[i] || cost_micro == 0) continue;
    levels[i] = debited_fs(std::min(levels[i], in_hand_fs(i)), worth_fs(policies_[i], cost_micro));
  }
}

// Entries that were not cancelled, and lowerings, are each in order of time; of two at the
// same instant the order does not matter, since nothing refills between them.
void Book::replay(Levels& levels, Instant& at, Instant until) const {
  auto lowering = lowerings_.begin();
  const auto lower_up_to = [&](Instant to) {
    for (; lowering != lowerings_.end() && lowering->at <= to; ++lowering) {
      advance(levels, at, lowering->at);
      levels[lowering->policy] = debited_fs(levels[lowering->policy], lowering->by_fs);
    }
  };
  for (const Entry& entry : entries_) {
    if (entry.state == HoldState::kCancelled) continue;
    if (entry.start > until) break;
    lower_up_to(entry.start);
    advance(levels, at, entry.start);
    apply(levels, entry);
  }
  lower_up_to(until);
}

// --- runs

LevelStep Book::refill_step(std::size_t policy, Duration elapsed) const {
  const Wide gain_fs = policies_[policy].is_fixed() ? 0 : Wide{elapsed.count()} * kMicro;
  return {gain_fs, full_fs(policies_[policy])};
}

// What started before the anchor is debited there.
void Book::extend(Run& run, const Entry& entry) const {
  if (entry.state == HoldState::kCancelled) return;
  const Instant start = later_of(entry.start, anchor_at_);
  for (std::size_t i = 0; i < policies_.size(); ++i) {
    LevelStep& step = run.steps[i];
    if (!run.is_empty) step = step.then(refill_step(i, start - run.last));
    const std::int64_t cost_micro = entry.costs.of(policies_[i].resource);
    if (entry.counted[i] || cost_micro == 0) continue;
    const Wide worth = worth_fs(policies_[i], cost_micro);
    step = step.then({-worth, in_hand_fs(i) - worth});
  }
  if (run.is_empty) run.first = start;
  run.is_empty = false;
  run.last = start;
}

void Book::extend(Run& run, const Run& next) const {
  if (next.is_empty) return;
  for (std::size_t i = 0; i < policies_.size(); ++i) {
    LevelStep& step = run.steps[i];
    if (!run.is_empty) step = step.then(refill_step(i, next.first - run.last));
    step = step.then(next.steps[i]);
  }
  if (run.is_empty) run.first = next.first;
  run.is_empty = false;
  run.last = next.last;
}

std::size_t Book::short_run_of(std::uint64_t number) const noexcept {
  return static_cast<std::size_t>((number >> kRunShift) - (first_number_ >> kRunShift));
}
std::size_t Book::long_run_of(std::uint64_t number) const noexcept {
  return static_cast<std::size_t>((number >> 2 * kRunShift) - (first_number_ >> 2 * kRunShift));
}

const Run& Book::short_run(std::size_t place) const {
  Run& run = short_runs_[place];
  if (!run.is_stale) return run;
  run = Run{};
  const std::uint64_t begin = ((first_number_ >> kRunShift) + place) << kRunShift;
  const std::uint64_t end = std::min(begin + kRunLength, first_number_ + entries_.size());
  for (std::uint64_t number = std::max(begin, first_number_); number < end; ++number) {
    extend(run, entries_[static_cast<std::size_t>(number - first_number_)]);
  }
  run.is_stale = false;
  return run;
}

const Run& Book::long_run(std::size_t place) const {
  Run& run = long_runs_[place];
  if (!run.is_stale) return run;
  run = Run{};
  const std::uint64_t begin = ((first_number_ >> 2 * kRunShift) + place) << kRunShift;
  const std::uint64_t first = first_number_ >> kRunShift;
  for (std::uint64_t i = std::max(begin, first); i < begin + kRunLength; ++i) {
    if (i - first >= short_runs_.size()) break;
    extend(run, short_run(static_cast<std::size_t>(i - first)));
  }
  run.is_stale = false;
  return run;
}

void Book::go_through(const Run& run, Levels& levels, Instant& at) const {
  if (run.is_empty) return;
  advance(levels, at, run.first);
  for (std::size_t i = 0; i < policies_.size(); ++i) levels[i] = run.steps[i].of(levels[i]);
  at = later_of(at, run.last);
}

void Book::go_up_to(std::uint64_t number, Levels& levels, Instant& at) const {
  const std::uint64_t first_long = first_number_ >> 2 * kRunShift;
  const std::uint64_t first_short = first_number_ >> kRunShift;
  std::uint64_t next = first_number_;
  for (std::uint64_t i = first_long; i < number >> 2 * kRunShift; ++i) {
    go_through(long_run(static_cast<std::size_t>(i - first_long)), levels, at);
    next = (i + 1) << 2 * kRunShift;
  }
  for (std::uint64_t i = next >> kRunShift; i < number >> kRunShift; ++i) {
    go_through(short_run(static_cast<std::size_t>(i - first_short)), levels, at);
    next = (i + 1) << kRunShift;
  }
  Run rest;
  for (; next < number; ++next) {
    extend(rest, entries_[static_cast<std::size_t>(next - first_number_)]);
  }
  go_through(rest, levels, at);
}

void Book::mark_run(std::uint64_t number) {
  const std::size_t short_place = short_run_of(number);
  const std::size_t long_place = long_run_of(number);
  if (short_runs_.size() <= short_place) short_runs_.resize(short_place + 1);
  if (long_runs_.size() <= long_place) long_runs_.resize(long_place + 1);
  short_runs_[short_place].is_stale = true;
  long_runs_[long_place].is_stale = true;
}

void Book::mark_runs() {
  short_runs_.clear();
  long_runs_.clear();
  if (!entries_.empty()) mark_run(first_number_ + entries_.size() - 1);
}

const Book::Levels& Book::frontier() const {
  if (!is_current_) {
    frontier_ = anchor_;
    frontier_at_ = anchor_at_;
    if (lowerings_.empty()) {
      go_up_to(first_number_ + entries_.size(), frontier_, frontier_at_);
    } else {
      replay(frontier_, frontier_at_, kForever);
    }
    is_current_ = true;
  }
  return frontier_;
}

Instant Book::last_start() const {
  frontier();
  return frontier_at_;
}

std::vector<Standing> Book::standing(const Costs& costs, Instant now) const {
  Levels levels = frontier();
  Instant at = frontier_at_;
  advance(levels, at, now);
  return standing_of(levels, costs);
}

std::vector<Standing> Book::standing_of(const Levels& levels, const Costs& costs) const {
  std::vector<Standing> rows(policies_.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Policy& policy = policies_[i];
    Standing& row = rows[i];
    const std::int64_t cost_micro = costs.of(policy.resource);
    row.level_fs = levels[i];
    if (cost_micro == 0) continue;  // the service does not look at this policy
    row.missing_fs = worth_fs(policy, cost_micro) - levels[i];
    row.exceeds = cost_micro > policy.capacity_micro();
    row.exhausted = policy.is_fixed() && row.missing_fs > 0 && !row.exceeds;
  }
  return rows;
}

Instant Book::first_start(Instant from) const {
  return later_of(later_of(from, not_before_), last_start());
}

Offer Book::offer(const Costs& costs, Instant from) const {
  const Instant base = first_start(from);
  return offer_of(standing(costs, base), base);
}

Offer Book::offer_of(const std::vector<Standing>& rows, Instant base) {
  Offer offer{Never::kNot, base, std::nullopt};
  Wide longest_fs = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].exceeds) return {Never::kExceedsCapacity, kForever, i};
    if (rows[i].exhausted && offer.never == Never::kNot) {
      offer = {Never::kExhausted, kForever, i};
    } else if (offer.never == Never::kNot && rows[i].missing_fs > longest_fs) {
      longest_fs = rows[i].missing_fs;
      offer.binding = i;
    }
  }
  if (offer.never != Never::kNot) return offer;
  const Wide longest_ns = wait_ns(longest_fs);
  // Beyond the last instant there is: as good as never.
  if (longest_ns > kInstantNsMax || base.ns + longest_ns > Wide{kInstantNsMax}) {
    return {Never::kExhausted, kForever, offer.binding};
  }
  offer.start = base + Duration{static_cast<std::int64_t>(longest_ns)};
  return offer;
}

Result<std::uint64_t> Book::grant(const Costs& costs, Instant start, Instant expires) {
  if (!has_room()) {
    return Error{ErrorCode::kExhausted,
                 fmt::format("{} reservations are remembered since the oldest that is outstanding, "
                             "as many as an account keeps; commit or release some",
                             entries_.size())};
  }
  frontier();
  const Instant at = later_of(start, frontier_at_);
  entries_.push_back({at, expires, costs, HoldState::kActive, {}});
  mark_run(first_number_ + entries_.size() - 1);
  advance(frontier_, frontier_at_, at);
  apply(frontier_, entries_.back());
  ++outstanding_;
  ++changes_;
  return first_number_ + entries_.size() - 1;
}

// --- places

Result<std::uint64_t> Book::take_place(const Costs& costs, Instant from, Instant now) {
  settle_places(now);
  const Offer first = offer(costs, later_of(from, now));
  if (first.never != Never::kNot) {
    return Error{ErrorCode::kExhausted, "the costs never fit; ask for less"};
  }
  Result<std::uint64_t> number = grant(costs, first.start, kForever);
  if (number) {
    places_[*number] = {*number, from, easings_};
    place_numbers_[*number] = *number;
  }
  return number;
}

std::optional<Book::Place> Book::place(std::uint64_t id) const {
  const auto found = place_numbers_.find(id);
  if (found == place_numbers_.end()) return std::nullopt;
  const Entry& entry = entries_[static_cast<std::size_t>(found->second - first_number_)];
  return Place{entry.start, entry.costs};
}

void Book::change_place(std::uint64_t id, const Costs& costs, Instant now) {
  const auto found = place_numbers_.find(id);
  if (found == place_numbers_.end() || entry_of(found->second).costs == costs) return;
  entry_of(found->second).costs = costs;
  mark_run(found->second);
  touch();
  ++tightenings_;
  settle_place(id, now);
}

void Book::start_place_from(std::uint64_t id, Instant from, Instant now) {
  const auto found = place_numbers_.find(id);
  if (found == place_numbers_.end()) return;
  Wish& wish = places_.at(found->second);
  if (std::exchange(wish.from, from) == from) return;
  ++tightenings_;
  wish.easings = 0;
  settle_place(id, now);
}

void Book::leave_place(std::uint64_t id, Instant now) {
  const auto found = place_numbers_.find(id);
  if (found != place_numbers_.end()) release(found->second, now);
}

std::optional<std::uint64_t> Book::take_over(std::uint64_t id, Instant expires) {
  const auto found = place_numbers_.find(id);
  if (found == place_numbers_.end()) return std::nullopt;
  const std::uint64_t number = found->second;
  entry_of(number).expires = expires;
  forget_place(number);
  ++changes_;
  return number;
}

void Book::forget_place(std::uint64_t number) {
  const auto found = places_.find(number);
  if (found == places_.end()) return;
  place_numbers_.erase(found->second.id);
  places_.erase(found);
}

// Without fold(), after which numbers may be gone.
void Book::cancel(std::uint64_t number) {
  entry_of(number).state = HoldState::kCancelled;
  mark_run(number);
  --outstanding_;
}

std::uint64_t Book::last_granted() const {
  auto place = places_.rbegin();
  for (std::uint64_t number = first_number_ + entries_.size(); number-- > first_number_;) {
    if (place != places_.rend() && place->first == number) {
      ++place;
    } else if (entries_[static_cast<std::size_t>(number - first_number_)].state !=
               HoldState::kCancelled) {
      return number;
    }
  }
  return 0;
}

void Book::lower_up_to(Instant to, Levels& levels, Instant& at,
                       std::deque<Lowering>::const_iterator& lowering) const {
  for (; lowering != lowerings_.end() && lowering->at <= to; ++lowering) {
    advance(levels, at, lowering->at);
    levels[lowering->policy] = debited_fs(levels[lowering->policy], lowering->by_fs);
  }
}

void Book::go_before(std::uint64_t number, Levels& levels, Instant& at,
                     std::deque<Lowering>::const_iterator& lowering) const {
  if (lowerings_.empty()) {
    go_up_to(number, levels, at);
    return;
  }
  for (std::uint64_t each = first_number_; each < number; ++each) {
    const Entry& entry = entries_[static_cast<std::size_t>(each - first_number_)];
    if (entry.state == HoldState::kCancelled) continue;
    lower_up_to(entry.start, levels, at, lowering);
    advance(levels, at, entry.start);
    apply(levels, entry);
  }
}

// The first start that those before a place leave. One that is due stays so.
Offer Book::place_offer(const Entry& entry, const Wish& wish, Instant now, Levels levels,
                        Instant at, std::deque<Lowering>::const_iterator lowering) const {
  const Instant base =
      later_of(later_of(at, not_before_), later_of(wish.from, earlier_of(now, entry.start)));
  lower_up_to(base, levels, at, lowering);
  advance(levels, at, base);
  return offer_of(standing_of(levels, entry.costs), base);
}

// A start that moves up leaves those after it no less than they had.
void Book::settle_place(std::uint64_t id, Instant now) {
  settle_places(now);
  const auto found = place_numbers_.find(id);
  if (found == place_numbers_.end()) return;
  const std::uint64_t number = found->second;
  Wish& wish = places_.at(number);
  if (wish.easings == easings_) return;
  Entry& entry = entry_of(number);
  Levels levels = anchor_;
  Instant at = anchor_at_;
  auto lowering = lowerings_.cbegin();
  go_before(number, levels, at, lowering);
  const Offer first = place_offer(entry, wish, now, std::move(levels), at, lowering);
  if (first.start < entry.start) {
    entry.start = first.start;
    mark_run(number);
    touch();
  }
  wish.easings = easings_;
}

// One pass over what is booked from the first place on. A start that moves back might leave those
// after it less, where a policy would be full in between.
void Book::settle_places(Instant now) {
  if (std::exchange(settled_at_, tightenings_) == tightenings_ || places_.empty()) return;
  struct Moved {
    Costs costs;
    Wish wish;
  };
  std::vector<Moved> behind;
  const std::uint64_t last = last_granted();
  const std::uint64_t end = first_number_ + entries_.size();
  std::uint64_t number = places_.begin()->first;
  Levels levels = anchor_;
  Instant at = anchor_at_;
  auto lowering = lowerings_.cbegin();
  go_before(number, levels, at, lowering);
  for (; number < end && (number <= last || !places_.empty()); ++number) {
    Entry& entry = entry_of(number);
    if (entry.state == HoldState::kCancelled) continue;
    const auto place = places_.find(number);
    if (place == places_.end()) {
      lower_up_to(entry.start, levels, at, lowering);
      advance(levels, at, entry.start);
      apply(levels, entry);
      continue;
    }
    const Wish wish = place->second;
    Instant start = kForever;
    if (behind.empty()) {
      start = place_offer(entry, wish, now, levels, at, lowering).start;
      if (start != kForever && (start <= entry.start || number > last)) {
        if (start > entry.start) {
          entry.start = start;
          mark_run(number);
        }
        lower_up_to(entry.start, levels, at, lowering);
        advance(levels, at, entry.start);
        apply(levels, entry);
        continue;
      }
    }
    if (start != kForever || !behind.empty()) behind.push_back({entry.costs, wish});
    forget_place(number);
    cancel(number);
  }
  is_current_ = false;
  for (const Moved& one : behind) {
    const Offer next = offer(one.costs, later_of(one.wish.from, now));
    if (next.never != Never::kNot) continue;
    const Result<std::uint64_t> moved = grant(one.costs, next.start, kForever);
    if (!moved) continue;  // no room: who waits has none, as a newcomer
    places_[*moved] = one.wish;
    place_numbers_[one.wish.id] = *moved;
  }
  touch();
  fold();
}

Book::Entry& Book::entry_of(std::uint64_t number) {
  WEIR_ASSERT(number >= first_number_ && number - first_number_ < entries_.size());
  return entries_[static_cast<std::size_t>(number - first_number_)];
}

Book::Entry* Book::find(std::uint64_t number, Instant now) {
  expire(now);
  if (number < first_number_ || number - first_number_ >= entries_.size()) return nullptr;
  Entry& entry = entries_[static_cast<std::size_t>(number - first_number_)];
  let_expire(entry, now);
  return &entry;
}

HoldState Book::end_of(std::uint64_t number) const {
  if (number >= first_number_ || first_number_ - number > ends_.size()) return HoldState::kGone;
  return ends_[ends_.size() - static_cast<std::size_t>(first_number_ - number)];
}

// An overage that is charged where the reservation started leaves no more debt by now than it is
// itself, since a bucket may have refilled since. The sums fit: 2^63 and ten times 2^62.
Costs Book::within_overage(const Costs& actual, const Costs& reserved, Instant now) {
  Costs charged = actual;
  const std::vector<Standing> rows = standing({0, 0}, now);
  for (std::size_t i = 0; i < policies_.size(); ++i) {
    const Policy& policy = policies_[i];
    const bool is_requests = policy.resource == Resource::kRequests;
    std::int64_t& cost = is_requests ? charged.requests_micro : charged.processing_units_micro;
    const std::int64_t before = reserved.of(policy.resource);
    if (cost <= before || policy.capacity == 0) continue;
    const Wide room =
        Wide{left_micro(policy, rows[i].level_fs)} + Wide{policy.capacity_micro()} * kOverageTimes;
    cost = saturate(std::min(Wide{cost}, Wide{before} + std::max<Wide>(0, room)));
  }
  if (charged != actual) ++clipped_;
  return charged;
}

std::optional<Costs> Book::settled(std::uint64_t number) const {
  const auto found = settled_.find(number);
  if (found == settled_.end()) return std::nullopt;
  return found->second;
}

HoldState Book::commit(std::uint64_t number, const std::optional<Costs>& asked, Instant now) {
  Entry* entry = find(number, now);
  if (entry == nullptr) return end_of(number);
  if (entry->state != HoldState::kActive) return entry->state;
  forget_place(number);
  ++changes_;
  std::optional<Costs> actual = asked;
  if (actual) actual = within_overage(*actual, entry->costs, now);
  settled_[number] = actual.value_or(entry->costs);
  if (actual && *actual != entry->costs) {
    // What was counted is in the anchor, and so is where an overage belongs.
    for (std::size_t i = 0; i < policies_.size(); ++i) {
      const Resource resource = policies_[i].resource;
      const std::int64_t over_micro = actual->of(resource) - entry->costs.of(resource);
      if (!entry->counted[i] || over_micro <= 0) continue;
      anchor_[i] = debited_fs(anchor_[i], worth_fs(policies_[i], over_micro));
    }
    if (actual->requests_micro > entry->costs.requests_micro ||
        actual->processing_units_micro > entry->costs.processing_units_micro) {
      ++tightenings_;
    }
    entry->costs = *actual;
    mark_run(number);
    touch();
  }
  finish(*entry, HoldState::kSettled);
  fold();
  return HoldState::kSettled;
}

HoldState Book::release(std::uint64_t number, Instant now) {
  Entry* entry = find(number, now);
  if (entry == nullptr) return end_of(number);
  if (entry->state != HoldState::kActive) return entry->state;
  forget_place(number);
  cancel(number);
  touch();
  fold();
  return HoldState::kCancelled;
}

void Book::let_expire(Entry& entry, Instant now) {
  if (entry.state != HoldState::kActive || entry.expires > now) return;
  finish(entry, HoldState::kGone);
}

// With the costs it has now. The sums fit: 2^62 for each of 2^64 numbers.
void Book::finish(Entry& entry, HoldState state) {
  entry.state = state;
  --outstanding_;
  finals_.requests_micro += entry.costs.requests_micro;
  finals_.processing_units_micro += entry.costs.processing_units_micro;
}

void Book::expire(Instant now) {
  while (!entries_.empty() && entries_.front().expires <= now) {
    let_expire(entries_.front(), now);
    fold();
  }
}

void Book::expire_all(Instant now) {
  for (Entry& entry : entries_) let_expire(entry, now);
  fold();
}

void Book::make_room(Instant now) {
  if (has_room() || is_place(first_number_) || entries_.front().start + jitter_ >= now) return;
  let_expire(entries_.front(), kForever);
  fold();
}

// Drops final reservations off the front, into the anchor.
void Book::fold() {
  const auto fold_lowerings = [&](Instant to) {
    while (!lowerings_.empty() && lowerings_.front().at <= to) {
      const Lowering& lowering = lowerings_.front();
      advance(anchor_, anchor_at_, lowering.at);
      anchor_[lowering.policy] = debited_fs(anchor_[lowering.policy], lowering.by_fs);
      lowerings_.pop_front();
    }
  };
  while (!entries_.empty() && entries_.front().state != HoldState::kActive) {
    const Entry& entry = entries_.front();
    if (entry.state != HoldState::kCancelled) {
      fold_lowerings(entry.start);
      advance(anchor_, anchor_at_, entry.start);
      apply(anchor_, entry);
    }
    ends_.push_back(entry.state);
    if (ends_.size() > kEndsMax) {
      settled_.erase(first_number_ - ends_.size() + 1);
      ends_.pop_front();
    }
    mark_run(first_number_);
    entries_.pop_front();
    ++first_number_;
    if (first_number_ % kRunLength == 0) short_runs_.pop_front();
    if (first_number_ % (kRunLength * kRunLength) == 0) long_runs_.pop_front();
  }
  if (entries_.empty()) fold_lowerings(kForever);
}

std::optional<Costs> Book::reserved(std::uint64_t number) const {
  if (number < first_number_ || number - first_number_ >= entries_.size()) return std::nullopt;
  const Entry& entry = entries_[static_cast<std::size_t>(number - first_number_)];
  if (entry.state != HoldState::kActive) return std::nullopt;
  return entry.costs;
}

HoldState Book::state_of(std::uint64_t number) const {
  if (number < first_number_) return end_of(number);
  const std::uint64_t place = number - first_number_;
  return place < entries_.size() ? entries_[static_cast<std::size_t>(place)].state
                                 : HoldState::kGone;
}

Costs Book::outstanding_costs() const {
  Wide requests = 0;
  Wide units = 0;
  for (const Entry& entry : entries_) {
    if (entry.state != HoldState::kActive) continue;
    requests += entry.costs.requests_micro;
    units += entry.costs.processing_units_micro;
  }
  return {saturate(requests), saturate(units)};
}

// --- what the service says: reports, other policies, refusals

// What the policies have at `now` with the reservations that started by then, and
// these given back: put back on top, at `now`, they come to the same.
Book::Levels Book::levels_without_outstanding(Instant now) const {
  Levels levels = anchor_;
  Instant at = anchor_at_;
  replay(levels, at, now);
  advance(levels, at, now);
  for (const Entry& entry : entries_) {
    if (entry.start > at || entry.state != HoldState::kActive) continue;
    for (std::size_t i = 0; i < policies_.size(); ++i) {
      if (entry.counted[i]) continue;
      levels[i] =
          credited_fs(levels[i], worth_fs(policies_[i], entry.costs.of(policies_[i].resource)));
    }
  }
  // What was full in between has lost its refill: not more than it holds.
  for (std::size_t i = 0; i < policies_.size(); ++i) {
    levels[i] = std::min(levels[i], full_fs(policies_[i]));
  }
  return levels;
}

// Starts the book anew from `levels` at `now`, under the same reservations. Those that are
// final and have started are in the levels already, and so is what was learnt.
void Book::anchor_at(Instant now, Levels levels, const Policies& reported, Instant asked_at) {
  anchor_ = std::move(levels);
  anchor_at_ = now;
  std::uint64_t number = first_number_;
  for (Entry& entry : entries_) {
    const bool has_begun = entry.start + jitter_ < asked_at && !is_place(number++);
    if (entry.state != HoldState::kActive) {
      if (entry.start <= now) entry.costs = {0, 0};
      entry.counted |= reported;  // its work is done
    } else if (has_begun) {
      entry.counted |= reported;
    } else {
      entry.counted &= ~reported;
    }
  }
  lowerings_.clear();
  mark_runs();
  fold();
  ++tightenings_;
  touch();
}

void Book::refresh(std::span<const std::optional<std::int64_t>> left_micro, Instant now,
                   Instant asked_at) {
  WEIR_ASSERT(left_micro.size() == policies_.size());
  Policies reported;
  for (std::size_t i = 0; i < policies_.size(); ++i) reported[i] = left_micro[i].has_value();
  if (reported.none()) return;
  const Instant at = later_of(now, anchor_at_);
  expire_all(at);
  Levels levels = levels_without_outstanding(at);
  for (std::size_t i = 0; i < policies_.size(); ++i) {
    if (!left_micro[i]) continue;
    levels[i] = std::min(worth_fs(policies_[i], *left_micro[i]), full_fs(policies_[i]));
  }
  not_before_ = Instant{};  // the service has spoken
  anchor_at(at, std::move(levels), reported, asked_at);
}

void Book::change(std::vector<Policy> policies, Instant now) {
  WEIR_ASSERT(policies.size() <= kPoliciesMax);
  const Instant at = later_of(now, anchor_at_);
  expire_all(at);
  const Levels before = levels_without_outstanding(at);
  const std::vector<Policy> former = std::exchange(policies_, std::move(policies));
  Levels levels;
  std::vector<std::optional<std::size_t>> places;  // where each was before
  for (std::size_t i = 0; i < policies_.size(); ++i) {
    const Policy& policy = policies_[i];
    const auto was = std::find_if(former.begin(), former.end(), [&](const Policy& old) {
      return old.resource == policy.resource && old.period == policy.period;
    });
    Wide level_fs = begun_fs(i);
    places.emplace_back();
    if (was != former.end()) {
      const auto place = static_cast<std::size_t>(was - former.begin());
      places[i] = place;
      const Wide used_fs = full_fs(*was) - before[place];
      // Under another interval used units are kept, rounded up. The product fits: what
      // is used is at most 2^127 / refill_ns micro-units, cut at the largest cost.
      level_fs = full_fs(policy);
      level_fs -= was->refill_ns == policy.refill_ns
                      ? used_fs
                      : worth_fs(policy, saturate(std::min(ceil_div(used_fs, was->refill_ns),
                                                           Wide{kCostMicroMax})));
    }
    levels.push_back(level_fs);
  }
  for (Entry& entry : entries_) {
    const Policies counted = std::exchange(entry.counted, {});
    for (std::size_t i = 0; i < places.size(); ++i) {
      entry.counted[i] = places[i] && counted[*places[i]];
    }
  }
  anchor_at(at, std::move(levels), {}, Instant{});
}

void Book::hold_off(Duration wait, Instant now) {
  not_before_ = later_of(not_before_, now + std::clamp(wait, Duration{0}, kRetryAfterMax));
  ++tightenings_;
  ++changes_;
}

void Book::lower(const Costs& costs, Duration retry_after, std::optional<std::size_t> violated,
                 Instant now, Duration rounded_by) {
  const Wide waits_fs = std::max<Wide>(0, retry_after.count()) * kMicro;
  const Wide waits_at_least_fs = waits_fs - Wide{rounded_by.count()} * kMicro;
  Levels levels = anchor_;
  Instant at = anchor_at_;
  replay(levels, at, later_of(now, at));
  advance(levels, at, now);
  const auto cost_fs = [&](std::size_t i) {
    return worth_fs(policies_[i], costs.of(policies_[i].resource));
  };
  // The service never lets a bucket go negative, so a policy cannot make a caller wait
  // longer than the cost takes to refill.
  const auto explains = [&](std::size_t i) {
    return cost_fs(i) > 0 && cost_fs(i) >= waits_at_least_fs;
  };
  // What a policy has here that it cannot have there: the time it takes to recover.
  const auto excess_fs = [&](std::size_t i) {
    return std::max<Wide>(0, levels[i] - std::max<Wide>(0, cost_fs(i) - waits_fs));
  };
  std::optional<std::size_t> blamed;
  if (violated) {
    if (*violated < policies_.size() && explains(*violated)) blamed = violated;
  } else {
    for (std::size_t i = 0; i < policies_.size(); ++i) {
      if (policies_[i].is_fixed() || !explains(i)) continue;
      if (!blamed || excess_fs(i) < excess_fs(*blamed)) blamed = i;
    }
  }
  if (!blamed || lowerings_.size() >= kLoweringsMax) {
    hold_off(retry_after, now);
    return;
  }
  Wide by_fs = excess_fs(*blamed);
  // A guess may be wrong, so one refusal does not cost a month: those that follow teach more.
  const Wide most_fs = Wide{kRetryAfterMax.count()} * kMicro;
  if (!violated && by_fs > most_fs) {
    by_fs = most_fs;
    hold_off(retry_after, now);
  }
  if (by_fs == 0) return;
  const auto place = std::upper_bound(lowerings_.begin(), lowerings_.end(), at,
                                      [](Instant a, const Lowering& b) { return a < b.at; });
  lowerings_.insert(place, {at, *blamed, by_fs});
  ++tightenings_;
  touch();
  fold();
}

}  // namespace weir::system::contract
