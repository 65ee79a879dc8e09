// One reader walks the scanner for both ways of reading; is_strict_ marks each place where they
// differ. The first mistake ends it.

#include "weir/system/throttle/read.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "weir/base/in_quotes.h"
#include "weir/system/throttle/finding.h"
#include "weir/system/throttle/operations.h"
#include "weir/system/throttle/published/numbers.h"

namespace weir::system::throttle {
namespace {

constexpr std::size_t kNameBytesMax = 128;         // of buckets and operations
constexpr std::int32_t kOpsPerSecMax = 2'147'483;  // beyond it the published product wraps

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// Cut off towards zero, if it is in range.
template <typename Integer>
std::optional<Integer> truncated(std::string_view text) {
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  constexpr auto least = static_cast<double>(std::numeric_limits<Integer>::min());
  constexpr auto most = static_cast<double>(std::numeric_limits<Integer>::max());
  if (!(value >= least && value <= most)) return std::nullopt;
  // The nearest double to 2^63-1 is 2^63, which the published conversion takes for 2^63-1.
  if (value >= most) return std::numeric_limits<Integer>::max();
  return static_cast<Integer>(value);
}

// The keys an object has had so far.
class Seen {
 public:
  // Whether it is new.
  bool add(std::string_view key) {
    if (std::find(keys_.begin(), keys_.end(), key) != keys_.end()) return false;
    keys_.emplace_back(key);
    return true;
  }

 private:
  std::vector<std::string> keys_;  // a handful: unknown ones end the reading
};

class DefinitionsReader {
 public:
  DefinitionsReader(std::string_view text, std::string_view file, Reader reader)
      : json_(text), is_strict_(reader == Reader::kStrict) {
    definitions_.file = file;
  }

  Result<Definitions> read() {
    if (read_document()) return std::move(definitions_);
    if (message_.empty()) report(json_.problem_at(), json_.problem());
    return bad_argument(std::move(message_));
  }

 private:
  bool report(Place at, std::string_view what) {
    if (message_.empty()) {
      message_ = fmt::format("{}:{}:{}: {}: {}", definitions_.file, at.line, at.column,
                             to_string(Finding::kUnparseable), what);
    }
    return false;
  }

  // `bucket 'A': ` before what is wrong inside it.
  bool mistake(Place at, std::string_view what) {
    return report(at, bucket_.empty() ? std::string(what)
                                      : fmt::format("bucket {}: {}", in_quotes(bucket_), what));
  }

  bool wrong_kind(std::string_view what, std::string_view expected, std::string_view advice) {
    const JsonKind kind = json_.kind();
    if (kind == JsonKind::kNothing) {
      return mistake(json_.place(), fmt::format("'{}' has no JSON value; write {}", what, advice));
    }
    return mistake(json_.place(), fmt::format("'{}' is {}, but it must be {}; write {}", what,
                                              to_string(kind), expected, advice));
  }

  bool enter_object(std::string_view what, std::string_view advice) {
    if (json_.kind() != JsonKind::kObject) return wrong_kind(what, "an object", advice);
    return json_.enter_object();
  }

  bool enter_array(std::string_view what, std::string_view advice) {
    if (json_.kind() != JsonKind::kArray) return wrong_kind(what, "a list", advice);
    return json_.enter_array();
  }

  bool accept_key(Seen& seen, std::string_view key) {
    if (seen.add(key) || !is_strict_) return true;
    return mistake(json_.member_place(),
                   fmt::format("'{}' is there twice; delete one of them", key));
  }

  bool unknown_key(std::string_view key, std::string_view known) {
    return mistake(json_.member_place(),
                   fmt::format("unknown key {}; known are {}", in_quotes(key), known));
  }

  bool read_document() {
    if (!enter_object("the document", R"({"buckets": [...]})")) return false;
    std::string key;
    Seen seen;
    while (json_.next_member(key)) {
      if (!accept_key(seen, key)) return false;
      if (key != "buckets") return unknown_key(key, "buckets");
      definitions_.buckets.clear();
      if (!read_buckets()) return false;
    }
    if (!json_.ok()) return false;
    return !is_strict_ || json_.at_end();
  }

