#include "weir/system/pool/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>

#include "weir/system/pool/type_slots.h"

namespace weir::system::pool {
namespace {

std::int64_t share_kb(std::int64_t budget, double ratio) {
  return std::max<std::int64_t>(1, slots_of(budget, ratio, 1));
}

// The number in a file that holds one, or nothing.
std::optional<std::int64_t> number_in(const char* path) {
  std::ifstream file(path);
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> machine_free_kb() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::int64_t value = 0;
  std::string unit;
  while (file >> name >> value >> unit) {
    if (name == "MemAvailable:") return value;
  }
  return std::nullopt;
}

}  // namespace

Status validate_memory_settings(const MemorySettings& settings) {
  if (!(settings.free_ratio > 0 && settings.free_ratio <= 1)) {
    return bad_argument(
        fmt::format("memory: free_ratio is {}, but it must be above 0 and at most 1; write 0.8",
                    settings.free_ratio));
  }
  if (settings.max_kb && (*settings.max_kb < 1 || *settings.max_kb > kMemoryKbMax)) {
    return bad_argument(fmt::format("memory: max is {} KB, but it must be 1 to {}",
                                    *settings.max_kb, kMemoryKbMax));
  }
  if (settings.interval < std::chrono::milliseconds{1} || settings.interval > kWaitMax) {
    return bad_argument("memory: interval must be 1ms to 7d; write 1s");
  }
  if (!settings.max_kb && !settings.probe) {
    return bad_argument("memory: there is neither a fixed size nor a probe; give one of them");
  }
  return Done{};
}

std::int64_t free_memory_kb() {
  const std::optional<std::int64_t> most = number_in("/sys/fs/cgroup/memory.max");
  const std::optional<std::int64_t> used = number_in("/sys/fs/cgroup/memory.current");
  std::int64_t free = machine_free_kb().value_or(0);
  // `max` in place of a number: the group is not limited.
  if (most && used) free = std::min(free, std::max<std::int64_t>(0, *most - *used) / 1024);
  return free;
}

std::int64_t budget_kb(std::int64_t base_kb, double free_ratio) noexcept {
  return slots_of(base_kb, free_ratio, 1);
}

MemoryBudgets::MemoryBudgets(std::span<const JobType> types, std::span<const double> ratios,
                             std::int64_t budget, Shrinking shrinking)
    : budget_(budget) {
  WEIR_ASSERT(types.size() == ratios.size());
  for (std::size_t i = 0; i < types.size(); ++i) {
    rows_.push_back({types[i].memory_kb, Permits(share_kb(budget, ratios[i]), shrinking)});
  }
}

bool MemoryBudgets::try_take(std::size_t type) noexcept {
  Row& row = rows_[type];
  if (row.estimate_kb == 0) return true;
  return row.waiting.empty() && row.permits.take(row.estimate_kb);
}

bool MemoryBudgets::take(std::size_t type, std::uint64_t job) {
  if (try_take(type)) return true;
  rows_[type].waiting.push_back(job);
  return false;
}

void MemoryBudgets::give_back(std::size_t type, std::vector<std::uint64_t>& granted) {
  rows_[type].permits.give_back(rows_[type].estimate_kb);
  serve(rows_[type], granted);
}

void MemoryBudgets::leave(std::size_t type, std::uint64_t job,
                          std::vector<std::uint64_t>& granted) {
  std::erase(rows_[type].waiting, job);
  serve(rows_[type], granted);
}

void MemoryBudgets::resize(std::span<const double> ratios, std::int64_t budget,
                           std::vector<std::uint64_t>& granted) {
  budget_ = budget;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    rows_[i].permits.resize(share_kb(budget, ratios[i]));
    serve(rows_[i], granted);
  }
}

void MemoryBudgets::serve(Row& row, std::vector<std::uint64_t>& granted) {
  while (!row.waiting.empty() && row.permits.take(row.estimate_kb)) {
    granted.push_back(row.waiting.front());
    row.waiting.pop_front();
  }
}

MemoryReading MemoryBudgets::reading() const noexcept {
  MemoryReading reading;
  for (const Row& row : rows_) {
    reading.active_kb += row.permits.active();
    reading.max_kb += row.permits.limit();
    reading.available_kb += row.permits.available();
  }
  return reading;
}

}  // namespace weir::system::pool
