#include "weir/engine/internal/ebbs.h"

#include <algorithm>
#include <bit>
#include <variant>

#include "weir/base/integer.h"

namespace weir::engine {
namespace {

using meter::BucketShape;
using meter::BucketState;
using meter::TickerShape;
using meter::TickerState;

// How many parts make one whole.
std::int64_t modulus_of(const MeterShape& shape) {
  const auto* bucket = std::get_if<BucketShape>(&shape);
  return bucket != nullptr ? bucket->num : 1;
}

InUse in_use(const MeterShape& shape, const Words& words, Instant now) {
  if (std::holds_alternative<BucketShape>(shape)) {
    const auto state = std::bit_cast<BucketState>(words);
    if (state.full_at < now) return {};
    return {state.full_at.ns - now.ns, state.full_at_parts};
  }
  const auto& ticker = *std::get_if<TickerShape>(&shape);
  const std::int64_t level = meter::level(ticker, std::bit_cast<TickerState>(words), now);
  return {std::max<std::int64_t>(0, saturating_sub(ticker.burst, level)), 0};
}

// What `units` take. Cut off at the end of time, which is more than any meter has in use.
InUse use_of(const MeterShape& shape, std::int64_t units) {
  const auto* bucket = std::get_if<BucketShape>(&shape);
  if (bucket == nullptr) return {units, 0};
  // Both are at most 2^62, so the product fits in 128 bits.
  const Wide product = Wide{units} * bucket->den;
  if (product / bucket->num >= kForever.ns) return {kForever.ns, 0};
  return {static_cast<std::int64_t>(product / bucket->num),
          static_cast<std::int64_t>(product % bucket->num)};
}

// `a` less `b`, at least nothing.
InUse less(const InUse& a, const InUse& b, std::int64_t modulus) {
  if (a <= b) return {};
  // Neither is negative, and parts are below the modulus, at most 2^62.
  InUse left{a.whole - b.whole, a.parts - b.parts};
  if (left.parts < 0) {
    left.parts += modulus;
    left.whole -= 1;
  }
  return left;
}

// What `units` charged at `then` have in use at least, whatever else was charged and came back:
// what the meter cannot have refilled since.
InUse left_of(const MeterShape& shape, std::int64_t units, Instant then, Instant now) {
  if (now <= then) return use_of(shape, units);
  const std::int64_t elapsed_ns = saturating_sub(now.ns, then.ns);
  if (std::holds_alternative<BucketShape>(shape)) {
    return less(use_of(shape, units), {elapsed_ns, 0}, modulus_of(shape));
  }
  const auto& ticker = *std::get_if<TickerShape>(&shape);
  // One tick more than there are intervals may have come.
  const Wide ticks = Wide{elapsed_ns / ticker.interval_ns} + 1;
  return {saturate(std::max<Wide>(0, units - ticks * ticker.per_tick)), 0};
}

// Makes less be in use by `given`, which is at most what is.
Words after_return(const MeterShape& shape, const Words& words, Instant now, const InUse& given) {
  if (std::holds_alternative<BucketShape>(shape)) {
    const InUse left = less(in_use(shape, words, now), given, modulus_of(shape));
    // What is full, is so since `now` at the latest.
    if (left == InUse{} && given == InUse{}) return words;
    return std::bit_cast<Words>(BucketState{Instant{now.ns + left.whole}, left.parts});
  }
  return std::bit_cast<Words>(meter::give_back(
      *std::get_if<TickerShape>(&shape), std::bit_cast<TickerState>(words), now, given.whole));
}

// The same use under another shape, rounded down.
InUse reshaped_use(const MeterShape& from, const MeterShape& to, const InUse& use) {
  const auto* old_bucket = std::get_if<BucketShape>(&from);
  if (old_bucket == nullptr) {
    const std::int64_t shrunk = std::get<TickerShape>(from).burst - std::get<TickerShape>(to).burst;
    // What no longer fits is lost. A larger burst is not full at once, which changes no ebb.
    return {std::max<std::int64_t>(0, use.whole - std::max<std::int64_t>(0, shrunk)), 0};
  }
  const auto& bucket = std::get<BucketShape>(to);
  if (old_bucket->num == bucket.num && old_bucket->den == bucket.den) return use;
  // In 1/den parts of a unit, below 2^126; then whole units and the rest apart, each product again
  // below 2^126.
  const Wide parts = Wide{use.whole} * old_bucket->num + use.parts;
  const Wide units = saturate(parts / old_bucket->den);
  const Wide span = units * bucket.den + parts % old_bucket->den * bucket.den / old_bucket->den;
  if (span / bucket.num >= kTermMax) return {kTermMax, 0};
  return {static_cast<std::int64_t>(span / bucket.num),
          static_cast<std::int64_t>(span % bucket.num)};
}

}  // namespace

// The entry that stands for a charge; nullptr: none does.
Ebbs::Entry* Ebbs::entry_of(Record& record, std::uint64_t mark) {
  for (Entry& entry : record.entries) {
    if (entry.mark >= mark) return &entry;
  }
  return nullptr;
}

// Since the last call so much was in use at least, and no more may be claimed.
void Ebbs::lower_all(Record& record, const InUse& ebb) {
  auto& entries = record.entries;
  if (entries.empty() || entries.back().ebb <= ebb) return;
  Entry all = {entries.back().mark, ebb, 0};
  while (!entries.empty() && entries.back().ebb >= ebb) {
    all.charges += entries.back().charges;
    entries.pop_back();
  }
  entries.push_back(all);
}

// `given` came back to the charge `mark`. Later charges saw a higher level by so much all their
// time; an earlier one did from then on, and before that what its own ebb says.
void Ebbs::take_away(Record& record, std::uint64_t mark, const InUse& given, std::int64_t modulus) {
  auto& entries = record.entries;
  Entry* const own = entry_of(record, mark);
  if (own == nullptr) return;
  for (Entry* entry = own; entry != entries.data() + entries.size(); ++entry) {
    entry->ebb = less(entry->ebb, given, modulus);
  }
  const InUse ebb = own->ebb;
  for (Entry* entry = entries.data(); entry != own; ++entry) entry->ebb = std::min(entry->ebb, ebb);
  // Of those that have become alike the last stands for all.
  const auto first =
      std::unique(entries.rbegin(), entries.rend(), [](const Entry& a, const Entry& b) {
        return a.ebb == b.ebb;
      }).base();
  entries.erase(entries.begin(), first);
}

std::uint64_t Ebbs::charged(Print print, const MeterShape& shape, const Words& words, Instant now) {
  const std::uint64_t mark = next_mark_++;
  Record& record = records_[{print.low, print.high}];
  if (record.charges == 0) {
    record.first = mark;
  } else {
    lower_all(record, in_use(shape, record.last, now));
  }
  record.charges += 1;
  record.last = words;
  auto& entries = record.entries;
  const InUse ebb = in_use(shape, words, now);
  const std::size_t shared_by = record.charges / (kEbbsMax / 2);
  const bool joins =
      !entries.empty() && (entries.back().ebb >= ebb || entries.back().charges < shared_by);
  if (joins) {
    entries.back().mark = mark;
    entries.back().charges += 1;
  } else {
    entries.push_back({mark, ebb, 1});
  }
  if (entries.size() > kEbbsMax) thin_out(record);
  return mark;
}

// Each two entries become one, and a last one stays.
void Ebbs::thin_out(Record& record) {
  auto& entries = record.entries;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < entries.size(); i += 2) {
    Entry both = entries[i];
    if (i + 1 < entries.size()) {
      both.mark = entries[i + 1].mark;
      both.charges += entries[i + 1].charges;
    }
    entries[kept++] = both;
  }
  entries.resize(kept);
}

