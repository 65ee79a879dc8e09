#include "weir/engine/heavy.h"

#include <algorithm>

#include "weir/base/integer.h"

namespace weir::engine {

bool HeavyKeys::add_known(std::string_view limit, Print print, std::int64_t units) {
  const auto found = by_limit_.find(limit);
  if (found == by_limit_.end()) return false;
  for (Entry& entry : found->second) {
    if (entry.print != print) continue;
    entry.units = saturate(Wide{entry.units} + units);
    return true;
  }
  return false;
}

void HeavyKeys::add(std::string_view limit, Print print, std::int64_t units, std::string text) {
  if (places_ == 0 || add_known(limit, print, units)) return;
  std::vector<Entry>& entries = by_limit_[std::string(limit)];
  if (entries.size() < places_) {
    entries.push_back({print, units, std::move(text)});
    return;
  }
  const auto lightest =
      std::min_element(entries.begin(), entries.end(),
                       [](const Entry& a, const Entry& b) { return a.units < b.units; });
  *lightest = {print, saturate(Wide{lightest->units} + units), std::move(text)};
}

void HeavyKeys::merge(const HeavyKeys& other) {
  for (const auto& [limit, entries] : other.by_limit_) {
    for (const Entry& entry : entries) add(limit, entry.print, entry.units, entry.text);
  }
}

std::vector<HeavyKeys::Entry> HeavyKeys::heaviest(std::string_view limit, std::size_t count) const {
  const auto found = by_limit_.find(limit);
  if (found == by_limit_.end()) return {};
  std::vector<Entry> entries = found->second;
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.units > b.units; });
  if (entries.size() > count) entries.resize(count);
  return entries;
}

}  // namespace weir::engine
