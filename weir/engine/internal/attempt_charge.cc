// What an attempt writes: the slots of keys that are new, the costs, and that a waiter has a place.

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "weir/engine/internal/adopt.h"
#include "weir/engine/internal/attempt.h"

namespace weir::engine {

Slot* Attempt::slot_for(std::size_t i) {
  Item& item = items_[i];
  item.slot = table_.find(shard(i), planned(i).print);
  if (item.slot == nullptr) {
    item.slot = table_.insert(shard(i), planned(i).print, planned(i).limit->row, item.words, now_);
  } else if (is_left_over(rows_, *planned(i).limit, *item.slot)) {
    adopt(rows_, *planned(i).limit, table_, shard(i), *item.slot, now_);
  }
  return item.slot;
}

bool Attempt::needs_slot(std::size_t i) const noexcept {
  return seat(i) == nullptr && items_[i].slot == nullptr;
}

// Of a ticker whose ticks are counted from when it is first asked, whatever comes of that.
bool Attempt::starts_empty(std::size_t i) const noexcept {
  const auto* ticker = std::get_if<meter::TickerShape>(items_[i].shape);
  return ticker != nullptr && ticker->start == meter::TickerStart::kEmpty;
}

// Slots for the items of `needed` that have none. Making room for one may drop other
// meters and moves those that stay. So all of this plan are pinned before the first is
// made, by the flag that keeps a slot with waiters, and are looked up again at the end.
// Returns the item for which there was no room, or plan_.count.
std::size_t Attempt::make_slots(Items needed) {
  Items pinned;
  const auto pin = [&](std::size_t i) {
    pinned.set(i);
    items_[i].slot->set_meta(items_[i].slot->meta() | meta::kWaiters);
  };
  for (std::size_t i = 0; i < plan_.count; ++i) {
    if (items_[i].slot != nullptr && !has_waiters(i)) pin(i);
  }
  std::size_t full = plan_.count;
  for (std::size_t i = 0; full == plan_.count && i < plan_.count; ++i) {
    if (!needed[i]) continue;
    if (slot_for(i) == nullptr) {
      full = i;
    } else {
      pin(i);
    }
  }
  for (std::size_t i = 0; i < plan_.count; ++i) {
    // What has none may find what is left over of another era, which is nothing yet.
    if (items_[i].slot == nullptr) continue;
    items_[i].slot = table_.find(shard(i), planned(i).print);
    if (pinned[i]) items_[i].slot->set_meta(items_[i].slot->meta() & ~meta::kWaiters);
  }
  return full;
}

// The same, but for a limit in shadow that finds no room: it takes no part then.
Status Attempt::need_slots(Items needed) {
  while (needed.any()) {
    const std::size_t full = make_slots(needed);
    if (full == plan_.count) break;
    if (!planned(full).limit->shadow) return table_full(full);
    left_out_.set(full);
    needed.reset(full);
  }
  return Done{};
}

Status Attempt::charge(bool held) {
  // First everything that can fail, then everything that cannot.
  Items needed;
  for (std::size_t i = 0; i < plan_.count; ++i) {
    needed[i] = needs_slot(i) && (!left_out_[i] || starts_empty(i));
  }
  if (Status made = need_slots(needed); !made) return made;
  for (std::size_t i = 0; i < plan_.count; ++i) {
    Item& item = items_[i];
    if (seat(i) != nullptr || item.is_self_contained || left_out_[i]) continue;
    const bool reserved = engine::reserve(*item.shape, item.words, table_.logs, now_);
    item.slot->set_words(item.words);
    if (reserved) continue;
    if (!planned(i).limit->shadow) return logs_full(i);
    left_out_.set(i);
  }
  for (std::size_t i = 0; i < plan_.count; ++i) charge_item(i, held);
  shards_.charged_at(now_);
  charged_ = true;
  return Done{};
}

void Attempt::charge_item(std::size_t i, bool held) noexcept {
  Item& item = items_[i];
  item.charged_at = start_;
  if (left_out_[i]) return;
  if (!item.check.allowed() && !booked_) {  // a shadow that would have refused
    if (item.gate_refused) seat(i)->gate->refused(request_, now_, item.cost);
    return;
  }
  if (GateSeat* gate = seat(i)) {
    if (held) {
      item.receipt = gate->gate->charge_held(request_, start_, item.cost);
    } else {
      gate->gate->charge(request_, start_, item.cost);
    }
    record_ = std::max(record_, gate->gate->last_record());
    return;
  }
  if (item.cost == 0) return;
  if (item.is_self_contained && !booked_) {
    item.words = item.taken;
  } else {
    item.charged_at = engine::charge(*item.shape, item.words, table_.logs, start_, item.cost);
  }
  item.slot->set_words(item.words);
  shard(i).mark_changed(*item.slot);
}

Error Attempt::table_full(std::size_t i) const {
  return {ErrorCode::kExhausted,
          fmt::format("limit '{}': the table is full, so a new key is refused; raise keys_max, or "
                      "let it evict",
                      planned(i).limit->name)};
}

Error Attempt::logs_full(std::size_t i) const {
  return {ErrorCode::kExhausted,
          fmt::format("limit '{}': the memory for logs is used up; raise log_runs_max, or use a "
                      "window",
                      planned(i).limit->name)};
}

Status Attempt::start_fresh_tickers() {
  Items needed;
  for (std::size_t i = 0; i < plan_.count; ++i) needed[i] = starts_empty(i) && needs_slot(i);
  return need_slots(needed);
}

bool Attempt::enqueue(std::size_t i) {
  if (GateSeat* gate = seat(i)) {
    gate->waiters += 1;
    return true;
  }
  Item& item = items_[i];
  if (slot_for(i) == nullptr) return false;
  if (is_slots(*item.shape)) {
    auto state = std::bit_cast<meter::SlotsState>(item.slot->words());
    state.queued += 1;
    item.words = std::bit_cast<Words>(state);
    item.slot->set_words(item.words);
    shard(i).mark_changed(*item.slot);
  }
  item.slot->set_meta(item.slot->meta() | meta::kWaiters);
  return true;
}

}  // namespace weir::engine
