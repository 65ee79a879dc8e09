#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <ostream>
#include <vector>

#include "tests/meter/property.h"
#include "tests/meter/support.h"
#include "weir/meter/log.h"

namespace weir::meter {
namespace log_property_test {

// What was charged and not given back, when it really was, for ever.
class Diary {
 public:
  struct Entry {
    Instant at;
    Instant stamped;
    std::int64_t units;
  };

  void write(Instant at, Instant stamped, std::int64_t units) {
    entries_.push_back({at, stamped, units});
  }

  // Units charged during the `window_ns` that end with `now`, `now` included.
  Exact used(Instant now, std::int64_t window_ns) const {
    Wide sum = 0;
    for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
      if (Wide{entry->at.ns} + window_ns <= now.ns) break;
      sum += entry->units;
    }
    return Exact{sum};
  }

  // The first instant at which at most `most` of them are still counted.
  Instant falls_to(const Exact& most, Instant now, std::int64_t window_ns) const {
    Exact left = used(now, window_ns);
    if (left <= most) return now;
    for (const Entry& entry : entries_) {
      if (Exact{entry.at.ns} + window_ns <= now.ns) continue;
      left -= entry.units;
      if (left <= most) return entry.at + Duration{window_ns};
    }
    return kForever;
  }

  std::vector<Entry>& entries() { return entries_; }

