// Properties: claims that must hold for any shape and any arrivals.
//
// for_all runs one RapidCheck property inside a GoogleTest test. Each process
// chooses a fresh seed, says which, and every failure ends with the line that
// repeats it:
//
//     reproduce with WEIR_SEED=8127
//
// WEIR_SEED sets the seed and WEIR_PROPERTY_RUNS the number of cases per
// property. RapidCheck grows its cases over the run, so the number of runs is
// part of repeating a failure: it is printed too when it is not the default.

#pragma once

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/detail/TestListenerAdapter.h>

#include <cstdint>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/meter/support.h"
#include "tests/support/exact.h"
#include "tests/support/seed.h"
#include "weir/base/integer.h"
#include "weir/base/time.h"

namespace weir::meter {

constexpr int kPropertyRuns = 1000;

// Said once per process: a sanitizer that ends it leaves no failure to read.
inline std::uint64_t property_seed() {
  static const std::uint64_t seed = [] {
    const std::uint64_t chosen = seed_of_test();
    std::cout << "properties run with WEIR_SEED=" << chosen << std::endl;
    return chosen;
  }();
  return seed;
}

inline int property_runs() {
  static const auto runs =
      static_cast<int>(number_from_environment("WEIR_PROPERTY_RUNS", kPropertyRuns));
  return runs;
}

inline std::string how_to_reproduce() {
  std::ostringstream line;
  line << "reproduce with WEIR_SEED=" << property_seed();
  if (property_runs() != kPropertyRuns) line << " WEIR_PROPERTY_RUNS=" << property_runs();
  return line.str();
}

// Fails the current test unless `property` holds for every case drawn.
template <typename Property>
void for_all(Property&& property) {
  rc::detail::TestParams params;
  params.seed = property_seed();
  params.maxSuccess = property_runs();

  const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
  rc::detail::TestMetadata metadata;
  metadata.id = std::string(test->test_suite_name()) + "." + test->name();
  metadata.description = test->name();

  rc::detail::TestListenerAdapter silent;
  const rc::detail::TestResult result =
      rc::detail::checkTestable(std::forward<Property>(property), metadata, params, silent,
                                decltype(rc::detail::Configuration::reproduce){});
  if (result.is<rc::detail::SuccessResult>()) return;

  std::ostringstream message;
  rc::detail::printResultMessage(result, message);
  ADD_FAILURE() << message.str() << "\n" << how_to_reproduce();
}

// Any integer in [least, most], whatever RapidCheck's size; shrinks towards `least`.
inline rc::Gen<std::int64_t> between(std::int64_t least, std::int64_t most) {
  return rc::gen::resize(rc::kNominalSize, rc::gen::inRange(least, most + 1));
}

// Integers in [least, most] where arithmetic breaks first: both ends, the
// neighbours of powers of two, and anything between.
inline rc::Gen<std::int64_t> extreme(std::int64_t least, std::int64_t most) {
  const auto inside = [least, most](Exact value) {
    return nearest(std::clamp<Exact>(value, least, most));
  };
  const rc::Gen<std::int64_t> power = rc::gen::apply(
      [inside](std::int64_t exponent, std::int64_t offset) {
        return inside((Exact{1} << static_cast<unsigned>(exponent)) + offset);
      },
      between(0, 62), between(-2, 2));
  return rc::gen::oneOf(between(least, inside(Exact{least} + 16)),
                        between(inside(Exact{most} - 16), most), power, between(least, most));
}

inline rc::Gen<std::int64_t> extreme_term() { return extreme(1, kTermMax); }

inline rc::Gen<Instant> extreme_instant() {
  return rc::gen::map(extreme(0, kInstantNsMax), [](std::int64_t ns) { return Instant{ns}; });
}

template <typename T>
rc::Gen<std::vector<T>> list_of(rc::Gen<T> element) {
  return rc::gen::container<std::vector<T>>(std::move(element));
}

}  // namespace weir::meter
