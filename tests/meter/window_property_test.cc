#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <time.h>

#include <algorithm>
#include <map>
#include <ostream>
#include <vector>

#include "tests/meter/property.h"
#include "tests/meter/support.h"
#include "weir/meter/calendar.h"
#include "weir/meter/window.h"

namespace weir::meter {
namespace window_property_test {

rc::Gen<CalendarUnit> any_unit() {
  return rc::gen::element(CalendarUnit::kDay, CalendarUnit::kWeek, CalendarUnit::kMonth,
                          CalendarUnit::kYear);
}

rc::Gen<WindowShape> small_window() {
  return rc::gen::apply(
      [](std::int64_t limit, std::int64_t length_ns) {
        return make_window(limit, Duration{length_ns}).value();
      },
      between(0, 8), between(1, 40));
}

rc::Gen<WindowShape> extreme_window() {
  return rc::gen::apply(
      [](std::int64_t limit, std::int64_t length_ns) {
        return make_window(limit, Duration{length_ns}).value();
      },
      extreme(0, kTermMax), extreme_term());
}

rc::Gen<WindowShape> calendar_window() {
  return rc::gen::apply([](std::int64_t limit,
                           CalendarUnit unit) { return make_calendar_window(limit, unit).value(); },
                        extreme(0, kTermMax), any_unit());
}

rc::Gen<WindowShape> any_window() {
  return rc::gen::oneOf(small_window(), extreme_window(), calendar_window());
}

enum class Deed { kTake, kDebit, kGiveBack, kReshape };

struct Call {
  Deed deed;
  Instant now;
  std::int64_t cost;
  std::size_t charged;  // which charge to give back to, counted back from the newest
};

std::ostream& operator<<(std::ostream& out, const Call& call) {
  return out << "{deed " << static_cast<int>(call.deed) << " at " << call.now << ", cost "
             << call.cost << ", charged " << call.charged << " charges back}";
}

rc::Gen<Instant> any_instant() {
  return rc::gen::oneOf(rc::gen::map(between(0, 200), [](std::int64_t ns) { return Instant{ns}; }),
                        extreme_instant());
}

rc::Gen<std::int64_t> any_cost(const WindowShape& shape) {
  return rc::gen::oneOf(between(0, 8), extreme(0, std::max<std::int64_t>(1, shape.limit)),
                        extreme(0, kTermMax));
}

rc::Gen<std::vector<Call>> calls(const WindowShape& shape) {
  return list_of(rc::gen::apply(
      [](Deed deed, Instant now, std::int64_t cost, std::int64_t charged) {
        return Call{deed, now, cost, static_cast<std::size_t>(charged)};
      },
      rc::gen::element(Deed::kTake, Deed::kTake, Deed::kDebit, Deed::kGiveBack, Deed::kGiveBack,
                       Deed::kReshape),
      any_instant(), any_cost(shape), between(0, 3)));
}

std::vector<Call> in_order(std::vector<Call> past) {
  std::stable_sort(past.begin(), past.end(),
                   [](const Call& a, const Call& b) { return a.now < b.now; });
  return past;
}

TEST(WindowProperty, AdmitsAtThePromisedInstantAndNotOneNanosecondBefore) {
  for_all([] {
    WindowShape shape = *any_window();
    WindowState state;
    for (const Call& call : *calls(shape)) {
      if (call.deed == Deed::kDebit) state = debit(shape, state, call.now, call.cost);
      if (call.deed == Deed::kGiveBack) {
        state = give_back(shape, state, call.now, call.now, call.cost);
      }
      if (call.deed == Deed::kReshape) {
        const WindowShape to = *any_window();
        state = reshape(shape, to, state, call.now);
        shape = to;
      }
      const WindowStep step = take(shape, state, call.now, call.cost);
      state = step.state;
      if (step.check.verdict != Verdict::kDenied || step.check.earliest > kLastInstant) continue;

      RC_ASSERT(step.check.earliest > call.now);
      RC_ASSERT(!take(shape, state, step.check.earliest - 1ns, call.cost).allowed());
      RC_ASSERT(take(shape, state, step.check.earliest, call.cost).allowed());
    }
  });
}

TEST(WindowProperty, KeepsItsStateWhenItRefuses) {
  for_all([] {
    const WindowShape shape = *any_window();
    WindowState state;
    for (const Call& call : *calls(shape)) {
      const WindowStep step = take(shape, state, call.now, call.cost);
      if (!step.allowed()) RC_ASSERT(step.state == state);
      state = step.state;
    }
  });
}

// What every window that was ever charged still counts, by its first instant.
using Ledger = std::map<Instant, Exact>;

// Each charge by itself: what of it is in the count of the current window, and which never will
// be again.
class Charges {
 public:
  explicit Charges(const WindowShape& shape) : shape_(shape) {}

