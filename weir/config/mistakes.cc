#include "weir/config/mistakes.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "weir/config/config.h"

namespace weir::config {
namespace {

constexpr std::size_t kEditsMax = 2;
constexpr std::size_t kHiddenBytesMin = 4;     // a shorter value is part of too many words
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

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

// `text` with `shown` for what it quotes first, and for each quoted part of `value`.
std::string with_quoted_hidden(std::string_view text, std::string_view value,
                               std::string_view shown) {
  std::string result;
  bool is_first = true;
  for (;;) {
    const std::size_t begin = text.find('\'');
    const std::size_t end = begin == text.npos ? text.npos : text.find('\'', begin + 1);
    if (end == text.npos) break;
    const std::string_view quoted = text.substr(begin + 1, end - begin - 1);
    result += text.substr(0, begin);
    if (std::exchange(is_first, false) || value.find(quoted) != value.npos) {
      result += shown;
    } else {
      result += text.substr(begin, end + 1 - begin);
    }
    text.remove_prefix(end + 1);
  }
  return result.append(text);
}

}  // namespace

void Mistakes::hide(Place place, std::string_view value, std::string_view written) {
  hidden_.push_back({place, std::string(value), std::string(written)});
}

// Readers quote what they do not like. A mistake at a hidden value quotes that value first and
// parts of it afterwards; one at another place may quote the whole, as a name.
std::string Mistakes::without_hidden(Place place, std::string text) const {
  for (const Hidden& hidden : hidden_) {
    const std::string shown = in_quotes(hidden.written);
    if (place != hidden.place) {
      if (hidden.value.size() >= kHiddenBytesMin) {
        replace_all(text, in_quotes(hidden.value), shown);
      }
      continue;
    }
    if (hidden.value.find('\'') != std::string::npos) {
      return fmt::format("what {} stands for does not fit here; look at its key in the reference",
                         shown);
    }
    text = with_quoted_hidden(text, hidden.value, shown);
  }
  return text;
}

void Mistakes::add(Place place, std::string_view where, std::string_view what) {
  if (silent_.contains(place)) return;
  ++count_;
  if (kept_.size() == kMistakesMax) return;
  kept_.push_back({place, fmt::format("{}: {}", without_hidden({}, std::string(where)),
                                      without_hidden(place, std::string(what)))});
}

void Mistakes::warn(Place place, std::string_view where, std::string_view what) {
  if (warnings_.size() == kMistakesMax) return;
  warnings_.push_back({place, fmt::format("{}: {}", without_hidden({}, std::string(where)),
                                          without_hidden(place, std::string(what)))});
}

std::vector<std::string> Mistakes::warnings(std::string_view file) const {
  std::vector<std::string> lines;
  for (const Mistake& warning : warnings_) {
    lines.push_back(
        fmt::format("{}:{}:{}: {}", file, warning.place.line, warning.place.column, warning.text));
  }
  return lines;
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
