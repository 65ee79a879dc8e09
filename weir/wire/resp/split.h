// Split: an inline command to its words, by Redis's rules of quoting.
//
// Words are separated by white space. Within "..." a backslash begins an
// escape: \n \r \t \b \a, \xHH for any byte, and before another character it
// stands for that character. Within '...' only \' is one. A quote may open in
// the middle of a word, but it closes it: white space or the end must follow.
//
// Thread safety: none needed. The only state is what the caller passes.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weir::wire::resp {

enum class Split : std::uint8_t {
  kWhole,
  kUnbalanced,  // a quote is not closed, or more follows it
  kTooMany,     // more than `words_max` words
};

// Replaces `words` with those of `line`. Words with quotes are views into
// `unquoted`, which is replaced too, the others into `line`.
Split split_line(std::string_view line, std::size_t words_max, std::vector<std::string_view>& words,
                 std::string& unquoted);

}  // namespace weir::wire::resp
