#include "weir/store/sqlite/packing.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "weir/store/sqlite/crc.h"

namespace weir::store::sqlite {
namespace {

using engine::ChargeRecord;
using engine::HoldChanges;
using engine::HoldRecord;
using engine::kForgotten;
using engine::MeterChanges;
using engine::MeterKind;
using engine::MeterRecord;
using engine::RowRecord;

constexpr std::uint64_t kMeterMagic = 0x54454d57;  // "WMET"
constexpr std::uint64_t kHoldMagic = 0x444c4857;   // "WHLD"
constexpr std::uint64_t kFactsMagic = 0x54434657;  // "WFCT"
constexpr std::uint64_t kErasMagic = 0x53524557;   // "WERS"
constexpr std::uint64_t kPartMagic = 0x54525057;   // "WPRT"
constexpr std::uint64_t kPlaceMagic = 0x534c5057;  // "WPLS"
constexpr std::uint64_t kFormat = 1;
constexpr std::uint64_t kFormatWithPlace = 2;  // of meters
constexpr std::uint64_t kFormatWithKind = 2;   // of holds
constexpr std::size_t kHeadBytes = 12;
constexpr std::size_t kRowBytesMin = 59;
constexpr std::size_t kRunBytes = 16;
constexpr std::size_t kNameBytesMin = 2;
constexpr std::size_t kHoldBytes = 20;
constexpr std::size_t kChargeBytes = 57;
constexpr std::size_t kEndedBytes = 8;
constexpr std::size_t kEraBytesMin = 18;
constexpr std::uint64_t kOverridden = 0x8000;
constexpr std::uint64_t kNoRow = 0x7fff;
constexpr std::uint64_t kKindUnknown = 255;

// Little endian, whatever the machine's own order.
class Writer {
 public:
  explicit Writer(std::uint64_t magic, std::uint64_t format = kFormat,
                  std::vector<std::byte> buffer = {})
      : bytes_(std::move(buffer)) {
    bytes_.clear();
    put(magic, 4);
    put(format, 4);
    put(0, 4);  // the checksum, when everything is there
  }
  void put(std::uint64_t value, std::size_t bytes) {
    std::array<std::byte, 8> little;
    for (std::size_t i = 0; i < 8; ++i) little[i] = static_cast<std::byte>(value >> (8 * i));
    bytes_.insert(bytes_.end(), little.begin(), little.begin() + bytes);
  }
  void put(std::array<std::uint64_t, 4> words) {
    if constexpr (std::endian::native == std::endian::little) {
      const auto* begin = reinterpret_cast<const std::byte*>(words.data());
      bytes_.insert(bytes_.end(), begin, begin + words.size() * sizeof words[0]);
    } else {
      for (const std::uint64_t word : words) put(word, 8);
    }
  }
  void put(std::int64_t value) { put(static_cast<std::uint64_t>(value), 8); }
  void put(std::string_view text) {
    put(text.size(), 2);
    const auto* begin = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), begin, begin + text.size());
  }
  void put(Bytes bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  void reserve(std::size_t more) { bytes_.reserve(bytes_.size() + more); }
  std::vector<std::byte> finish() && {
    const std::uint32_t crc = crc32(Bytes(bytes_).subspan(kHeadBytes));
    for (std::size_t i = 0; i < 4; ++i) bytes_[8 + i] = static_cast<std::byte>(crc >> (8 * i));
    return std::move(bytes_);
  }

 private:
  std::vector<std::byte> bytes_;
};

// Reads zeros past the end and remembers that it did.
class Reader {
 public:
  explicit Reader(Bytes bytes) : left_(bytes) {}
  std::uint64_t get(std::size_t bytes) {
    if (left_.size() < bytes) {
      fail();
      return 0;
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) {
      value |= static_cast<std::uint64_t>(left_[i]) << (8 * i);
    }
    left_ = left_.subspan(bytes);
    return value;
  }
  std::int64_t integer() { return static_cast<std::int64_t>(get(8)); }
  std::string text() {
    const std::size_t size = get(2);
    if (left_.size() < size) {
      fail();
      return {};
    }
    std::string text(reinterpret_cast<const char*>(left_.data()), size);
    left_ = left_.subspan(size);
    return text;
  }
  // How many of something follow; none if so many cannot be there.
  std::size_t count(std::size_t bytes_each) {
    const std::size_t count = get(4);
    if (count <= left_.size() / bytes_each) return count;
    fail();
    return 0;
  }
  void fail() {
    left_ = {};
    whole_ = false;
  }
  // Everything was there, and nothing is left over.
  bool is_done() const { return whole_ && left_.empty(); }

