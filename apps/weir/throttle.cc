#include "apps/weir/throttle.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/weir/exit.h"
#include "weir/base/in_quotes.h"
#include "weir/base/result.h"
#include "weir/engine/quantity.h"
#include "weir/system/throttle/definitions.h"
#include "weir/system/throttle/read.h"
#include "weir/system/throttle/report.h"
#include "weir/system/throttle/validate.h"

namespace weir::app {
namespace {

namespace throttle = weir::system::throttle;

constexpr std::int64_t kNodesMax = 1'000'000;
constexpr std::int64_t kSizesMax = 1'000;  // reports of one range

struct Sizes {
  std::int64_t first = 1;
  std::int64_t last = 1;
};

Result<Sizes> parse_sizes(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto first = engine::parse_count("nodes", text.substr(0, dash), 1, kNodesMax);
  if (!first) return first.error();
  if (dash == std::string_view::npos) return Sizes{*first, *first};
  const auto last = engine::parse_count("nodes", text.substr(dash + 1), *first, kNodesMax);
  if (!last) return last.error();
  if (*last - *first >= kSizesMax) {
    return bad_argument(
        fmt::format("nodes is {}, but at most {} sizes are reported at once; write "
                    "a shorter range",
                    in_quotes(text), kSizesMax));
  }
  return Sizes{*first, *last};
}

// One byte more than is read, so that a file that is too long is seen to be.
std::optional<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(throttle::kDefinitionsBytesMax + 1, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(text.size())) && !file.eof()) {
    return std::nullopt;
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

// Nothing: it is no such file, and why not is printed.
std::optional<throttle::Definitions> definitions_in(const std::string& path) {
  const std::optional<std::string> text = read_file(path);
  if (!text) {
    fmt::print(stderr, "{}: cannot be read: {}; name a throttles.json\n", path,
               std::strerror(errno));
    return std::nullopt;
  }
  Result<throttle::Definitions> definitions = throttle::read_definitions(*text, path);
  if (!definitions) {
    fmt::print(stderr, "{}\n", definitions.error().message);
    return std::nullopt;
  }
  const throttle::Validation validation = throttle::validate(*definitions);
  if (!validation.accepted()) {
    fmt::print(stderr, "{}\n", validation.message);
    return std::nullopt;
  }
  return std::move(*definitions);
}

}  // namespace

int run_throttle_report(const std::string& path, const ReportFlags& flags) {
  const Result<Sizes> sizes = parse_sizes(flags.nodes);
  if (!sizes) {
    fmt::print(stderr, "{}\n", sizes.error().message);
    return kExitUsage;
  }
  std::vector<throttle::MixPart> mix;
  if (!flags.mix.empty()) {
    Result<std::vector<throttle::MixPart>> read = throttle::parse_mix(flags.mix);
    if (!read) {
      fmt::print(stderr, "{}\n", read.error().message);
      return kExitUsage;
    }
    mix = std::move(*read);
  }
  const std::optional<throttle::Definitions> definitions = definitions_in(path);
  if (!definitions) return kExitFailed;
  std::optional<throttle::Definitions> other;
  if (!flags.against.empty()) {
    other = definitions_in(flags.against);
    if (!other) return kExitFailed;
  }
  const throttle::NetworkSettings settings{.local_calls_by_buckets = flags.local_calls != "gas"};
  bool fits = true;
  for (std::int64_t size = sizes->first; size <= sizes->last; ++size) {
    if (size > sizes->first) fmt::print("\n");
    const auto nodes = static_cast<std::int32_t>(size);
    if (!mix.empty()) {
      const throttle::MixReport report = throttle::report_mix(*definitions, nodes, mix, settings);
      fits = fits && report.fits;
      fmt::print("{}", to_text(report));
    } else if (other) {
      fmt::print("{}", difference_text(throttle::report(*definitions, nodes, settings),
                                       throttle::report(*other, nodes, settings)));
    } else {
      fmt::print("{}", to_text(throttle::report(*definitions, nodes, settings)));
    }
  }
  return fits ? kExitOk : kExitDenied;
}

}  // namespace weir::app
