// What the naive engine's rules, requests and answers look like in a failure.

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <type_traits>
#include <variant>

#include "tests/engine/naive.h"

namespace weir::engine::naive {
namespace {

std::string in_quotes(const std::vector<std::string>& texts) {
  return fmt::format("{{\"{}\"}}", fmt::join(texts, "\", \""));
}

std::string text_of(const std::vector<Condition>& conditions) {
  std::vector<std::string> texts;
  for (const Condition& condition : conditions) {
    texts.push_back(
        fmt::format("{{\"{}\", {}}}", condition.attribute, in_quotes(condition.patterns)));
  }
  return fmt::format("{{{}}}", fmt::join(texts, ", "));
}

std::string text_of(const LimitSpec& limit) {
  std::string text = fmt::format("{{.name = \"{}\"", limit.name);
  if (!limit.when.empty()) text += fmt::format(", .when = {}", text_of(limit.when));
  if (!limit.per.empty()) text += fmt::format(", .per = {}", in_quotes(limit.per));
  if (limit.unit != kRequests) text += fmt::format(", .unit = \"{}\"", limit.unit);
  if (!limit.weigh.attribute.empty()) {
    text += fmt::format(", .weigh = {{\"{}\", {{", limit.weigh.attribute);
    for (const auto& [value, weight] : limit.weigh.table) {
      text += fmt::format("{{\"{}\", {}}}, ", value, weight);
    }
    text += "}}";
  }
  if (!limit.exempt.empty()) {
    std::vector<std::string> groups;
    for (const auto& group : limit.exempt) groups.push_back(text_of(group));
    text += fmt::format(", .exempt = {{{}}}", fmt::join(groups, ", "));
  }
  if (limit.shadow) text += ", .shadow = true";
  if (!limit.parent.empty()) text += fmt::format(", .parent = \"{}\"", limit.parent);
  if (limit.queue_max != LimitSpec{}.queue_max) {
    text += fmt::format(", .queue_max = {}", limit.queue_max);
  }
  return text + fmt::format(", .meter = {}}}", describe(limit.meter));
}

std::string text_of(const Row& row) {
  return fmt::format("{}{}: {} cost {} remaining {} of {} earliest {}", row.limit,
                     row.shadow ? " (shadow)" : "", to_string(row.verdict), row.cost, row.remaining,
                     row.capacity, describe(row.earliest));
}

Row row_of(const Outcome& outcome) {
  return {std::string{outcome.limit}, outcome.verdict,  outcome.shadow,  outcome.cost,
          outcome.remaining,          outcome.capacity, outcome.earliest};
}

Answer answer_of(const Decision& decision) {
  Answer answer{decision.verdict,
                decision.binding() == nullptr ? "" : std::string{decision.binding()->limit},
                decision.shortfall,
                decision.earliest,
                decision.granted,
                decision.hold.number,
                decision.hold_expires,
                {}};
  for (const Outcome& outcome : decision.outcomes()) answer.rows.push_back(row_of(outcome));
  return answer;
}

}  // namespace

std::string describe(Instant at) { return at == kForever ? "forever" : fmt::format("{}", at.ns); }

std::string describe(const MeterSpec& spec) {
  const auto ns = [](Duration span) { return fmt::format("{}ns", span.count()); };
  return std::visit(
      [&](const auto& of) -> std::string {
        using Spec = std::decay_t<decltype(of)>;
        if constexpr (std::is_same_v<Spec, BucketSpec>) {
          return fmt::format("BucketSpec{{{}, {}, {}}}", of.amount, ns(of.period), of.burst);
        } else if constexpr (std::is_same_v<Spec, TickerSpec>) {
          return fmt::format("TickerSpec{{{}, {}, {}, meter::TickerStart::{}}}", of.per_tick,
                             ns(of.interval), of.burst,
                             of.start == meter::TickerStart::kFull ? "kFull" : "kEmpty");
        } else if constexpr (std::is_same_v<Spec, WindowSpec>) {
          return fmt::format("WindowSpec{{{}, {}}}", of.limit, ns(of.every));
        } else if constexpr (std::is_same_v<Spec, CalendarSpec>) {
          constexpr std::string_view units[] = {"kDay", "kWeek", "kMonth", "kYear"};
          return fmt::format("CalendarSpec{{{}, meter::CalendarUnit::{}}}", of.limit,
                             units[static_cast<std::size_t>(of.every)]);
        } else if constexpr (std::is_same_v<Spec, LogSpec>) {
          return fmt::format("LogSpec{{{}, {}}}", of.limit, ns(of.window));
        } else if constexpr (std::is_same_v<Spec, SlotsSpec>) {
          return fmt::format("SlotsSpec{{{}, {}, {}}}", of.limit, of.queue, ns(of.hold));
        } else {
          return "a gate";
        }
      },
      spec);
}

std::string describe(const RuleSetSpec& rules) {
  std::string text;
  for (const LimitSpec& limit : rules.limits) text += "  " + text_of(limit) + "\n";
  return text;
}

std::string describe(const Key& key) {
  return fmt::format("{} {}", key.first, in_quotes(key.second));
}

std::string describe(const Request& request) {
  std::vector<std::string> texts;
  for (const Attribute& a : request.attributes)
    texts.push_back(fmt::format("{}={}", a.name, a.value));
  for (const Cost& cost : request.costs)
    texts.push_back(fmt::format("{}:{}", cost.unit, cost.amount));
  return fmt::format("{{{}}}", fmt::join(texts, " "));
}

std::string describe(const Answer& answer) {
  std::string text = fmt::format(
      "{} binding '{}' shortfall {} earliest {} granted {} hold {}", to_string(answer.verdict),
      answer.binding, answer.shortfall, describe(answer.earliest), answer.granted,
      answer.hold == 0 ? "none" : "until " + describe(answer.hold_expires));
  for (const Row& row : answer.rows) text += "\n      " + text_of(row);
  return text;
}

std::string describe(const Decision& decision) { return describe(answer_of(decision)); }

std::string difference(const Answer& expected, const Decision& actual) {
  Answer got = answer_of(actual);
  if ((expected.hold == 0) == (got.hold == 0)) got.hold = expected.hold;
  if (expected == got) return "";
  return fmt::format("expected {}\n    but got  {}", describe(expected), describe(got));
}

}  // namespace weir::engine::naive
