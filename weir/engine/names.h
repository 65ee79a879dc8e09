// Names: a few short names, looked up in every request.
//
// Attribute and unit names are compared as whole machine words: the length and
// the first eight bytes settle almost every comparison without a call.
//
// Thread safety: immutable once filled.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace weir::engine {

class Names {
 public:
  // Place of `name`, or size() if it is not there.
  std::size_t find(std::string_view name) const noexcept {
    const std::uint64_t head = head_of(name);
    std::size_t place = 0;
    for (; place < heads_.size(); ++place) {
      if (heads_[place] == head && texts_[place].size() == name.size() &&
          (name.size() <= 8 ||
           std::memcmp(texts_[place].data() + 8, name.data() + 8, name.size() - 8) == 0)) {
        break;
      }
    }
    return place;
  }

  void add(std::string name) {
    heads_.push_back(head_of(name));
    texts_.push_back(std::move(name));
  }

  std::size_t size() const noexcept { return texts_.size(); }
  const std::string& operator[](std::size_t place) const noexcept { return texts_[place]; }
  std::string joined() const;  // `client, operation`, or `none`

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

  std::vector<std::uint64_t> heads_;
  std::vector<std::string> texts_;
};

}  // namespace weir::engine
