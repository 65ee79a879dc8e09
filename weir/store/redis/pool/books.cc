#include "weir/store/redis/pool/books.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

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

PoolReply read_text(std::string_view text) {
  const auto digit = [&](std::size_t place) {
    return place < text.size() && text[place] >= '0' && text[place] <= '9' ? text[place] - '0' : -1;
  };
  return {digit(0), digit(1), text.substr(std::min<std::size_t>(2, text.size()))};
}

}  // namespace

PoolKeys pool_keys(std::string_view prefix, std::string_view model) {
  const std::string books = fmt::format("{}:pool:1:{{{}}}", prefix, escaped_tag(model));
  return {books, fmt::format("{}:leases", books), fmt::format("{}:left", books),
          fmt::format("{}:news", books)};
}

std::string alive_channel_of(std::string_view prefix, std::string_view who) {
  return fmt::format("{}:pool:1:alive:{}", prefix, who);
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

std::optional<std::int64_t> PoolReply::number(std::size_t place) const {
  double value = 0;
  if (rest.size() < (place + 1) * sizeof(value)) return std::nullopt;
  std::memcpy(&value, rest.data() + place * sizeof(value), sizeof(value));
  const auto most = static_cast<double>(kExactMax);
  // Also false for what is not a number.
  if (!(value >= -most && value <= most) || std::trunc(value) != value) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

std::optional<PoolTotals> PoolReply::totals() const {
  std::array<std::int64_t, kTotals> numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto found = number(i);
    if (!found || *found < 0) return std::nullopt;
    numbers[i] = *found;
  }
  PoolTotals totals;
  totals.marker = numbers[0];
  totals.version = numbers[1];
  totals.epoch = numbers[2];
  totals.count = numbers[3];
  totals.minute_us = numbers[4];
  totals.used.minute = {numbers[5], numbers[6]};
  totals.day_us = numbers[7];
  totals.used.day = {numbers[8], numbers[9]};
  totals.in_flight = numbers[10];
  totals.recover_at_us = numbers[16];
  totals.now_us = numbers[19];
  return totals;
}

PoolReply PoolReply::of_request(std::size_t place) const {
  // Behind the totals and the four sums.
  const std::size_t at = (kTotals + 4) * sizeof(double) + 2 * place;
  return at + 2 <= rest.size() ? read_text(rest.substr(at, 2)) : PoolReply{};
}

void add_to_report(system::pool::CoordinatorReport& report, std::string_view model,
                   const system::pool::ModelLimits& limits, const PoolCoordinatorOptions& options,
                   const Reply& reply) {
  const auto totals = read_reply(reply).totals();
  if (!totals) return;
  report.instance_count = std::max(report.instance_count, totals->count);
  report.models.push_back({.model = std::string(model),
                           .limits = limits,
                           .minute = instant_of_us(totals->minute_us),
                           .day = instant_of_us(totals->day_us),
                           .used = totals->used,
                           .in_flight = totals->in_flight});
  for (std::size_t i = 1; i < reply.size(); ++i) {
    const Reply row = reply.at(i);
    const std::string id(row.at(0).text().value_or("?"));
    auto same =
        std::find_if(report.instances.begin(), report.instances.end(),
                     [&](const system::pool::InstanceReport& known) { return known.id == id; });
    if (same == report.instances.end()) {
      if (report.instances.size() == system::pool::kInstancesReportedMax) continue;
      report.instances.push_back({.id = id, .is_own = id == options.instance});
      same = report.instances.end() - 1;
    }
    const std::int64_t lease_us = row.at(2).number().value_or(0);
    same->last_heard =
        later_of(same->last_heard, instant_of_us(lease_us) - options.instance_timeout);
    same->in_flight = saturate(Wide{same->in_flight} + row.at(1).number().value_or(0));
  }
}

PoolReply read_reply(const Reply& reply) {
  return read_text((reply.is_array() ? reply.at(0) : reply).text().value_or(""));
}

}  // namespace weir::store::redis
