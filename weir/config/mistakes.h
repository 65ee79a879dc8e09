// Mistakes: all that is wrong with a file, each with its place.
//
// Thread safety: none needed; one reader fills it.

#pragma once

#include <compare>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/in_quotes.h"

namespace weir::config {

// Counted from 1; columns in bytes, as compilers do.
struct Place {
  int line = 1;
  int column = 1;

  friend auto operator<=>(const Place&, const Place&) = default;
};

class Mistakes {
 public:
  // `where` names the part of the file; `what` says what was found, what was
  // expected and what to write. At most kMistakesMax are kept, the rest counted.
  void add(Place place, std::string_view where, std::string_view what);

  // In another file, which `place` names. The line says where in it: `FILE:LINE:COLUMN: what`.
  void add_elsewhere(Place place, std::string_view line);

  std::size_t count() const noexcept { return count_; }

  // `FILE:LINE:COLUMN: where: what`, a line each, sorted by place.
  std::string text(std::string_view file) const;

 private:
  struct Mistake {
    Place place;
    std::string text;
    bool is_elsewhere = false;  // the text begins with a file of its own
  };

  std::vector<Mistake> kept_;
  std::size_t count_ = 0;
};

// The known word that was probably meant: at most two edits away, or one of the
// two begins the other. Empty if there is none.
std::string_view nearest(std::string_view word, std::span<const std::string_view> known);

}  // namespace weir::config
