#include "weir/system/pool/type_shares.h"

#include <fmt/format.h>

#include <algorithm>

#include "weir/system/pool/type_slots.h"

namespace weir::system::pool {

Status validate_ratio_settings(const RatioSettings& settings) {
  const auto part = [](std::string_view name, double value) -> Status {
    if (value >= 0 && value <= 1) return Done{};
    return bad_argument(fmt::format("{} is {}, but it must be 0 to 1", name, value));
  };
  if (Status valid = part("high_load", settings.high_load); !valid) return valid;
  if (Status valid = part("low_load", settings.low_load); !valid) return valid;
  if (Status valid = part("max_adjustment", settings.max_adjustment); !valid) return valid;
  if (Status valid = part("min_ratio", settings.min_ratio); !valid) return valid;
  if (settings.interval < Duration{0} || settings.interval > kWaitMax) {
    return bad_argument("interval must be 0 to 7 days; write 5s, or 0s for none");
  }
  if (settings.releases_per_adjustment < 0 || settings.releases_per_adjustment > kAmountMax) {
    return bad_argument(fmt::format(
        "releases_per_adjustment is {}, but it must be 0 to {}; write 10, or 0 for none",
        settings.releases_per_adjustment, kAmountMax));
  }
  if (settings.min_capacity < 0 || settings.min_capacity > kAmountMax) {
    return bad_argument(fmt::format("min_capacity is {}, but it must be 0 to {}",
                                    settings.min_capacity, kAmountMax));
  }
  return Done{};
}

TypeShares::TypeShares(std::span<const JobType> types, std::vector<double> ratios,
                       const RatioSettings& settings)
    : settings_(settings) {
  WEIR_ASSERT(types.size() == ratios.size());
  for (std::size_t i = 0; i < types.size(); ++i) {
    rows_.push_back({.ratio = ratios[i],
                     .initial = ratios[i],
                     .is_flexible = types[i].is_flexible,
                     .memory_kb = types[i].memory_kb});
  }
}

void TypeShares::set_capacity(std::int64_t capacity) {
  capacity_ = capacity;
  has_capacity_ = true;
  recompute();
}

void TypeShares::set_memory(std::optional<std::int64_t> budget_kb) {
  budget_kb_ = budget_kb;
  recompute();
}

void TypeShares::recompute() noexcept {
  if (!has_capacity_) return;
  for (Row& row : rows_) {
    row.slots = std::max(settings_.min_capacity, slots_of(capacity_, row.ratio, 1));
    if (!budget_kb_ || row.memory_kb == 0) continue;
    const std::int64_t in_memory = slots_of(*budget_kb_, row.ratio, row.memory_kb);
    row.slots = std::max(settings_.min_capacity, std::min(row.slots, in_memory));
  }
}

bool TypeShares::give_back(std::size_t type) noexcept {
  if (rows_[type].in_flight == 0) return false;
  rows_[type].in_flight -= 1;
  releases_ += 1;
  return settings_.releases_per_adjustment > 0 && releases_ >= settings_.releases_per_adjustment;
}

void TypeShares::set_in_flight(std::size_t type, std::int64_t in_flight) noexcept {
  rows_[type].in_flight = in_flight;
}

bool TypeShares::adjust() {
  releases_ = 0;
  const auto gives = [&](const Row& row) {
    return row.is_flexible && row.load() < settings_.low_load && row.ratio > settings_.min_ratio;
  };
  const auto receives = [&](const Row& row) {
    return row.is_flexible && row.load() > settings_.high_load;
  };
  if (std::ranges::none_of(rows_, gives) || std::ranges::none_of(rows_, receives)) return false;

  std::vector<double> changed;
  changed.reserve(rows_.size());
  double given = 0;
  double load_sum = 0;
  for (const Row& row : rows_) {
    double donation = 0;
    if (gives(row)) {
      donation = std::min(row.ratio - settings_.min_ratio, settings_.max_adjustment);
      donation *= 1 - row.load();
      given += donation;
    }
    if (receives(row)) load_sum += row.load();
    changed.push_back(row.ratio - donation);
  }
  if (given <= 0) return false;
  double sum = 0;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (receives(rows_[i])) changed[i] += given * (rows_[i].load() / load_sum);
    sum += changed[i];
  }
  for (std::size_t i = 0; i < rows_.size(); ++i) rows_[i].ratio = changed[i] / sum;
  recompute();
  return true;
}

}  // namespace weir::system::pool
