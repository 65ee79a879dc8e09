// Mistakes: all that is wrong with a file, each with its place.
//
// Thread safety: none needed; one reader fills it.

#pragma once

#include <compare>
#include <cstddef>
#include <set>
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
  // A value that must not be shown, because it came from the environment, and what to show
  // instead. Before the mistakes that may speak of it.
  void hide(Place place, std::string_view value, std::string_view written);

  // What is added for this place from now on follows from what has been: it is left out.
  void silence(Place place) { silent_.insert(place); }

  // `where` names the part of the file; `what` says what was found, what was
  // expected and what to write. At most kMistakesMax are kept, the rest counted.
  void add(Place place, std::string_view where, std::string_view what);

  // Something that is allowed, but not wise. It is no mistake.
  void warn(Place place, std::string_view where, std::string_view what);
  std::vector<std::string> warnings(std::string_view file) const;

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

  struct Hidden {
    Place place;
    std::string value;
    std::string written;
  };

  std::string without_hidden(Place place, std::string text) const;

  std::vector<Mistake> kept_;
  std::vector<Mistake> warnings_;
  std::set<Place> silent_;
  std::vector<Hidden> hidden_;  // one for each value of the file
  std::size_t count_ = 0;
};

// The known word that was probably meant: at most two edits away, or one of the
// two begins the other. Empty if there is none.
std::string_view nearest(std::string_view word, std::span<const std::string_view> known);

}  // namespace weir::config
