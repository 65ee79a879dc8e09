#include "weir/store/sqlite/books.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weir::store::sqlite {

using engine::ChargeRecord;
using engine::HoldChanges;
using engine::HoldRecord;
using engine::kForgotten;
using engine::MeterChanges;
using engine::MeterRecord;
using engine::RowRecord;

Result<std::uint32_t> MeterBook::place_of(const RowRecord& row, std::uint64_t process) {
  if (!eras_.counts(row.limit, {process, row.era})) return kForgotten;
  // What counts of an earlier process is of the first era of this one: had another begun
  // since, it would not count.
  const std::uint64_t era = process == process_ ? row.era : 0;
  const RowName name{row.limit, era, row.shape.kind, row.shape.terms};
  const auto found = places_.find(name);
  if (found != places_.end()) return found->second;
  Result<engine::MeterShape> shape = engine::shape_of(row.shape);
  if (!shape) return std::move(shape).error();
  const auto place = static_cast<std::uint32_t>(rows_.size());
  rows_.push_back({{row.limit, era, row.shape, now_}, *shape});
  places_.emplace(name, place);
  return place;
}

Status MeterBook::apply(const PackedMeters& packed) {
  const MeterChanges& changes = packed.changes;
  std::vector<std::uint32_t> places;
  for (std::size_t i = 0; i < changes.rows.size(); ++i) {
    Result<std::uint32_t> place = place_of(changes.rows[i], packed.processes[i]);
    if (!place) return std::move(place).error();
    places.push_back(*place);
  }
  for (const MeterRecord& record : changes.meters) {
    const std::size_t range = range_of(record.print);
    if (range < first_ || range >= first_ + ranges_.size()) continue;
    Range& meters = ranges_[range - first_];
    const std::uint32_t place = record.row == kForgotten ? kForgotten : places[record.row];
    if (place == kForgotten) {
      meters.erase(record.print);
      continue;
    }
    const auto runs = changes.runs_of(record);
    if (!engine::is_sound(rows_[place].shape, record, runs)) {
      return bad_argument(fmt::format("limit '{}': a meter is in a state that it cannot have",
                                      rows_[place].record.limit));
    }
    Entry& entry = meters[record.print];
    entry.row = place;
    entry.record = record;
    entry.runs.assign(runs.begin(), runs.end());
    const Instant as_of = changes.rows[record.row].as_of;
    if (as_of > now_) move_back(rows_[place].shape, entry.record, entry.runs, as_of, now_);
  }
  return Done{};
}

MeterChanges MeterBook::meters(std::size_t range) const {
  MeterChanges out;
  std::vector<std::uint32_t> places(rows_.size(), kForgotten);
  for (const auto& [print, entry] : ranges_[range - first_]) {
    const Row& row = rows_[entry.row];
    if (is_forgettable(row.shape, entry.record, entry.runs, now_)) continue;
    if (places[entry.row] == kForgotten) {
      places[entry.row] = static_cast<std::uint32_t>(out.rows.size());
      out.rows.push_back(row.record);
    }
    MeterRecord record = entry.record;
    record.row = places[entry.row];
    record.first_run = static_cast<std::uint32_t>(out.runs.size());
    record.run_count = static_cast<std::uint16_t>(entry.runs.size());
    out.runs.insert(out.runs.end(), entry.runs.begin(), entry.runs.end());
    out.meters.push_back(record);
  }
  return out;
}

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
