#include "weir/system/pool/allocation_message.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace weir::system::pool {
namespace {

void append_json(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out.append({'\\', c});
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out.append(fmt::format("\\u{:04x}", static_cast<unsigned>(c)));
    } else {
      out += c;
    }
  }
  out += '"';
}

constexpr std::array<std::pair<Dimension, std::string_view>, kRateCount> kNames = {{
    {Dimension::kTokensPerMinute, "tokensPerMinute"},
    {Dimension::kRequestsPerMinute, "requestsPerMinute"},
    {Dimension::kTokensPerDay, "tokensPerDay"},
    {Dimension::kRequestsPerDay, "requestsPerDay"},
}};

}  // namespace

std::string allocation_message(std::string_view instance, const Allocation& allocation) {
  std::string out = "{\"instanceId\":";
  append_json(out, instance);
  out.append(fmt::format(",\"allocation\":{{\"instanceCount\":{},\"pools\":{{",
                         allocation.instance_count));
  const char* comma = "";
  for (const auto& [model, pool] : allocation.pools) {
    out.append(std::exchange(comma, ","));
    append_json(out, model);
    out.append(fmt::format(":{{\"totalSlots\":{}", pool.total_slots));
    for (const auto& [rate, name] : kNames) {
      out.append(fmt::format(",\"{}\":{}", name, pool.left.of(rate).value_or(0)));
    }
    out += '}';
  }
  out.append("},\"dynamicLimits\":{");
  comma = "";
  for (const auto& [model, pool] : allocation.pools) {
    out.append(std::exchange(comma, ","));
    append_json(out, model);
    out.append(":{");
    const char* inner = "";
    for (const auto& [rate, name] : kNames) {
      if (!pool.left.of(rate)) continue;
      out.append(fmt::format("{}\"{}\":{}", std::exchange(inner, ","), name, *pool.left.of(rate)));
    }
    out += '}';
  }
  out.append("}}}");
  return out;
}

}  // namespace weir::system::pool
