#include "weir/store/redis/pool_books.h"

#include <fmt/format.h>

#include <array>

namespace weir::store::redis {
namespace {

using system::pool::Dimension;

std::string escaped_tag(std::string_view model) {
  std::string text;
  for (const char c : model) {
    if (c == '{' || c == '}' || c == '%') {
      text.append(fmt::format("%{:02X}", static_cast<unsigned>(c)));
    } else {
      text += c;
    }
  }
  return text;
}

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

constexpr std::array<std::pair<Dimension, std::string_view>, system::pool::kRateCount> kNames = {{
    {Dimension::kTokensPerMinute, "tokensPerMinute"},
    {Dimension::kRequestsPerMinute, "requestsPerMinute"},
    {Dimension::kTokensPerDay, "tokensPerDay"},
    {Dimension::kRequestsPerDay, "requestsPerDay"},
}};

}  // namespace

PoolKeys pool_keys(std::string_view prefix, std::string_view model) {
  const std::string books = fmt::format("{}:pool:1:{{{}}}", prefix, escaped_tag(model));
  return {books, fmt::format("{}:leases", books), fmt::format("{}:news", books)};
}

std::string allocations_channel(std::string_view prefix) {
  return fmt::format("{}:pool:1:allocations", prefix);
}

std::string limits_in_words(const system::pool::ModelLimits& limits,
                            const system::pool::Amounts& average, Duration minute, Duration day) {
  std::string text;
  const auto add = [&](std::string_view name, const std::optional<std::int64_t>& value) {
    text.append(name).append("=");
    text.append(value ? fmt::format("{}", *value) : "none").append(" ");
  };
  for (const Dimension rate : system::pool::kRates) {
    add(system::pool::to_string(rate), limits.rates.of(rate));
  }
  add(system::pool::to_string(Dimension::kConcurrency), limits.concurrent);
  add("average_tokens", average.tokens);
  add("average_requests", average.requests);
  add("minute_us", us_of(minute));
  add("day_us", us_of(day));
  text.pop_back();
  return text;
}

std::string allocation_message(std::string_view instance,
                               const system::pool::Allocation& allocation) {
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

std::optional<PoolTotals> read_totals(const Reply& reply, std::size_t from) {
  std::array<std::int64_t, 10> numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto number = reply.at(from + i).integer();
    if (!number || *number < 0) return std::nullopt;
    numbers[i] = *number;
  }
  PoolTotals totals;
  totals.now_us = numbers[0];
  totals.epoch = numbers[1];
  totals.count = numbers[2];
  totals.minute_us = numbers[3];
  totals.used.minute = {numbers[4], numbers[5]};
  totals.day_us = numbers[6];
  totals.used.day = {numbers[7], numbers[8]};
  totals.in_flight = numbers[9];
  return totals;
}

}  // namespace weir::store::redis
