#include "weir/wire/http/query.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace weir::wire::http {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Error bad_byte(std::string_view where, std::size_t at, char c) {
  return bad_argument(
      fmt::format("{}: byte {} is 0x{:02x}, which may not stand in a target; write it as %{:02X}",
                  where, at + 1, static_cast<unsigned char>(c), static_cast<unsigned char>(c)));
}

std::string listed(std::span<const std::string_view> names) {
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Target split_target(std::string_view target) noexcept {
  const std::size_t mark = target.find('?');
  if (mark == std::string_view::npos) return {target, {}};
  return {target.substr(0, mark), target.substr(mark + 1)};
}

Result<std::string> percent_decoded(std::string_view where, std::string_view text, Plus plus) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c <= ' ' || c > '~') return bad_byte(where, i, c);
    if (c == '+' && plus == Plus::kIsSpace) {
      decoded += ' ';
    } else if (c != '%') {
      decoded += c;
    } else {
      const int high = i + 1 < text.size() ? hex_value(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
      if (high < 0 || low < 0) {
        return bad_argument(fmt::format(
            "{}: byte {} is a '%' that two hexadecimal digits do not follow; write a '%' itself "
            "as %25",
            where, i + 1));
      }
      decoded += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  return decoded;
}

Result<Query> Query::read(std::string_view text, std::span<const std::string_view> known) {
  Query query;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('&'), text.size());
    const std::string_view pair = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) {
      return bad_argument(
          "query: a parameter has no '='; write pairs such as 'limit=per-client', joined by '&'");
    }
    Result<std::string> name =
        percent_decoded("query: a name", pair.substr(0, equals), Plus::kIsSpace);
    if (!name) return std::move(name).error();
    const auto found = std::find(known.begin(), known.end(), *name);
    if (found == known.end()) {
      return bad_argument(fmt::format(
          "query: parameter '{}' is unknown; known are {}; correct the name, or leave it out",
          *name, listed(known)));
    }
    Result<std::string> value =
        percent_decoded(fmt::format("query: '{}'", *name), pair.substr(equals + 1), Plus::kIsSpace);
    if (!value) return std::move(value).error();
    if (query.pairs_.size() == kQueryPairsMax) {
      return bad_argument(fmt::format(
          "query: there are more than {} parameters; write at most so many", kQueryPairsMax));
    }
    query.pairs_.push_back({*found, std::move(*value)});
  }
  return query;
}

Result<std::string_view> Query::one(std::string_view name) const {
  const std::vector<std::string_view> values = all(name);
  if (values.size() == 1) return values[0];
  return bad_argument(
      fmt::format("query: '{}' is given {} times, but it is needed once; write {}=…", name,
                  values.size(), name));
}

bool Query::has(std::string_view name) const noexcept {
  return std::any_of(pairs_.begin(), pairs_.end(),
                     [&](const Pair& pair) { return pair.name == name; });
}

std::vector<std::string_view> Query::all(std::string_view name) const {
  std::vector<std::string_view> values;
  for (const Pair& pair : pairs_) {
    if (pair.name == name) values.push_back(pair.value);
  }
  return values;
}

}  // namespace weir::wire::http
