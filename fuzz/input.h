// Input: the bytes of a fuzz target, taken off the front.
//
//   Input input(data, size);
//   switch (input.byte() % 3) ...
//
// Past the end there are zeros.
//
// Thread safety: none needed.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace weir::fuzz {

// What the fuzzer is to report.
inline void check(bool holds) {
  if (!holds) std::abort();
}

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size)
      : left_(reinterpret_cast<const char*>(data), size) {}

  bool is_empty() const { return left_.empty(); }
  std::uint8_t byte() { return static_cast<std::uint8_t>(integer(1)); }
  // Of so many bytes, big-endian.
  std::uint64_t integer(std::size_t bytes) {
    std::uint64_t value = 0;
    for (const char c : this->bytes(bytes)) value = value << 8 | static_cast<unsigned char>(c);
    return value;
  }
  std::string_view bytes(std::size_t count) {
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view rest() { return bytes(left_.size()); }

 private:
  std::string_view left_;
};

}  // namespace weir::fuzz
