// Patterns against a matcher too simple to be wrong: one recursion per character.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "weir/engine/rule_set.h"

namespace {

bool simply_matches(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') {
    return simply_matches(pattern.substr(1), text) ||
           (!text.empty() && simply_matches(pattern, text.substr(1)));
  }
  if (text.empty() || (pattern[0] != '?' && pattern[0] != text[0])) return false;
  return simply_matches(pattern.substr(1), text.substr(1));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1 || size > 24) return 0;  // the simple one is exponential
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::size_t split = data[0] % size;
  const std::string_view pattern = all.substr(0, split);
  const std::string_view text = all.substr(split);
  if (weir::engine::matches(pattern, text) != simply_matches(pattern, text)) std::abort();
  return 0;
}
