// What holds after every call:
//
//  1. last_ never goes back, and grants are stamped with it.
//  2. A key is charged only after room() or check() said so, with no call in between. So no window
//     holds more than the allowance (Granting::kGate: more than the allowance and one grant).
//  3. How a reservation was ended by its owner is remembered before anything changes by it, and
//     for one window. A reservation has the stamps under which its units count, so that its end
//     takes them from where they are.
//  4. The journal has a record before the counters change. What fails in between counts, though
//     the caller was granted nothing.
//  5. tallies_ has a row for each environment of rules_, in their order.
//  6. The scratch rings belong to the last seat_of(): a Seat ends where the next one begins.

#include "weir/system/sampling/counters.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "weir/base/assert.h"
#include "weir/base/hold_text.h"
#include "weir/base/in_quotes.h"

namespace weir::system::sampling {
namespace {

Status check_want(std::int64_t want) {
  if (want >= 0 && want <= kWantMax) return Done{};
  return bad_argument(fmt::format(
      "sampling: want is {}, but it must be between 0 and {}; write how many tasks are wanted",
      want, kWantMax));
}

// From the secret, so that ids are known again wherever it is; and by a one-way function, so that
// nobody who might find this key has that of the prints.
WordKey id_key_of(const engine::Secret& secret) noexcept {
  constexpr std::uint64_t kReservations = 0x7265736572766174;
  return {keyed_word({secret[0], secret[1]}, kReservations),
          keyed_word({secret[2], secret[3]}, kReservations)};
}

Error ended(HoldId reservation) {
  return {ErrorCode::kNotFound,
          fmt::format("sampling: reservation {} has left the window, or was never made here; "
                      "ask for a grant again",
                      hold_text(reservation))};
}

// Of two limits that must both have room. None closes again by itself, so the later instant is the
// first at which both have it.
meter::Check both(meter::Check said, const meter::Check& over) noexcept {
  if (over.verdict == Verdict::kNever || said.allowed()) return over;
  if (over.allowed() || said.verdict == Verdict::kNever) return said;
  said.earliest = later_of(said.earliest, over.earliest);
  said.shortfall = std::max(said.shortfall, over.shortfall);
  return said;
}

}  // namespace

std::string_view to_string(Reason reason) noexcept {
  switch (reason) {
    case Reason::kLimited:
      return "limited";
    case Reason::kExempt:
      return "exempt";
    case Reason::kUnlimited:
      return "unlimited";
  }
  return "unknown";
}

Counters::Counters(Rules rules, const Options& options)
    : rules_(std::move(rules)),
      options_(options),
      logs_(options.keys_max),
      reservations_(options.reservations_max),
      tallies_(rules_.environments().size()) {
  set_secret(options.secret);
  look_at_limits();
}

void Counters::set_secret(const engine::Secret& secret) {
  options_.secret = secret;
  key_seed_ = engine::seed_for(secret, "sampling");
  parent_seed_ = engine::seed_for(secret, "sampling over revisions");
  id_key_ = id_key_of(secret);
}

void Counters::set_journal(Journal* journal) { options_.journal = journal; }

void Counters::set_rules(Rules rules) {
  std::vector<Tally> tallies(rules.environments().size());
  for (std::size_t i = 0; i < tallies.size(); ++i) {
    const Environment* const old = rules_.find(rules.environments()[i].name);
    if (old == nullptr) continue;
    tallies[i] = tallies_[static_cast<std::size_t>(old - rules_.environments().data())];
  }
  rules_ = std::move(rules);
  tallies_ = std::move(tallies);
  look_at_limits();
}

// For the size of blocks, where only the key is known.
void Counters::look_at_limits() noexcept {
  largest_limit_ = 1;
  for (const Environment& of : rules_.environments()) {
    largest_limit_ = std::max({largest_limit_, of.allowed.value_or(1), of.parent.value_or(1)});
  }
}

Result<Counters::Seat> Counters::seat_of(const Who& who) const {
  for (const auto& [what, name] :
       {std::pair{"hotkey", who.hotkey}, std::pair{"revision", who.revision},
        std::pair{"environment", who.environment}}) {
    if (!name.empty() && name.size() <= kNameBytesMax) [[likely]] {
      continue;
    }
    return check_name(fmt::format("sampling: {}", what), name).error();
  }
  const Environment* const found = rules_.find(who.environment);
  if (found == nullptr) {
    return Error{ErrorCode::kNotFound,
                 fmt::format("sampling: environment {} is not configured; correct the name, or "
                             "write it under 'sampling: environments'",
                             in_quotes(who.environment))};
  }
  if (!who.id && rules_.mode() == Mode::kStrict) {
    return bad_argument(
        "sampling: uid is missing, but without it exempt miners cannot be told apart; write the "
        "miner's uid");
  }
  Seat seat{.place = static_cast<std::size_t>(found - rules_.environments().data())};
  if (rules_.exempt().covers(who.id.value_or(0))) {
    seat.reason = Reason::kExempt;
  } else if (!found->allowed && !found->parent) {
    seat.reason = Reason::kUnlimited;
  }
  const engine::Secret& secret = options_.secret;
  const engine::Print hotkey = engine::with_value(secret, {}, who.hotkey);
  const engine::Print revision = engine::with_value(secret, hotkey, who.revision);
  seat.key = engine::print_for(key_seed_, engine::with_value(secret, revision, who.environment));
  seat.log = logs_.load(seat.key, ring_);
  if (found->parent) {
    seat.parent =
        engine::print_for(parent_seed_, engine::with_value(secret, hotkey, who.environment));
    seat.parent_log = logs_.load(seat.parent, parent_ring_);
  }
  return seat;
}

// What the window has left, whatever a burst says.
std::int64_t Counters::left_over(const Seat& seat, Instant now) const noexcept {
  if (seat.reason != Reason::kLimited) return kWantMax;
  const Environment& of = environment(seat);
  std::int64_t left = kWantMax;
  if (of.allowed) left = std::min(left, meter::level(of.shape, seat.log, ring_, now));
  if (of.parent) {
    left = std::min(left, meter::level(of.parent_shape, seat.parent_log, parent_ring_, now));
  }
  return std::max<std::int64_t>(0, left);
}

// How many could be granted now.
std::int64_t Counters::room(const Seat& seat, Instant now) const noexcept {
  if (seat.reason != Reason::kLimited) return kWantMax;
  const Environment& of = environment(seat);
  std::int64_t left = left_over(seat, now);
  if (of.spacing) left = std::min(left, meter::level(*of.spacing, seat.log, ring_, now));
  if (left <= 0) return 0;
  return rules_.granting() == Granting::kGate ? kWantMax : left;
}

Grant Counters::described(const Seat& seat, Instant now) const noexcept {
  const Environment& of = environment(seat);
  Grant grant{.reason = seat.reason, .next_free = now};
  grant.count = meter::used(of.shape, seat.log, ring_, now);
  if (of.parent) {
    grant.parent_count = meter::used(of.parent_shape, seat.parent_log, parent_ring_, now);
  }
  if (seat.reason != Reason::kLimited) return grant;
  grant.limit = of.allowed;
  grant.parent_limit = of.parent;
  std::int64_t left = kTermMax;
  if (of.allowed) {
    left = *of.allowed - grant.count;
    grant.next_free = meter::next_free(of.shape, seat.log, ring_, now);
  }
  if (of.parent) {
    left = std::min(left, *of.parent - grant.parent_count);
    grant.next_free = later_of(
        grant.next_free, meter::next_free(of.parent_shape, seat.parent_log, parent_ring_, now));
  }
  if (of.spacing) {
    grant.next_free =
        later_of(grant.next_free, meter::next_free(*of.spacing, seat.log, ring_, now));
  }
  grant.remaining = std::max<std::int64_t>(0, left);
  return grant;
}

// Only a key that is not there yet needs room.
Status Counters::ready(const Seat& seat) const {
  if (options_.journal != nullptr) {
    if (Status status = options_.journal->ready(); !status) return status;
  }
  const bool needs_parent = seat.parent != engine::Print{} && seat.parent_log.size == 0;
  const std::size_t missing = (seat.log.size == 0 ? 1u : 0u) + (needs_parent ? 1u : 0u);
  if (logs_.has_room(missing)) return Done{};
  return full();
}

Error Counters::full() const {
  return {ErrorCode::kExhausted,
          fmt::format("sampling: {} keys are counted, as many as may be; wait until some leave the "
                      "window, or raise bounds.keys",
                      logs_.keys())};
}

Error Counters::no_memory() {
  return {ErrorCode::kExhausted, "sampling: no memory for another key; allow the process more"};
}

// Before anything is looked up. At the bound of keys more is swept, and never everything, for
// which all others would have to wait.
void Counters::move_on(Instant now) noexcept {
  last_ = later_of(now, last_);
  logs_.sweep(rules_.window(), last_,
              logs_.has_room(kKeysPerGrant) ? kSweptPerGrant : kSweptAtOnce);
}

void Counters::tally(std::size_t place, std::int64_t granted, std::int64_t wanted) noexcept {
  Tally& tally = tallies_[place];
  tally.grants += granted > 0 ? 1 : 0;
  tally.granted += static_cast<std::uint64_t>(granted);
  tally.refused += static_cast<std::uint64_t>(std::max<std::int64_t>(0, wanted - granted));
}

void Counters::note(const Seat& seat, const Who& who, std::int64_t granted,
                    std::int64_t wanted) noexcept {
  if (seat.reason != Reason::kLimited) return;
  const bool is_used_up = granted > 0 && granted == wanted && left_over(seat, last_) == 0;
  if (granted >= wanted && !is_used_up) return;
  refused_.note(seat.key, who.hotkey, who.revision, who.environment, who.id,
                std::max<std::int64_t>(0, wanted - granted), last_);
}

Result<Grant> Counters::grant(const Who& who, std::int64_t want, Instant now, Keep keep) {
  if (Status status = check_want(want); !status) return std::move(status).error();
  move_on(now);
  Result<Seat> seat = seat_of(who);
  if (!seat) return std::move(seat).error();
  const std::int64_t granted = std::min(want, room(*seat, last_));
  std::uint64_t reservation = 0;
  if (granted > 0) {
    if (Status status = ready(*seat); !status) return std::move(status).error();
    try {
      reservation = charge(*seat, granted, last_, keep);
    } catch (const std::bad_alloc&) {
      return no_memory();
    }
  }
  Grant grant = described(*seat, last_);
  if (reservation != 0) grant.reservation = id_of(reservation);
  grant.wanted = want;
  grant.granted = granted;
  if (granted > 0) grant.record = record_;
  tally(seat->place, granted, want);
  note(*seat, who, granted, want);
  return grant;
}

std::uint64_t Counters::take(const Who& who, std::int64_t cost, std::int64_t wanted, Instant now,
                             Keep keep) noexcept {
  move_on(now);
  Result<Seat> seat = seat_of(who);
  WEIR_ASSERT(seat.ok());
  tally(seat->place, cost, wanted);
  const std::uint64_t reservation = cost > 0 ? charge(*seat, cost, last_, keep) : 0;
  note(*seat, who, cost, wanted);
  return reservation;
}

void Counters::refuse(const Who& who, std::int64_t wanted, Instant now) noexcept {
  move_on(now);
  const Environment* const found = rules_.find(who.environment);
  if (found == nullptr) return;
  tally(static_cast<std::size_t>(found - rules_.environments().data()), 0, wanted);
  if (const Result<Seat> seat = seat_of(who)) note(*seat, who, 0, wanted);
}

// The runs in the scratch rings, with so many more.
void Counters::add(Seat& seat, std::int64_t units, Instant now) const noexcept {
  const Environment& of = environment(seat);
  seat.log = meter::charge(of.shape, seat.log, ring_, now, units);
  if (!of.parent) return;
  seat.parent_log = meter::charge(of.parent_shape, seat.parent_log, parent_ring_, now, units);
}

// The reservation, or 0. The journal queues it first: what fails after that, for want of
// memory, counts though no caller was granted it.
std::uint64_t Counters::charge(Seat& seat, std::int64_t units, Instant now, Keep keep) {
  const Environment& of = environment(seat);
  Record record{.key = seat.key,
                .parent = seat.parent,
                .at = meter::stamp(of.shape, now),
                .parent_at = meter::stamp(of.parent_shape, now),
                .units = units};
  reservations_.drop_old(rules_.window(), now);
  if (keep == Keep::kReserved) {
    record.reservation = reservations_.next_number(now);
    reservations_.add(record);
  }
  write(record);
  add(seat, units, now);
  bool is_kept = logs_.store(seat.key, seat.log, ring_, of.shape.limit);
  if (of.parent) {
    is_kept =
        is_kept && logs_.store(seat.parent, seat.parent_log, parent_ring_, of.parent_shape.limit);
  }
  WEIR_ASSERT(is_kept);  // ready() has seen the room
  return record.reservation;
}

Result<Grant> Counters::peek(const Who& who, std::int64_t want, Instant now) const {
  if (Status status = check_want(want); !status) return std::move(status).error();
  now = later_of(now, last_);
  Result<Seat> seat = seat_of(who);
  if (!seat) return std::move(seat).error();
  const std::int64_t granted = std::min(want, room(*seat, now));
  if (granted > 0) {
    if (Status status = ready(*seat); !status) return std::move(status).error();
    add(*seat, granted, now);
  }
  Grant grant = described(*seat, now);
  grant.wanted = want;
  grant.granted = granted;
  return grant;
}

std::int64_t Counters::left(const Who& who, Instant now) const {
  const Result<Seat> seat = seat_of(who);
  return seat ? room(*seat, later_of(now, last_)) : 0;
}

meter::Check Counters::check(const Who& who, std::int64_t cost, Instant at) const {
  at = later_of(at, last_);
  const Result<Seat> seat = seat_of(who);
  if (!seat || cost > kWantMax) return {Verdict::kNever, kForever, cost};
  if (cost > 0 && !ready(*seat)) return {Verdict::kDenied, kForever, cost};
  meter::Check said{Verdict::kAllowed, at, 0};
  if (seat->reason != Reason::kLimited) return said;
  const Environment& of = environment(*seat);
  // An open gate lets everything pass; it is open as soon as one unit is free.
  const std::int64_t needed =
      rules_.granting() == Granting::kGate ? std::min<std::int64_t>(cost, 1) : cost;
  if (of.allowed) said = meter::check(of.shape, seat->log, ring_, at, needed);
  if (of.spacing) said = both(said, meter::check(*of.spacing, seat->log, ring_, at, needed));
  if (of.parent) {
    said = both(said, meter::check(of.parent_shape, seat->parent_log, parent_ring_, at, needed));
  }
  return said;
}

Reading Counters::reading() const {
  Reading reading{.formula = rules_.formula(),
                  .mode = rules_.mode(),
                  .granting = rules_.granting(),
                  .keys = logs_.keys(),
                  .bytes = logs_.bytes() + reservations_.bytes(),
                  .reservations = reservations_.size()};
  for (std::size_t i = 0; i < tallies_.size(); ++i) {
    const Environment& of = rules_.environments()[i];
    reading.environments.push_back({of.name, of.rotation, of.allowed, of.parent, of.burst,
                                    tallies_[i].grants, tallies_[i].granted, tallies_[i].refused});
  }
  return reading;
}

Result<GivenBack> Counters::commit(HoldId reservation, std::optional<std::int64_t> created,
                                   Instant now) {
  if (created && *created < 0) {
    return bad_argument(fmt::format(
        "sampling: created is {}, but it must not be negative; write how many tasks were created",
        *created));
  }
  return end(reservation, created, now);
}

Result<GivenBack> Counters::release(HoldId reservation, Instant now) {
  return end(reservation, 0, now);
}

Result<GivenBack> Counters::end(HoldId reservation, std::optional<std::int64_t> created,
                                Instant now) {
  last_ = later_of(now, last_);
  reservations_.drop_old(rules_.window(), last_);
  reservations_.forget_old(last_);
  if (reservation != id_of(reservation.number)) return ended(reservation);
  if (const Reservations::End* const end = reservations_.end_of(reservation.number)) {
    // What the first end is told with was queued before record_, or with it.
    return GivenBack{end->given_back, record_,
                     created.value_or(end->created + end->given_back) != end->created,
                     end->created};
  }
  const Record* const found = reservations_.find(reservation.number);
  if (found == nullptr) return ended(reservation);
  if (created && *created > found->units) {
    return bad_argument(fmt::format(
        "sampling: created is {}, but reservation {} is of {}; write at most that, and ask for "
        "another grant for the rest",
        *created, hold_text(reservation), found->units));
  }
  if (options_.journal != nullptr) {
    if (Status status = options_.journal->ready(); !status) return std::move(status).error();
  }
  const std::int64_t exist = created.value_or(found->units);
  try {
    remember(reservation.number, found->units, exist);
    const std::int64_t back = finish(*found, exist);
    return GivenBack{back, record_, false, exist};
  } catch (const std::bad_alloc&) {
    reservations_.take_back(reservation.number);
    return no_memory();
  }
}

// Of a grant of `units`, at most kWantMax, so that both parts fit in 32 bits. A file that was
// changed by hand may say otherwise: that end is not remembered.
void Counters::remember(std::uint64_t number, std::int64_t units, std::int64_t created) {
  static_assert(kWantMax < std::numeric_limits<std::int32_t>::max());
  if (units > kWantMax || created < 0 || created > units) return;
  reservations_.remember(
      number, {static_cast<std::int32_t>(created), static_cast<std::int32_t>(units - created)},
      last_ + rules_.window());
}

Ticket Counters::settle(std::uint64_t reservation, std::int64_t created, Instant now) noexcept {
  last_ = later_of(now, last_);
  reservations_.drop_old(rules_.window(), last_);
  const Record* const found = reservations_.find(reservation);
  if (found == nullptr) return 0;
  finish(*found, created);
  return record_;
}

// Says how many are given back.
std::int64_t Counters::finish(Record record, std::int64_t created) {
  const std::int64_t back = std::max<std::int64_t>(0, record.units - created);
  if (created > record.units) {
    const Record more{.key = record.key,
                      .parent = record.parent,
                      .at = last_,
                      .parent_at = last_,
                      .units = created - record.units};
    write(more);
    (void)count(more);  // the key is there: the reservation itself counts
  }
  record.units = -back;
  write(record);
  reservations_.erase(record.reservation);
  (void)count(record);
  return back;
}

void Counters::write(const Record& record) {
  if (Journal* const journal = options_.journal) record_ = journal->append(record);
}

bool Counters::count(const Record& record) {
  if (record.units == 0) return true;
  return count(record.key, record.at, record.units) &&
         (!record.has_parent() || count(record.parent, record.parent_at, record.units));
}

// Under a stamp that is taken as it is. A block is as large as any limit needs it: which one
// the key has is not known, and a block that grows leaves the smaller ones behind.
bool Counters::count(engine::Print key, Instant at, std::int64_t units) {
  const meter::LogShape exact{meter::kRunsMax, rules_.window().count(), 1};
  meter::LogState log = logs_.load(key, ring_);
  log = units < 0 ? meter::give_back(log, ring_, at, -units)
                  : meter::charge(exact, log, ring_, at, units);
  return logs_.store(key, log, ring_, largest_limit_);
}

Status Counters::restore(const Record& record, Instant now) {
  reservations_.saw(record.reservation);
  Record made = record;
  // Of a clock that was ahead: it was granted by now, so it counts from now.
  made.at = earlier_of(record.at, now);
  made.parent_at = earlier_of(record.parent_at, now);
  if (made.units > 0 && made.at + rules_.window() <= now) return Done{};
  if (made.units < 0) {
    // From where the grant counts: of a clock that was ahead every start of a process counts
    // it from its own instant.
    if (const Record* const grant = reservations_.find(made.reservation)) {
      made.at = grant->at;
      made.parent_at = grant->parent_at;
    }
  }
  try {
    if (!count(made)) return full();
    if (made.reservation != 0 && made.units > 0) {
      reservations_.add(made);
    } else {
      if (const Record* const grant = reservations_.find(made.reservation)) {
        last_ = later_of(now, last_);
        remember(made.reservation, grant->units, grant->units + made.units);
      }
      reservations_.erase(made.reservation);
    }
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
  return Done{};
}

void Counters::sweep(Instant now) {
  last_ = later_of(now, last_);
  logs_.sweep(rules_.window(), last_, kSweptAtOnce);
  reservations_.drop_old(rules_.window(), last_);
  reservations_.forget_old(last_);
  refused_.forget(last_ - rules_.window());
}

}  // namespace weir::system::sampling
