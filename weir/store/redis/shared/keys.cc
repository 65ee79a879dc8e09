#include "weir/store/redis/shared/keys.h"

#include <array>

#include "weir/base/hold_text.h"
#include "weir/store/redis/shared/meter.h"

namespace weir::store::redis {
namespace {

bool is_plain(char c) {
  return static_cast<unsigned char>(c) > 0x20 && c != 0x7f && c != '%' && c != ':' && c != '{' &&
         c != '}';
}

void append_text(std::string& out, std::string_view text) {
  append_bytes(out, text.size(), 2);
  out += text;
}

// Takes what append_bytes() and append_text() wrote off the front; too short a text is broken.
class Taker {
 public:
  explicit Taker(std::string_view text) : left_(text) {}

  std::uint64_t number(std::size_t bytes) {
    std::uint64_t value = 0;
    for (const char c : take(bytes)) value = value << 8 | static_cast<unsigned char>(c);
    return value;
  }
  std::int64_t from_double() { return read_double(take(8)); }
  std::string text() { return std::string(take(number(2))); }
  bool is_whole() const { return !broken_ && left_.empty(); }
  bool is_broken() const { return broken_; }

 private:
  std::string_view take(std::size_t bytes) {
    broken_ |= bytes > left_.size();
    if (broken_) return {};
    const std::string_view taken = left_.substr(0, bytes);
    left_.remove_prefix(bytes);
    return taken;
  }

  std::string_view left_;
  bool broken_ = false;
};

}  // namespace

std::string key_prefix(std::string_view name) {
  std::string prefix = "weir:1:{";
  append_escaped(prefix, name);
  prefix += "}:";
  return prefix;
}

void append_escaped(std::string& out, std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  for (const char c : text) {
    if (is_plain(c)) {
      out += c;
      continue;
    }
    out += '%';
    out += kDigits[static_cast<unsigned char>(c) >> 4];
    out += kDigits[static_cast<unsigned char>(c) & 15];
  }
}

std::string limit_key(std::string_view prefix, const engine::SharedItem& item) {
  std::string key(prefix);
  key += kind_of(item.rule->shape);
  key += ':';
  append_escaped(key, item.rule->name);
  for (const std::string_view value : item.key) {
    key += ':';
    append_escaped(key, value);
  }
  return key;
}

namespace {

// Of what belongs to a limit's key.
std::string key_beside(std::string_view prefix, std::string_view what, std::string_view limit_key) {
  std::string key(prefix);
  key += what;
  key += limit_key.substr(prefix.size());
  return key;
}

}  // namespace

std::string lease_key(std::string_view prefix, std::string_view limit_key) {
  return key_beside(prefix, "lease:", limit_key);
}

std::string ebb_key(std::string_view prefix, std::string_view limit_key) {
  return key_beside(prefix, "ebb:", limit_key);
}

void append_bytes(std::string& out, std::uint64_t value, int bytes) {
  while (bytes-- > 0) out += static_cast<char>(value >> (8 * bytes) & 0xff);
}

std::string hold_bytes(HoldId hold) {
  std::string bytes;
  append_bytes(bytes, hold.owner, 8);
  append_bytes(bytes, hold.number, 8);
  return bytes;
}

std::string hold_key(std::string_view prefix, HoldId hold) {
  std::string key(prefix);
  key += "hold:";
  hold.is_shared = false;
  key += hold_text(hold);
  return key;
}

std::string hold_record(std::span<const engine::SharedItem> items,
                        std::span<const std::string> keys, const engine::RuleSet& rules) {
  std::string out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    append_text(out, items[i].rule->name);
    append_text(out, rules.units()[items[i].rule->unit]);
    append_text(out, keys[i]);
    append_bytes(out, static_cast<std::uint64_t>(items[i].cost), 8);
    append_bytes(out, static_cast<std::uint64_t>(items[i].weight), 8);
  }
  return out;
}

std::optional<std::vector<HoldId>> read_slot_holds(std::string_view text) {
  constexpr std::size_t kBytes = 30;  // of one: its end and its units, 7 bytes each, and its id
  if (text.size() % kBytes != 0) return std::nullopt;
  std::vector<HoldId> holds;
  for (Taker taker(text); holds.size() < text.size() / kBytes;) {
    taker.number(7);
    taker.number(7);
    const std::uint64_t owner = taker.number(8);
    holds.push_back({owner, taker.number(8)});
  }
  return holds;
}

std::optional<HoldRecord> read_record(std::string_view text) {
  if (text.empty()) return std::nullopt;
  HoldRecord record;
  if (text[0] == 's') record.state = engine::HoldState::kSettled;
  if (text[0] == 'c') record.state = engine::HoldState::kCancelled;
  if (text[0] == 'a') record.state = engine::HoldState::kActive;
  if (record.state == engine::HoldState::kGone) return std::nullopt;
  Taker taker(text.substr(1));
  taker.number(8);  // when it ends
  if (record.state != engine::HoldState::kActive) {
    return taker.is_whole() ? std::optional(std::move(record)) : std::nullopt;
  }
  record.parts.resize(taker.number(1));
  for (HoldPart& part : record.parts) part.charged_at_us = taker.from_double();
  for (HoldPart& part : record.parts) {
    part.limit = taker.text();
    part.unit = taker.text();
    part.key = taker.text();
    part.amount = static_cast<std::int64_t>(taker.number(8));
    part.weight = static_cast<std::int64_t>(taker.number(8));
    if (part.amount < 0 || part.amount > kTermMax || part.weight < 0) return std::nullopt;
  }
  if (!taker.is_whole()) return std::nullopt;
  return record;
}

}  // namespace weir::store::redis
