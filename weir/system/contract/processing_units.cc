// The published factors, each a function, as exact rationals of any size; only the result must fit.

#include "weir/system/contract/processing_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/multiprecision/cpp_int.hpp>
#include <utility>

namespace weir::system::contract {
namespace {

using Rational = boost::multiprecision::cpp_rational;
using Integer = boost::multiprecision::cpp_int;

constexpr std::array<std::pair<std::string_view, Api>, 9> kApis = {
    {{"process", Api::kProcess},
     {"ogc", Api::kOgc},
     {"statistical", Api::kStatistical},
     {"async", Api::kAsync},
     {"batch", Api::kBatch},
     {"batchv2", Api::kBatchV2},
     {"batch_statistical", Api::kBatchStatistical},
     {"catalog", Api::kCatalog},
     {"byoc_write", Api::kByocWrite}}};

constexpr std::array<std::pair<std::string_view, Output>, 4> kOutputs = {
    {{"int8", Output::kInt8},
     {"int16", Output::kInt16},
     {"float32", Output::kFloat32},
     {"octet", Output::kOctet}}};

constexpr std::int64_t kUnitPixels = std::int64_t{512} * 512;
constexpr std::int64_t kLargePixels = 10'000;  // from here on batches and async are cheaper

template <typename Table>
auto named(const Table& table, std::string_view name) noexcept
    -> std::optional<typename Table::value_type::second_type> {
  for (const auto& [text, value] : table) {
    if (text == name) return value;
  }
  return std::nullopt;
}

template <typename Table>
std::string names(const Table& table) {
  std::string text;
  for (const auto& row : table) {
    if (!text.empty()) text += ", ";
    text += row.first;
  }
  return text;
}

Error wrong(std::string_view what, std::int64_t found, std::int64_t least, std::int64_t most) {
  return bad_argument(fmt::format("{} is {}, but it must be between {} and {}; write how many",
                                  what, found, least, most));
}

std::optional<Error> check_count(std::string_view what, std::int64_t found, std::int64_t least,
                                 std::int64_t most) {
  if (found >= least && found <= most) return std::nullopt;
  return wrong(what, found, least, most);
}

bool has_image(Api api) { return api != Api::kCatalog && api != Api::kByocWrite; }

std::optional<Error> check_image(const Work& work) {
  if (auto error = check_count("the number of tiles", static_cast<std::int64_t>(work.tiles.size()),
                               1, static_cast<std::int64_t>(kTilesMax))) {
    return error;
  }
  for (const Tile& tile : work.tiles) {
    if (auto error = check_count("the width", tile.width, 0, kSideMax)) return error;
    if (auto error = check_count("the height", tile.height, 0, kSideMax)) return error;
    if (auto error = check_count("the count of a tile", tile.count, 1, kTileCountMax)) return error;
  }
  if (auto error = check_count("the number of bands", static_cast<std::int64_t>(work.bands.size()),
                               1, static_cast<std::int64_t>(kBandsMax))) {
    return error;
  }
  if (auto error = check_count("samples", work.samples, 1, kFactorMax)) return error;
  if (auto error = check_count("local collections", work.local_collections, 0, kFactorMax)) {
    return error;
  }
  return check_count("remote collections", work.remote_collections, 0, kFactorMax);
}

std::optional<Error> check_work(const Work& work) {
  const AnnouncedCosts& announced = work.announced;
  for (const auto& [what, count] : {std::pair{"evalscript_ms", announced.evalscript_ms},
                                    std::pair{"ordered_images", announced.ordered_images},
                                    std::pair{"clipped_assets", announced.clipped_assets},
                                    std::pair{"other_tools", announced.other_tools}}) {
    if (auto error = check_count(what, count, 0, kSideMax)) return error;
  }
  for (const Fraction& amount :
       {work.area_km2, work.months, announced.delivered_mb, announced.egress_gb}) {
    if (amount.num < 0 || amount.den < 1) {
      return bad_argument("an area, a time or a volume is negative; write 0 or more");
    }
  }
  return has_image(work.api) ? check_image(work) : std::nullopt;
}

Integer integer(Wide value) { return Integer(value); }
Rational rational(const Fraction& fraction) {
  return {integer(fraction.num), integer(fraction.den)};
}

Rational band_factor(const std::vector<std::string>& bands) {
  const auto masks = std::count(bands.begin(), bands.end(), "dataMask");
  const auto counted = static_cast<std::int64_t>(bands.size()) - masks;
  return {std::max<std::int64_t>(counted, 1), 3};  // the mask alone counts as a band
}

Rational format_factor(Output output) {
  switch (output) {
    case Output::kInt8:
    case Output::kInt16:
      return 1;
    case Output::kFloat32:
      return 2;
    case Output::kOctet:
      return {7, 5};
  }
  return 1;
}

Rational sentinel1_factor(const Work& work) {
  Rational factor = 1;
  if (work.terrain_correct) {  // includes orthorectification
    factor = Rational(5, 2);
  } else if (work.orthorectify) {
    factor = 2;
  }
  return work.speckle_filter ? factor * 2 : factor;
}

Rational fusion_factor(const Work& work) {
  if (work.local_collections + work.remote_collections < 2) return 1;  // nothing is fused
  return work.local_collections + 2 * work.remote_collections;
}

// What a tile costs compared with the same one asked for at once.
Rational discount(Api api, std::int64_t pixels) {
  if (pixels < kLargePixels) return 1;
  if (api == Api::kBatch || api == Api::kBatchV2) return {1, 3};
  if (api == Api::kAsync) return {2, 3};
  return 1;
}

Rational area_sum(const Work& work) {
  Rational sum = 0;
  for (const Tile& tile : work.tiles) {
    const std::int64_t pixels = tile.width * tile.height;  // at most 10^18
    const Rational area(pixels, kUnitPixels);
    sum += std::max(area, Rational(1, 100)) * discount(work.api, pixels) * tile.count;
  }
  return sum;
}

Rational minimum(Api api) {
  switch (api) {
    case Api::kProcess:
    case Api::kOgc:
      return {1, 200};
    case Api::kStatistical:
    case Api::kCatalog:
      return {1, 100};
    case Api::kAsync:
      return 10;
    case Api::kBatch:
    case Api::kBatchV2:
    case Api::kBatchStatistical:
      return 100;
    case Api::kByocWrite:
      return 1;
  }
  return 0;
}

Rational catalogue_cost(const Work& work) {
  const Rational months = rational(work.months);
  const Integer whole = numerator(months) / denominator(months);
  const Rational started = Rational(whole) < months ? Rational(whole + 1) : Rational(whole);
  const Rational area = std::max(Rational(rational(work.area_km2) / 1'000'000), Rational(1, 100));
  return std::min(Rational(area * started), Rational(1));
}

Rational announced_cost(const AnnouncedCosts& announced) {
  const std::int64_t over_ms = std::max<std::int64_t>(0, announced.evalscript_ms - 200);
  return Rational((over_ms + 99) / 100, 2) + rational(announced.delivered_mb) * Rational(3, 100) +
         rational(announced.egress_gb) * 200 + announced.ordered_images * 20 +
         announced.clipped_assets + announced.other_tools * 2;
}

Rational base_cost(const Work& work) {
  if (work.api == Api::kByocWrite) return 1;
  if (work.api == Api::kCatalog) return catalogue_cost(work);
  return area_sum(work) * band_factor(work.bands) * format_factor(work.output) * work.samples *
         fusion_factor(work) * sentinel1_factor(work);
}

}  // namespace

std::optional<Api> api_named(std::string_view name) noexcept { return named(kApis, name); }
std::optional<Output> output_named(std::string_view name) noexcept { return named(kOutputs, name); }
std::string api_names() { return names(kApis); }
std::string output_names() { return names(kOutputs); }

Result<Fraction> processing_units(const Work& work) {
  if (auto error = check_work(work)) return std::move(*error);
  const Rational cost =
      std::max(base_cost(work), minimum(work.api)) + announced_cost(work.announced);
  const Integer num = numerator(cost);
  const Integer den = denominator(cost);
  const Integer most = Integer(1) << 120;
  if (num > most || den > most) {
    return bad_argument("the cost is above what can be counted; write a smaller piece of work");
  }
  return Fraction{num.convert_to<Wide>(), den.convert_to<Wide>()};
}

}  // namespace weir::system::contract
