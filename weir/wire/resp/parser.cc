#include "weir/wire/resp/parser.h"

#include <algorithm>
#include <cstring>

#include "weir/wire/resp/split.h"

namespace weir::wire::resp {
namespace {

// More digits than any bound has, and few enough that neither the number nor its
// sum with a position overflows.
constexpr std::ptrdiff_t kLengthDigitsMax = 18;

enum class Line : std::uint8_t { kWhole, kCut, kBad };

struct Length {
  Line line;
  std::int64_t value;
  const char* after;  // the line
};

// A decimal number and CRLF at `at`. No sign but '-', no leading zero, no
// blanks: a wrong byte is an error at once, so that no line is ever long.
inline Length read_length(const char* at, const char* end) noexcept {
  const bool negative = at != end && *at == '-';
  if (negative) ++at;
  const char* const digits = at;
  std::int64_t value = 0;
  while (at != end) {
    const unsigned digit = static_cast<unsigned char>(*at) - unsigned{'0'};
    if (digit > 9) break;
    if (at - digits == kLengthDigitsMax) return {Line::kBad, 0, at};
    value = value * 10 + static_cast<std::int64_t>(digit);
    ++at;
  }
  const std::ptrdiff_t count = at - digits;
  if (count > 0 && *digits == '0' && (count > 1 || negative)) return {Line::kBad, 0, at};
  if (at == end) return {Line::kCut, 0, at};
  if (*at != '\r' || count == 0) return {Line::kBad, 0, at};
  if (at + 1 == end) return {Line::kCut, 0, at};
  if (at[1] != '\n') return {Line::kBad, 0, at};
  return {Line::kWhole, negative ? -value : value, at + 2};
}

}  // namespace

void Parser::reset() noexcept {
  at_ = 0;
  missing_words_ = 0;
}

Parsed Parser::next(std::string_view bytes) {
  std::size_t skipped = 0;
  while (skipped < bytes.size()) {
    const std::string_view request = bytes.substr(skipped);
    const Step step = read_request(request);
    if (step == Step::kCut) {
      remember_words(request);
      break;
    }
    const std::size_t consumed = skipped + at_;
    reset();
    if (step == Step::kBad) return {ParsedKind::kError, 0, {}, error_};
    if (step == Step::kWhole) {
      return {ParsedKind::kCommand, consumed, words_, {}, request.front() != '*'};
    }
    skipped = consumed;
  }
  return {ParsedKind::kNeedMore, skipped, {}, {}};
}

Parser::Step Parser::read_request(std::string_view request) {
  if (missing_words_ > 0) {
    find_words(request);
    return read_array(request);
  }
  if (request.front() != '*') return read_inline(request);

  const char* const begin = request.data();
  const Length count = read_length(begin + 1, begin + request.size());
  if (count.line == Line::kCut) return Step::kCut;
  if (count.line == Line::kBad || count.value > static_cast<std::int64_t>(bounds_.words_max)) {
    return fail("Protocol error: invalid multibulk length");
  }
  at_ = static_cast<std::size_t>(count.after - begin);
  if (count.value <= 0) return Step::kEmpty;
  missing_words_ = static_cast<std::size_t>(count.value);
  words_.clear();
  begins_.clear();
  return read_array(request);
}

Parser::Step Parser::read_array(std::string_view request) {
  const char* const begin = request.data();
  const char* const end = begin + request.size();
  const char* at = begin + at_;
  // A word that is cut is read again from its length on, which is a short line.
  while (missing_words_ > 0) {
    if (at == end) break;
    if (*at != '$') {
      error_ = "Protocol error: expected '$', got '";
      error_.append(1, *at).append(1, '\'');
      return Step::kBad;
    }
    const Length length = read_length(at + 1, end);
    if (length.line == Line::kCut) break;
    if (length.line == Line::kBad || length.value < 0 ||
        length.value > static_cast<std::int64_t>(bounds_.bulk_bytes_max)) {
      return fail("Protocol error: invalid bulk length");
    }
    const auto bytes = static_cast<std::size_t>(length.value);
    const auto word_begin = static_cast<std::size_t>(length.after - begin);
    if (word_begin + bytes + 2 > bounds_.request_bytes_max) {
      return fail("Protocol error: too big multibulk request");
    }
    const char* const word_end = length.after + bytes;
    const std::size_t had = request.size() - word_begin;
    if (had > bytes && *word_end != '\r') return fail("Protocol error: invalid bulk length");
    if (had < bytes + 2) break;
    if (word_end[1] != '\n') return fail("Protocol error: invalid bulk length");
    words_.emplace_back(length.after, bytes);
    --missing_words_;
    at = word_end + 2;
  }
  at_ = static_cast<std::size_t>(at - begin);
  return missing_words_ == 0 ? Step::kWhole : Step::kCut;
}

Parser::Step Parser::read_inline(std::string_view request) {
  const std::size_t searched = std::min(request.size(), bounds_.inline_bytes_max + 1);
  const void* const found =
      std::memchr(request.data() + at_, '\n', searched > at_ ? searched - at_ : 0);
  if (found == nullptr) {
    if (request.size() > bounds_.inline_bytes_max) {
      return fail("Protocol error: too big inline request");
    }
    at_ = request.size();
    return Step::kCut;
  }
  const auto line_bytes =
      static_cast<std::size_t>(static_cast<const char*>(found) - request.data());
  at_ = line_bytes + 1;
  // The CR before the LF is white space like any other.
  switch (split_line(request.substr(0, line_bytes), bounds_.words_max, words_, unquoted_)) {
    case Split::kUnbalanced:
      return fail("Protocol error: unbalanced quotes in request");
    case Split::kTooMany:
      return fail("Protocol error: too big inline request");
    case Split::kWhole:
      break;
  }
  return words_.empty() ? Step::kEmpty : Step::kWhole;
}

Parser::Step Parser::fail(std::string_view error) {
  error_ = error;
  return Step::kBad;
}

void Parser::remember_words(std::string_view request) {
  if (missing_words_ == 0) return;
  for (std::size_t i = begins_.size(); i < words_.size(); ++i) {
    begins_.push_back(static_cast<std::size_t>(words_[i].data() - request.data()));
  }
  bytes_before_ = request.data();
}

void Parser::find_words(std::string_view request) {
  if (request.data() == bytes_before_) return;
  for (std::size_t i = 0; i < words_.size(); ++i) {
    words_[i] = request.substr(begins_[i], words_[i].size());
  }
}

}  // namespace weir::wire::resp
