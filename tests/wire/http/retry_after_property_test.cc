#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "tests/meter/property.h"
#include "tests/wire/http/support.h"

namespace weir::wire::http {
namespace {

using meter::between;
using meter::for_all;

rc::Gen<engine::MeterSpec> any_meter() {
  using engine::MeterSpec;
  const auto span = between(1, 7'000'000'000);
  const auto bucket = rc::gen::apply(
      [](std::int64_t amount, std::int64_t period_ns, std::int64_t burst) {
        return MeterSpec{engine::BucketSpec{amount, Duration{period_ns}, burst}};
      },
      between(1, 9), span, between(1, 9));
  const auto ticker = rc::gen::apply(
      [](std::int64_t per_tick, std::int64_t interval_ns, std::int64_t more) {
        return MeterSpec{engine::TickerSpec{
            .per_tick = per_tick, .interval = Duration{interval_ns}, .burst = per_tick + more}};
      },
      between(1, 3), span, between(0, 6));
  const auto window = rc::gen::apply(
      [](std::int64_t limit, std::int64_t every_ns) {
        return MeterSpec{engine::WindowSpec{limit, Duration{every_ns}}};
      },
      between(1, 9), span);
  const auto log = rc::gen::apply(
      [](std::int64_t limit, std::int64_t window_ns) {
        return MeterSpec{engine::LogSpec{limit, Duration{window_ns}}};
      },
      between(1, 9), span);
  const auto calendar = rc::gen::apply(
      [](std::int64_t limit) { return MeterSpec{engine::CalendarSpec{limit}}; }, between(1, 9));
  return rc::gen::oneOf(bucket, ticker, window, log, calendar);
}

// The number after `name: `, or -1.
std::int64_t number_in(std::string_view headers, std::string_view name) {
  const std::size_t at = headers.find(name);
  if (at == std::string_view::npos) return -1;
  std::int64_t number = -1;
  std::from_chars(headers.data() + at + name.size(), headers.data() + headers.size(), number);
  return number;
}

// Every `;t=` of the header.
std::vector<std::int64_t> times_in(std::string_view headers) {
  std::vector<std::int64_t> times;
  for (std::size_t at = headers.find(";t="); at != std::string_view::npos;
       at = headers.find(";t=", at + 1)) {
    times.push_back(number_in(headers.substr(at), ";t="));
  }
  return times;
}

TEST(RetryAfter, IsNeverTooEarlyForTheSameRequestAlone) {
  for_all([] {
    engine::RuleSetSpec spec;
    const auto meters = *rc::gen::resize(3, rc::gen::nonEmpty(meter::list_of(any_meter())));
    for (std::size_t i = 0; i < meters.size(); ++i) {
      spec.limits.push_back({.name = "l" + std::to_string(i), .meter = meters[i]});
    }
    Desk desk(spec);
    const auto steps = *meter::list_of(rc::gen::pair(between(0, 3'000'000'000), between(1, 4)));
    for (const auto& [span_ns, cost] : steps) {
      desk.pass(Duration{span_ns});
      const std::string body = "{\"costs\":{\"requests\":" + std::to_string(cost) + "}}";
      const Answer answer = desk.acquire(body);
      if (answer.status != 429) continue;
      const std::int64_t seconds = number_in(answer.headers, "Retry-After: ");
      RC_ASSERT(seconds >= 1);
      // What is promised for one limit must not be later than for all of them.
      for (const std::int64_t t : times_in(answer.headers)) RC_ASSERT(t <= seconds);
      desk.pass(std::chrono::seconds{seconds});
      RC_ASSERT(desk.acquire(body).status == 200u);
    }
  });
}

// One second sooner the request is still refused: the header is as early as whole
// seconds allow.
TEST(RetryAfter, IsNoLaterThanNeeded) {
  for_all([] {
    Desk desk({.limits = {{.name = "one", .meter = *any_meter()}}});
    const std::string body = R"({"costs":{"requests":1}})";
    Answer answer = desk.acquire(body);
    for (int i = 0; i < 20 && answer.status == 200; ++i) answer = desk.acquire(body);
    RC_PRE(answer.status == 429);
    const std::int64_t seconds = number_in(answer.headers, "Retry-After: ");
    if (seconds == 1) return;
    desk.pass(std::chrono::seconds{seconds - 1});
    RC_ASSERT(desk.post("/v1/peek", body).status == 429u);
  });
}

}  // namespace
}  // namespace weir::wire::http
