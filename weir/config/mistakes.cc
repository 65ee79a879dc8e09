#include "weir/config/mistakes.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "weir/config/config.h"

namespace weir::config {
namespace {

constexpr std::size_t kEditsMax = 2;
constexpr std::size_t kComparedBytesMax = 64;  // no key is longer, and comparing is quadratic

// Insertions, deletions and replacements that make one of the other.
std::size_t edits(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t replaced = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row[to.size()];
}

}  // namespace

void Mistakes::add(Place place, std::string_view where, std::string_view what) {
  ++count_;
  if (kept_.size() < kMistakesMax) kept_.push_back({place, fmt::format("{}: {}", where, what)});
}

void Mistakes::add_elsewhere(Place place, std::string_view line) {
  ++count_;
  if (kept_.size() < kMistakesMax) kept_.push_back({place, std::string(line), true});
}

std::string Mistakes::text(std::string_view file) const {
  std::vector<Mistake> sorted = kept_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Mistake& a, const Mistake& b) { return a.place < b.place; });
  std::string text;
  for (const Mistake& mistake : sorted) {
    if (!text.empty()) text += '\n';
    if (!mistake.is_elsewhere) {
      text += fmt::format("{}:{}:{}: ", file, mistake.place.line, mistake.place.column);
    }
    text += mistake.text;
  }
  if (count_ > kept_.size()) {
    text += fmt::format("\n{}: {} more mistakes are not shown; correct these first", file,
                        count_ - kept_.size());
  }
  return text;
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> known) {
  std::string_view best;
  std::size_t best_distance = kEditsMax + 1;
  if (word.empty() || word.size() > kComparedBytesMax) return best;
  for (const std::string_view candidate : known) {
    std::size_t distance = edits(word, candidate);
    // Replacing every letter of a short word is not a typing mistake.
    if (distance >= std::min(word.size(), candidate.size())) distance = kEditsMax + 1;
    if (word.size() > 1 && (word.starts_with(candidate) || candidate.starts_with(word))) {
      distance = std::min(distance, kEditsMax);
    }
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace weir::config
