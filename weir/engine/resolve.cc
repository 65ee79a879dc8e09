// One decision by the long way: new keys, gates, slots and holds, bookings, parts, queues.

#include <fmt/format.h>

#include <algorithm>

#include "weir/engine/engine_impl.h"

namespace weir::engine {
namespace {

bool is_plain(const AcquireOptions& options) {
  return options.up_to.empty() && options.book_within.count() == 0 && options.hold.count() == 0;
}

}  // namespace

std::optional<Error> check_options(const AcquireOptions& options, const Request& request) {
  if (options.hold.count() < 0 || options.hold.count() > kTermMax / 2) {
    return bad_argument(fmt::format(
        "request: hold is {} ns, but it must be between 0 and 2^61 ns; write a duration such as "
        "'60s'",
        options.hold.count()));
  }
  if (options.book_within.count() < 0) {
    return bad_argument(fmt::format(
        "request: book_within is {} ns, but it must be 0 or more; write a duration such as '5s'",
        options.book_within.count()));
  }
  if (options.up_to.empty()) return std::nullopt;
  for (const Cost& cost : request.costs) {
    if (cost.unit == options.up_to && cost.amount >= 1) return std::nullopt;
  }
  return bad_argument(fmt::format(
      "request: up_to names unit '{}', but the request has no cost of at least 1 in it; write how "
      "much is wanted",
      options.up_to));
}

std::int64_t wanted(const Request& request, std::string_view unit) {
  for (const Cost& cost : request.costs) {
    if (cost.unit == unit) return cost.amount;
  }
  return 0;
}

Error unacceptable_instant(Instant now) {
  return bad_argument(fmt::format(
      "now is {} ns, but it must lie between 0 and 2^62 ns since the Unix epoch; pass a clock's "
      "instant",
      now.ns));
}

bool Engine::Impl::decide(const Plan& plan, const Request& request, const AcquireOptions& asked,
                          Mode mode, Instant now, Result<Decision>& answer) {
  if (!is_acceptable(now)) {
    answer = unacceptable_instant(now);
    return true;
  }
  if (!is_plain(asked)) {
    if (auto error = check_options(asked, request)) {
      answer = std::move(*error);
      return true;
    }
  }
  if (plan.has_shared) [[unlikely]] {
    if (generation.load(std::memory_order_acquire) != plan.generation) return false;
    if (mode == Mode::kCharge && is_plain(asked) && decide_leased(plan, now, *answer)) return true;
    point_elsewhere(plan, answer);
    return true;
  }
  if ((plan.has_slots || plan.has_gates) && holds.next_expiry() <= now) {
    expire_holds(now);
    // A callback may have read newer rules, and so let go of those the plan points into.
    if (generation.load(std::memory_order_acquire) != plan.generation) return false;
  }

  Attempted attempted = attempt_once(plan, request, asked, mode, now, false, answer);
  if (attempted == Attempted::kMetWaiters) [[unlikely]] {
    const std::scoped_lock lock(room.lock);
    attempted = attempt_once(plan, request, asked, mode, now, true, answer);
  }
  if (mode == Mode::kCharge && attempted == Attempted::kDone && answer.ok()) {
    count(local(), plan, *answer);
  }
  if (answer.ok() && answer->hold) announce();
  return attempted != Attempted::kStale;
}

Engine::Impl::Attempted Engine::Impl::attempt_once(const Plan& plan, const Request& request,
                                                   const AcquireOptions& asked, Mode mode,
                                                   Instant now, bool in_room,
                                                   Result<Decision>& answer) {
  Attempt attempt(table, rows, generation, plan, request, now);
  if (attempt.is_stale()) return Attempted::kStale;
  if (!in_room && attempt.has_waiters()) return Attempted::kMetWaiters;
  Status status = resolve(attempt, plan, request, asked, mode, kNewcomer, *answer);
  if (!status) answer = std::move(status).error();
  return Attempted::kDone;
}

Status Engine::Impl::resolve(Attempt& attempt, const Plan& plan, const Request& request,
                             const AcquireOptions& asked, Mode mode, std::uint64_t ticket,
                             Decision& decision) {
  std::int64_t granted = 0;
  if (!asked.up_to.empty()) {
    granted = attempt.limit_to_available(asked.up_to, wanted(request, asked.up_to));
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
  const bool booked = !attempt.passes() && !queued_behind && asked.book_within.count() > 0 &&
                      attempt.find_booking(attempt.now() + asked.book_within);
  if (mode == Mode::kPeek || !(attempt.passes() || booked)) {
    if (mode != Mode::kPeek) {
      if (Status started = attempt.start_fresh_tickers(); !started) return started;
      // Who only tries may yet wait; `never` is the last word for everybody.
      if (mode != Mode::kTry || !attempt.may_pass_later()) attempt.tell_refused();
    }
    attempt.report(decision);
    return Done{};
  }

  bool wants_hold = asked.hold.count() > 0 || plan.has_slots;
  if (wants_hold && !holds.reserve()) {
    wants_hold = false;
    if (asked.hold.count() > 0 || !attempt.leave_out_slots())
      return Error{ErrorCode::kExhausted,
                   fmt::format("request: {} holds are active, as many as this engine keeps; settle "
                               "some, or raise holds_max",
                               holds.active())};
  }
  Status charged = attempt.charge(wants_hold);
  if (!charged) {
    if (wants_hold) holds.unreserve();
    return charged;
  }
  attempt.report(decision);
  // Where nothing is left, one unit is asked for, and may have been booked.
  decision.granted = asked.up_to.empty() ? 0 : std::max<std::int64_t>(1, granted);
  if (wants_hold) {
    const Duration ttl = asked.hold.count() > 0 ? asked.hold : attempt.shortest_slots_hold();
    decision.hold_expires = attempt.start() + ttl;
    decision.hold = holds.add(attempt.charges(holds.room_for(plan.count)), decision.hold_expires);
  }
  return Done{};
}

}  // namespace weir::engine