  bool read_buckets() {
    if (!enter_array("buckets", "[...]")) return false;
    while (json_.next_element()) {
      if (definitions_.buckets.size() == kBucketsMax) {
        return mistake(json_.place(),
                       fmt::format("there are more than {} buckets; write fewer", kBucketsMax));
      }
      if (!read_bucket(definitions_.buckets.emplace_back())) return false;
      bucket_.clear();
    }
    return json_.ok();
  }

  bool read_bucket(BucketDefinition& bucket) {
    bucket.at = json_.place();
    if (!enter_object("a bucket", R"({"name": ..., "throttleGroups": [...]})")) return false;
    std::string key;
    Seen seen;
    bool has_name = false;
    while (json_.next_member(key)) {
      if (!accept_key(seen, key) || !read_bucket_field(key, bucket)) return false;
      has_name |= key == "name";
    }
    if (!json_.ok()) return false;
    return has_name || mistake(bucket.at, "the bucket has no name; write \"name\": \"...\"");
  }

  bool read_bucket_field(std::string_view key, BucketDefinition& bucket) {
    if (key == "name") {
      if (!read_name("name", bucket.name)) return false;
      bucket_ = bucket.name;
      return true;
    }
    if (key == "burstPeriod") return read_integer(key, kMax32, bucket.burst_period_s);
    if (key == "burstPeriodMs") return read_integer(key, kMax, bucket.burst_period_ms);
    if (key == "highVolume") return read_flag(key, bucket.high_volume);
    if (key == "throttleGroups") return read_groups(bucket.groups);
    return unknown_key(key, "name, burstPeriod, burstPeriodMs, throttleGroups, highVolume");
  }

  bool read_groups(std::vector<Group>& groups) {
    groups.clear();
    if (!enter_array("throttleGroups", "[...]")) return false;
    while (json_.next_element()) {
      if (!read_group(groups.emplace_back())) return false;
    }
    return json_.ok();
  }

  bool read_group(Group& group) {
    group.at = json_.place();
    if (!enter_object("a group", R"({"opsPerSec": ..., "operations": [...]})")) return false;
    std::string key;
    Seen seen;
    while (json_.next_member(key)) {
      if (!accept_key(seen, key) || !read_group_field(key, group)) return false;
    }
    return json_.ok();
  }

  bool read_group_field(std::string_view key, Group& group) {
    if (key == "opsPerSec") return read_integer(key, kOpsPerSecMax, group.ops_per_sec);
    if (key == "milliOpsPerSec") return read_integer(key, kMax, group.milli_ops_per_sec);
    if (key == "operations") return read_operations(group.operations);
    return unknown_key(key, "opsPerSec, milliOpsPerSec, operations");
  }

  bool read_operations(std::vector<ListedOperation>& operations) {
    operations.clear();
    if (!enter_array("operations", "[...]")) return false;
    while (json_.next_element()) {
      ListedOperation& operation = operations.emplace_back();
      operation.at = json_.place();
      if (json_.kind() != JsonKind::kString) {
        return wrong_kind("an operation", "a text", "its name in double quotes");
      }
      if (!read_name("an operation", operation.name)) return false;
      if (!is_strict_ && network_operation(operation.name) == kNoOperation) {
        return mistake(operation.at, fmt::format("operation {} is unknown; write one that the "
                                                 "network has, such as CryptoTransfer",
                                                 in_quotes(operation.name)));
      }
    }
    return json_.ok();
  }

  // The published reader takes a number or a truth value for its text.
  bool read_name(std::string_view what, std::string& name) {
    const Place at = json_.place();
    const JsonKind kind = json_.kind();
    if (!is_strict_ && kind == JsonKind::kNumber) {
      std::string_view number;
      if (!json_.read_number(number)) return false;
      name = number;
      return true;
    }
    if (!is_strict_ && kind == JsonKind::kBool) {
      bool flag = false;
      if (!json_.read_bool(flag)) return false;
      name = flag ? "true" : "false";
      return true;
    }
    if (kind != JsonKind::kString) return wrong_kind(what, "a text", "it in double quotes");
    if (!json_.read_string(name)) return false;
    if (!is_strict_ || (!name.empty() && name.size() <= kNameBytesMax)) return true;
    return mistake(at, fmt::format("'{}' is {} bytes long, but it must have 1 to {}; write another",
                                   what, name.size(), kNameBytesMax));
  }

