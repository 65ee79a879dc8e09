// Processing units: what a request to the service costs, by its published definition.
//
// One unit is 512 x 512 pixels of three bands, one sample, at most 16 bits. The cost
// is a product of factors, summed over tiles, and at least the minimum of the
// interface that is asked. Exact: a fraction, rounded up to micro-units only when it
// is debited.
//
//   1024 x 1024, 4 bands, 32-bit, 2 samples, orthorectified:
//   4 * 4/3 * 2 * 2 * 2 = 128/3 = 42.666667 debited
//
// Thread safety: every function is pure.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/result.h"
#include "weir/system/contract/fraction.h"

namespace weir::system::contract {

constexpr std::size_t kTilesMax = 65'536;
constexpr std::int64_t kTileCountMax = 1'000'000'000;
constexpr std::size_t kBandsMax = 1'024;
constexpr std::int64_t kSideMax = 1'000'000'000;  // pixels
constexpr std::int64_t kFactorMax = 1'000'000;    // samples, collections

enum class Api : std::uint8_t {
  kProcess,
  kOgc,
  kStatistical,
  kAsync,
  kBatch,
  kBatchV2,
  kBatchStatistical,
  kCatalog,    // also WFS
  kByocWrite,  // also Zarr
};

enum class Output : std::uint8_t { kInt8, kInt16, kFloat32, kOctet };

// `process`, `batchv2`; `int16`, `octet`. Nothing: no such name.
std::optional<Api> api_named(std::string_view name) noexcept;
std::optional<Output> output_named(std::string_view name) noexcept;
std::string api_names();
std::string output_names();

struct Tile {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::int64_t count = 1;  // so many equal ones
};

// Announced by the service and not yet applied: counted only where they are given.
struct AnnouncedCosts {
  std::int64_t evalscript_ms = 0;   // 0.5 for each started 100 ms above 200
  Fraction delivered_mb{};          // 0.03 each, to another region
  Fraction egress_gb{};             // 200 each
  std::int64_t ordered_images = 0;  // 20 each
  std::int64_t clipped_assets = 0;  // 1 each
  std::int64_t other_tools = 0;     // 2 each
};

struct Work {
  Api api = Api::kProcess;
  std::vector<Tile> tiles{};  // of a batch; otherwise one
  std::vector<std::string> bands{};
  Output output = Output::kInt16;
  std::int64_t samples = 1;
  bool orthorectify = false;  // Sentinel-1
  bool terrain_correct = false;
  bool speckle_filter = false;
  std::int64_t local_collections = 0;  // fusion: counts from two collections on
  std::int64_t remote_collections = 0;
  Fraction area_km2{};  // catalogue
  Fraction months{};
  AnnouncedCosts announced{};
};

// Refused by name: sides, counts and areas that are negative or absurd.
Result<Fraction> processing_units(const Work& work);

}  // namespace weir::system::contract
