#include "apps/weir/pu.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "apps/weir/server_connection.h"
#include "weir/base/in_quotes.h"
#include "weir/engine/quantity.h"
#include "weir/system/contract/processing_units.h"

namespace weir::app {
namespace {

namespace contract = system::contract;

// The flags as they are written.
struct Flags {
  std::string api = "process";
  std::vector<std::string> sizes;
  std::vector<std::string> bands;
  std::string output = "int16";
  std::string area_km2 = "0";
  std::string months = "1";
  contract::Work work;
};

// `1024x768`
bool read_tile(const std::string& text, contract::Tile& tile) {
  const char* const end = text.data() + text.size();
  const auto width = std::from_chars(text.data(), end, tile.width);
  if (width.ec != std::errc{} || width.ptr == end || *width.ptr != 'x') return false;
  const auto height = std::from_chars(width.ptr + 1, end, tile.height);
  return height.ec == std::errc{} && height.ptr == end && tile.width > 0 && tile.height > 0;
}

int run(Flags& flags) {
  contract::Work& work = flags.work;
  const auto api = contract::api_named(flags.api);
  if (!api) {
    return wrong_usage("pu", fmt::format("--api is {}, but it must be one of {}",
                                         in_quotes(flags.api), contract::api_names()));
  }
  const auto output = contract::output_named(flags.output);
  if (!output) {
    return wrong_usage("pu", fmt::format("--output is {}, but it must be one of {}",
                                         in_quotes(flags.output), contract::output_names()));
  }
  work.api = *api;
  work.output = *output;
  work.bands = flags.bands;
  work.tiles.clear();
  for (const std::string& size : flags.sizes) {
    contract::Tile tile;
    if (!read_tile(size, tile)) {
      return wrong_usage(
          "pu", fmt::format("--size is {}, but it must be a width and a height of 1 pixel or "
                            "more; write one such as '512x512'",
                            in_quotes(size)));
    }
    work.tiles.push_back(tile);
  }
  const auto area = contract::parse_decimal("--area-km2", flags.area_km2);
  if (!area) return wrong_usage("pu", area.error().message);
  const auto months = contract::parse_decimal("--months", flags.months);
  if (!months) return wrong_usage("pu", months.error().message);
  work.area_km2 = *area;
  work.months = *months;

  const auto cost = contract::processing_units(work);
  if (!cost) return wrong_usage("pu", cost.error().message);
  const auto debited = contract::micro_of("the cost", *cost);
  if (!debited) return wrong_usage("pu", debited.error().message);
  std::cout << fmt::format("processing_units {}/{}\ndebited {}\n", cost->num, cost->den,
                           engine::amount_text(*debited, engine::UnitScale::kMicro));
  return 0;
}

}  // namespace

std::function<int()> add_pu_flags(CLI::App& command) {
  auto flags = std::make_shared<Flags>();
  CLI::App* const pu = &command;
  pu->add_option("--api", flags->api, contract::api_names())->capture_default_str();
  pu->add_option("--size", flags->sizes, "WIDTHxHEIGHT in pixels; of a batch, once for each tile");
  pu->add_option("--bands", flags->bands, "Names of the input bands, such as B02,B03,B04")
      ->delimiter(',');
  pu->add_option("--output", flags->output, contract::output_names())->capture_default_str();
  pu->add_option("--samples", flags->work.samples, "Samples for each pixel")->capture_default_str();
  pu->add_flag("--ortho", flags->work.orthorectify, "Sentinel-1: orthorectify");
  pu->add_flag("--rtc", flags->work.terrain_correct, "Sentinel-1: radiometric terrain correction");
  pu->add_flag("--speckle", flags->work.speckle_filter, "Sentinel-1: speckle filter");
  pu->add_option("--local", flags->work.local_collections, "Fusion: collections in this region");
  pu->add_option("--remote", flags->work.remote_collections, "Fusion: collections elsewhere");
  pu->add_option("--area-km2", flags->area_km2, "Catalogue: the area")->capture_default_str();
  pu->add_option("--months", flags->months, "Catalogue: the time")->capture_default_str();
  pu->add_option("--evalscript-ms", flags->work.announced.evalscript_ms,
                 "Announced, not applied yet: time beyond 200 ms");
  return [flags] { return run(*flags); };
}

}  // namespace weir::app
