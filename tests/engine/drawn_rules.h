// Random rule sets, for the streams of model_test.cc.

#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tests/engine/naive_meter.h"
#include "tests/engine/stream.h"
#include "weir/engine/rule_set.h"
#include "weir/engine/rules.h"

namespace weir::engine::naive {

using namespace std::chrono_literals;

constexpr int kNames = 9;  // of limits: L0 ... L8

constexpr std::array<std::string_view, 3> kAttributeNames{"client", "op", "tier"};
inline const std::array<std::vector<std::string_view>, 3> kValues{{
    {"a", "b", "c"},
    {"get", "put", "list"},
    {"free", "pro", "gold-1", "gold-2"},
}};
constexpr std::array<std::string_view, 3> kUnits{"requests", "tokens", "pu"};

class Drawer {
 public:
  Drawer(Random& random, Duration scale, Instant now) : random_(random), scale_(scale), now_(now) {}

  Duration span() {
    const Duration scale = random_.chance(15)
                               ? random_.pick({1ns, Duration{1us}, Duration{1s}, Duration{1h}})
                               : scale_;
    const Duration rough = scale * random_.between(1, 12) / random_.pick({1, 1, 3});
    return std::max(1ns, rough + Duration{random_.pick({0, 0, 0, 1, -1, 7})});
  }

  std::int64_t amount(std::int64_t least) {
    return random_.chance(85) ? random_.between(least, 10) : random_.pick({17, 100, 997});
  }

  MeterSpec meter(Kind kind) {
    switch (kind) {
      case Kind::kBucket:
        return BucketSpec{amount(1), span(), random_.chance(30) ? 0 : amount(1)};
      case Kind::kTicker: {
        const std::int64_t per_tick = random_.between(1, 4);
        return TickerSpec{per_tick, span(), std::max(per_tick, amount(1)),
                          random_.pick({meter::TickerStart::kFull, meter::TickerStart::kEmpty})};
      }
      case Kind::kWindow:
        if (random_.chance(60)) return WindowSpec{amount(0), span()};
        return CalendarSpec{
            amount(0), random_.pick({meter::CalendarUnit::kDay, week_or_day(),
                                     meter::CalendarUnit::kMonth, meter::CalendarUnit::kYear})};
      case Kind::kLog:
        return LogSpec{amount(0), span()};
      case Kind::kSlots:
        return SlotsSpec{amount(0), 0, span() * random_.pick({1, 10})};
    }
    return {};
  }

  // Other parameters for the same kind of meter, or the same in other words. Where a
  // ticker starts is said once: it is about keys that were never seen.
  MeterSpec changed(const MeterSpec& from) {
    MeterSpec to = random_.chance(20) ? from : meter(kind_of(from));
    if (auto* bucket = std::get_if<BucketSpec>(&to); bucket != nullptr && random_.chance(20)) {
      if (bucket->burst == 0) bucket->burst = bucket->amount;
      bucket->amount *= 3;
      bucket->period *= 3;
    }
    if (auto* ticker = std::get_if<TickerSpec>(&to)) {
      ticker->start = std::get<TickerSpec>(from).start;
    }
    return to;
  }

  // Perhaps another kind of meter.
  MeterSpec another() {
    MeterSpec to = meter(
        random_.pick({Kind::kBucket, Kind::kTicker, Kind::kWindow, Kind::kLog, Kind::kSlots}));
    if (auto* ticker = std::get_if<TickerSpec>(&to)) ticker->start = meter::TickerStart::kFull;
    return to;
  }

  std::string pattern(std::size_t attribute) {
    static const std::array<std::vector<std::string_view>, 3> globs{{
        {"*", "?", "a*"},
        {"*t", "?ut", "l*", "*"},
        {"gold-?", "gold*", "*r*", "p?o", "????"},
    }};
    return std::string{random_.chance(60) ? random_.pick(kValues[attribute])
                                          : random_.pick(globs[attribute])};
  }

  Condition condition() {
    const auto attribute = static_cast<std::size_t>(random_.between(0, 2));
    Condition drawn{std::string{kAttributeNames[attribute]}, {}};
    for (std::int64_t n = random_.pick({1, 1, 2, 3}); n > 0; --n) {
      drawn.patterns.push_back(pattern(attribute));
    }
    return drawn;
  }

