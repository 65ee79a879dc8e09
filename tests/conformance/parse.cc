// Boost.JSON 1.81 does not round decimals correctly in the last bit, and recorded doubles
// must match bit for bit: this parser is Boost's with the numbers read by the standard
// library.

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/error.hpp>
#include <boost/json/value_stack.hpp>
#include <charconv>
#include <limits>

#include "tests/conformance/runner.h"

namespace weir::conformance {
namespace {

namespace json = boost::json;

struct Handler {
  static constexpr std::size_t max_object_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_array_size = max_object_size;
  static constexpr std::size_t max_key_size = max_object_size;
  static constexpr std::size_t max_string_size = max_object_size;

  using Code = json::error_code;
  using Text = json::string_view;

  bool on_document_begin(Code&) { return true; }
  bool on_document_end(Code&) { return true; }
  bool on_object_begin(Code&) { return true; }
  bool on_object_end(std::size_t size, Code&) { return stack.push_object(size), true; }
  bool on_array_begin(Code&) { return true; }
  bool on_array_end(std::size_t size, Code&) { return stack.push_array(size), true; }
  bool on_key_part(Text part, std::size_t, Code&) { return stack.push_chars(part), true; }
  bool on_key(Text part, std::size_t, Code&) { return stack.push_key(part), true; }
  bool on_string_part(Text part, std::size_t, Code&) { return stack.push_chars(part), true; }
  bool on_string(Text part, std::size_t, Code&) { return stack.push_string(part), true; }
  bool on_number_part(Text, Code&) { return true; }
  bool on_int64(std::int64_t number, Text, Code&) { return stack.push_int64(number), true; }
  bool on_uint64(std::uint64_t number, Text, Code&) { return stack.push_uint64(number), true; }
  bool on_double(double, Text text, Code& problem) {
    double exact = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), exact);
    if (failed != std::errc{} || end != text.data() + text.size()) {
      problem = json::error::syntax;
      return false;
    }
    stack.push_double(exact);
    return true;
  }
  bool on_bool(bool flag, Code&) { return stack.push_bool(flag), true; }
  bool on_null(Code&) { return stack.push_null(), true; }
  bool on_comment_part(Text, Code&) { return true; }
  bool on_comment(Text, Code&) { return true; }

  json::value_stack stack{};
};

}  // namespace

json::value parse_line(const std::string& line) {
  json::basic_parser<Handler> parser(json::parse_options{});
  parser.handler().stack.reset();
  json::error_code problem;
  const std::size_t read = parser.write_some(false, line.data(), line.size(), problem);
  if (!problem && read < line.size()) problem = json::error::extra_data;
  if (problem) throw boost::system::system_error(problem);
  return parser.handler().stack.release();
}

}  // namespace weir::conformance
