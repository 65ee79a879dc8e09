// One pass over the text, by place. Newlines are counted where space is skipped, so a place is
// known without looking back.

#include "weir/system/throttle/json_scanner.h"

#include <fmt/format.h>

#include <algorithm>

#include "weir/base/digit.h"
#include "weir/base/in_quotes.h"
#include "weir/base/utf8.h"

namespace weir::system::throttle {
namespace {

constexpr std::size_t kShownBytesMax = 24;

}  // namespace

std::string_view to_string(JsonKind kind) noexcept {
  switch (kind) {
    case JsonKind::kObject:
      return "an object";
    case JsonKind::kArray:
      return "a list";
    case JsonKind::kString:
      return "a text";
    case JsonKind::kNumber:
      return "a number";
    case JsonKind::kBool:
      return "true or false";
    case JsonKind::kNull:
      return "null";
    case JsonKind::kNothing:
      return "no JSON value";
  }
  return "unknown";
}

void JsonScanner::skip_space() noexcept {
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == '\n') {
      line_ += 1;
      line_start_ = at_ + 1;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      return;
    }
  }
}

// Every newline before `offset` has been skipped as space: a string cannot hold one.
Place JsonScanner::place_of(std::size_t offset) const noexcept {
  return {static_cast<std::uint32_t>(line_), static_cast<std::uint32_t>(offset - line_start_ + 1)};
}

bool JsonScanner::fail(std::string problem, std::size_t offset) {
  if (!ok()) return false;
  problem_ = std::move(problem);
  problem_at_ = place_of(std::max(offset, line_start_));
  return false;
}

JsonKind JsonScanner::kind() noexcept {
  skip_space();
  if (at_ == text_.size()) return JsonKind::kNothing;
  switch (const char c = text_[at_]) {
    case '{':
      return JsonKind::kObject;
    case '[':
      return JsonKind::kArray;
    case '"':
      return JsonKind::kString;
    case 't':
    case 'f':
      return JsonKind::kBool;
    case 'n':
      return JsonKind::kNull;
    default:
      return c == '-' || is_digit(c) ? JsonKind::kNumber : JsonKind::kNothing;
  }
}

Place JsonScanner::place() noexcept {
  skip_space();
  return place_of(at_);
}

std::string_view JsonScanner::shown() noexcept {
  skip_space();
  std::size_t end = at_;
  if (end < text_.size() && text_[end] == '"') {
    end = std::min(text_.find('"', end + 1), text_.size() - 1) + 1;
  } else {
    end = std::min(text_.find_first_of(",]} \t\r\n", end + 1), text_.size());
  }
  return text_.substr(at_, std::min(end - at_, kShownBytesMax));
}

bool JsonScanner::expect(char c, std::string_view what) {
  if (!ok()) return false;
  skip_space();
  if (at_ < text_.size() && text_[at_] == c) {
    at_ += 1;
    return true;
  }
  if (at_ == text_.size()) {
    return fail(fmt::format("the text ends here, but {} is missing; write it", what), at_);
  }
  return fail(fmt::format("found {}, but expected {}; write it", in_quotes(shown()), what), at_);
}

bool JsonScanner::enter_object() {
  is_first_ = true;
  return expect('{', "'{'");
}

bool JsonScanner::enter_array() {
  is_first_ = true;
  return expect('[', "'['");
}

bool JsonScanner::next_member(std::string& key) {
  if (!ok()) return false;
  skip_space();
  if (at_ < text_.size() && text_[at_] == '}') {
    at_ += 1;
    is_first_ = false;
    return false;
  }
  if (!is_first_ && !expect(',', "',' or '}'")) return false;
  is_first_ = false;
  member_place_ = place();
  return read_string(key) && expect(':', "':'");
}

bool JsonScanner::next_element() {
  if (!ok()) return false;
  skip_space();
  if (at_ < text_.size() && text_[at_] == ']') {
    at_ += 1;
    is_first_ = false;
    return false;
  }
  if (!is_first_ && !expect(',', "',' or ']'")) return false;
  is_first_ = false;
  return true;
}

