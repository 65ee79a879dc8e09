// Query: the parts of a request target, decoded.
//
// A target is a path and maybe a query: `/v1/meters?limit=per-client&key=acme`.
// Decoding is strict: a `%` needs two hexadecimal digits, and bytes that may not
// stand in a target are refused rather than guessed at. In a query, not in a path,
// `+` is a space, as forms and URLSearchParams write it.
//
// Thread safety: none; a value belongs to one thread at a time.

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/result.h"

namespace weir::wire::http {

constexpr std::size_t kTargetBytesMax = 8192;
constexpr std::size_t kQueryPairsMax = 16;

struct Target {
  std::string_view path;
  std::string_view query;  // without the `?`
};

// Splits at the first `?`.
Target split_target(std::string_view target) noexcept;

enum class Plus : bool { kIsPlus, kIsSpace };

// `where` names the text in an error.
Result<std::string> percent_decoded(std::string_view where, std::string_view text, Plus plus);

class Query {
 public:
  // Only names in `known` are taken; the others are errors that list them.
  static Result<Query> read(std::string_view text, std::span<const std::string_view> known);

  // The one value of `name`. Missing or repeated: an error.
  Result<std::string_view> one(std::string_view name) const;
  bool has(std::string_view name) const noexcept;
  // Every value of `name`, in order. Views into the query.
  std::vector<std::string_view> all(std::string_view name) const;

 private:
  struct Pair {
    std::string_view name;  // one of those known
    std::string value;
  };
  std::vector<Pair> pairs_;
};

}  // namespace weir::wire::http