  bool read_flag(std::string_view what, bool& flag) {
    if (json_.kind() == JsonKind::kBool) return json_.read_bool(flag);
    if (is_strict_) return wrong_kind(what, "true or false", "true or false without quotes");
    std::int64_t number = 0;
    std::string text;
    switch (json_.kind()) {
      case JsonKind::kNull:
        flag = false;
        return json_.read_null();
      case JsonKind::kNumber:
        if (!read_integer(what, kMax, number)) return false;
        flag = number != 0;
        return true;
      case JsonKind::kString:
        if (!json_.read_string(text)) return false;
        flag = text == "true" || text == "True" || text == "TRUE";
        if (flag || text.empty() || text == "false" || text == "False" || text == "FALSE") {
          return true;
        }
        return mistake(json_.place(), fmt::format("'{}' is neither true nor false", what));
      default:
        return wrong_kind(what, "true or false", "true or false without quotes");
    }
  }

  // `most` binds the strict reader; the published one takes what the type can hold.
  template <typename Integer>
  bool read_integer(std::string_view what, std::int64_t most, Integer& out) {
    const Place at = json_.place();
    switch (json_.kind()) {
      case JsonKind::kNumber:
        return read_number(what, at, most, out);
      case JsonKind::kString:
        if (!is_strict_) return read_quoted_number(what, at, out);
        break;
      case JsonKind::kNull:
        if (is_strict_) break;
        out = 0;
        return json_.read_null();
      default:
        break;
    }
    return wrong_kind(what, "a whole number", "it without quotes");
  }

  template <typename Integer>
  bool read_number(std::string_view what, Place at, std::int64_t most, Integer& out) {
    std::string_view text;
    if (!json_.read_number(text)) return false;
    const bool is_fraction = text.find_first_of(".eE") != std::string_view::npos;
    if (is_strict_ && is_fraction) {
      return mistake(at, fmt::format("'{}' is {}, but it must be a whole number; write one, or use "
                                     "milliOpsPerSec or burstPeriodMs for thousandths",
                                     what, text));
    }
    const std::optional<Integer> value =
        is_fraction ? truncated<Integer>(text) : parse_whole<Integer>(text);
    if (!value || (is_strict_ && (*value < 0 || *value > most))) {
      return mistake(at, fmt::format("'{}' is {}, but it must be between {} and {}; write a number "
                                     "in that range",
                                     what, text.substr(0, kQuotedBytesMax),
                                     is_strict_ ? 0 : std::numeric_limits<Integer>::min(),
                                     is_strict_ ? most : std::numeric_limits<Integer>::max()));
    }
    out = *value;
    return true;
  }

  template <typename Integer>
  bool read_quoted_number(std::string_view what, Place at, Integer& out) {
    std::string text;
    if (!json_.read_string(text)) return false;
    const std::string_view number = trimmed(text);
    const std::optional<Integer> value =
        number.empty() ? std::optional<Integer>(0) : parse_whole<Integer>(number);
    if (!value) {
      return mistake(at, fmt::format("'{}' is {}, which is no whole number; write one", what,
                                     in_quotes(text)));
    }
    out = *value;
    return true;
  }

  JsonScanner json_;
  bool is_strict_;
  Definitions definitions_;
  std::string bucket_;  // the one being read
  std::string message_;
};

}  // namespace

Result<Definitions> read_definitions(std::string_view text, std::string_view file, Reader reader) {
  if (text.size() > kDefinitionsBytesMax) {
    return bad_argument(
        fmt::format("{}:1:1: {}: the file has {} bytes, but at most {} are read; "
                    "write fewer buckets, or split the operations differently",
                    file, to_string(Finding::kUnparseable), text.size(), kDefinitionsBytesMax));
  }
  return DefinitionsReader(text, file, reader).read();
}

}  // namespace weir::system::throttle
