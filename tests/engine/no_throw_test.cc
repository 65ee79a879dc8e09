// Exceptions do not cross a public function, and the types say so.

#include <gtest/gtest.h>

#include <type_traits>
#include <utility>

#include "weir/engine/ad_hoc.h"
#include "weir/engine/driver.h"
#include "weir/engine/engine.h"
#include "weir/engine/rules.h"
#include "weir/engine/shared.h"
#include "weir/engine/state.h"
#include "weir/meter/bucket.h"
#include "weir/meter/log.h"
#include "weir/meter/slots.h"
#include "weir/meter/ticker.h"
#include "weir/meter/window.h"

namespace weir::engine {
namespace {

template <typename Answer, typename... Arguments>
constexpr bool is_quiet(Answer (*)(Arguments...) noexcept) {
  return true;
}
template <typename Answer, typename... Arguments>
constexpr bool is_quiet(Answer (Engine::*)(Arguments...) noexcept) {
  return true;
}
template <typename Answer, typename... Arguments>
constexpr bool is_quiet(Answer (Engine::*)(Arguments...) const noexcept) {
  return true;
}
constexpr bool is_quiet(...) { return false; }

// Of one that is overloaded.
template <typename... Arguments, typename Answer>
constexpr bool is_quiet_with(Answer (Engine::*)(Arguments...) noexcept) {
  return true;
}

TEST(PublicFunctions, OfTheEngineDoNotThrow) {
  static_assert(is_quiet(&Engine::create));
  static_assert(is_quiet_with<const Request&, Instant>(&Engine::decide));
  static_assert(is_quiet_with<Prepared&, Instant>(&Engine::decide));
  static_assert(is_quiet_with<std::span<const Request>, Instant, std::span<Result<Decision>>>(
      &Engine::decide));
  static_assert(is_quiet_with<const Ask&, Instant>(&Engine::decide));
  static_assert(is_quiet(&Engine::peek));
  static_assert(is_quiet(&Engine::give_up));
  static_assert(is_quiet(&set_store));
  static_assert(is_quiet(&Engine::usage));
  static_assert(noexcept(std::declval<AdHoc&>().key("")));
  static_assert(noexcept(
      std::declval<AdHoc&>().take(AdHocKey(), std::declval<meter::BucketShape&>(), 1, Instant())));
  static_assert(is_quiet(&Engine::prepare));
  static_assert(is_quiet(&Engine::settle));
  static_assert(is_quiet(&Engine::cancel));
  static_assert(is_quiet(&Engine::renew));
  static_assert(is_quiet(&Engine::ask));
  static_assert(is_quiet(&Engine::try_waiters));
  static_assert(is_quiet(&Engine::next_instant));
  static_assert(is_quiet(&Engine::advance));
  static_assert(is_quiet(&Engine::set_wakeup));
  static_assert(is_quiet(&Engine::swap));
  static_assert(is_quiet(&Engine::rules));
  static_assert(is_quiet(&Engine::set_override));
  static_assert(is_quiet(&Engine::inspect));
  static_assert(is_quiet(&Engine::reset));
  static_assert(is_quiet(&Engine::heaviest));
  static_assert(is_quiet(&Engine::counts));
  static_assert(
      noexcept(std::declval<Collector&>().restore(std::declval<const MeterChanges&>(), Instant())));
  static_assert(
      noexcept(std::declval<Collector&>().restore(std::declval<const HoldChanges&>(), Instant())));
  static_assert(is_quiet(&Driver::create));
  static_assert(noexcept(std::declval<Driver&>().acquire(Request(), Duration())));
  static_assert(noexcept(std::declval<Driver&>().give_up(1)));
  static_assert(noexcept(std::declval<Driver&>().acquire(Request(), Duration(), Duration(),
                                                         std::declval<LateAnswer>())));
  static_assert(std::is_nothrow_move_constructible_v<Prepared>);
  static_assert(std::is_nothrow_destructible_v<Engine>);
}

TEST(PublicFunctions, ThatMakeRulesAndShapesDoNotThrow) {
  static_assert(is_quiet(&compile));
  static_assert(is_quiet(&meter::make_bucket));
  static_assert(is_quiet(&meter::make_ticker));
  static_assert(is_quiet(&meter::make_window));
  static_assert(is_quiet(&meter::make_calendar_window));
  static_assert(is_quiet(&meter::make_log));
  static_assert(is_quiet(&meter::make_slots));
  static_assert(is_quiet(&meter::take_strictly));
}

}  // namespace
}  // namespace weir::engine
