// Heavy keys: the texts of the keys that ask most, in bounded memory.
//
// The table keeps prints, not keys. To show who is busy, each thread looks at one
// decision in so many and counts its keys by the space-saving rule: when all
// places are taken, the lightest key makes way and the newcomer inherits its
// count. A key that asks for more than 1/places of everything is always there.
//
// Thread safety: none; each thread has its own under its own lock.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "weir/engine/print.h"

namespace weir::engine {

class HeavyKeys {
 public:
  struct Entry {
    Print print;
    std::int64_t units = 0;
    std::string text;
  };

  explicit HeavyKeys(std::size_t places) : places_(places) {}

  void add(std::string_view limit, Print print, std::int64_t units, std::string text);

  // Counts a key that has a place already; false: it has none, and its text is needed.
  bool add_known(std::string_view limit, Print print, std::int64_t units);

  // Adds what another one has counted.
  void merge(const HeavyKeys& other);

  // Heaviest first, at most `count`.
  std::vector<Entry> heaviest(std::string_view limit, std::size_t count) const;

 private:
  std::size_t places_;
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>{}(text);
    }
  };
  std::unordered_map<std::string, std::vector<Entry>, Hash, std::equal_to<>> by_limit_;
};

}  // namespace weir::engine
