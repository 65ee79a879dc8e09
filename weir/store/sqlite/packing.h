// Packing: meters and holds as blobs of bytes.
//
// A blob has everything it needs to be read, its rows and names included, and a
// checksum over all of it. The layout, byte by byte: docs/reference/state.md.
//
// Thread safety: none needed; functions of values.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "weir/base/result.h"
#include "weir/engine/print.h"
#include "weir/engine/state.h"
#include "weir/store/sqlite/database.h"
#include "weir/store/sqlite/eras.h"

namespace weir::store::sqlite {

constexpr std::size_t kMeterBytes = 32;          // of one meter in a blob
constexpr std::size_t kRowsPerBlobMax = 32'767;  // a meter has 15 bits to name its row

// Meters are kept together by the first bits of their prints. A shard of an engine lies
// within one range, because it has at least as many.
constexpr unsigned kRangeBits = 8;
constexpr std::size_t kRanges = std::size_t{1} << kRangeBits;

inline std::size_t range_of(engine::Print print) { return print.high >> (64 - kRangeBits); }

// Meters, and for each row the process whose era it names.
struct PackedMeters {
  engine::MeterChanges changes;
  std::vector<std::uint64_t> processes;
};

// `process`: of all rows. `place`: of the blob among the changes. Requires at most
// kRowsPerBlobMax rows. The memory of `buffer` is used again.
std::vector<std::byte> pack(const engine::MeterChanges& changes, std::uint64_t process,
                            std::int64_t place, std::vector<std::byte> buffer = {});
std::vector<std::byte> pack(const engine::HoldChanges& changes, std::uint64_t process);

// Refused, saying what is wrong, unless it is as packed, for `place`, and for meters of
// ranges `first` to `last` only. Whatever the bytes are, everything in the answer is in range.
Result<PackedMeters> unpack_meters(Bytes blob, std::int64_t first, std::int64_t last,
                                   std::int64_t place);
struct PackedHolds {
  engine::HoldChanges changes;
  std::uint64_t process = 0;
};
Result<PackedHolds> unpack_holds(Bytes blob);

// What a server is known by, and numbers that only grow.
struct Facts {
  engine::Secret secret{};
  std::uint64_t owner = 0;      // of the ids of holds
  std::uint64_t process = 0;    // how many have opened the file
  std::uint64_t next_hold = 1;  // no number from here on was ever given out
};

std::vector<std::byte> pack(const Facts& facts);
Result<Facts> unpack_facts(Bytes blob);
// The bytes of a part, whatever they are.
std::vector<std::byte> pack_part(Bytes bytes);
Result<Bytes> unpack_part(Bytes blob);
std::vector<std::byte> pack(const Eras& eras);
Result<Eras> unpack_eras(Bytes blob);

// By range: the place of its base among the changes, of which it replaces all before.
using Places = std::array<std::int64_t, kRanges>;
std::vector<std::byte> pack(const Places& places);
Result<Places> unpack_places(Bytes blob);

}  // namespace weir::store::sqlite
