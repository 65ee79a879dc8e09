// Calls about one key of a limit that is kept elsewhere: inspection, reset.

#include <utility>

#include "weir/engine/engine_impl.h"

namespace weir::engine {
namespace {

SharedItem item_of(const ActiveLimit& limit, Print print, std::span<const std::string_view> key) {
  SharedItem item{.rule = limit.rule, .key = {}, .print = print};
  item.key.assign(key.begin(), key.end());
  return item;
}

}  // namespace

void Engine::ask_inspect(std::string_view limit, std::span<const std::string_view> key, Instant now,
                         std::function<void(Result<Inspection>)> callback) noexcept {
  if (!is_acceptable(now)) return callback(unacceptable_instant(now));
  const std::shared_ptr<const Active> rules = impl_->current_shared();
  Result<Impl::KeyedLimit> keyed = Impl::find_key(*rules, limit, key);
  if (!keyed) return callback(std::move(keyed).error());
  if (!keyed->limit->is_shared) return callback(inspect(limit, key, now));
  SharedStore* const store = impl_->shared_store.load(std::memory_order_acquire);
  if (store == nullptr) return callback(no_store(limit));
  store->inspect(item_of(*keyed->limit, keyed->print, key), rules->rules, now,
                 [this, rules, capacity = keyed->limit->capacity, print = keyed->print,
                  callback = std::move(callback)](Result<SharedLevel> level) {
                   if (!level) return callback(std::move(level).error());
                   callback(Inspection{.remaining = level->remaining,
                                       .capacity = capacity,
                                       .overridden = false,
                                       .waiters = impl_->shared_waiting_at(print),
                                       .leased = level->leased});
                 });
}

void Engine::ask_reset(std::string_view limit, std::span<const std::string_view> key, Instant now,
                       std::function<void(Status)> callback) noexcept {
  if (!is_acceptable(now)) return callback(unacceptable_instant(now));
  const std::shared_ptr<const Active> rules = impl_->current_shared();
  Result<Impl::KeyedLimit> keyed = Impl::find_key(*rules, limit, key);
  if (!keyed) return callback(std::move(keyed).error());
  if (!keyed->limit->is_shared) return callback(reset(limit, key, now));
  // What is in flight was not spent: it comes back when the work ends.
  if (keyed->limit->is_slots) return callback(Done{});
  SharedStore* const store = impl_->shared_store.load(std::memory_order_acquire);
  if (store == nullptr) return callback(no_store(limit));
  store->reset(item_of(*keyed->limit, keyed->print, key), rules->rules, now,
               [this, print = keyed->print, callback = std::move(callback)](Status status) {
                 const bool is_reset = status.ok();
                 callback(std::move(status));
                 if (is_reset) impl_->try_shared_waiters(print);
               });
}

}  // namespace weir::engine
