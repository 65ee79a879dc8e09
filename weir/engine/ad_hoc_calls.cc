// Calls about ad-hoc buckets, whose parameters come with each call.

#include <fmt/format.h>

#include "weir/engine/engine_impl.h"

namespace weir::engine {

AdHocKey Engine::ad_hoc_key(std::string_view key) const noexcept {
  const Print print = print_for(impl_->ad_hoc_seed, with_value(impl_->secret, {}, key));
  impl_->table.prefetch(print);
  return {print};
}

Result<AdHocStep> Engine::take_ad_hoc(AdHocKey key, const meter::BucketShape& shape,
                                      std::int64_t cost, Instant now) noexcept {
  WEIR_ASSERT(shape.num == 1);
  if (!is_acceptable(now)) return unacceptable_instant(now);
  if (cost < -kTermMax || cost > kTermMax) {
    return bad_argument(fmt::format(
        "the cost is {}, but it must be between -2^62 and 2^62; write a smaller one", cost));
  }
  Result<AdHocStep> answer = impl_->take_ad_hoc(key, shape, cost, now);
  if (answer) {
    const Verdict verdict = answer->step.allowed() ? Verdict::kAllowed : Verdict::kDenied;
    impl_->local().tallies.add(kAdHocTally, static_cast<std::size_t>(verdict));
  }
  return answer;
}

Result<AdHocStep> Engine::Impl::take_ad_hoc(AdHocKey key, const meter::BucketShape& shape,
                                            std::int64_t cost, Instant now) {
  Shard& shard = table.shard_of(key.print);
  const std::scoped_lock lock(shard);
  Slot* slot = table.find(shard, key.print);
  const Instant at = shard.at_least(now);
  const Words words = slot == nullptr ? Words{} : slot->words();
  const meter::BucketState before{Instant{static_cast<std::int64_t>(words[0])},
                                  static_cast<std::int64_t>(words[1])};
  if (cost < 0 && slot == nullptr) return AdHocStep{{{Verdict::kAllowed, at, 0}, before}, at};
  const meter::BucketStep step =
      cost >= 0 ? meter::take(shape, before, at, cost)
                : meter::BucketStep{{Verdict::kAllowed, at, 0},
                                    meter::give_back(shape, before, at, -cost)};
  if (!step.allowed() || cost == 0) return AdHocStep{step, at};
  if (slot == nullptr) slot = table.insert(shard, key.print, ad_hoc_row, words, at);
  if (slot == nullptr) {
    return Error{ErrorCode::kExhausted,
                 "the table is full, so a new key is refused; raise keys_max, or let it evict"};
  }
  slot->set_words({static_cast<std::uint64_t>(step.state.full_at.ns),
                   static_cast<std::uint64_t>(step.state.full_at_parts)});
  shard.mark_changed(*slot);
  shard.latest_ns.store(at.ns, std::memory_order_relaxed);
  return AdHocStep{step, at};
}

}  // namespace weir::engine
