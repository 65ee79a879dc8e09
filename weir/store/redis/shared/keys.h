// Shared keys: what shared limits are called in Redis, and what a hold says there.
//
//   weir:1:{name}:b:per-client:acme       a bucket; t ticker, w window, l log, s slots
//   weir:1:{name}:lease:b:per-client:acme what servers hold of it
//   weir:1:{name}:ebb:b:per-client:acme   how much may come back when holds of it end
//   weir:1:{name}:epoch                   since when the data is there
//   weir:1:{name}:hold:00c0ffee00c0ffee-42
//   weir:1:{name}:servers                 who is alive
//
// 1 is the version of the format. The braces are Redis's hash tag: all keys of one name lie
// together, because one script must reach all limits of a request. Limit names and values
// have `%`, `:`, braces, spaces and control characters written as %XX, so that no two keys
// have the same text.
//
// Thread safety: none needed. Every function here is pure.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/decision.h"
#include "weir/engine/ask.h"
#include "weir/engine/shared.h"

namespace weir::store::redis {

constexpr std::size_t kEpochIdBytes = 16;  // of an epoch, before the colon

std::string key_prefix(std::string_view name);
void append_escaped(std::string& out, std::string_view text);
std::string limit_key(std::string_view prefix, const engine::SharedItem& item);
// Of the record of what servers have drawn of a limit ahead.
std::string lease_key(std::string_view prefix, std::string_view limit_key);
// Of what is known of the ebbs of a bucket or ticker.
std::string ebb_key(std::string_view prefix, std::string_view limit_key);
// The lowest `bytes` of a number, big-endian, as scripts read it.
void append_bytes(std::string& out, std::uint64_t value, int bytes);
// The id of a hold, as scripts know it: owner and number, 8 bytes each, big-endian.
std::string hold_bytes(HoldId hold);
std::string hold_key(std::string_view prefix, HoldId hold);

// What a hold was charged at one limit.
struct HoldPart {
  std::string limit;
  std::string unit;
  std::string key;  // in Redis
  std::int64_t amount = 0;
  std::int64_t weight = 1;
  // Of a bucket or ticker the mark of its ebb. -1: not charged, a shadow that would have refused.
  std::int64_t charged_at_us = -1;
};

// The part of a hold's record that is known before it is decided.
std::string hold_record(std::span<const engine::SharedItem> items,
                        std::span<const std::string> keys, const engine::RuleSet& rules);

struct HoldRecord {
  engine::HoldState state = engine::HoldState::kGone;
  std::vector<HoldPart> parts;  // of an active one
};

// The holds of slots, as a script hands them back. Nothing: no whole ones.
std::optional<std::vector<HoldId>> read_slot_holds(std::string_view text);

// Nothing: another program wrote it.
std::optional<HoldRecord> read_record(std::string_view text);

}  // namespace weir::store::redis
