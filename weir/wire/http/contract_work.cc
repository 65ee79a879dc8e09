// The work that processing units are worked out for, as JSON.

#include <fmt/format.h>

#include "weir/wire/http/contract_json.h"
#include "weir/wire/http/read.h"

namespace weir::wire::http {
namespace {

namespace contract = system::contract;
using contract::AnnouncedCosts;
using contract::Tile;
using contract::Work;

template <auto Field, typename Into>
bool count(Reader& in, std::string_view name, Into& into) {
  return in.integer(name, into.*Field);
}
template <auto Field, typename Into>
bool decimal(Reader& in, std::string_view name, Into& into) {
  return read_decimal(in, name, contract::parse_decimal, into.*Field);
}

bool read_api(Reader& in, Work& work) {
  std::string_view name;
  if (!in.text("api", name)) return false;
  const auto api = contract::api_named(name);
  if (!api) {
    return in.wrong("api", fmt::format("'{}'", name.substr(0, 64)), "a known interface",
                    "one of " + contract::api_names());
  }
  work.api = *api;
  return true;
}

bool read_output(Reader& in, Work& work) {
  std::string_view name;
  if (!in.text("output", name)) return false;
  const auto output = contract::output_named(name);
  if (!output) {
    return in.wrong("output", fmt::format("'{}'", name.substr(0, 64)), "a known format",
                    "one of " + contract::output_names());
  }
  work.output = *output;
  return true;
}

constexpr Member<Tile> kTileMembers[] = {
    {"width", [](Reader& in, Tile& tile) { return count<&Tile::width>(in, "width", tile); }},
    {"height", [](Reader& in, Tile& tile) { return count<&Tile::height>(in, "height", tile); }},
    {"count", [](Reader& in, Tile& tile) { return count<&Tile::count>(in, "count", tile); }},
};

bool read_tiles(Reader& in, Work& work) {
  return in.list("tiles", [&] {
    if (work.tiles.size() == contract::kTilesMax) {
      return in.fail(fmt::format("tiles has more than {} elements; work it out in parts",
                                 contract::kTilesMax));
    }
    Tile& tile = work.tiles.emplace_back();
    if (!in.object<Tile>("a tile", kTileMembers, tile)) return false;
    if (tile.width > 0 && tile.height > 0) return true;
    return in.fail("a tile has no 'width' or no 'height' of 1 pixel or more; write both");
  });
}

bool read_bands(Reader& in, Work& work) {
  return in.list("bands", [&] {
    if (work.bands.size() == contract::kBandsMax) {
      return in.fail(fmt::format("bands has more than {} elements; name those that are read",
                                 contract::kBandsMax));
    }
    std::string_view band;
    if (!in.text("a band", band)) return false;
    work.bands.emplace_back(band);
    return true;
  });
}

constexpr Member<AnnouncedCosts> kAnnouncedMembers[] = {
    {"evalscript_ms",
     [](Reader& in, AnnouncedCosts& into) {
       return count<&AnnouncedCosts::evalscript_ms>(in, "evalscript_ms", into);
     }},
    {"delivered_mb",
     [](Reader& in, AnnouncedCosts& into) {
       return decimal<&AnnouncedCosts::delivered_mb>(in, "delivered_mb", into);
     }},
    {"egress_gb",
     [](Reader& in, AnnouncedCosts& into) {
       return decimal<&AnnouncedCosts::egress_gb>(in, "egress_gb", into);
     }},
    {"ordered_images",
     [](Reader& in, AnnouncedCosts& into) {
       return count<&AnnouncedCosts::ordered_images>(in, "ordered_images", into);
     }},
    {"clipped_assets",
     [](Reader& in, AnnouncedCosts& into) {
       return count<&AnnouncedCosts::clipped_assets>(in, "clipped_assets", into);
     }},
    {"other_tools",
     [](Reader& in, AnnouncedCosts& into) {
       return count<&AnnouncedCosts::other_tools>(in, "other_tools", into);
     }},
};

constexpr Member<Work> kWorkMembers[] = {
    {"api", read_api},
    {"tiles", read_tiles},
    {"bands", read_bands},
    {"output", read_output},
    {"samples", [](Reader& in, Work& work) { return count<&Work::samples>(in, "samples", work); }},
    {"orthorectify",
     [](Reader& in, Work& work) { return in.flag("orthorectify", work.orthorectify); }},
    {"terrain_correct",
     [](Reader& in, Work& work) { return in.flag("terrain_correct", work.terrain_correct); }},
    {"speckle_filter",
     [](Reader& in, Work& work) { return in.flag("speckle_filter", work.speckle_filter); }},
    {"local_collections",
     [](Reader& in, Work& work) {
       return count<&Work::local_collections>(in, "local_collections", work);
     }},
    {"remote_collections",
     [](Reader& in, Work& work) {
       return count<&Work::remote_collections>(in, "remote_collections", work);
     }},
    {"area_km2",
     [](Reader& in, Work& work) { return decimal<&Work::area_km2>(in, "area_km2", work); }},
    {"months", [](Reader& in, Work& work) { return decimal<&Work::months>(in, "months", work); }},
    {"announced",
     [](Reader& in, Work& work) {
       return in.object<AnnouncedCosts>("announced", kAnnouncedMembers, work.announced);
     }},
};

}  // namespace

Result<Work> read_work(std::string_view body, Texts& texts) {
  if (Status status = check_body(body); !status) return std::move(status).error();
  Work work;
  work.months = {1, 1};
  Reader in(body, texts);
  if (!in.object<Work>("the body", kWorkMembers, work) || !in.end()) return in.error();
  return work;
}

}  // namespace weir::wire::http