bool JsonScanner::read_code_unit(std::uint32_t& out) {
  if (text_.size() - at_ < 4) return fail("\\u needs four hexadecimal digits", at_);
  out = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    const char c = text_[at_];
    const char lower = static_cast<char>(c | 0x20);
    const bool is_letter = lower >= 'a' && lower <= 'f';
    if (!is_digit(c) && !is_letter) return fail("\\u needs four hexadecimal digits", at_);
    out = out * 16 + static_cast<std::uint32_t>(is_letter ? lower - 'a' + 10 : c - '0');
  }
  return true;
}

bool JsonScanner::read_escape(std::string& out) {
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  const std::size_t start = at_ - 1;
  if (at_ == text_.size()) return fail("the text ends inside a string; close it", start);
  const char c = text_[at_++];
  if (const std::size_t known = kLetters.find(c); known != std::string_view::npos) {
    out += kMeanings[known];
    return true;
  }
  std::uint32_t code = 0;
  if (c != 'u') return fail("unknown escape in a string; write \\\\ for a backslash", start);
  if (!read_code_unit(code)) return false;
  if (code >= 0xd800 && code < 0xe000) {
    std::uint32_t low = 0;
    const bool is_pair = code < 0xdc00 && text_.substr(at_).starts_with("\\u");
    if (is_pair) at_ += 2;
    if (!is_pair || !read_code_unit(low) || low < 0xdc00 || low >= 0xe000) {
      return fail("half a surrogate pair in a string; write both halves", start);
    }
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  append_utf8(out, code);
  return true;
}

bool JsonScanner::read_character(std::string& out) {
  const Utf8Sequence sequence = utf8_at(text_.substr(at_));
  if (!sequence.valid) return fail("a string is not UTF-8; save the file as UTF-8", at_);
  out.append(text_, at_, sequence.size);
  at_ += sequence.size;
  return true;
}

bool JsonScanner::read_string(std::string& out) {
  if (!expect('"', "a text in double quotes")) return false;
  const std::size_t start = at_ - 1;
  out.clear();
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '"') {
      at_ += 1;
      return true;
    }
    if (static_cast<unsigned char>(c) < 0x20) {
      return fail("a control character in a string; write an escape such as \\n", at_);
    }
    if (c == '\\') {
      at_ += 1;
      if (!read_escape(out)) return false;
    } else if (!read_character(out)) {
      return false;
    }
  }
  return fail("the text ends inside a string; close it", start);
}

bool JsonScanner::read_number(std::string_view& out) {
  if (!ok()) return false;
  skip_space();
  const std::size_t start = at_;
  const auto peek = [&] { return at_ < text_.size() ? text_[at_] : '\0'; };
  const auto digits = [&] {
    const std::size_t before = at_;
    while (is_digit(peek())) at_ += 1;
    return at_ > before;
  };
  if (peek() == '-') at_ += 1;
  const bool starts_with_zero = peek() == '0';
  const std::size_t first = at_;
  bool good = digits() && !(starts_with_zero && at_ - first > 1);
  if (good && peek() == '.') {
    at_ += 1;
    good = digits();
  }
  if (good && (peek() == 'e' || peek() == 'E')) {
    at_ += 1;
    if (peek() == '+' || peek() == '-') at_ += 1;
    good = digits();
  }
  out = text_.substr(start, at_ - start);
  return good || fail("this is no JSON number; write one such as 10 or 0.5", start);
}

bool JsonScanner::read_word(std::string_view word) {
  if (!ok()) return false;
  skip_space();
  if (!text_.substr(at_).starts_with(word)) {
    return fail(fmt::format("found {}, which is no JSON value; write {}", in_quotes(shown()), word),
                at_);
  }
  at_ += word.size();
  return true;
}

bool JsonScanner::read_bool(bool& out) {
  skip_space();
  out = at_ < text_.size() && text_[at_] == 't';
  return read_word(out ? "true" : "false");
}

bool JsonScanner::read_null() { return read_word("null"); }

bool JsonScanner::at_end() {
  if (!ok()) return false;
  skip_space();
  if (at_ == text_.size()) return true;
  return fail(fmt::format("found {} after the end of the document; delete it", in_quotes(shown())),
              at_);
}

}  // namespace weir::system::throttle
