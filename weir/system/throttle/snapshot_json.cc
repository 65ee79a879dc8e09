// Snapshots as JSON text, both ways.

#include <fmt/format.h>

#include "weir/base/in_quotes.h"
#include "weir/system/throttle/json_scanner.h"
#include "weir/system/throttle/published/numbers.h"
#include "weir/system/throttle/snapshot.h"

namespace weir::system::throttle {
namespace {

constexpr std::size_t kSnapshotBytesMax = std::size_t{1024} * 1024;

// --- writing

std::string json_text(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string text_of(const std::optional<Moment>& at) {
  return at ? fmt::format("[{},{}]", at->seconds, at->nanos) : "null";
}

std::string text_of(const Usage& usage) {
  if (!usage.decided) return fmt::format("[{},null]", usage.used);
  return fmt::format("[{},{},{}]", usage.used, usage.decided->seconds, usage.decided->nanos);
}

std::string text_of(const TierStarts& starts) {
  std::string text = "[";
  for (const std::optional<Moment>& start : starts) {
    if (text.size() > 1) text += ',';
    text += text_of(start);
  }
  return text + ']';
}

void add(std::string& text, std::string_view key, std::string_view value) {
  text += fmt::format("{}\"{}\":{}", text.size() > 1 ? "," : "", key, value);
}

std::string text_of(const ScalarCapacities& capacities) {
  std::string text = "{";
  const auto put = [&](std::string_view name, const std::optional<std::int64_t>& capacity) {
    if (capacity) add(text, name, fmt::format("{}", *capacity));
  };
  put("gas", capacities.gas);
  put("bytes", capacities.bytes);
  put("duration", capacities.duration);
  return text + '}';
}

// --- reading

class SnapshotReader {
 public:
  explicit SnapshotReader(std::string_view text) : json_(text), bytes_(text.size()) {}

  Result<Snapshot> named() {
    Snapshot snapshot;
    const bool good = read([&](std::string_view key) { return named_field(key, snapshot); });
    return good ? Result<Snapshot>(std::move(snapshot)) : Result<Snapshot>(error());
  }

  Result<PositionalSnapshot> positional() {
    PositionalSnapshot snapshot;
    const bool good = read([&](std::string_view key) { return positional_field(key, snapshot); });
    return good ? Result<PositionalSnapshot>(std::move(snapshot))
                : Result<PositionalSnapshot>(error());
  }

 private:
  bool mistake(Place at, std::string_view what) {
    if (message_.empty()) {
      message_ = fmt::format("snapshot:{}:{}: {}", at.line, at.column, what);
    }
    return false;
  }

  Error error() {
    if (message_.empty()) mistake(json_.problem_at(), json_.problem());
    return bad_argument(std::move(message_));
  }

  template <typename Field>
  bool read(Field&& field) {
    if (bytes_ > kSnapshotBytesMax) {
      return mistake({}, fmt::format("it has {} bytes, but at most {} are read; write fewer",
                                     bytes_, kSnapshotBytesMax));
    }
    return read_object(field) && json_.at_end();
  }

  template <typename Field>
  bool read_object(Field&& field) {
    std::string key;
    if (!json_.enter_object()) return false;
    while (json_.next_member(key)) {
      if (!field(key)) return false;
    }
    return json_.ok();
  }

  template <typename Element>
  bool read_list(Element&& element) {
    if (!json_.enter_array()) return false;
    while (json_.next_element()) {
      if (!element()) return false;
    }
    return json_.ok();
  }

  bool unknown_key(std::string_view key) {
    return mistake(json_.member_place(), fmt::format("unknown key {}; delete it", in_quotes(key)));
  }

  bool read_number(std::int64_t least, std::int64_t most, std::int64_t& out) {
    const Place at = json_.place();
    std::string_view text;
    if (!json_.read_number(text)) return false;
    const auto number = parse_whole<std::int64_t>(text);
    if (!number || *number < least || *number > most) {
      return mistake(at, fmt::format("found {}, but it must be a whole number between {} and {}; "
                                     "write one",
                                     in_quotes(text), least, most));
    }
    out = *number;
    return true;
  }

  bool read_moment(Moment& out) {
    std::int64_t nanos = 0;
    if (!read_number(INT64_MIN, INT64_MAX, out.seconds)) return false;
    if (!next("the nanoseconds") || !read_number(0, kNsPerSecond - 1, nanos)) return false;
    out.nanos = static_cast<std::int32_t>(nanos);
    return true;
  }

  bool next(std::string_view what) {
    const Place at = json_.place();
    return json_.next_element() ||
           (json_.ok() && mistake(at, fmt::format("the list is too short; write {}", what)));
  }

  bool close_list() {
    const Place at = json_.place();
    return json_.next_element() ? mistake(at, "the list is too long; delete what follows")
                                : json_.ok();
  }

  bool read_usage(Usage& out) {
    if (!json_.enter_array() || !next("what is used") ||
        !read_number(INT64_MIN, INT64_MAX, out.used) || !next("the seconds, or null")) {
      return false;
    }
    if (json_.kind() == JsonKind::kNull) {
      out.decided.reset();
      return json_.read_null() && close_list();
    }
    Moment decided;
    if (!read_moment(decided)) return false;
    out.decided = decided;
    return close_list();
  }

  bool read_usage(std::optional<Usage>& out) { return read_usage(out.emplace()); }

  bool read_optional_moment(std::optional<Moment>& out) {
    out.reset();
    if (json_.kind() == JsonKind::kNull) return json_.read_null();
    Moment moment;
    if (!json_.enter_array() || !next("the seconds") || !read_moment(moment)) return false;
    out = moment;
    return close_list();
  }

  bool read_starts(TierStarts& out) {
    out.clear();
    return read_list([&] {
      std::optional<Moment>& start = out.emplace_back();
      if (!read_optional_moment(start)) return false;
      // The epoch stands for "not started" in what the published software saves.
      if (start == Moment{}) start.reset();
      return true;
    });
  }

  bool named_bucket(NamedUsage& bucket) {
    const Place at = json_.place();
    bool has_name = false;
    bool has_capacity = false;
    const bool good = read_object([&](std::string_view key) {
      if (key == "name") {
        has_name = true;
        return json_.read_string(bucket.name);
      }
      if (key == "highVolume") return json_.read_bool(bucket.high_volume);
      if (key == "capacity") {
        has_capacity = true;
        return read_number(1, INT64_MAX, bucket.capacity);
      }
      if (key == "used") return read_number(0, INT64_MAX, bucket.usage.used);
      if (key == "decided") return read_optional_moment(bucket.usage.decided);
      return unknown_key(key);
    });
    if (!good) return false;
    return (has_name && has_capacity) ||
           mistake(at, "a bucket lacks its name or its capacity; write both");
  }

  bool read_capacities(ScalarCapacities& out) {
    return read_object([&](std::string_view key) {
      if (key == "gas") return read_number(0, INT64_MAX, out.gas.emplace());
      if (key == "bytes") return read_number(0, INT64_MAX, out.bytes.emplace());
      if (key == "duration") return read_number(0, INT64_MAX, out.duration.emplace());
      return unknown_key(key);
    });
  }

  bool named_field(std::string_view key, Snapshot& out) {
    if (key == "buckets") {
      out.buckets.clear();
      return read_list([&] { return named_bucket(out.buckets.emplace_back()); });
    }
    if (key == "gas") return read_usage(out.gas);
    if (key == "bytes") return read_usage(out.bytes);
    if (key == "duration") return read_usage(out.duration);
    if (key == "capacities") return read_capacities(out.capacities);
    if (key == "genericStarts") return read_starts(out.generic_starts);
    if (key == "gasStarts") return read_starts(out.gas_starts);
    if (key == "clock") {
      std::optional<Moment> clock;
      if (!read_optional_moment(clock)) return false;
      out.clock = clock.value_or(Moment{});
      return true;
    }
    return unknown_key(key);
  }

  bool positional_field(std::string_view key, PositionalSnapshot& out) {
    if (key == "tps") {
      out.buckets.clear();
      return read_list([&] { return read_usage(out.buckets.emplace_back()); });
    }
    if (key == "gas") return read_usage(out.gas);
    if (key == "ops") return read_usage(out.duration);
    if (key == "genStarts") return read_starts(out.generic_starts.emplace());
    if (key == "gasStarts") return read_starts(out.gas_starts.emplace());
    return unknown_key(key);
  }

  JsonScanner json_;
  std::size_t bytes_;
  std::string message_;
};

}  // namespace

std::string to_json(const Snapshot& snapshot) {
  std::string buckets = "[";
  for (const NamedUsage& bucket : snapshot.buckets) {
    if (buckets.size() > 1) buckets += ',';
    buckets += fmt::format(R"({{"name":{},"highVolume":{},"capacity":{},"used":{},"decided":{}}})",
                           json_text(bucket.name), bucket.high_volume, bucket.capacity,
                           bucket.usage.used, text_of(bucket.usage.decided));
  }
  std::string text = "{";
  add(text, "buckets", buckets + "]");
  if (snapshot.gas) add(text, "gas", text_of(*snapshot.gas));
  if (snapshot.bytes) add(text, "bytes", text_of(*snapshot.bytes));
  if (snapshot.duration) add(text, "duration", text_of(*snapshot.duration));
  const std::string capacities = text_of(snapshot.capacities);
  if (capacities != "{}") add(text, "capacities", capacities);
  add(text, "genericStarts", text_of(snapshot.generic_starts));
  add(text, "gasStarts", text_of(snapshot.gas_starts));
  add(text, "clock", text_of(std::optional(snapshot.clock)));
  return text + '}';
}

std::string to_json(const PositionalSnapshot& snapshot) {
  std::string buckets = "[";
  for (const Usage& usage : snapshot.buckets) {
    if (buckets.size() > 1) buckets += ',';
    buckets += text_of(usage);
  }
  std::string text = "{";
  add(text, "tps", buckets + "]");
  if (snapshot.gas) add(text, "gas", text_of(*snapshot.gas));
  if (snapshot.duration) add(text, "ops", text_of(*snapshot.duration));
  if (snapshot.generic_starts) add(text, "genStarts", text_of(*snapshot.generic_starts));
  if (snapshot.gas_starts) add(text, "gasStarts", text_of(*snapshot.gas_starts));
  return text + '}';
}

Result<Snapshot> parse_snapshot(std::string_view text) { return SnapshotReader(text).named(); }

Result<PositionalSnapshot> parse_positional_snapshot(std::string_view text) {
  return SnapshotReader(text).positional();
}

}  // namespace weir::system::throttle