  // Everything but the name and the meter.
  void requirements(LimitSpec& limit) {
    limit.when.clear(), limit.per.clear(), limit.exempt.clear(), limit.weigh = {};
    if (random_.chance(35)) limit.when.push_back(condition());
    if (random_.chance(8)) limit.when.push_back(condition());
    for (const std::string_view name : kAttributeNames) {
      if (random_.chance(25)) limit.per.emplace_back(name);
    }
    limit.unit = random_.chance(50) ? kUnits[0] : random_.pick({kUnits[1], kUnits[2]});
    if (random_.chance(30)) {
      const auto attribute = static_cast<std::size_t>(random_.between(0, 2));
      limit.weigh.attribute = kAttributeNames[attribute];
      for (const std::string_view value : kValues[attribute]) {
        if (random_.chance(60))
          limit.weigh.table.emplace_back(value, random_.pick({0, 1, 2, 3, 10}));
      }
      if (limit.weigh.table.empty()) limit.weigh = {};
    }
    for (std::int64_t n = random_.chance(20) ? random_.between(1, 2) : 0; n > 0; --n) {
      limit.exempt.push_back({condition()});
      if (random_.chance(30)) limit.exempt.back().push_back(condition());
    }
    limit.shadow = random_.chance(15);
  }

  LimitSpec limit(const std::string& name) {
    LimitSpec drawn{.name = name};
    requirements(drawn);
    drawn.meter = meter(random_.pick({Kind::kBucket, Kind::kBucket, Kind::kTicker, Kind::kWindow,
                                      Kind::kWindow, Kind::kLog, Kind::kSlots}));
    return drawn;
  }

  RuleSetSpec rules() {
    RuleSetSpec drawn;
    for (std::int64_t n = random_.between(1, 6); n > 0; --n) add(drawn);
    finish(drawn);
    return drawn;
  }

  RuleSetSpec changed(RuleSetSpec rules) {
    while (random_.chance(25)) add(rules);
    std::erase_if(rules.limits, [&](const LimitSpec&) { return random_.chance(8); });
    for (LimitSpec& limit : rules.limits) {
      if (random_.chance(45)) limit.meter = changed(limit.meter);
      if (random_.chance(4)) limit.meter = another();
      if (random_.chance(10)) requirements(limit);
    }
    finish(rules);
    return rules;
  }

 private:
  void add(RuleSetSpec& rules) {
    const std::string name = fmt::format("L{}", random_.between(0, kNames - 1));
    if (std::any_of(rules.limits.begin(), rules.limits.end(),
                    [&](const LimitSpec& limit) { return limit.name == name; })) {
      return;
    }
    const auto place = random_.between(0, static_cast<std::int64_t>(rules.limits.size()));
    rules.limits.insert(rules.limits.begin() + place, limit(name));
  }

  // Parents have lower names, so nobody is his own ancestor; they count the same
  // unit and are keyed by what their children are keyed by.
  void finish(RuleSetSpec& rules) {
    std::map<std::string, LimitSpec*> by_name;
    for (LimitSpec& limit : rules.limits) by_name[limit.name] = &limit;
    for (auto& [name, limit] : by_name) {
      if (random_.chance(25)) limit->parent = fmt::format("L{}", random_.between(0, kNames - 1));
      if (!by_name.contains(limit->parent) || limit->parent >= name) limit->parent.clear();
      if (limit->parent.empty()) continue;
      const LimitSpec& parent = *by_name[limit->parent];
      limit->unit = parent.unit;
      for (const std::string& key : parent.per) {
        if (std::find(limit->per.begin(), limit->per.end(), key) == limit->per.end()) {
          limit->per.push_back(key);
        }
      }
    }
    rules.units = {{"tokens", UnitScale::kWhole}, {"pu", UnitScale::kMicro}};
    rules.attributes.assign(kAttributeNames.begin(), kAttributeNames.end());
  }

  // The first week of all began before time did, which no instant can name.
  meter::CalendarUnit week_or_day() const {
    return now_.ns < Duration{24h * 7}.count() ? meter::CalendarUnit::kDay
                                               : meter::CalendarUnit::kWeek;
  }

  Random& random_;
  Duration scale_;
  Instant now_;
};

}  // namespace weir::engine::naive
