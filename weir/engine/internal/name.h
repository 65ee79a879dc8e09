// Name: a text to compare others with.
//
// A request names its attributes and units in plain text, and most decisions compare them.
// A name carries its first eight bytes as a number: they and the length settle almost
// every comparison without a call.
//
// Thread safety: immutable.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace weir::engine {

// A name to compare others with. A view: what it points to must outlive it.
class Name {
 public:
  explicit Name(std::string_view text) noexcept : head_(head_of(text)), text_(text) {}

  // Whether the texts are equal.
  bool is(std::string_view other) const noexcept {
    return text_.size() == other.size() && head_ == head_of(other) &&
           (other.size() <= 8 ||
            std::memcmp(text_.data() + 8, other.data() + 8, other.size() - 8) == 0);
  }

 private:
  // The first eight bytes, or all of a shorter name; read without a loop.
  static std::uint64_t head_of(std::string_view name) noexcept {
    const char* bytes = name.data();
    const std::size_t size = name.size();
    std::uint64_t head = 0;
    if (size >= 8) {
      std::memcpy(&head, bytes, 8);
    } else if (size >= 4) {
      std::uint32_t first;
      std::uint32_t last;
      std::memcpy(&first, bytes, 4);
      std::memcpy(&last, bytes + size - 4, 4);
      head = (std::uint64_t{last} << 32) | first;
    } else if (size > 0) {
      const auto byte = [&](std::size_t i) {
        return std::uint64_t{static_cast<unsigned char>(bytes[i])};
      };
      head = byte(0) | byte(size / 2) << 8 | byte(size - 1) << 16;
    }
    return head;
  }

  std::uint64_t head_;
  std::string_view text_;
};

}  // namespace weir::engine
