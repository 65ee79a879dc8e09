// Any bytes at all as weir.yaml. A file is understood, or every line of its error
// names a place in it.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "weir/config/config.h"

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// `f:LINE:COLUMN: ...`, or the last line, which counts what is not shown.
bool names_a_place(std::string_view line) {
  if (line.starts_with("f: ")) return true;
  if (!line.starts_with("f:")) return false;
  line.remove_prefix(2);
  for (int number = 0; number < 2; ++number) {
    if (line.empty() || line[0] < '1' || line[0] > '9') return false;
    while (!line.empty() && is_digit(line[0])) line.remove_prefix(1);
    if (!line.starts_with(':')) return false;
    line.remove_prefix(1);
  }
  return line.starts_with(' ');
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = weir::config::parse(text, "f");
  if (config) {
    if (weir::config::describe(*config).empty()) std::abort();
    return 0;
  }
  std::string_view left = config.error().message;
  if (left.empty()) std::abort();
  while (!left.empty()) {
    const std::string_view line = left.substr(0, left.find('\n'));
    if (!names_a_place(line)) std::abort();
    left.remove_prefix(line.size() < left.size() ? line.size() + 1 : line.size());
  }
  return 0;
}