  const WindowShape& shape() const { return shape_; }
  Exact count() const { return count_; }

  void go_to(Instant now) {
    const Instant begin = window_begin(shape_, now);
    if (begin > begin_) count_ = 0;
    begin_ = later_of(begin_, begin);
    lose_before(begin_);
  }
  void add(Instant now, std::int64_t cost) {
    if (cost > 0) counted_.push_back({now, cost});
    count_ = std::min<Exact>(count_ + cost, kTermMax);  // it counts no further
  }
  void change(const WindowShape& to, Instant now) {
    shape_ = to;
    begin_ = window_begin(to, now);
    lose_before(begin_);
  }

  // Gives back to the charge that is `which` places from the last; first those that count.
  // Returns its instant and how much.
  std::pair<Instant, std::int64_t> give_back(std::size_t which, std::int64_t amount, Instant now) {
    if (which < counted_.size()) {
      const auto charge = std::prev(counted_.end(), static_cast<std::ptrdiff_t>(which) + 1);
      const Instant at = charge->at;
      const std::int64_t given = std::min(amount, charge->left);
      charge->left -= given;
      if (charge->left == 0) counted_.erase(charge);
      count_ = std::max<Exact>(0, count_ - given);
      if (count_ == 0) counted_.clear();  // nothing of what it counted no further is left
      return {at, given};
    }
    which -= counted_.size();
    return {which < lost_.size() ? lost_[lost_.size() - 1 - which] : now, 0};
  }

 private:
  struct Charge {
    Instant at;
    std::int64_t left;
  };

  void lose_before(Instant begin) {
    std::erase_if(counted_, [&](const Charge& charge) {
      if (charge.at < begin) lost_.push_back(charge.at);
      return charge.at < begin;
    });
  }

