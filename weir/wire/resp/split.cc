#include "weir/wire/resp/split.h"

namespace weir::wire::resp {
namespace {

// As isspace() in the C locale, whatever the locale is.
constexpr bool is_space(char c) noexcept { return c == ' ' || (c >= '\t' && c <= '\r'); }

constexpr bool ends_word(char c) noexcept {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// The value of a hexadecimal digit, or -1.
constexpr int hex_value(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

constexpr char unescaped(char c) noexcept {
  switch (c) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'b':
      return '\b';
    case 'a':
      return '\a';
    default:
      return c;
  }
}

// Appends what the escape at the start of `rest`, a backslash, stands for, and
// returns its length. Requires at least two characters.
std::size_t append_escape(std::string_view rest, std::string& out) {
  if (rest.size() >= 4 && rest[1] == 'x') {
    const int high = hex_value(rest[2]);
    const int low = hex_value(rest[3]);
    if (high >= 0 && low >= 0) {
      out.push_back(static_cast<char>(high * 16 + low));
      return 4;
    }
  }
  out.push_back(unescaped(rest[1]));
  return 2;
}

// Appends what stands between the quote at the start of `rest` and the one that
// closes it, and returns the length of all that, or 0 if it is unbalanced.
std::size_t append_quoted(std::string_view rest, std::string& out) {
  const char quote = rest[0];
  std::size_t at = 1;
  while (at < rest.size()) {
    const bool more = at + 1 < rest.size();
    if (rest[at] == quote) return more && !is_space(rest[at + 1]) ? 0 : at + 1;
    if (rest[at] == '\\' && more && quote == '"') {
      at += append_escape(rest.substr(at), out);
    } else if (rest[at] == '\\' && more && rest[at + 1] == '\'') {
      out.push_back('\'');
      at += 2;
    } else {
      out.push_back(rest[at]);
      ++at;
    }
  }
  return 0;
}

}  // namespace

Split split_line(std::string_view line, std::size_t words_max, std::vector<std::string_view>& words,
                 std::string& unquoted) {
  words.clear();
  unquoted.clear();
  std::size_t at = 0;
  for (;;) {
    while (at < line.size() && is_space(line[at])) ++at;
    if (at == line.size()) return Split::kWhole;
    if (words.size() == words_max) return Split::kTooMany;

    const std::size_t begin = at;
    while (at < line.size() && !ends_word(line[at]) && line[at] != '"' && line[at] != '\'') ++at;
    const std::string_view plain = line.substr(begin, at - begin);
    if (at == line.size() || ends_word(line[at])) {
      words.push_back(plain);
      continue;
    }
    // No word is longer than it is written, so this never moves words unquoted before.
    unquoted.reserve(line.size());
    const std::size_t unquoted_begin = unquoted.size();
    unquoted.append(plain);
    const std::size_t quoted_bytes = append_quoted(line.substr(at), unquoted);
    if (quoted_bytes == 0) return Split::kUnbalanced;
    at += quoted_bytes;
    words.push_back(std::string_view(unquoted).substr(unquoted_begin));
  }
}

}  // namespace weir::wire::resp