 private:
  std::vector<Entry> entries_;  // in the order of their instants
};

enum class Deed { kTake, kTakeUpTo, kOverage, kGiveBack, kLimit };

struct Call {
  Deed deed;
  std::int64_t gap_ns;
  std::int64_t cost;   // or the share of a charge that is given back, or the new limit
  std::int64_t which;  // which of the charges so far is given back
  std::int64_t times;  // the same again so many times
};

std::ostream& operator<<(std::ostream& out, const Call& call) {
  return out << "{deed " << static_cast<int>(call.deed) << ", gap " << call.gap_ns << " ns, cost "
             << call.cost << ", which " << call.which << ", times " << call.times << "}";
}

rc::Gen<std::vector<Call>> calls(std::initializer_list<Deed> deeds, rc::Gen<std::int64_t> gaps,
                                 rc::Gen<std::int64_t> costs, std::int64_t times_max) {
  return list_of(rc::gen::apply(
      [](Deed deed, std::int64_t gap_ns, std::int64_t cost, std::int64_t which,
         std::int64_t times) {
        return Call{deed, gap_ns, cost, which, times};
      },
      rc::gen::elementOf(std::vector<Deed>(deeds)), std::move(gaps), std::move(costs),
      between(0, 1'000), between(1, times_max)));
}

rc::Gen<LogShape> log_of(rc::Gen<std::int64_t> limits, rc::Gen<std::int64_t> windows) {
  return rc::gen::apply(
      [](std::int64_t limit, std::int64_t window_ns) {
        return make_log(limit, Duration{window_ns}).value();
      },
      std::move(limits), std::move(windows));
}

rc::Gen<LogShape> small_log() { return log_of(between(0, 12), between(1, 60)); }

// Gives part of one earlier charge back, in the log and in the diary.
void give_back(KeptLog& log, Diary& diary, const Call& call) {
  std::vector<Diary::Entry>& entries = diary.entries();
  if (entries.empty()) return;
  Diary::Entry& entry = entries[static_cast<std::size_t>(call.which) % entries.size()];
  const std::int64_t amount = std::min(call.cost, entry.units);
  log.give_back(entry.stamped, amount);
  entry.units -= amount;
}

void charge(KeptLog& log, Diary& diary, Instant now, std::int64_t cost) {
  diary.write(now, log.charge(now, cost), cost);
}

// Does what the call says; a take is admitted only as the log allows.
void act(KeptLog& log, Diary& diary, const Call& call, Instant now) {
  switch (call.deed) {
    case Deed::kTake:
      if (log.check(now, call.cost).allowed()) charge(log, diary, now, call.cost);
      break;
    case Deed::kTakeUpTo: {
      const std::int64_t grant = std::min(call.cost, log.level(now));
      if (grant < 1) break;
      RC_ASSERT(log.check(now, grant).allowed());
      charge(log, diary, now, grant);
      break;
    }
    case Deed::kOverage:
      charge(log, diary, now, call.cost);
      break;
    case Deed::kGiveBack:
      give_back(log, diary, call);
      break;
    case Deed::kLimit:
      log.shape = make_log(call.cost, Duration{log.shape.window_ns}).value();
      break;
  }
}

// The promise.

void assert_never_more_than_the_limit(KeptLog log, const std::vector<Call>& steps) {
  Diary diary;
  Instant now = kStart;
  for (const Call& call : steps) {
    for (std::int64_t time = 0; time < call.times; ++time) {
      now = now + Duration{call.gap_ns};
      const std::size_t before = diary.entries().size();
      act(log, diary, call, now);
      const bool admitted = diary.entries().size() > before && diary.entries().back().units > 0;
      if (admitted) RC_ASSERT(diary.used(now, log.shape.window_ns) <= log.shape.limit);
    }
  }
}

TEST(LogProperty, HoldsNoMoreThanItsLimitInAnyWindow) {
  for_all([] {
    const LogShape shape = *small_log();
    const auto steps =
        *calls({Deed::kTake, Deed::kTake, Deed::kTakeUpTo, Deed::kGiveBack, Deed::kLimit},
               between(0, 30), between(0, 12), 1);
    assert_never_more_than_the_limit(KeptLog(shape), steps);
  });
}

TEST(LogProperty, HoldsNoMoreThanALimitAboveItsRunsInAnyWindow) {
  for_all([] {
    const LogShape shape = *log_of(between(1'025, 3'000), between(1, 5'000));
    const auto steps = *rc::gen::resize(12, calls({Deed::kTake, Deed::kTakeUpTo, Deed::kGiveBack},
                                                  between(0, 8), between(1, 9), 300));
    assert_never_more_than_the_limit(KeptLog(shape), steps);
  });
}

// Exact stamps fill the ring; then the limit is raised above kRunsMax, and
// stamps in grains find no room.
TEST(LogProperty, HoldsNoMoreThanALimitThatCrossesItsRuns) {
  for_all([] {
    const LogShape shape = *log_of(between(1'000, kRunsMax), between(3'000, 9'000));
    std::vector<Call> steps = {{Deed::kTake, *between(1, 3), 1, 0, shape.limit},
                               {Deed::kLimit, 0, *between(1'025, 1'400), 0, 1}};
    const auto more = *rc::gen::resize(
        20, calls({Deed::kTake, Deed::kTakeUpTo, Deed::kTakeUpTo, Deed::kGiveBack, Deed::kLimit},
                  rc::gen::oneOf(between(0, 4), between(0, shape.window_ns)),
                  rc::gen::oneOf(between(1, 3), between(900, 1'400)), 20));
    steps.insert(steps.end(), more.begin(), more.end());
    assert_never_more_than_the_limit(KeptLog(shape), steps);
  });
}

// Exactness.

TEST(LogProperty, AgreesStepByStepWithADiary) {
  for_all([] {
    KeptLog log(*small_log());
    const std::int64_t window_ns = log.shape.window_ns;
    Diary diary;
    Instant now = kStart;
    for (const Call& call : *calls({Deed::kTake, Deed::kTake, Deed::kTakeUpTo, Deed::kOverage,
                                    Deed::kGiveBack, Deed::kLimit},
                                   between(0, 30), between(0, 12), 1)) {
      now = now + Duration{call.gap_ns};
      const std::int64_t limit = log.shape.limit;
      const Exact used = diary.used(now, window_ns);
      const Check check = log.check(now, call.cost);
      if (call.cost > limit) {
        RC_ASSERT(check == (Check{Verdict::kNever, kForever, nearest(used + call.cost - limit)}));
      } else if (call.cost > 0 && used + call.cost > limit) {
        RC_ASSERT(check ==
                  (Check{Verdict::kDenied, diary.falls_to(Exact{limit} - call.cost, now, window_ns),
                         nearest(used + call.cost - limit)}));
      } else {
        RC_ASSERT(check == (Check{Verdict::kAllowed, now, 0}));
      }
      RC_ASSERT(log.level(now) == limit - used);
      RC_ASSERT(log.next_free(now) == diary.falls_to(Exact{limit} - 1, now, window_ns));
      RC_ASSERT(log.is_initial(now) == (used == 0));
      act(log, diary, call, now);
    }
  });
}

TEST(LogProperty, AdmitsAtThePromisedInstantAndNotOneNanosecondBefore) {
  for_all([] {
    KeptLog log(*rc::gen::oneOf(small_log(), log_of(between(1'025, 1'100), between(1, 9'000))));
    Diary diary;
    Instant now = kStart;
    for (const Call& call :
         *calls({Deed::kTake, Deed::kTakeUpTo, Deed::kOverage, Deed::kGiveBack}, between(0, 30),
                rc::gen::oneOf(between(1, 12), between(1, 1'024)), 1)) {
      now = now + Duration{call.gap_ns};
      act(log, diary, call, now);
      for (const Instant asked : {now, now - Duration{call.which}}) {
        const Check check = log.check(asked, call.cost);
        if (check.verdict != Verdict::kDenied) continue;

        RC_ASSERT(check.earliest > asked);
        RC_ASSERT(!log.check(check.earliest - 1ns, call.cost).allowed());
        RC_ASSERT(log.check(check.earliest, call.cost).allowed());
      }
    }
  });
}

TEST(LogProperty, AdmitsItsLevelAndNotOneMore) {
  for_all([] {
    KeptLog log(*rc::gen::oneOf(small_log(), log_of(between(1'025, 1'100), between(1, 9'000))));
    Diary diary;
    Instant now = kStart;
    for (const Call& call :
         *calls({Deed::kTake, Deed::kOverage, Deed::kGiveBack, Deed::kLimit}, between(0, 30),
                rc::gen::oneOf(between(1, 12), between(1'000, 1'100)), 1)) {
      now = now + Duration{call.gap_ns};
      act(log, diary, call, now);
      for (const Instant asked : {now, now - Duration{call.which}}) {
        const std::int64_t there = std::max<std::int64_t>(0, log.level(asked));
        RC_ASSERT(log.check(asked, there).allowed());
        RC_ASSERT(!log.check(asked, there + 1).allowed());
      }
    }
  });
}

TEST(LogProperty, FreesAUnitAtTheNextFreeInstantAndNotBefore) {
  for_all([] {
    KeptLog log(*log_of(between(1, 12), between(1, 60)));
    Diary diary;
    Instant now = kStart;
    for (const Call& call : *calls({Deed::kTake, Deed::kOverage, Deed::kGiveBack}, between(0, 30),
                                   between(1, 12), 1)) {
      now = now + Duration{call.gap_ns};
      act(log, diary, call, now);
      const Instant free = log.next_free(now);

      RC_ASSERT(log.level(free) >= 1);
      if (free > now) RC_ASSERT(log.level(free - 1ns) < 1);
    }
  });
}

// Extremes: limits and costs to 2^62, windows to 2^61, instants to 2^62. Stamps
// may be rounded up by less than a grain, so what is used lies between what the
// diary has for the window and for the window and a grain.
TEST(LogProperty, RemembersAtMostAGrainLongerWithExtremeShapes) {
  for_all([] {
    KeptLog log(*log_of(extreme(0, kTermMax), extreme(1, kTermMax / 2)));
    const std::int64_t grain_ns = log.shape.grain_ns;
    Diary diary;
    Instant now = *extreme_instant();
    for (const Call& call : *calls({Deed::kTake, Deed::kTakeUpTo, Deed::kOverage, Deed::kGiveBack},
                                   extreme(0, log.shape.window_ns), extreme(0, kTermMax), 1)) {
      now = earlier_of(now + Duration{call.gap_ns}, kLastInstant);
      if (call.deed == Deed::kOverage &&
          diary.used(now, log.shape.window_ns + grain_ns) + call.cost > kTermMax) {
        continue;  // more than a log can count
      }
      act(log, diary, call, now);

      RC_ASSERT(log.used(now) >= diary.used(now, log.shape.window_ns));
      RC_ASSERT(log.used(now) <= diary.used(now, log.shape.window_ns + grain_ns - 1));
    }
  });
}

TEST(LogProperty, KeepsItsPromisesWithExtremeShapes) {
  for_all([] {
    KeptLog log(*log_of(extreme(0, kTermMax), extreme(1, kTermMax / 2)));
    Diary diary;
    Instant now = *extreme_instant();
    for (const Call& call : *calls({Deed::kTake, Deed::kOverage, Deed::kGiveBack, Deed::kLimit},
                                   extreme(0, log.shape.window_ns), extreme(0, kTermMax), 1)) {
      now = earlier_of(now + Duration{call.gap_ns}, kLastInstant);
      act(log, diary, call, now);

      const Check check = log.check(now, call.cost);
      RC_ASSERT((check.verdict == Verdict::kNever) == (call.cost > log.shape.limit));
      if (check.verdict != Verdict::kDenied) continue;
      RC_ASSERT(check.shortfall == nearest(Exact{call.cost} - log.level(now)));
      RC_ASSERT(check.earliest > now);
      RC_ASSERT(!log.check(check.earliest - 1ns, call.cost).allowed());
      RC_ASSERT(log.check(check.earliest, call.cost).allowed());
      const Instant free = log.next_free(now);
      RC_ASSERT(free <= check.earliest);
      RC_ASSERT(log.level(free) >= 1);
    }
  });
}

TEST(LogProperty, CountsNoFurtherThanTheLargestTerm) {
  for_all([] {
    KeptLog log(*log_of(extreme(0, kTermMax), extreme(1, kTermMax / 2)));
    Diary diary;
    Instant now = *extreme_instant();
    for (const Call& call : *calls({Deed::kTake, Deed::kOverage, Deed::kGiveBack},
                                   extreme(0, log.shape.window_ns), extreme(0, kTermMax), 1)) {
      now = earlier_of(now + Duration{call.gap_ns}, kLastInstant);
      act(log, diary, call, now);

      RC_ASSERT(log.used(now) >= 0);
      RC_ASSERT(log.used(now) <= kTermMax);
    }
  });
}

// The ring.

TEST(LogProperty, KeepsItsRunsInOrderAndWithinTheBound) {
  for_all([] {
    KeptLog log(*log_of(between(1'000, 1'050), between(500, 5'000)));
    Diary diary;
    Instant now = kStart;
    for (const Call& call :
         *rc::gen::resize(8, calls({Deed::kOverage, Deed::kGiveBack, Deed::kLimit}, between(0, 4),
                                   between(1, 1'200), 500))) {
      for (std::int64_t time = 0; time < call.times; ++time) {
        now = now + Duration{call.gap_ns};
        act(log, diary, call, now);
      }
      const std::vector<LogRun> runs = log.runs();
      std::int64_t sum = 0;
      for (const LogRun& run : runs) sum += run.units;

      RC_ASSERT(runs.size() <= kRunsMax);
      RC_ASSERT(log.ring.size() <= kRunsMax);
      RC_ASSERT(sum == log.state.held);
      RC_ASSERT(std::adjacent_find(runs.begin(), runs.end(), [](const LogRun& a, const LogRun& b) {
                  return a.at >= b.at;
                }) == runs.end());
    }
  });
}

// Time running backwards.

TEST(LogProperty, CountsTheSameInWhateverOrderItIsCharged) {
  for_all([] {
    const LogShape shape = *small_log();
    auto charges = *calls({Deed::kOverage}, between(0, shape.window_ns - 1), between(1, 12), 1);
    KeptLog shuffled(shape);
    for (const Call& call : charges) shuffled.charge(kStart + Duration{call.gap_ns}, call.cost);
    std::sort(charges.begin(), charges.end(),
              [](const Call& a, const Call& b) { return a.gap_ns < b.gap_ns; });
    KeptLog ordered(shape);
    for (const Call& call : charges) ordered.charge(kStart + Duration{call.gap_ns}, call.cost);

    for (std::int64_t ns = 0; ns <= 2 * shape.window_ns; ++ns) {
      const Instant now = kStart + Duration{ns};
      RC_ASSERT(shuffled.used(now) == ordered.used(now));
    }
  });
}

TEST(LogProperty, CountsNoLessAtAnEarlierInstant) {
  for_all([] {
    KeptLog log(*rc::gen::oneOf(small_log(), log_of(between(1'025, 1'100), between(1, 9'000))));
    Instant now = kStart;
    for (const Call& call : *calls({Deed::kOverage}, between(0, 30), between(1, 12), 1)) {
      now = now + Duration{call.gap_ns};
      log.charge(now, call.cost);
      RC_ASSERT(log.used(now - Duration{call.which}) >= log.used(now));
    }
  });
}

}  // namespace log_property_test
}  // namespace weir::meter
