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

  // Counts a key. If that has given it a place: where its text goes, which still has that of
  // the key before; else nullptr. Allocates nothing once all places are taken.
  std::string* add(std::string_view limit, Print print, std::int64_t units);

  // Adds what another one has counted.
  void merge(const HeavyKeys& other);

  // Heaviest first, at most `count`.
  std::vector<Entry> heaviest(std::string_view limit, std::size_t count) const;

 private:
  // What is read for each sample lies close together, texts apart.
  struct Count {
    Print print;
    std::int64_t units = 0;
  };
  struct Places {
    std::vector<Count> counts;
    std::vector<std::string> texts;  // one for each count
  };

  std::size_t places_;
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>{}(text);
    }
  };
  std::unordered_map<std::string, Places, Hash, std::equal_to<>> by_limit_;
};

}  // namespace weir::engine
