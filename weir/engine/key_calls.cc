// Calls about one key: overrides, inspection, reset.

#include <fmt/format.h>

#include "weir/engine/adopt.h"
#include "weir/engine/engine_impl.h"

namespace weir::engine {

Result<Engine::Impl::KeyedLimit> Engine::Impl::find_key(const Active& active, std::string_view name,
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

Result<Engine::Impl::KeyedLimit> Engine::Impl::find_own_key(const Active& active,
                                                            std::string_view name,
                                                            std::span<const std::string_view> key) {
  Result<KeyedLimit> keyed = find_key(active, name, key);
  if (!keyed || !keyed->limit->is_shared) return keyed;
  return bad_argument(fmt::format(
      "limit '{}': it is shared, so its keys are not here: they can be inspected and reset by "
      "calls that answer later, but have no parameters of their own",
      name));
}

Status Engine::Impl::change_row(const KeyedLimit& keyed, RowId row, bool overridden_now,
                                Instant asked_at) {
  Shard& shard = table.shard_of(keyed.print);
  const std::scoped_lock lock(shard);
  const Instant now = shard.at_least(asked_at);
  Slot* slot = table.find(shard, keyed.print);
  const MeterShape& to = rows.at(row).shape;
  if (slot == nullptr) {
    if (!overridden_now) return Done{};
    slot = table.insert(shard, keyed.print, row, initial_words(to, now), now);
    if (slot == nullptr) {
      return Error{ErrorCode::kExhausted,
                   fmt::format("limit '{}': the table is full, so a new key is refused; raise "
                               "keys_max, or let it evict",
                               keyed.limit->name)};
    }
  } else {
    const Row& from = rows.at(slot->row());
    if (from.carries_over_to(rows.at(row))) {
      slot->set_words(reshape(from.shape, to, slot->words(), table.logs, now));
      shard.latest_ns.store(now.ns, std::memory_order_relaxed);
    } else {
      release(from.shape, slot->words(), table.logs);
      slot->set_words(initial_words(to, now));
    }
  }
  const std::uint64_t kept = slot->meta() & meta::kWaiters;
  slot->set_meta(kept | row | (overridden_now ? meta::kOverride : 0));
  shard.mark_changed(*slot);
  return Done{};
}

Status Engine::set_override(std::string_view limit, std::span<const std::string_view> key,
                            const MeterSpec& meter, Instant now) noexcept {
  if (!is_acceptable(now)) return unacceptable_instant(now);
  {
    const std::scoped_lock lock(impl_->rules_lock);
    Result<Impl::KeyedLimit> keyed = Impl::find_own_key(*impl_->active, limit, key);
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
    const std::pair<std::uint64_t, std::uint64_t> name{keyed->print.low, keyed->print.high};
    if (!impl_->overridden.contains(name) &&
        impl_->overridden.size() >= impl_->options.overrides_max) {
      return Error{ErrorCode::kExhausted,
                   fmt::format("limit '{}': {} keys have overrides, as many as this engine keeps; "
                               "clear some, or raise overrides_max",
                               limit, impl_->overridden.size())};
    }
    RowId row = impl_->rows.add(limit, *shape);
    if (row == 0) {
      impl_->compact_rows(*impl_->active, now);
      row = impl_->rows.add(limit, *shape);
    }
    if (row == 0) {
      return Error{
          ErrorCode::kExhausted,
          fmt::format("limit '{}': there are too many different overrides; use a few sets of "
                      "parameters for many keys",
                      limit)};
    }
    Status status = impl_->change_row(*keyed, row, true, now);
    if (!status) return status;
    impl_->overridden.emplace(name, keyed->limit->name);
  }
  // Not only the oldest: whoever can no longer pass at all must not be waited for.
  impl_->serve_everybody(now);
  return Done{};
}

Status Engine::clear_override(std::string_view limit, std::span<const std::string_view> key,
                              Instant now) noexcept {
  if (!is_acceptable(now)) return unacceptable_instant(now);
  {
    const std::scoped_lock lock(impl_->rules_lock);
    Result<Impl::KeyedLimit> keyed = Impl::find_own_key(*impl_->active, limit, key);
    if (!keyed) return std::move(keyed).error();
    if (impl_->overridden.erase({keyed->print.low, keyed->print.high}) == 0) {
      return Error{ErrorCode::kNotFound,
                   fmt::format("limit '{}': this key has no override; nothing to clear", limit)};
    }
    Status status = impl_->change_row(*keyed, keyed->limit->row, false, now);
    if (!status) return status;
  }
  impl_->serve_everybody(now);
  return Done{};
}

Result<Inspection> Engine::inspect(std::string_view limit, std::span<const std::string_view> key,
                                   Instant now) noexcept {
  if (!is_acceptable(now)) return unacceptable_instant(now);
  impl_->expire_holds(now);
  for (;;) {
    const std::shared_ptr<const Active> rules = impl_->current_shared();
    Result<Impl::KeyedLimit> keyed = Impl::find_own_key(*rules, limit, key);
    if (!keyed) return std::move(keyed).error();

    Inspection found;
    {
      const std::scoped_lock room_lock(impl_->room.lock);
      found.waiters = impl_->room.waiting_at(keyed->print);
    }
    Shard& shard = impl_->table.shard_of(keyed->print);
    const std::scoped_lock lock(shard);
    if (impl_->generation.load(std::memory_order_acquire) != rules->generation) continue;
    const Instant at = shard.at_least(now);
    const MeterShape* shape = &keyed->limit->shape;
    Words words = initial_words(*shape, at);
    Slot* slot = impl_->table.find(shard, keyed->print);
    if (slot != nullptr && !is_left_over(impl_->rows, *keyed->limit, *slot)) {
      shape = &adopt(impl_->rows, *keyed->limit, impl_->table, shard, *slot, at);
      words = slot->words();
      found.overridden = (slot->meta() & meta::kOverride) != 0;
    }
    found.remaining = level(*shape, words, impl_->table.logs, at);
    found.capacity = capacity(*shape);
    return found;
  }
}

Status Engine::reset(std::string_view limit, std::span<const std::string_view> key,
                     Instant now) noexcept {
  if (!is_acceptable(now)) return unacceptable_instant(now);
  Print changed;
  {
    const std::scoped_lock ending_lock(impl_->ending_lock);
    // The rules stay in force meanwhile.
    const std::scoped_lock rules_lock(impl_->rules_lock);
    Result<Impl::KeyedLimit> keyed = Impl::find_own_key(*impl_->active, limit, key);
    if (!keyed) return std::move(keyed).error();
    changed = keyed->print;
    Shard& shard = impl_->table.shard_of(changed);
    const std::scoped_lock lock(shard);
    Slot* slot = impl_->table.find(shard, changed);
    const Instant at = shard.at_least(now);
    // What is in flight was not spent: it comes back when the work ends.
    if (!keyed->limit->is_slots) impl_->holds.forget_charges(changed);
    if (slot != nullptr && !keyed->limit->is_slots &&
        !is_left_over(impl_->rows, *keyed->limit, *slot)) {
      const MeterShape& shape = adopt(impl_->rows, *keyed->limit, impl_->table, shard, *slot, at);
      release(shape, slot->words(), impl_->table.logs);
      slot->set_words(initial_words(shape, at));
      shard.mark_changed(*slot);
    }
  }
  impl_->serve_gates({changed}, now);
  return Done{};
}

}  // namespace weir::engine
