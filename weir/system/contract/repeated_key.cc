// The parser tells of each key as it comes; a set for each open object knows those it had.

#include "weir/system/contract/repeated_key.h"

#include <boost/json/basic_parser_impl.hpp>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace weir::system::contract {
namespace {

namespace json = boost::json;

// Told of everything by the parser; false stops it.
struct Keys {
  using Text = json::string_view;
  using Problem = json::error_code;
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_array_size = max_object_size;
  static constexpr std::size_t max_key_size = max_object_size;
  static constexpr std::size_t max_string_size = max_object_size;

  bool on_object_begin(Problem&) {
    open.emplace_back();
    return true;
  }
  bool on_object_end(std::size_t, Problem&) {
    open.pop_back();
    return true;
  }
  bool on_key_part(Text part, std::size_t, Problem&) {
    key.append(part.data(), part.size());
    return true;
  }
  bool on_key(Text part, std::size_t, Problem&) {
    key.append(part.data(), part.size());
    const auto [place, is_new] = open.back().insert(std::exchange(key, {}));
    if (!is_new) repeated = *place;
    return is_new;
  }

  bool on_document_begin(Problem&) { return true; }
  bool on_document_end(Problem&) { return true; }
  bool on_array_begin(Problem&) { return true; }
  bool on_array_end(std::size_t, Problem&) { return true; }
  bool on_string_part(Text, std::size_t, Problem&) { return true; }
  bool on_string(Text, std::size_t, Problem&) { return true; }
  bool on_number_part(Text, Problem&) { return true; }
  bool on_int64(std::int64_t, Text, Problem&) { return true; }
  bool on_uint64(std::uint64_t, Text, Problem&) { return true; }
  bool on_double(double, Text, Problem&) { return true; }
  bool on_bool(bool, Problem&) { return true; }
  bool on_null(Problem&) { return true; }
  bool on_comment_part(Text, Problem&) { return true; }
  bool on_comment(Text, Problem&) { return true; }

  std::vector<std::set<std::string>> open;  // keys of the objects around, outermost first
  std::string key;
  std::optional<std::string> repeated;
};

}  // namespace

std::optional<std::string> repeated_key(std::string_view document, std::size_t depth_max) {
  json::parse_options options;
  options.max_depth = depth_max;
  json::basic_parser<Keys> parser(options);
  json::error_code problem;
  parser.write_some(false, document.data(), document.size(), problem);
  return std::move(parser.handler().repeated);
}

}  // namespace weir::system::contract
