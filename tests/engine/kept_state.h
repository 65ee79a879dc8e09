// Kept state: a store in plain style, that keeps what engines collect in maps.
//
// collect() takes every change of an engine; restore() gives everything to a fresh
// one. Records of a limit's earlier eras are dropped, as a store has to.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/support.h"
#include "tests/support/on_stack.h"
#include "weir/engine/engine.h"
#include "weir/engine/state.h"

namespace weir::engine {

// Everything that changed since the last time.
inline MeterChanges collected(Engine& engine, Instant now) {
  MeterChanges changes;
  for (std::size_t i = 0; i < engine::Collector(engine).shards(); ++i)
    engine::Collector(engine).changed(i, now, changes);
  return changes;
}

inline HoldChanges collected_holds(Engine& engine, Instant now) {
  HoldChanges changes;
  while (engine::Collector(engine).holds(now, changes)) {
  }
  engine::Collector(engine).ended_holds(changes);
  return changes;
}

class KeptState {
 public:
  void collect(Engine& engine, Instant now) {
    keep(collected_holds(engine, now));
    keep(collected(engine, now));
    HoldChanges ended;
    engine::Collector(engine).ended_holds(ended);
    for (const std::uint64_t number : ended.ended) holds_.erase(number);
    for (const EraRecord& era : engine::Collector(engine).eras()) drop_other_eras(era);
  }

  Result<RestoreReport> restore(Engine& engine, Instant now) {
    run_ += 1;
    MeterChanges meters;
    for (const auto& [print, kept] : meters_) {
      meters.rows.push_back(kept.row);
      MeterRecord record = kept.record;
      record.row = static_cast<std::uint32_t>(meters.rows.size() - 1);
      record.first_run = static_cast<std::uint32_t>(meters.runs.size());
      meters.runs.insert(meters.runs.end(), kept.runs.begin(), kept.runs.end());
      meters.meters.push_back(record);
    }
    Result<RestoreReport> report = engine::Collector(engine).restore(meters, now);
    if (!report) return report;
    HoldChanges holds;
    holds.next_number = next_number_;
    holds.as_of = holds_as_of_;
    for (const auto& [number, kept] : holds_) {
      holds.active.push_back({number, kept.expires,
                              static_cast<std::uint32_t>(holds.charges.size()),
                              static_cast<std::uint32_t>(kept.charges.size())});
      for (KeptCharge charge : kept.charges) {
        charge.record.limit = holds.place_of(charge.limit);
        charge.record.unit = holds.place_of(charge.unit);
        holds.charges.push_back(charge.record);
      }
    }
    Result<RestoreReport> held = engine::Collector(engine).restore(holds, now);
    if (held) *held += *report;
    return held;
  }

  std::size_t meters() const { return meters_.size(); }
  std::size_t holds() const { return holds_.size(); }

 private:
  struct Kept {
    std::uint64_t run;  // which engine it was collected of
    RowRecord row;
    MeterRecord record;
    std::vector<meter::LogRun> runs;
  };
  struct KeptCharge {
    std::string limit;
    std::string unit;
    ChargeRecord record;
  };
  struct KeptHold {
    std::uint64_t run;
    Instant expires;
    std::vector<KeptCharge> charges;
  };

  void keep(const MeterChanges& changes) {
    for (const MeterRecord& record : changes.meters) {
      const std::pair name{record.print.low, record.print.high};
      meters_.erase(name);
      if (record.row == kForgotten) continue;
      const auto runs = changes.runs_of(record);
      meters_.emplace(name, Kept{run_, changes.rows[record.row], record,
                                 std::vector<meter::LogRun>(runs.begin(), runs.end())});
    }
  }

  void keep(const HoldChanges& changes) {
    next_number_ = changes.next_number;
    holds_as_of_ = changes.as_of;
    for (const HoldRecord& record : changes.active) {
      KeptHold& hold = holds_[record.number] = {run_, record.expires, {}};
      for (const ChargeRecord& charge : changes.charges_of(record)) {
        hold.charges.push_back(
            {changes.names.at(charge.limit), changes.names.at(charge.unit), charge});
      }
    }
    for (const std::uint64_t number : changes.ended) holds_.erase(number);
  }

  void drop_other_eras(const EraRecord& now) {
    std::erase_if(meters_, [&](const auto& entry) {
      const Kept& kept = entry.second;
      return kept.row.limit == now.limit && (kept.run != run_ || kept.row.era != now.era);
    });
    for (auto& [number, hold] : holds_) {
      std::erase_if(hold.charges, [&, run = hold.run](const KeptCharge& charge) {
        return charge.limit == now.limit && (run != run_ || charge.record.era != now.era);
      });
    }
  }

  std::uint64_t run_ = 0;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Kept> meters_;
  std::map<std::uint64_t, KeptHold> holds_;
  std::uint64_t next_number_ = 1;
  Instant holds_as_of_{};
};

inline constexpr EngineOptions kDurable{.keys_max = 1 << 14, .owner = 7, .durable = true};

// An engine that can be replaced by the one of the next process.
struct Lasting {
  explicit Lasting(const RuleSetSpec& rules, EngineOptions with = kDurable)
      : options(with), engine(engine_of(rules, with)) {}

  RestoreReport restart(const RuleSetSpec& rules, Instant now) {
    kept.collect(*engine, now);
    return come_back(rules, now);
  }
  // As after a crash: what was not collected is lost.
  RestoreReport come_back(const RuleSetSpec& rules, Instant now) {
    engine = engine_of(rules, options);
    auto report = kept.restore(*engine, now);
    EXPECT_TRUE(report.ok()) << (report ? "" : report.error().message);
    return report ? *report : RestoreReport{};
  }
  Engine* operator->() { return engine.get(); }
  Engine& operator*() { return *engine; }

  EngineOptions options;
  std::unique_ptr<Engine> engine;
  KeptState kept;
};

inline RuleSetSpec limit_of(MeterSpec meter, std::string name = "limit") {
  return {.limits = {{.name = std::move(name), .per = {"client"}, .meter = std::move(meter)}}};
}

}  // namespace weir::engine
