#include "weir/engine/internal/resolver.h"

#include <fmt/format.h>

#include <algorithm>

#include "weir/engine/internal/ending.h"
#include "weir/engine/internal/rules_in_force.h"
#include "weir/engine/internal/waiting.h"
#include "weir/engine/quantity.h"

namespace weir::engine {
namespace {

Error too_long(std::string_view what, Duration asked, std::string_view bound, Duration most) {
  return bad_argument(fmt::format(
      "request: {} is '{}', but {} allows at most '{}'; write a shorter time, or raise {}", what,
      duration_text(asked), bound, duration_text(most), bound));
}

}  // namespace

Error not_bookable(const ActiveLimit& limit) {
  std::string_view why = "the present window is all that it counts";
  if (limit.is_slots) why = "nobody knows when work in slots ends";
  if (limit.seat != nullptr) why = "its gate takes no starts to come";
  if (limit.is_shared) why = "it is shared, and takes no starts to come";
  return bad_argument(fmt::format(
      "limit '{}': it cannot be booked ahead, because {}; ask without booking, or let it wait",
      limit.name, why));
}

std::optional<Error> check_ask(const EngineOptions& options, const Ask& ask, Instant now) {
  if (ask.is_plain()) return std::nullopt;
  if (ask.hold.count() < 0 || ask.hold.count() > kTermMax / 2) {
    return bad_argument(fmt::format(
        "request: hold is {} ns, but it must be between 0 and 2^61 ns; write a duration such as "
        "'60s'",
        ask.hold.count()));
  }
  if (ask.book_within.count() < 0) {
    return bad_argument(fmt::format(
        "request: book_within is {} ns, but it must be 0 or more; write a duration such as '5s'",
        ask.book_within.count()));
  }
  if (ask.hold > options.hold_max)
    return too_long("hold", ask.hold, options.names.hold, options.hold_max);
  if (ask.book_within > options.book_max) {
    return too_long("book_within", ask.book_within, options.names.book, options.book_max);
  }
  if (ask.wait_until > now && ask.wait_until - now > options.wait_max) {
    return too_long("wait", ask.wait_until - now, options.names.wait, options.wait_max);
  }
  if (ask.wait_until > now && (!ask.up_to.empty() || ask.book_within.count() > 0)) {
    return bad_argument(
        "request: it waits for all of its cost, so it can neither take a part of it nor book a "
        "start; leave out 'up_to' and 'book_within', or the wait");
  }
  if (ask.up_to.empty()) return std::nullopt;
  if (ask.request.cost(ask.up_to).value_or(0) >= 1) return std::nullopt;
  return bad_argument(fmt::format(
      "request: up_to names unit '{}', but the request has no cost of at least 1 in it; write how "
      "much is wanted",
      ask.up_to));
}

Error unacceptable_instant(Instant now) {
  return bad_argument(fmt::format(
      "now is {} ns, but it must lie between 0 and 2^62 ns since the Unix epoch; pass a clock's "
      "instant",
      now.ns));
}

bool Resolver::decide(const Plan& plan, const Ask& ask, Mode mode, Instant now,
                      Result<Decision>& answer) {
  if ((plan.has_slots || plan.has_gates) && ending_.next_expiry() <= now) {
    ending_.expire(now);
    // A callback may have read newer rules, and so let go of those the plan points into.
    if (!rules_.is_in_force(plan.generation)) return false;
  }
  Attempted attempted = attempt_once(plan, ask, mode, now, false, answer);
  if (attempted == Attempted::kMetWaiters) [[unlikely]] {
    const std::scoped_lock lock(waiting_.room().lock);
    attempted = attempt_once(plan, ask, mode, now, true, answer);
  }
  if (mode == Mode::kCharge && attempted == Attempted::kDone && answer.ok()) {
    counting_.count(plan, *answer);
  }
  if (answer.ok() && answer->hold) wakeup_.announce();
  return attempted != Attempted::kStale;
}

Resolver::Attempted Resolver::attempt_once(const Plan& plan, const Ask& ask, Mode mode, Instant now,
                                           bool in_room, Result<Decision>& answer) {
  Attempt attempt(ground_.table, ground_.rows, rules_.generation(), ground_.options.names, plan,
                  ask.request, now);
  if (attempt.is_stale()) return Attempted::kStale;
  if (!in_room && attempt.has_waiters()) return Attempted::kMetWaiters;
  Status status = resolve(attempt, plan, ask, mode, kNewcomer, *answer);
  if (!status) answer = std::move(status).error();
  return Attempted::kDone;
}

std::optional<Inspection> Resolver::inspect(const Active& rules, const KeyedLimit& keyed,
                                            Instant now) {
  Table& table = ground_.table;
  Inspection found{.waiters = waiting_.waiting_at(keyed.print)};
  Shard& shard = table.shard_of(keyed.print);
  const std::scoped_lock lock(shard);
  if (!rules_.is_in_force(rules.generation)) return std::nullopt;
  const Instant at = shard.at_least(now);
  const MeterShape* shape = &keyed.limit->shape;
  Words words = initial_words(*shape, at);
  Slot* slot = table.find(shard, keyed.print);
  if (slot != nullptr && !is_left_over(ground_.rows, *keyed.limit, *slot)) {
    shape = &adopt(ground_.rows, *keyed.limit, table, shard, *slot, at);
    words = slot->words();
    found.overridden = (slot->meta() & meta::kOverride) != 0;
  }
  found.remaining = level(*shape, words, table.logs, at);
  found.capacity = capacity(*shape);
  return found;
}

Status Resolver::resolve(Attempt& attempt, const Plan& plan, const Ask& ask, Mode mode,
                         std::uint64_t ticket, Decision& decision) {
  WaitRoom& room = waiting_.room();
  Holds& holds = ending_.holds();
  if (ask.book_within.count() > 0) {
    const std::size_t unbookable = attempt.unbookable();
    if (unbookable < plan.count) return not_bookable(*plan.items[unbookable].limit);
  }
  std::int64_t granted = 0;
  if (!ask.up_to.empty()) {
    granted = attempt.limit_to_available(ask.up_to, ask.request.cost(ask.up_to).value_or(0));
  }
  attempt.check();
  bool queued_behind = false;
  for (std::size_t i = 0; i < plan.count; ++i) {
    if (!attempt.has_waiters(i) || attempt.takes_nothing(i)) continue;
    const Print place = attempt.place(i);
    if (plan.items[i].limit->shadow || !room.older_at(place, ticket)) continue;
    // When those ahead leave is known only where they wait for the meter itself.
    const Instant fits = attempt.projected(i, room.ahead_at(place, ticket).units);
    attempt.refuse(i, fits > attempt.now() ? fits : kForever);
    queued_behind = true;
  }
  const bool booked = !attempt.passes() && !queued_behind && ask.book_within.count() > 0 &&
                      attempt.find_booking(attempt.now() + ask.book_within);
  if (mode == Mode::kPeek || !(attempt.passes() || booked)) {
    if (mode != Mode::kPeek) {
      if (Status started = attempt.start_fresh_tickers(); !started) return started;
      // A request that only tries may yet wait; `never` is the last word for every one.
      if (mode != Mode::kTry || !attempt.may_pass_later()) attempt.tell_refused();
    }
    attempt.report(decision);
    return Done{};
  }

  bool wants_hold = ask.hold.count() > 0 || plan.has_slots;
  if (wants_hold && !holds.reserve()) {
    wants_hold = false;
    if (ask.hold.count() > 0 || !attempt.leave_out_slots())
      return Error{ErrorCode::kExhausted,
                   fmt::format("request: {} holds are active, as many as this engine keeps; settle "
                               "some, or raise {}",
                               holds.active(), ground_.options.names.holds)};
  }
  Status charged = attempt.charge(wants_hold);
  if (!charged) {
    if (wants_hold) holds.unreserve();
    return charged;
  }
  attempt.report(decision);
  // Where nothing is left, one unit is asked for, and may have been booked.
  decision.granted = ask.up_to.empty() ? 0 : std::max<std::int64_t>(1, granted);
  if (wants_hold) {
    const Duration ttl = ask.hold.count() > 0 ? ask.hold : attempt.shortest_slots_hold();
    decision.hold_expires = attempt.start() + ttl;
    decision.hold = holds.add(attempt.charges(holds.room_for(plan.count)), decision.hold_expires);
  }
  return Done{};
}

}  // namespace weir::engine
