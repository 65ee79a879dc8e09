// What a state file has in its rows, under a checksum that is right: of the file's own kind,
// and of meters and holds what an engine makes of them.
//
// The first byte chooses the kind, the rest is what follows a blob's checksum. What is unpacked
// and packed again is the same; what an engine takes is collected, packed and taken again, and it
// decides by it. What is refused has a message.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/input.h"
#include "weir/engine/engine.h"
#include "weir/engine/state.h"
#include "weir/store/sqlite/crc.h"
#include "weir/store/sqlite/hold_book.h"
#include "weir/store/sqlite/packing.h"

namespace {

using namespace std::chrono_literals;
using namespace weir;
using namespace weir::store::sqlite;
using fuzz::check;

constexpr Instant kNow{1'800'000'000'000'000'000};
constexpr std::int64_t kPlace = 7;
constexpr std::int64_t kLastRange = static_cast<std::int64_t>(kRanges) - 1;
using Blob = std::vector<std::byte>;

// A blob that begins as `like` does, with `body` and its checksum.
Blob blob_of(const Blob& like, std::string_view body) {
  constexpr std::size_t kCrcAt = 8;
  Blob blob(like.begin(), like.begin() + kCrcAt + 4);
  const auto bytes = std::as_bytes(std::span(body.data(), body.size()));
  blob.insert(blob.end(), bytes.begin(), bytes.end());
  const std::uint32_t crc = crc32(bytes);
  for (std::size_t i = 0; i < 4; ++i) blob[kCrcAt + i] = static_cast<std::byte>(crc >> (8 * i));
  return blob;
}

std::unique_ptr<engine::Engine> make_engine() {
  static const auto rules = engine::compile(
      {.limits = {{.name = "b", .per = {"client"}, .meter = engine::BucketSpec{3, 1s, 5}},
                  {.name = "t", .per = {"client"}, .meter = engine::TickerSpec{2, 1s, 4}},
                  {.name = "w", .per = {"client"}, .meter = engine::WindowSpec{9, 1min}},
                  {.name = "l", .per = {"client"}, .meter = engine::LogSpec{9, 1h}},
                  {.name = "s", .per = {"client"}, .meter = engine::SlotsSpec{2, 2, 1s}}}});
  check(rules.ok());
  auto engine = engine::Engine::create(*rules, {.keys_max = 256,
                                                .log_runs_max = 4096,
                                                .holds_max = 64,
                                                .overrides_max = 16,
                                                .secret = engine::Secret{},
                                                .owner = 1,
                                                .durable = true});
  check(engine.ok());
  return std::move(*engine);
}

void decide(engine::Engine& engine) {
  const engine::Attribute attributes[] = {{"client", "a"}};
  for (const Instant now : {kNow, kNow + 1s, kNow + 48h}) {
    const Result<Decision> said = engine.decide({.attributes = attributes}, now);
    if (said.ok()) check(said->verdict != Verdict::kDenied || said->earliest > now);
  }
}

engine::MeterChanges all_meters(engine::Engine& engine) {
  engine::Collector collector(engine);
  engine::MeterChanges meters;
  for (std::size_t i = 0; i < collector.shards(); ++i) collector.whole(i, kNow, meters);
  return meters;
}

std::vector<Blob> all_holds(engine::Engine& engine) {
  std::vector<Blob> blobs;
  for (bool more = true; more;) {
    engine::HoldChanges holds;
    more = engine::Collector(engine).holds(kNow, holds);
    blobs.push_back(pack(holds, 1));
  }
  return blobs;
}

void restore_meters(const engine::MeterChanges& changes) {
  const auto engine = make_engine();
  const auto report = engine::Collector(*engine).restore(changes, kNow);
  if (!report) return check(!report.error().message.empty());
  const Blob packed = pack(all_meters(*engine), 1, kPlace);
  const auto unpacked = unpack_meters(packed, 0, kLastRange, kPlace);
  check(unpacked.ok());
  const auto again = make_engine();
  const auto same = engine::Collector(*again).restore(unpacked->changes, kNow);
  check(same.ok() && same->skipped == 0 && same->moved == 0);
  check(again->usage().keys == engine->usage().keys);
  check(all_meters(*again).meters.size() == unpacked->changes.meters.size());
  decide(*engine);
}

void read_meters(const Blob& blob) {
  auto packed = unpack_meters(blob, 0, kLastRange, kPlace);
  if (!packed) return check(!packed.error().message.empty());
  for (const engine::MeterRecord& record : packed->changes.meters) {
    check(record.row == engine::kForgotten || record.row < packed->changes.rows.size());
    check((record.print.high & ~engine::kPrintHighMask) == 0);
    check(packed->changes.runs_of(record).size() == record.run_count);
  }
  const Blob written = pack(packed->changes, 1, kPlace);
  const auto again = unpack_meters(written, 0, kLastRange, kPlace);
  check(again.ok() && pack(again->changes, 1, kPlace) == written);
  check(again->changes.meters.size() == packed->changes.meters.size());
  restore_meters(packed->changes);
}

void restore_holds(const PackedHolds& packed) {
  const Eras eras;
  HoldBook book(1, eras, kNow);
  book.apply(packed);
  book.drop_expired();
  const auto engine = make_engine();
  bool is_restored = true;
  book.for_each_part(engine::kHoldsPerCollection, [&](const engine::HoldChanges& part) {
    for (const engine::HoldRecord& hold : part.active) check(hold.expires > kNow);
    if (!is_restored) return;
    const auto report = engine::Collector(*engine).restore(part, kNow);
    is_restored = report.ok();
    if (!is_restored) check(!report.error().message.empty());
  });
  if (!is_restored) return;
  for (const Blob& blob : all_holds(*engine)) check(unpack_holds(blob).ok());
  for (const engine::HoldRecord& hold : packed.changes.active) {
    engine->cancel({.owner = 1, .number = hold.number}, kNow + 1s);
  }
  decide(*engine);
}

void read_holds(const Blob& blob) {
  const auto packed = unpack_holds(blob);
  if (!packed) return check(!packed.error().message.empty());
  const engine::HoldChanges& changes = packed->changes;
  for (const engine::HoldRecord& hold : changes.active) {
    check(changes.charges_of(hold).size() == hold.charge_count);
  }
  for (const engine::ChargeRecord& charge : changes.charges) {
    check(charge.limit < changes.names.size() && charge.unit < changes.names.size());
  }
  const Blob written = pack(changes, packed->process);
  const auto again = unpack_holds(written);
  check(again.ok() && pack(again->changes, again->process) == written);
  restore_holds(*packed);
}

// Of a kind without freedom in its form: what is packed again is the same bytes.
template <typename Value>
void read_exactly(const Blob& blob, Result<Value> (*unpack)(Bytes)) {
  const Result<Value> value = unpack(blob);
  if (!value) return check(!value.error().message.empty());
  const Blob written = pack(*value);
  check(written == blob);
}

void read_eras(const Blob& blob) {
  const auto eras = unpack_eras(blob);
  if (!eras) return check(!eras.error().message.empty());
  const auto again = unpack_eras(pack(*eras));
  check(again.ok() && *again == *eras);
}

void read_part(const Blob& blob) {
  const auto part = unpack_part(blob);
  check(part.ok() && pack_part(*part) == blob);
}

// Any bytes at all: the checksum is wrong, or there is none.
void read_raw(std::string_view text) {
  const Bytes bytes = std::as_bytes(std::span(text.data(), text.size()));
  static_cast<void>(unpack_meters(bytes, 0, kLastRange, kPlace).ok());
  static_cast<void>(unpack_holds(bytes).ok());
  static_cast<void>(unpack_facts(bytes).ok());
  static_cast<void>(unpack_eras(bytes).ok());
  static_cast<void>(unpack_places(bytes).ok());
  static_cast<void>(unpack_part(bytes).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  switch (input.byte() % 8) {
    case 0:
    case 1: {
      // The place comes first, and its rest is read as a whole blob's.
      Blob like = pack(engine::MeterChanges{}, 1, kPlace);
      std::string body(reinterpret_cast<const char*>(like.data()) + 12, 8);
      read_meters(blob_of(like, body.append(input.rest())));
      break;
    }
    case 2:
    case 3:
      read_holds(blob_of(pack(engine::HoldChanges{}, 1), input.rest()));
      break;
    case 4:
      read_exactly<Facts>(blob_of(pack(Facts{}), input.rest()), unpack_facts);
      break;
    case 5:
      read_eras(blob_of(pack(Eras{}), input.rest()));
      break;
    case 6:
      read_exactly<Places>(blob_of(pack(Places{}), input.rest()), unpack_places);
      read_part(blob_of(pack_part({}), input.rest()));
      break;
    default:
      read_raw(input.rest());
  }
  return 0;
}
