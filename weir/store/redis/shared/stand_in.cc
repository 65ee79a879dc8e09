#include "weir/store/redis/shared/stand_in.h"

#include <algorithm>

namespace weir::store::redis {
namespace {

using engine::MeterShape;
using engine::Words;

std::int64_t share(std::int64_t amount, std::int64_t n) {
  return std::max<std::int64_t>(amount > 0 ? 1 : 0, amount / n);
}

struct Sharer {
  std::int64_t n;

  // A rate that cannot be slowed down n times stays: that takes longer than 146 years to fill.
  MeterShape operator()(const meter::BucketShape& shape) const {
    const Duration period{saturate(std::min(Wide{shape.den} * n, Wide{kTermMax}))};
    const auto slower = meter::make_bucket(shape.num, period, share(shape.burst, n));
    return slower ? *slower : shape;
  }
  MeterShape operator()(const meter::TickerShape& shape) const {
    const Duration interval{saturate(std::min(Wide{shape.interval_ns} * n, Wide{kTermMax}))};
    const auto slower = meter::make_ticker(
        shape.per_tick, interval, std::max(shape.per_tick, share(shape.burst, n)), shape.start);
    return slower ? *slower : shape;
  }
  MeterShape operator()(meter::WindowShape shape) const {
    shape.limit = share(shape.limit, n);
    return shape;
  }
  MeterShape operator()(meter::LogShape shape) const {
    shape.limit = share(shape.limit, n);
    return shape;
  }
  MeterShape operator()(meter::SlotsShape shape) const {
    shape.limit = share(shape.limit, n);
    return shape;
  }
};

}  // namespace

MeterShape share_of(const MeterShape& shape, std::int64_t n) {
  return n <= 1 ? shape : std::visit(Sharer{n}, shape);
}

StandIn::Limit& StandIn::limit_of(const Item& item, std::size_t limits) {
  const auto found = limits_.find(item.limit);
  if (found != limits_.end()) return found->second;
  return limits_.try_emplace(std::string(item.limit), kStandInRunsMax / limits).first->second;
}

StandIn::Meter* StandIn::meter_for(Limit& limit, const Item& item, std::int64_t servers,
                                   std::size_t limits, Instant now) {
  const MeterShape shape = share_of(*item.shape, servers);
  const auto found = limit.meters.find(item.key);
  if (found == limit.meters.end()) {
    if (keys_ == kStandInKeysMax || limit.meters.size() >= kStandInKeysMax / limits) return nullptr;
    keys_ += 1;
    return &limit.meters.emplace(item.key, Meter{shape, engine::initial_words(shape, now)})
                .first->second;
  }
  // There may be more servers than in an outage before, or the limit another one.
  Meter& meter = found->second;
  if (meter.shape != shape) {
    meter.words = engine::reshape(meter.shape, shape, meter.words, limit.logs, now);
    meter.shape = shape;
  }
  return &meter;
}

boost::container::small_vector<engine::SharedOutcome, 4> StandIn::take(std::span<const Item> items,
                                                                       std::int64_t servers,
                                                                       Instant now, bool is_peek,
                                                                       std::size_t limits) {
  struct Met {
    engine::LogBlocks* logs;
    Meter* meter;
  };
  boost::container::small_vector<engine::SharedOutcome, 4> outcomes;
  boost::container::small_vector<Met, 4> met;
  bool allowed = true;
  limits = std::clamp<std::size_t>(limits, 1, kStandInKeysMax);
  const std::scoped_lock lock(lock_);
  for (const Item& item : items) {
    engine::SharedOutcome& outcome = outcomes.emplace_back();
    Limit& limit = limit_of(item, limits);
    Meter* const meter = meter_for(limit, item, servers, limits, now);
    met.push_back({&limit.logs, meter});
    if (meter == nullptr) {
      outcome.check = {Verdict::kDenied, kForever, item.cost};
    } else {
      outcome.check = engine::check(meter->shape, meter->words, limit.logs, now, item.cost);
      outcome.before = engine::level(meter->shape, meter->words, limit.logs, now);
      outcome.after = outcome.before;
    }
    // More than this share can hold may still fit the whole limit, once it can be asked.
    if (outcome.check.verdict == Verdict::kNever && item.cost <= engine::capacity(*item.shape)) {
      outcome.check.verdict = Verdict::kDenied;
    }
    allowed = allowed && (item.shadow || outcome.check.allowed());
  }
  if (!allowed || is_peek) return outcomes;
  // First everything that can fail, then everything that cannot.
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!outcomes[i].check.allowed() || items[i].cost == 0) continue;
    const auto [logs, meter] = met[i];
    if (engine::reserve(meter->shape, meter->words, *logs, now)) continue;
    outcomes[i].check = {Verdict::kDenied, kForever, items[i].cost};
    allowed = allowed && items[i].shadow;
  }
  if (!allowed) return outcomes;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!outcomes[i].check.allowed() || items[i].cost == 0) continue;
    const auto [logs, meter] = met[i];
    engine::charge(meter->shape, meter->words, *logs, now, items[i].cost);
    outcomes[i].after = engine::level(meter->shape, meter->words, *logs, now);
  }
  return outcomes;
}

void StandIn::forget(Instant now) {
  const std::scoped_lock lock(lock_);
  for (auto& [name, limit] : limits_) {
    keys_ -= std::erase_if(limit.meters, [&logs = limit.logs, now](const auto& entry) {
      const Meter& meter = entry.second;
      if (!engine::is_initial(meter.shape, meter.words, logs, now)) return false;
      engine::release(meter.shape, meter.words, logs);
      return true;
    });
  }
  std::erase_if(limits_, [](const auto& entry) { return entry.second.meters.empty(); });
}

}  // namespace weir::store::redis
