#include "weir/engine/internal/heavy.h"

#include <algorithm>

#include "weir/base/integer.h"

namespace weir::engine {

std::string* HeavyKeys::add(std::string_view limit, Print print, std::int64_t units) {
  if (places_ == 0) return nullptr;
  auto found = by_limit_.find(limit);
  if (found == by_limit_.end()) found = by_limit_.emplace(limit, Places{}).first;
  auto& [counts, texts] = found->second;
  std::size_t lightest = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i].print == print) {
      counts[i].units = saturate(Wide{counts[i].units} + units);
      return nullptr;
    }
    lightest = counts[i].units < counts[lightest].units ? i : lightest;
  }
  if (counts.size() < places_) {
    counts.push_back({print, units});
    return &texts.emplace_back();
  }
  counts[lightest] = {print, saturate(Wide{counts[lightest].units} + units)};
  return &texts[lightest];
}

void HeavyKeys::merge(const HeavyKeys& other) {
  for (const auto& [limit, places] : other.by_limit_) {
    for (std::size_t i = 0; i < places.counts.size(); ++i) {
      const Count& count = places.counts[i];
      if (std::string* text = add(limit, count.print, count.units)) *text = places.texts[i];
    }
  }
}

std::vector<HeavyKeys::Entry> HeavyKeys::heaviest(std::string_view limit, std::size_t count) const {
  const auto found = by_limit_.find(limit);
  if (found == by_limit_.end()) return {};
  const auto& [counts, texts] = found->second;
  std::vector<Entry> entries;
  entries.reserve(counts.size());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    entries.push_back({counts[i].print, counts[i].units, texts[i]});
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.units > b.units; });
  if (entries.size() > count) entries.resize(count);
  return entries;
}

}  // namespace weir::engine
