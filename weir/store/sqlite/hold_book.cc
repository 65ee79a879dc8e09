#include "weir/store/sqlite/hold_book.h"

#include <algorithm>
#include <string>
#include <vector>

namespace weir::store::sqlite {

using engine::ChargeRecord;
using engine::HoldChanges;
using engine::HoldRecord;

void HoldBook::apply(const PackedHolds& packed) {
  const HoldChanges& changes = packed.changes;
  next_number_ = std::max(next_number_, changes.next_number);
  std::vector<std::uint32_t> places;
  for (const std::string& name : changes.names) places.push_back(names_.place_of(name));
  // A clock that was ahead: the time that is left stays the same.
  const Duration ahead = std::max(changes.as_of - now_, Duration{0});
  for (const HoldRecord& record : changes.active) {
    Held& held = holds_[record.number];
    held.expires = record.expires - ahead;
    held.charges.clear();
    for (const ChargeRecord& stored : changes.charges_of(record)) {
      if (!eras_.counts(changes.names[stored.limit], {packed.process, stored.era})) continue;
      ChargeRecord& charge = held.charges.emplace_back(stored);
      charge.limit = places[stored.limit];
      charge.unit = places[stored.unit];
      if (packed.process != process_) charge.era = 0;  // as in MeterBook
    }
  }
  for (const std::uint64_t number : changes.ended) holds_.erase(number);
}

void HoldBook::drop_expired() {
  boost::unordered::erase_if(holds_,
                             [&](const auto& entry) { return entry.second.expires <= now_; });
}

void HoldBook::for_each_part(std::size_t most,
                             const std::function<void(const HoldChanges&)>& visitor) const {
  HoldChanges part;
  part.next_number = next_number_;
  part.as_of = now_;
  part.names = names_.names;
  for (const auto& [number, held] : holds_) {
    part.active.push_back({number, held.expires, static_cast<std::uint32_t>(part.charges.size()),
                           static_cast<std::uint32_t>(held.charges.size())});
    part.charges.insert(part.charges.end(), held.charges.begin(), held.charges.end());
    if (part.active.size() < most) continue;
    visitor(part);
    part.active.clear();
    part.charges.clear();
  }
  visitor(part);
}

}  // namespace weir::store::sqlite