  WindowShape shape_;
  Instant begin_{};
  Exact count_ = 0;
  std::vector<Charge> counted_;
  std::vector<Instant> lost_;
};

// The window remembers a count and an instant, whatever lengths it has had; it must never give
// back what it does not count.
TEST(WindowProperty, CountsAndGivesBackEachChargeApart) {
  for_all([] {
    Charges charges(*any_window());
    WindowState state;
    for (const Call& call : in_order(*calls(charges.shape()))) {
      const WindowShape shape = charges.shape();
      charges.go_to(call.now);
      const Exact missing = charges.count() + call.cost - shape.limit;
      if (call.deed == Deed::kTake) {
        const WindowStep step = take(shape, state, call.now, call.cost);
        RC_ASSERT(step.allowed() == (call.cost == 0 || missing <= 0));
        RC_ASSERT((step.check.verdict == Verdict::kNever) == (call.cost > shape.limit));
        if (step.allowed()) charges.add(call.now, call.cost);
        if (!step.allowed()) RC_ASSERT(step.check.shortfall == nearest(missing));
        if (step.check.verdict == Verdict::kDenied && shape.length_ns != 0) {
          // Calendar windows have their own property: they end where the C library says.
          const Exact begin = Exact(call.now.ns) / shape.length_ns * shape.length_ns;
          RC_ASSERT(step.check.earliest.ns == nearest(begin + shape.length_ns));
        }
        state = step.state;
      } else if (call.deed == Deed::kDebit) {
        state = debit(shape, state, call.now, call.cost);
        charges.add(call.now, call.cost);
      } else if (call.deed == Deed::kReshape) {
        const WindowShape to = *any_window();
        state = reshape(shape, to, state, call.now);
        charges.change(to, call.now);
      } else {
        const auto [charged, given] = charges.give_back(call.charged, call.cost, call.now);
        const WindowState before = state;
        state = give_back(shape, state, call.now, charged, given == 0 ? call.cost : given);
        if (given == 0 && charged != call.now) RC_ASSERT(state == before);
        if (given == 0) state = before;
      }
      RC_ASSERT(level(charges.shape(), state, call.now) == charges.shape().limit - charges.count());
    }
  });
}

TEST(WindowProperty, AdmitsNoMoreThanItsLimitInAnyWindow) {
  for_all([] {
    const WindowShape shape = *any_window();
    WindowState state;
    Ledger ledger;
    for (const Call& call : in_order(*calls(shape))) {
      const WindowStep step = take(shape, state, call.now, call.cost);
      state = step.state;
      if (step.allowed()) ledger[window_begin(shape, call.now)] += call.cost;
    }
    for (const auto& [begin, admitted] : ledger) RC_ASSERT(admitted <= shape.limit);
  });
}

TEST(WindowProperty, CountsAnEarlierInstantAsNoTimePassed) {
  for_all([] {
    const WindowShape shape = *any_window();
    const Instant now = *any_instant();
    const Instant earlier{*extreme(0, now.ns)};
    const WindowState state = debit(shape, {}, now, *any_cost(shape));
    const std::int64_t cost = *any_cost(shape);

    RC_ASSERT(level(shape, state, earlier) == level(shape, state, now));
    RC_ASSERT(take(shape, state, earlier, cost).check.verdict ==
              take(shape, state, now, cost).check.verdict);
    RC_ASSERT(take(shape, state, earlier, cost).state == take(shape, state, now, cost).state);
  });
}

TEST(WindowProperty, KeepsWhatTheCurrentWindowUsedWhenItsShapeChanges) {
  for_all([] {
    const WindowShape from = *any_window();
    const WindowShape to = *any_window();
    const Instant charged = *any_instant();
    const Instant now = later_of(charged, *any_instant());
    const std::int64_t cost = *any_cost(from);
    const WindowState state = reshape(from, to, debit(from, {}, charged, cost), now);
    const bool turned = window_begin(from, now) > charged;

    RC_ASSERT(level(to, state, now) == to.limit - (turned ? 0 : cost));
  });
}

// The calendar, by the C library.

Instant begin_of(CalendarUnit unit, Instant at) {
  const std::time_t seconds = at.ns / 1'000'000'000;
  std::tm fields{};
  gmtime_r(&seconds, &fields);
  fields.tm_sec = fields.tm_min = fields.tm_hour = 0;
  if (unit == CalendarUnit::kWeek) fields.tm_mday -= (fields.tm_wday + 6) % 7;
  if (unit == CalendarUnit::kMonth || unit == CalendarUnit::kYear) fields.tm_mday = 1;
  if (unit == CalendarUnit::kYear) fields.tm_mon = 0;
  return Instant{timegm(&fields) * 1'000'000'000};
}

// Anywhere, and often within a nanosecond of where a unit begins.
rc::Gen<Instant> any_moment() {
  return rc::gen::apply(
      [](CalendarUnit unit, Instant at, bool near, std::int64_t offset_ns) {
        return near ? later_of(kEpoch, begin_of(unit, at) + Duration{offset_ns}) : at;
      },
      any_unit(), extreme_instant(), rc::gen::arbitrary<bool>(), between(-1, 1));
}

TEST(CalendarProperty, AgreesWithTheCLibrary) {
  for_all([] {
    const CalendarUnit unit = *any_unit();
    const Instant at = *any_moment();
    const TimeSpan span = calendar_span(unit, at);

    RC_ASSERT(span.begin == begin_of(unit, at));
    RC_ASSERT(span.end == begin_of(unit, span.end));
  });
}

TEST(CalendarProperty, LeavesNoInstantOutAndCountsNoneTwice) {
  for_all([] {
    const CalendarUnit unit = *any_unit();
    const Instant at = *any_moment();
    const TimeSpan span = calendar_span(unit, at);

    RC_ASSERT(span.begin <= at);
    RC_ASSERT(at < span.end);
    if (span.end > kLastInstant) return;
    RC_ASSERT(calendar_span(unit, span.end - 1ns).begin == span.begin);
    RC_ASSERT(calendar_span(unit, span.end).begin == span.end);
  });
}

}  // namespace window_property_test
}  // namespace weir::meter