 private:
  Bytes left_;
  bool whole_ = true;
};

Error damaged(std::string_view what) { return bad_argument(std::string(what)); }

std::uint64_t format_of(Bytes blob) { return Reader(blob.subspan(4)).get(4); }

// Magic, format and checksum; the reader stands behind them.
Result<Reader> open(Bytes blob, std::uint64_t magic, std::uint64_t newest = kFormat) {
  if (blob.size() < kHeadBytes) return damaged(fmt::format("it has only {} bytes", blob.size()));
  Reader reader(blob);
  if (reader.get(4) != magic) return damaged("it does not begin as one");
  const std::uint64_t format = reader.get(4);
  if (format < kFormat || format > newest) {
    return damaged(fmt::format("its format is {}, not {}", format, newest));
  }
  if (reader.get(4) != crc32(blob.subspan(kHeadBytes))) {
    return damaged("its checksum is wrong");
  }
  return reader;
}

void put(Writer& out, const MeterRecord& record, bool is_log) {
  const std::uint64_t row =
      (record.row == kForgotten ? kNoRow : record.row) | (record.overridden ? kOverridden : 0);
  out.put(std::array<std::uint64_t, 4>{record.print.low, record.print.high >> 16 | row << 48,
                                       is_log ? record.run_count : record.words[0],
                                       is_log ? 0 : record.words[1]});
}

// True: `record` is whole. False: its row or its runs do not exist.
bool get(Reader& in, const MeterChanges& changes, std::size_t run_count, std::size_t& runs,
         MeterRecord& record) {
  record.print.low = in.get(8);
  record.print.high = in.get(6) << 16;
  const std::uint64_t row = in.get(2);
  record.overridden = (row & kOverridden) != 0;
  record.words = {in.get(8), in.get(8)};
  if ((row & kNoRow) == kNoRow) {
    record.row = kForgotten;
    return true;
  }
  record.row = static_cast<std::uint32_t>(row & kNoRow);
  if (record.row >= changes.rows.size()) return false;
  if (changes.rows[record.row].shape.kind != MeterKind::kLog) return true;
  if (record.words[0] > meter::kRunsMax || record.words[0] > run_count - runs) return false;
  record.first_run = static_cast<std::uint32_t>(runs);
  record.run_count = static_cast<std::uint16_t>(record.words[0]);
  record.words = {};
  runs += record.run_count;
  return true;
}

// The kind of meter that a charge was made at; in the first format, whether it was slots. False:
// there is no such kind.
bool get_kind(Reader& in, bool has_kinds, ChargeRecord& charge) {
  const std::uint64_t kind = in.get(1);
  charge.kind.reset();
  if (!has_kinds) {
    if (kind != 0) charge.kind = MeterKind::kSlots;
    return true;
  }
  if (kind == kKindUnknown) return true;
  charge.kind = static_cast<MeterKind>(kind);
  return kind <= static_cast<std::uint64_t>(MeterKind::kSlots);
}

}  // namespace

std::vector<std::byte> pack(const MeterChanges& changes, std::uint64_t process, std::int64_t place,
                            std::vector<std::byte> buffer) {
  WEIR_ASSERT(changes.rows.size() <= kRowsPerBlobMax);
  Writer out(kMeterMagic, kFormatWithPlace, std::move(buffer));
  out.reserve(changes.rows.size() * 2 * kRowBytesMin + changes.meters.size() * kMeterBytes +
              changes.runs.size() * kRunBytes);
  out.put(place);
  out.put(changes.rows.size(), 4);
  out.put(changes.meters.size(), 4);
  out.put(changes.runs.size(), 4);
  for (const RowRecord& row : changes.rows) {
    out.put(process, 8);
    out.put(row.era, 8);
    out.put(row.as_of.ns);
    out.put(static_cast<std::uint64_t>(row.shape.kind), 1);
    for (const std::int64_t term : row.shape.terms) out.put(term);
    out.put(row.limit);
  }
  for (const MeterRecord& record : changes.meters) {
    const bool is_log =
        record.row != kForgotten && changes.rows[record.row].shape.kind == MeterKind::kLog;
    put(out, record, is_log);
  }
  for (const MeterRecord& record : changes.meters) {
    for (const meter::LogRun& run : changes.runs_of(record)) {
      out.put(run.at.ns);
      out.put(run.units);
    }
  }
  return std::move(out).finish();
}

