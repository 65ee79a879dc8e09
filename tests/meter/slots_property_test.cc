#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <ostream>
#include <vector>

#include "tests/meter/property.h"
#include "tests/meter/support.h"
#include "weir/meter/slots.h"

namespace weir::meter {
namespace slots_property_test {

enum class Deed { kTake, kEnd, kEnqueue, kDequeue, kLimit };

struct Call {
  Deed deed;
  std::int64_t amount;  // units taken, the place of the work that ends, or the new limit
};

std::ostream& operator<<(std::ostream& out, const Call& call) {
  return out << "{deed " << static_cast<int>(call.deed) << ", amount " << call.amount << "}";
}

rc::Gen<std::vector<Call>> calls(std::initializer_list<Deed> deeds, rc::Gen<std::int64_t> amounts) {
  return list_of(rc::gen::apply(
      [](Deed deed, std::int64_t amount) {
        return Call{deed, amount};
      },
      rc::gen::elementOf(std::vector<Deed>(deeds)), std::move(amounts)));
}

rc::Gen<SlotsShape> any_slots() {
  return rc::gen::apply(
      [](std::int64_t limit, std::int64_t queue) { return make_slots(limit, queue, 1s).value(); },
      rc::gen::oneOf(between(0, 12), extreme(0, kTermMax)), between(0, 5));
}

rc::Gen<std::int64_t> any_amount(const SlotsShape& shape) {
  return rc::gen::oneOf(between(0, 12), extreme(0, std::max<std::int64_t>(1, shape.limit)),
                        extreme(0, kTermMax));
}

// The work in flight, piece by piece, and the slots it is taken from.
struct Workshop {
  SlotsShape shape;
  SlotsState state{};
  std::vector<std::int64_t> running{};
  std::int64_t waiting = 0;

  Exact in_flight() const {
    Exact sum = 0;
    for (const std::int64_t units : running) sum += units;
    return sum;
  }

  void act(const Call& call) {
    switch (call.deed) {
      case Deed::kTake: {
        const SlotsStep step = take(shape, state, kStart, call.amount);
        if (step.allowed()) running.push_back(call.amount);
        state = step.state;
        break;
      }
      case Deed::kEnd: {
        if (running.empty()) break;
        const auto index = static_cast<std::size_t>(call.amount) % running.size();
        state = give_back(state, running[index]);
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(index));
        break;
      }
      case Deed::kEnqueue: {
        const SlotsStep step = enqueue(shape, state);
        if (step.check.verdict == Verdict::kQueued) waiting += 1;
        state = step.state;
        break;
      }
      case Deed::kDequeue:
        state = dequeue(state);
        waiting = std::max<std::int64_t>(0, waiting - 1);
        break;
      case Deed::kLimit:
        shape.limit = call.amount;
        break;
    }
  }
};

TEST(SlotsProperty, NeverExceedTheirLimitWhileItIsNotLowered) {
  for_all([] {
    Workshop shop{*any_slots()};
    for (Call call :
         *calls({Deed::kTake, Deed::kTake, Deed::kEnd, Deed::kLimit}, any_amount(shop.shape))) {
      if (call.deed == Deed::kLimit) call.amount = std::max(call.amount, shop.shape.limit);
      shop.act(call);

      RC_ASSERT(shop.in_flight() <= shop.shape.limit);
      RC_ASSERT(level(shop.shape, shop.state) >= 0);
    }
  });
}

TEST(SlotsProperty, StartNothingAboveALoweredLimit) {
  for_all([] {
    Workshop shop{*any_slots()};
    for (const Call& call :
         *calls({Deed::kTake, Deed::kTake, Deed::kEnd, Deed::kLimit}, any_amount(shop.shape))) {
      const Exact before = shop.in_flight();
      shop.act(call);
      if (shop.in_flight() > before) RC_ASSERT(shop.in_flight() <= shop.shape.limit);
    }
  });
}

TEST(SlotsProperty, CountExactlyWhatIsInFlightAndWhoWaits) {
  for_all([] {
    Workshop shop{*any_slots()};
    for (const Call& call :
         *calls({Deed::kTake, Deed::kEnd, Deed::kEnqueue, Deed::kDequeue, Deed::kLimit},
                any_amount(shop.shape))) {
      shop.act(call);

      RC_ASSERT(shop.state.in_flight == shop.in_flight());
      RC_ASSERT(shop.state.queued == shop.waiting);
      RC_ASSERT(level(shop.shape, shop.state) == shop.shape.limit - shop.in_flight());
    }
  });
}

TEST(SlotsProperty, NeverLetMoreWaitThanTheirQueueHolds) {
  for_all([] {
    Workshop shop{*any_slots()};
    for (const Call& call :
         *calls({Deed::kEnqueue, Deed::kEnqueue, Deed::kDequeue}, between(0, 1))) {
      shop.act(call);
      RC_ASSERT(shop.state.queued <= shop.shape.queue);
    }
  });
}

TEST(SlotsProperty, AnswerAsWideIntegersDoAndKeepTheirStateWhenTheyRefuse) {
  for_all([] {
    Workshop shop{*any_slots()};
    for (const Call& call :
         *calls({Deed::kTake, Deed::kTake, Deed::kEnd, Deed::kLimit}, any_amount(shop.shape))) {
      shop.act(call);
      const SlotsStep step = take(shop.shape, shop.state, kStart, call.amount);
      const Exact missing = shop.in_flight() + call.amount - shop.shape.limit;
      const Verdict refusal = call.amount > shop.shape.limit ? Verdict::kNever : Verdict::kDenied;
      if (call.amount > shop.shape.limit || (call.amount > 0 && missing > 0)) {
        RC_ASSERT(step.check == (Check{refusal, kForever, nearest(missing)}));
        RC_ASSERT(step.state == shop.state);
      } else {
        RC_ASSERT(step.check == (Check{Verdict::kAllowed, kStart, 0}));
      }
    }
  });
}

}  // namespace slots_property_test
}  // namespace weir::meter