Ebbs::End::End(Ebbs& ebbs, Print print, const Charge& charge) noexcept
    : ebbs_(ebbs),
      charge_(charge),
      found_(ebbs.find(print)),
      record_(found_ == ebbs.records_.end() ? nullptr : &found_->second),
      is_known_(charge.mark != 0 && record_ != nullptr && charge.mark >= record_->first) {}

Ebbs::End::~End() {
  if (!is_known_) return;
  record_->charges -= 1;
  if (record_->charges == 0) ebbs_.records_.erase(found_);
}

void Ebbs::End::give_back(std::int64_t back, const MeterShape& shape, Words& words, Instant now) {
  if (record_ != nullptr) lower_all(*record_, in_use(shape, record_->last, now));
  InUse ebb;
  if (is_known_) {
    const Entry* const own = entry_of(*record_, charge_.mark);
    if (own != nullptr) ebb = own->ebb;
  } else {
    ebb = left_of(shape, charge_.amount, charge_.charged_at, now);
  }
  const InUse given = std::min({use_of(shape, back), ebb, in_use(shape, words, now)});
  words = after_return(shape, words, now, given);
  if (record_ == nullptr) return;
  // One that is not known is older than all that are.
  take_away(*record_, is_known_ ? charge_.mark : 0, given, modulus_of(shape));
  record_->last = words;
}

void Ebbs::End::overdrawn(const MeterShape& shape, const Words& words, Instant now) {
  if (record_ == nullptr || !has_ebbs(shape)) return;
  lower_all(*record_, in_use(shape, record_->last, now));
  record_->last = words;
}

void Ebbs::drain(Print print) noexcept {
  const auto found = find(print);
  if (found == records_.end()) return;
  lower_all(found->second, {});
  found->second.last = {};
}

void Ebbs::reshaped(Print print, const MeterShape& from, const MeterShape& to, const Words& after,
                    Instant now) {
  if (from == to) return;
  const auto found = find(print);
  if (found == records_.end()) return;
  Record& record = found->second;
  // What was carried over to another kind of meter has no charges.
  if (!has_ebbs(from) || from.index() != to.index()) return drain(print);
  lower_all(record, in_use(from, record.last, now));
  for (Entry& entry : record.entries) entry.ebb = reshaped_use(from, to, entry.ebb);
  record.last = after;
}

}  // namespace weir::engine