Result<PackedMeters> unpack_meters(Bytes blob, std::int64_t first, std::int64_t last,
                                   std::int64_t place) {
  Result<Reader> opened = open(blob, kMeterMagic, kFormatWithPlace);
  if (!opened) return std::move(opened).error();
  Reader& in = *opened;
  if (format_of(blob) == kFormatWithPlace && in.integer() != place) {
    return damaged("it is of another place");
  }
  PackedMeters packed;
  MeterChanges& changes = packed.changes;
  const std::size_t row_count = in.get(4);
  const std::size_t meter_count = in.get(4);
  const std::size_t run_count = in.get(4);
  if (row_count > kRowsPerBlobMax || meter_count > blob.size() / kMeterBytes ||
      run_count > blob.size() / kRunBytes) {
    return damaged("it is shorter than it says");
  }
  for (std::size_t i = 0; i < row_count; ++i) {
    packed.processes.push_back(in.get(8));
    RowRecord& row = changes.rows.emplace_back();
    row.era = in.get(8);
    row.as_of = Instant{in.integer()};
    row.shape.kind = static_cast<MeterKind>(in.get(1));
    for (std::int64_t& term : row.shape.terms) term = in.integer();
    row.limit = in.text();
  }
  std::size_t runs = 0;
  changes.meters.resize(meter_count);
  for (MeterRecord& record : changes.meters) {
    if (!get(in, changes, run_count, runs, record)) {
      return damaged("a meter names a row or runs that are not there");
    }
    const auto range = static_cast<std::int64_t>(range_of(record.print));
    if (range < first || range > last) return damaged("a meter is of another range");
  }
  if (runs != run_count) return damaged("there are runs that no meter names");
  changes.runs.resize(run_count);
  for (meter::LogRun& run : changes.runs) {
    run.at = Instant{in.integer()};
    run.units = in.integer();
  }
  if (!in.is_done()) return damaged("it is longer or shorter than it says");
  return packed;
}

std::vector<std::byte> pack(const HoldChanges& changes, std::uint64_t process) {
  Writer out(kHoldMagic, kFormatWithKind);
  out.reserve(changes.active.size() * kHoldBytes + changes.charges.size() * kChargeBytes +
              changes.ended.size() * kEndedBytes);
  out.put(process, 8);
  out.put(changes.next_number, 8);
  out.put(changes.as_of.ns);
  out.put(changes.names.size(), 4);
  for (const std::string& name : changes.names) out.put(name);
  out.put(changes.active.size(), 4);
  for (const HoldRecord& hold : changes.active) {
    out.put(hold.number, 8);
    out.put(hold.expires.ns);
    out.put(hold.charge_count, 4);
  }
  out.put(changes.charges.size(), 4);
  for (const HoldRecord& hold : changes.active) {
    for (const ChargeRecord& charge : changes.charges_of(hold)) {
      out.put(charge.limit, 4);
      out.put(charge.unit, 4);
      out.put(charge.print.low, 8);
      out.put(charge.print.high, 8);
      out.put(charge.amount);
      out.put(charge.weight);
      out.put(charge.charged_at.ns);
      out.put(charge.era, 8);
      out.put(charge.kind ? static_cast<std::uint64_t>(*charge.kind) : kKindUnknown, 1);
    }
  }
  out.put(changes.ended.size(), 4);
  for (const std::uint64_t number : changes.ended) out.put(number, 8);
  return std::move(out).finish();
}

