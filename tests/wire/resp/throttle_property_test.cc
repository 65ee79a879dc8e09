// A promise is kept: a client that comes back after retry_after is admitted.

#include <gtest/gtest.h>

#include <string>

#include "tests/meter/property.h"
#include "tests/wire/resp/support.h"
#include "weir/wire/resp/throttle.h"

namespace weir::wire::resp {
namespace {

using meter::between;
using meter::extreme;
using meter::for_all;

// A call of any parameters that are accepted.
rc::Gen<ThrottleCall> call_of(rc::Gen<std::int64_t> max_burst, rc::Gen<std::int64_t> count,
                              rc::Gen<std::int64_t> period_s, rc::Gen<std::int64_t> quantity) {
  const auto read = [](std::int64_t burst, std::int64_t per_period, std::int64_t seconds,
                       std::int64_t cost) {
    const std::string numbers[] = {std::to_string(burst), std::to_string(per_period),
                                   std::to_string(seconds), std::to_string(cost)};
    const std::string_view words[] = {"key", numbers[0], numbers[1], numbers[2], numbers[3]};
    return read_throttle(words);
  };
  const auto all = rc::gen::suchThat(rc::gen::apply(read, std::move(max_burst), std::move(count),
                                                    std::move(period_s), std::move(quantity)),
                                     [](const Result<ThrottleCall>& call) { return call.ok(); });
  return rc::gen::map(all, [](const Result<ThrottleCall>& call) { return *call; });
}

rc::Gen<ThrottleCall> any_call() {
  return rc::gen::oneOf(
      call_of(between(0, 20), between(1, 50), between(1, 100), between(0, 22)),
      call_of(extreme(0, 1'000'000), extreme(1, kTermMax), extreme(1, 4'000), extreme(0, 2'000)));
}

struct Past {
  meter::BucketState state;
  Instant now;
};

// Calls of changing parameters on one key, a few seconds apart at most.
Past any_past() {
  Past past{{}, Instant{*extreme(0, kTermMax / 2)}};
  const auto calls = *between(0, 8);
  for (std::int64_t i = 0; i < calls; ++i) {
    past.state = charge(*any_call(), past.state, past.now).state;
    past.now = past.now + Duration{*extreme(0, 4'000'000'000)};
  }
  return past;
}

// At `now` plus whole seconds, or nothing if meters do not know that instant.
bool admitted_after(const ThrottleCall& call, const Past& past, std::int64_t seconds) {
  const Instant then = past.now + Duration{seconds * 1'000'000'000};
  RC_PRE(then.ns <= kInstantNsMax);
  return charge(call, past.state, then).allowed();
}

TEST(ThrottleProperty, AdmitsWhoComesBackAfterRetryAfter) {
  for_all([] {
    const Past past = any_past();
    const ThrottleCall call = *any_call();
    const Seconds seconds = *rc::gen::element(Seconds::kCell, Seconds::kDragonfly);
    const meter::BucketStep step = charge(call, past.state, past.now);
    const ThrottleReply reply = reply_of(call, step, past.now, seconds);
    RC_PRE(reply.retry_after_s >= 0);

    RC_ASSERT(reply.limited);
    RC_ASSERT(admitted_after(call, past, reply.retry_after_s));
  });
}

TEST(ThrottleProperty, PromisesTheFirstSecondThatAdmits) {
  for_all([] {
    const Past past = any_past();
    const ThrottleCall call = *any_call();
    const meter::BucketStep step = charge(call, past.state, past.now);
    const ThrottleReply reply = reply_of(call, step, past.now);
    RC_PRE(reply.retry_after_s >= 0);

    RC_ASSERT(!admitted_after(call, past, reply.retry_after_s - 1));
  });
}

TEST(ThrottleProperty, IsFullAfterResetAfterAndNotASecondBefore) {
  for_all([] {
    const Past past = any_past();
    const ThrottleCall call = *any_call();
    const meter::BucketStep step = charge(call, past.state, past.now);
    const ThrottleReply reply = reply_of(call, step, past.now);
    const ThrottleCall look{call.key, call.shape, 0};
    const auto remaining_after = [&](std::int64_t seconds) {
      const Instant then = past.now + Duration{seconds * 1'000'000'000};
      RC_PRE(then.ns <= kInstantNsMax);
      return reply_of(look, charge(look, step.state, then), then).remaining;
    };

    RC_ASSERT(remaining_after(reply.reset_after_s) == reply.limit);
    if (reply.reset_after_s > 0) RC_ASSERT(remaining_after(reply.reset_after_s - 1) < reply.limit);
  });
}

TEST(ThrottleProperty, HasExactlyRemainingLeft) {
  for_all([] {
    const Past past = any_past();
    ThrottleCall call = *any_call();
    call.quantity = 0;
    const ThrottleReply reply = reply_of(call, charge(call, past.state, past.now), past.now);
    RC_ASSERT(!reply.limited);
    RC_ASSERT(reply.remaining >= 0);
    RC_ASSERT(reply.remaining <= reply.limit);

    call.quantity = reply.remaining;
    RC_ASSERT(charge(call, past.state, past.now).allowed());
    call.quantity = reply.remaining + 1;
    RC_ASSERT(!charge(call, past.state, past.now).allowed());
  });
}

}  // namespace
}  // namespace weir::wire::resp
