#include "weir/engine/internal/rules_in_force.h"

#include <fmt/format.h>

#include <algorithm>

namespace weir::engine {

Error share_full(std::string_view limit, const SettingNames& names) {
  return {ErrorCode::kExhausted,
          fmt::format("limit '{}': its share of the table is full, so a new key is refused; raise "
                      "'keys' of the limit or {}, or let {} be 'evict'",
                      limit, names.keys, names.when_full)};
}

std::shared_ptr<GateSeat> RulesInForce::seat_of(const std::shared_ptr<Gate>& gate) {
  std::erase_if(seats_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<GateSeat>& known = seats_[gate.get()];
  if (std::shared_ptr<GateSeat> seat = known.lock()) return seat;
  auto seat = std::make_shared<GateSeat>();
  seat->gate = gate;
  seat->order = next_seat_order_++;
  known = seat;
  return seat;
}

ActiveLimit RulesInForce::active_limit(const Rule& rule, const RuleSet& rules) {
  ActiveLimit limit;
  limit.rule = &rule;
  limit.attributes = rule.attributes;
  limit.any_of = rule.any_of;
  limit.name = ground_.rows.intern(rule.name);
  limit.unit = ground_.rows.intern(rules.units()[rule.unit]);
  limit.unit_place = static_cast<std::uint8_t>(rule.unit);
  limit.shape = rule.shape;
  limit.capacity = capacity(rule.shape);
  limit.seed = seed_for(ground_.secret, rule.name);
  limit.is_simple = rule.is_simple;
  limit.shadow = rule.shadow;
  limit.tally = counting_.tally_of(rule.name);
  if (rule.gate != nullptr) {
    limit.owned_seat = seat_of(rule.gate);
    limit.seat = limit.owned_seat.get();
    const std::scoped_lock seat_lock(limit.seat->seat_lock);
    limit.seat->print = print_for(limit.seed, Print());  // it has no key
  } else {
    limit.is_slots = is_slots(rule.shape);
    limit.is_log = is_log(rule.shape);
    limit.is_shared = rule.shared.has_value();
    limit.is_leased = limit.is_shared && rule.shared->lease.has_value();
    limit.is_direct = !limit.is_slots && !rule.shadow && !limit.is_shared;
    limit.row = ground_.rows.add(rule.name, rule.shape);
  }
  return limit;
}

Status RulesInForce::reserve(const RuleSet& rules, Instant now) {
  const std::scoped_lock lock(lock_);
  return locked_reserve(rules, now);
}

Status RulesInForce::locked_reserve(const RuleSet& rule_set, Instant now) {
  Rows& rows = ground_.rows;
  std::size_t keys = ground_.options.ad_hoc_keys_max;
  for (const Rule& rule : rule_set.rules()) keys += static_cast<std::size_t>(rule.keys);
  if (keys > ground_.options.keys_max) {
    return bad_argument(
        fmt::format("limits: their 'keys' and {} add up to {}, but the table has {}; write fewer, "
                    "or raise {}",
                    ground_.options.names.ad_hoc_keys, keys, ground_.options.keys_max,
                    ground_.options.names.keys));
  }
  if (active_ != nullptr && rows.size() > kRowsMax / 2) compact_rows(*active_, now);
  std::size_t missing = 0;
  for (const Rule& rule : rule_set.rules()) {
    if (rule.gate != nullptr || rows.find(rule.name, rule.shape) != 0) continue;
    if (++missing > rows.left()) {
      return Error{ErrorCode::kExhausted,
                   fmt::format("limit '{}': there are too many limits and overrides in different "
                               "shapes; use fewer",
                               rule.name)};
    }
  }
  reserved_.clear();
  for (const Rule& rule : rule_set.rules()) {
    if (rule.gate == nullptr) reserved_.push_back(rows.add(rule.name, rule.shape));
  }
  return Done{};
}

Status RulesInForce::activate(std::shared_ptr<const RuleSet> rule_set, Instant now) {
  Rows& rows = ground_.rows;
  const std::scoped_lock lock(lock_);
  if (Status status = locked_reserve(*rule_set, now); !status) return status;

  // From here on nothing can fail.
  auto next = std::make_shared<Active>();
  next->names = ground_.options.names;
  next->generation = generation_.load(std::memory_order_relaxed) + 1;
  next->rules = std::move(rule_set);
  next->secret = ground_.secret;
  for (const Rule& rule : next->rules->rules()) {
    next->limits.push_back(active_limit(rule, *next->rules));
  }
  for (const ActiveLimit& old : active_ ? active_->limits : std::vector<ActiveLimit>{}) {
    const Rule* kept = next->rules->find(old.name);
    // A gate has no meter here, whatever its name was before.
    const bool is_gone = kept == nullptr || (kept->gate != nullptr && old.seat == nullptr);
    if (is_gone) rows.retire(old.name);
    // Parameters of their own end with the limit, or with its kind of meter.
    if (is_gone || kept->shape.index() != old.shape.index()) end_overrides(old.name);
  }
  share_table(*next);
  const std::shared_ptr<const Active> before = std::exchange(active_, std::move(next));
  reserved_.clear();
  generation_.store(active_->generation, std::memory_order_release);
  if (before != nullptr) keep_heavy(*before);
  return Done{};
}

// A limit that says how many keys it may have gets as many, one without a key gets one, and the
// others get equal parts of the rest. Buckets of ad_hoc.h count as one limit, which gets an eighth
// at most where there are others: most engines have none. Limits that are gone keep what they
// had, for decisions that have not noticed yet.
void RulesInForce::share_table(const Active& next) {
  const EngineOptions& options = ground_.options;
  const auto has_keys = [](const ActiveLimit& limit) {
    return limit.seat == nullptr && !limit.is_shared;
  };
  const auto is_sharing = [&](const ActiveLimit& limit) {
    return has_keys(limit) && !limit.rule->per.empty() && limit.rule->keys == 0;
  };
  std::size_t left = options.keys_max;
  std::size_t sharing = 0;
  std::vector<std::size_t> keys(ground_.rows.places(), 0);
  const auto give = [&](std::size_t place, std::size_t count) {
    keys[place] = std::max<std::size_t>(1, count);
    left -= std::min(left, keys[place]);
  };
  for (const ActiveLimit& limit : next.limits) {
    if (!has_keys(limit)) continue;
    if (is_sharing(limit)) {
      sharing += 1;
    } else if (limit.rule->per.empty()) {
      keys[ground_.rows.place_of(limit.name)] = kOneKey;
      left -= std::min<std::size_t>(left, 1);
    } else {
      give(ground_.rows.place_of(limit.name), static_cast<std::size_t>(limit.rule->keys));
    }
  }
  give(ground_.rows.place_of(""), options.ad_hoc_keys_max > 0 ? options.ad_hoc_keys_max
                                  : sharing == 0
                                      ? left
                                      : std::min(left / (sharing + 1), options.keys_max / 8));
  const std::size_t part = left / std::max<std::size_t>(1, sharing);
  for (const ActiveLimit& limit : next.limits) {
    if (is_sharing(limit)) give(ground_.rows.place_of(limit.name), part);
  }
  ground_.table.share_out(keys);
}

// What was counted of a limit that is gone, or has other keys, shows nobody who is busy.
void RulesInForce::keep_heavy(const Active& before) {
  const auto key_of = [](const Active& rules, std::string_view name) {
    std::vector<std::string_view> key;
    const ActiveLimit* const limit = rules.find(name);
    if (limit == nullptr) return key;
    for (const std::size_t place : limit->rule->per)
      key.push_back(rules.rules->attributes()[place]);
    return key;
  };
  ground_.locals.keep_heavy([&](std::string_view limit) {
    return active_->find(limit) != nullptr && key_of(before, limit) == key_of(*active_, limit);
  });
}

void RulesInForce::end_overrides(std::string_view limit) {
  std::erase_if(overridden_, [&](const auto& entry) {
    if (entry.second != limit) return false;
    const Print print{entry.first.first, entry.first.second};
    Shard& shard = ground_.table.shard_of(print);
    const std::scoped_lock shard_lock(shard);
    if (Slot* slot = ground_.table.find(shard, print)) {
      slot->set_meta(slot->meta() & ~meta::kOverride);
      shard.mark_changed(*slot);
    }
    return true;
  });
}

// Brings every slot to a row in force, so that the others can be used again.
void RulesInForce::compact_rows(const Active& rules, Instant now) {
  Rows& rows = ground_.rows;
  Table& table = ground_.table;
  std::vector<bool> in_use(kRowsMax, false);
  for (const ActiveLimit& limit : rules.limits) in_use[limit.row] = true;
  in_use[ground_.ad_hoc_row] = true;
  for (const RowId row : reserved_) in_use[row] = true;
  for (std::size_t i = 0; i < table.shard_count(); ++i) {
    Shard& shard = table.shard(i);
    const std::scoped_lock lock(shard);
    table.sweep(shard, now, shard.capacity.load(std::memory_order_relaxed));
    Table::for_each(shard, [&](Slot& slot) {
      const Row& row = rows.at(slot.row());
      const ActiveLimit* const limit = rules.find(row.limit);
      const bool is_overridden = (slot.meta() & meta::kOverride) != 0;
      if (row.alive && !is_overridden && limit != nullptr && limit->seat == nullptr &&
          limit->row != slot.row() && row.era == rows.at(limit->row).era) {
        const Instant at = shard.at_least(now);
        slot.set_words(reshape(row.shape, limit->shape, slot.words(), table.logs, at));
        shard.latest_ns.store(at.ns, std::memory_order_relaxed);
        slot.set_meta((slot.meta() & meta::kWaiters) | limit->row);
        shard.mark_changed(slot);
      }
      in_use[slot.row()] = true;
    });
  }
  rows.free_unused(in_use);
}

Result<KeyedLimit> RulesInForce::find_key(const Active& active, std::string_view name,
                                          std::span<const std::string_view> key) {
  for (const ActiveLimit& limit : active.limits) {
    if (limit.name != name) continue;
    if (limit.seat != nullptr) {
      return bad_argument(
          fmt::format("limit '{}': it is a gate without keys; ask the system it belongs to", name));
    }
    if (key.size() != limit.rule->per.size()) {
      std::string attributes;
      for (const std::size_t place : limit.rule->per) {
        attributes += (attributes.empty() ? "" : ", ") + active.rules->attributes()[place];
      }
      return bad_argument(fmt::format(
          "limit '{}': the key has {} values, but the limit has one for each of [{}]; write {} "
          "values in that order",
          name, key.size(), attributes, limit.rule->per.size()));
    }
    return KeyedLimit{&limit, print_of(active, limit, key)};
  }
  return Error{ErrorCode::kNotFound,
               fmt::format("limit '{}': there is no such limit; write the name of one", name)};
}

Result<KeyedLimit> RulesInForce::find_own_key(const Active& active, std::string_view name,
                                              std::span<const std::string_view> key) {
  Result<KeyedLimit> keyed = find_key(active, name, key);
  if (!keyed || !keyed->limit->is_shared) return keyed;
  return bad_argument(fmt::format(
      "limit '{}': it is shared, so its keys are not here: they can be inspected and reset, but "
      "have no parameters of their own",
      name));
}

Status RulesInForce::change_row(const KeyedLimit& keyed, RowId row, bool overridden_now,
                                Instant asked_at) {
  Table& table = ground_.table;
  Shard& shard = table.shard_of(keyed.print);
  const std::scoped_lock lock(shard);
  const Instant now = shard.at_least(asked_at);
  Slot* slot = table.find(shard, keyed.print);
  const MeterShape& to = ground_.rows.at(row).shape;
  if (slot == nullptr) {
    if (!overridden_now) return Done{};
    slot = table.insert(shard, keyed.print, row, initial_words(to, now), now);
    if (slot == nullptr) return share_full(keyed.limit->name, ground_.options.names);
  } else {
    const Row& from = ground_.rows.at(slot->row());
    if (from.carries_over_to(ground_.rows.at(row))) {
      const Words words = reshape(from.shape, to, slot->words(), table.logs, now);
      table.ebbs(shard).reshaped(keyed.print, from.shape, to, words, now);
      slot->set_words(words);
      shard.latest_ns.store(now.ns, std::memory_order_relaxed);
    } else {
      release(from.shape, slot->words(), table.logs);
      slot->set_words(initial_words(to, now));
      table.ebbs(shard).drain(keyed.print);
    }
  }
  const std::uint64_t kept = slot->meta() & meta::kWaiters;
  slot->set_meta(kept | row | (overridden_now ? meta::kOverride : 0));
  shard.mark_changed(*slot);
  return Done{};
}

Status RulesInForce::override_key(std::string_view limit, std::span<const std::string_view> key,
                                  const MeterSpec& meter, Instant now) {
  const std::scoped_lock lock(lock_);
  Result<KeyedLimit> keyed = find_own_key(*active_, limit, key);
  if (!keyed) return std::move(keyed).error();
  Result<MeterShape> shape = make_shape(meter);
  if (!shape) {
    return bad_argument(fmt::format("limit '{}': override: {}", limit, shape.error().message));
  }
  if (shape->index() != keyed->limit->shape.index()) {
    return bad_argument(fmt::format(
        "limit '{}': the override has another kind of meter than the limit; write the same kind "
        "with other parameters",
        limit));
  }
  const KeyOfPrint name{keyed->print.low, keyed->print.high};
  if (!overridden_.contains(name) && overridden_.size() >= ground_.options.overrides_max) {
    return Error{ErrorCode::kExhausted,
                 fmt::format("limit '{}': {} keys have overrides, as many as this engine keeps; "
                             "clear some, or raise {}",
                             limit, overridden_.size(), ground_.options.names.overrides)};
  }
  RowId row = ground_.rows.add(limit, *shape);
  if (row == 0) {
    compact_rows(*active_, now);
    row = ground_.rows.add(limit, *shape);
  }
  if (row == 0) {
    return Error{
        ErrorCode::kExhausted,
        fmt::format("limit '{}': there are too many different overrides; use a few sets of "
                    "parameters for many keys",
                    limit)};
  }
  Status status = change_row(*keyed, row, true, now);
  if (status) overridden_.emplace(name, keyed->limit->name);
  return status;
}

Status RulesInForce::clear_override(std::string_view limit, std::span<const std::string_view> key,
                                    Instant now) {
  const std::scoped_lock lock(lock_);
  Result<KeyedLimit> keyed = find_own_key(*active_, limit, key);
  if (!keyed) return std::move(keyed).error();
  if (overridden_.erase({keyed->print.low, keyed->print.high}) == 0) {
    return Error{ErrorCode::kNotFound,
                 fmt::format("limit '{}': this key has no override; nothing to clear", limit)};
  }
  return change_row(*keyed, keyed->limit->row, false, now);
}

Status RulesInForce::retire_strangers(std::span<const RowRecord> records, Instant now) {
  bool in_force = false;
  std::shared_ptr<const RuleSet> rule_set;
  {
    const std::scoped_lock lock(lock_);
    rule_set = active_->rules;
    for (const RowRecord& record : records) {
      if (record.limit.empty() || ground_.rows.era(record.limit) > 0) continue;
      const ActiveLimit* limit = active_->find(record.limit);
      const bool fits = limit != nullptr && limit->seat == nullptr &&
                        limit->is_slots == (record.shape.kind == MeterKind::kSlots);
      if (fits) continue;
      ground_.rows.retire(record.limit);
      in_force |= limit != nullptr;
    }
  }
  // A limit that stays in force under the same name needs rows of its new era.
  return in_force ? activate(std::move(rule_set), now) : Status(Done{});
}

bool RulesInForce::note_override(Print print, std::string_view limit) {
  if (overridden_.size() >= ground_.options.overrides_max) return false;
  overridden_.emplace(KeyOfPrint{print.low, print.high}, limit);
  return true;
}

void RulesInForce::forget_override(Print print) {
  overridden_.erase(KeyOfPrint{print.low, print.high});
}

const MeterShape& adopt(const Rows& rows, const ActiveLimit& limit, Table& table, Shard& shard,
                        Slot& slot, Instant now) noexcept {
  const bool overridden = (slot.meta() & meta::kOverride) != 0;
  if (slot.row() == limit.row && !overridden) return limit.shape;
  const Row& row = rows.at(slot.row());
  const bool carries_over = row.carries_over_to(rows.at(limit.row));
  if (overridden && carries_over && row.shape.index() == limit.shape.index()) return row.shape;

  Words words;
  if (carries_over) {
    words = reshape(row.shape, limit.shape, slot.words(), table.logs, now);
    table.ebbs(shard).reshaped(slot.print(), row.shape, limit.shape, words, now);
  } else {
    release(row.shape, slot.words(), table.logs);
    words = initial_words(limit.shape, now);
    table.ebbs(shard).drain(slot.print());
  }
  slot.set_meta((slot.meta() & meta::kWaiters) | limit.row);
  slot.set_words(words);
  shard.mark_changed(slot);
  // A conversion rounds up, once: from here on an earlier instant counts as this one.
  shard.latest_ns.store(now.ns, std::memory_order_relaxed);
  return limit.shape;
}

}  // namespace weir::engine