Result<PackedHolds> unpack_holds(Bytes blob) {
  Result<Reader> opened = open(blob, kHoldMagic, kFormatWithKind);
  if (!opened) return std::move(opened).error();
  Reader& in = *opened;
  const bool has_kinds = format_of(blob) == kFormatWithKind;
  PackedHolds packed;
  HoldChanges& changes = packed.changes;
  packed.process = in.get(8);
  changes.next_number = in.get(8);
  changes.as_of = Instant{in.integer()};
  changes.names.resize(in.count(kNameBytesMin));
  for (std::string& name : changes.names) name = in.text();
  changes.active.resize(in.count(kHoldBytes));
  std::size_t charges = 0;
  for (HoldRecord& hold : changes.active) {
    hold.number = in.get(8);
    hold.expires = Instant{in.integer()};
    hold.first_charge = static_cast<std::uint32_t>(charges);
    hold.charge_count = static_cast<std::uint32_t>(in.get(4));
    charges += hold.charge_count;
  }
  changes.charges.resize(in.count(kChargeBytes));
  if (charges != changes.charges.size()) return damaged("a hold names charges that are not there");
  for (ChargeRecord& charge : changes.charges) {
    charge.limit = static_cast<std::uint32_t>(in.get(4));
    charge.unit = static_cast<std::uint32_t>(in.get(4));
    charge.print = {in.get(8), in.get(8) & engine::kPrintHighMask};
    charge.amount = in.integer();
    charge.weight = in.integer();
    charge.charged_at = Instant{in.integer()};
    charge.era = in.get(8);
    if (!get_kind(in, has_kinds, charge)) return damaged("a charge is of a kind that is not there");
    if (charge.limit >= changes.names.size() || charge.unit >= changes.names.size()) {
      return damaged("a charge names a limit or a unit that is not there");
    }
  }
  changes.ended.resize(in.count(kEndedBytes));
  for (std::uint64_t& number : changes.ended) number = in.get(8);
  if (!in.is_done()) return damaged("it is longer or shorter than it says");
  return packed;
}

std::vector<std::byte> pack(const Facts& facts) {
  Writer out(kFactsMagic);
  for (const std::uint64_t word : facts.secret) out.put(word, 8);
  out.put(facts.owner, 8);
  out.put(facts.process, 8);
  out.put(facts.next_hold, 8);
  return std::move(out).finish();
}

Result<Facts> unpack_facts(Bytes blob) {
  Result<Reader> in = open(blob, kFactsMagic);
  if (!in) return std::move(in).error();
  Facts facts;
  for (std::uint64_t& word : facts.secret) word = in->get(8);
  facts.owner = in->get(8);
  facts.process = in->get(8);
  facts.next_hold = in->get(8);
  if (!in->is_done()) return damaged("it is longer or shorter than it says");
  return facts;
}

std::vector<std::byte> pack_part(Bytes bytes) {
  Writer out(kPartMagic);
  out.put(bytes);
  return std::move(out).finish();
}

Result<Bytes> unpack_part(Bytes blob) {
  const Result<Reader> in = open(blob, kPartMagic);
  if (!in) return in.error();
  return blob.subspan(kHeadBytes);
}

std::vector<std::byte> pack(const Eras& eras) {
  Writer out(kErasMagic);
  out.put(eras.all().size(), 4);
  for (const auto& [limit, era] : eras.all()) {
    out.put(era.process, 8);
    out.put(era.era, 8);
    out.put(limit);
  }
  return std::move(out).finish();
}

Result<Eras> unpack_eras(Bytes blob) {
  Result<Reader> in = open(blob, kErasMagic);
  if (!in) return std::move(in).error();
  Eras eras;
  for (std::size_t left = in->count(kEraBytesMin); left > 0; --left) {
    Era era;
    era.process = in->get(8);
    era.era = in->get(8);
    eras.set(in->text(), era);
  }
  if (!in->is_done()) return damaged("it is longer or shorter than it says");
  return eras;
}

std::vector<std::byte> pack(const Places& places) {
  Writer out(kPlaceMagic);
  for (const std::int64_t place : places) out.put(place);
  return std::move(out).finish();
}

Result<Places> unpack_places(Bytes blob) {
  Result<Reader> in = open(blob, kPlaceMagic);
  if (!in) return std::move(in).error();
  Places places;
  for (std::int64_t& place : places) place = in->integer();
  if (!in->is_done()) return damaged("it is longer or shorter than it says");
  return places;
}

}  // namespace weir::store::sqlite
