#include "weir/system/sampling/sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "weir/base/in_quotes.h"

namespace weir::system::sampling {
namespace {

constexpr std::size_t kSweptPerGrant = 4;  // more than a grant can add
constexpr std::size_t kSweptAtOnce = 4096;
constexpr std::size_t kKeysPerGrant = 2;  // a key and its parent

Error no_memory() {
  return {ErrorCode::kExhausted, "sampling: no memory for another key; allow the process more"};
}

Error full(std::size_t keys) {
  return {ErrorCode::kExhausted,
          fmt::format("sampling: {} keys are counted, as many as may be; wait until some leave the "
                      "window, or raise bounds.keys",
                      keys)};
}

Status check_want(std::int64_t want) {
  if (want >= 0 && want <= kWantMax) return Done{};
  return bad_argument(fmt::format(
      "sampling: want is {}, but it must be between 0 and {}; write how many tasks are wanted",
      want, kWantMax));
}

Error ended(std::uint64_t reservation) {
  return {ErrorCode::kNotFound,
          fmt::format("sampling: reservation {} has ended, or is too old, or was never made here; "
                      "ask for a grant again",
                      reservation)};
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

std::shared_ptr<Sampling> Sampling::create(Rules rules, const Options& options) {
  return std::shared_ptr<Sampling>(new Sampling(std::move(rules), options));
}

Sampling::Sampling(Rules rules, const Options& options)
    : rules_(std::move(rules)),
      options_(options),
      logs_(options.keys_max),
      reservations_(options.reservations_max),
      tallies_(rules_.environments().size()) {
  set_secret(options.secret);
}

void Sampling::set_secret(const engine::Secret& secret) {
  const std::scoped_lock lock(lock_);
  options_.secret = secret;
  key_seed_ = engine::seed_for(secret, "sampling");
  parent_seed_ = engine::seed_for(secret, "sampling over revisions");
}

void Sampling::set_journal(Journal* journal) {
  const std::scoped_lock lock(lock_);
  options_.journal = journal;
}

void Sampling::set_rules(Rules rules) {
  const std::scoped_lock lock(lock_);
  std::vector<Tally> tallies(rules.environments().size());
  for (std::size_t i = 0; i < tallies.size(); ++i) {
    const Environment* const old = rules_.find(rules.environments()[i].name);
    if (old == nullptr) continue;
    tallies[i] = tallies_[static_cast<std::size_t>(old - rules_.environments().data())];
  }
  rules_ = std::move(rules);
  tallies_ = std::move(tallies);
}

Result<Sampling::Seat> Sampling::seat_of(const Who& who) const {
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
        "sampling: uid is missing, but without it nobody can tell who is exempt; write the "
        "miner's uid");
  }
  Seat seat{.place = static_cast<std::size_t>(found - rules_.environments().data())};
  if (rules_.exempt().covers(who.id.value_or(0))) {
    seat.reason = Reason::kExempt;
  } else if (!found->allowed) {
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

// How many could be granted now.
std::int64_t Sampling::room(const Seat& seat, Instant now) const noexcept {
  if (seat.reason != Reason::kLimited) return kWantMax;
  const Environment& of = environment(seat);
  std::int64_t left = meter::level(of.shape, seat.log, ring_, now);
  if (of.parent) {
    left = std::min(left, meter::level(of.parent_shape, seat.parent_log, parent_ring_, now));
  }
  if (left <= 0) return 0;
  return rules_.granting() == Granting::kGate ? kWantMax : left;
}

Grant Sampling::described(const Seat& seat, Instant now) const noexcept {
  const Environment& of = environment(seat);
  Grant grant{.reason = seat.reason, .next_free = now};
  grant.count = meter::used(of.shape, seat.log, ring_, now);
  if (of.parent)
    grant.parent_count = meter::used(of.parent_shape, seat.parent_log, parent_ring_, now);
  if (seat.reason != Reason::kLimited) return grant;
  grant.limit = of.allowed;
  grant.parent_limit = of.parent;
  std::int64_t left = *of.allowed - grant.count;
  grant.next_free = meter::next_free(of.shape, seat.log, ring_, now);
  if (of.parent) {
    left = std::min(left, *of.parent - grant.parent_count);
    grant.next_free = later_of(
        grant.next_free, meter::next_free(of.parent_shape, seat.parent_log, parent_ring_, now));
  }
  grant.remaining = std::max<std::int64_t>(0, left);
  return grant;
}

Result<Grant> Sampling::grant(const Who& who, std::int64_t want, Instant now, Keep keep) {
  if (Status status = check_want(want); !status) return std::move(status).error();
  const std::scoped_lock lock(lock_);
  now = last_ = later_of(now, last_);
  logs_.sweep(rules_.window(), now, kSweptPerGrant);
  Result<Seat> seat = seat_of(who);
  if (!seat) return std::move(seat).error();
  const std::int64_t granted = std::min(want, room(*seat, now));
  std::uint64_t reservation = 0;
  if (granted > 0) {
    const Result<std::uint64_t> charged = charge(*seat, granted, now, keep);
    if (!charged) return charged.error();
    reservation = *charged;
  }
  Grant grant = described(*seat, now);
  grant.reservation = reservation;
  grant.wanted = want;
  grant.granted = granted;
  Tally& tally = tallies_[seat->place];
  tally.grants += granted > 0 ? 1 : 0;
  tally.granted += static_cast<std::uint64_t>(granted);
  tally.refused += static_cast<std::uint64_t>(want - granted);
  return grant;
}

// The reservation, or 0. The journal queues it first: what fails after that counts though
// nobody was granted it.
Result<std::uint64_t> Sampling::charge(Seat& seat, std::int64_t units, Instant now, Keep keep) {
  const Environment& of = environment(seat);
  Journal* const journal = options_.journal;
  if (journal != nullptr) {
    if (Status status = journal->ready(); !status) return std::move(status).error();
  }
  if (!logs_.has_room(kKeysPerGrant)) {
    logs_.sweep(rules_.window(), now, logs_.blocks());
    if (!logs_.has_room(kKeysPerGrant)) return full(logs_.keys());
  }
  Record record{.key = seat.key,
                .parent = seat.parent,
                .at = meter::stamp(of.shape, now),
                .parent_at = meter::stamp(of.parent_shape, now),
                .units = units};
  if (keep == Keep::kReserved) record.reservation = reservations_.next_number(now);
  try {
    reservations_.drop_old(rules_.window(), now);
    if (keep == Keep::kReserved) reservations_.add(record);
    if (journal != nullptr) keep_pending({journal, journal->append(record)});
    seat.log = meter::charge(of.shape, seat.log, ring_, now, units);
    if (!logs_.store(seat.key, seat.log, ring_, of.shape.limit)) return full(logs_.keys());
    if (of.parent) {
      seat.parent_log = meter::charge(of.parent_shape, seat.parent_log, parent_ring_, now, units);
      if (!logs_.store(seat.parent, seat.parent_log, parent_ring_, of.parent_shape.limit)) {
        return full(logs_.keys());
      }
    }
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
  return record.reservation;
}

Result<Grant> Sampling::peek(const Who& who, std::int64_t want, Instant now) const {
  if (Status status = check_want(want); !status) return std::move(status).error();
  const std::scoped_lock lock(lock_);
  now = later_of(now, last_);
  const Result<Seat> seat = seat_of(who);
  if (!seat) return seat.error();
  Grant grant = described(*seat, now);
  grant.wanted = want;
  grant.granted = std::min(want, room(*seat, now));
  grant.count += grant.granted;
  return grant;
}

meter::Check Sampling::check(const Who& who, std::int64_t cost, Instant at) const {
  const meter::Check never{Verdict::kNever, kForever, cost};
  const std::scoped_lock lock(lock_);
  at = later_of(at, last_);
  const Result<Seat> seat = seat_of(who);
  if (!seat || cost > kWantMax) return never;
  const bool is_ready = options_.journal == nullptr || options_.journal->ready().ok();
  if (cost > 0 && (!is_ready || !logs_.has_room(kKeysPerGrant))) {
    return {Verdict::kDenied, kForever, cost};
  }
  if (seat->reason != Reason::kLimited) return {Verdict::kAllowed, at, 0};
  const Environment& of = environment(*seat);
  // An open gate lets everything pass; it is open as soon as one unit is free.
  const std::int64_t needed =
      rules_.granting() == Granting::kGate ? std::min<std::int64_t>(cost, 1) : cost;
  meter::Check said = meter::check(of.shape, seat->log, ring_, at, needed);
  if (of.parent) {
    const meter::Check over =
        meter::check(of.parent_shape, seat->parent_log, parent_ring_, at, needed);
    if (over.verdict == Verdict::kNever || said.allowed()) {
      said = over;
    } else if (!over.allowed() && said.verdict != Verdict::kNever) {
      said.earliest = later_of(said.earliest, over.earliest);
      said.shortfall = std::max(said.shortfall, over.shortfall);
    }
  }
  return said;
}

Result<std::int64_t> Sampling::commit(std::uint64_t reservation,
                                      std::optional<std::int64_t> created, Instant now) {
  if (created && *created < 0) {
    return bad_argument(fmt::format(
        "sampling: created is {}, but it must not be negative; write how many tasks were created",
        *created));
  }
  return end(reservation, created, now);
}

Result<std::int64_t> Sampling::release(std::uint64_t reservation, Instant now) {
  return end(reservation, 0, now);
}

Result<std::int64_t> Sampling::end(std::uint64_t reservation, std::optional<std::int64_t> created,
                                   Instant now) {
  const std::scoped_lock lock(lock_);
  last_ = later_of(now, last_);
  reservations_.drop_old(rules_.window(), last_);
  const Record* const found = reservations_.find(reservation);
  if (found == nullptr) return ended(reservation);
  Record record = *found;
  if (created && *created > record.units) {
    return bad_argument(fmt::format(
        "sampling: created is {}, but reservation {} is of {}; write at most that, and ask for "
        "another grant for the rest",
        *created, reservation, record.units));
  }
  if (options_.journal != nullptr) {
    if (Status status = options_.journal->ready(); !status) return std::move(status).error();
  }
  const std::int64_t back = record.units - created.value_or(record.units);
  record.units = -back;
  try {
    if (Journal* const journal = options_.journal) {
      keep_pending({journal, journal->append(record)});
    }
    reservations_.erase(reservation);
    if (back > 0) {
      add_to(record.key, record.at, -back);
      if (record.has_parent()) add_to(record.parent, record.parent_at, -back);
    }
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
  return back;
}

// Under a stamp that is taken as it is.
void Sampling::add_to(engine::Print key, Instant at, std::int64_t units) {
  const meter::LogShape exact{meter::kRunsMax, rules_.window().count(), 1};
  meter::LogState log = logs_.load(key, ring_);
  log = units < 0 ? meter::give_back(log, ring_, at, -units)
                  : meter::charge(exact, log, ring_, at, units);
  (void)logs_.store(key, log, ring_, log.held);
}

Status Sampling::restore(const Record& record, Instant now) {
  const std::scoped_lock lock(lock_);
  reservations_.saw(record.reservation);
  Record made = record;
  // Of a clock that was ahead: it was granted by now, so it counts from now.
  made.at = earlier_of(record.at, now);
  made.parent_at = earlier_of(record.parent_at, now);
  if (made.units > 0 && made.at + rules_.window() <= now) return Done{};
  try {
    if (made.units > 0 && !logs_.has_room(kKeysPerGrant)) return full(logs_.keys());
    if (made.units != 0) {
      add_to(made.key, made.at, made.units);
      if (made.has_parent()) add_to(made.parent, made.parent_at, made.units);
    }
    if (made.reservation != 0 && made.units > 0) {
      reservations_.add(made);
    } else {
      reservations_.erase(made.reservation);
    }
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
  return Done{};
}

void Sampling::sweep(Instant now) {
  const std::scoped_lock lock(lock_);
  now = last_ = later_of(now, last_);
  logs_.sweep(rules_.window(), now, kSweptAtOnce);
  reservations_.drop_old(rules_.window(), now);
}

Reading Sampling::reading() const {
  const std::scoped_lock lock(lock_);
  Reading reading{.formula = rules_.formula(),
                  .mode = rules_.mode(),
                  .granting = rules_.granting(),
                  .keys = logs_.keys(),
                  .bytes = logs_.bytes(),
                  .reservations = reservations_.size()};
  for (std::size_t i = 0; i < tallies_.size(); ++i) {
    const Environment& of = rules_.environments()[i];
    reading.environments.push_back({of.name, of.rotation, of.allowed, of.parent, tallies_[i].grants,
                                    tallies_[i].granted, tallies_[i].refused});
  }
  return reading;
}

}  // namespace weir::system::sampling
