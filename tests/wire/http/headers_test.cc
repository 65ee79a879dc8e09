#include "weir/wire/http/headers.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/wire/http/support.h"

namespace weir::wire::http {
namespace {

using engine::BucketSpec;
using engine::CalendarSpec;
using engine::LogSpec;
using engine::RuleSetSpec;
using engine::SlotsSpec;
using engine::TickerSpec;
using engine::WindowSpec;

RuleSetSpec one_limit(std::string name, engine::MeterSpec meter) {
  return {.limits = {{.name = std::move(name), .per = {"client"}, .meter = std::move(meter)}}};
}

std::string headers_for(const RuleSetSpec& spec, HeaderStyle style = HeaderStyle::kIetf) {
  return Desk(spec, {.headers = style}).acquire(kAcme).headers;
}

std::string field_string(std::string_view text) {
  std::string out;
  append_field_string(out, text);
  return out;
}

// --- IETF

TEST(IetfHeaders, DescribeAWindowByItsLength) {
  EXPECT_EQ(headers_for(one_limit("default", WindowSpec{100, 10s})),
            "RateLimit-Policy: \"default\";q=100;w=10\r\nRateLimit: \"default\";r=99;t=10\r\n");
}

TEST(IetfHeaders, ListEveryLimitInTheOrderOfTheRules) {
  const RuleSetSpec spec{.limits = {{.name = "hour", .meter = WindowSpec{1000, 1h}},
                                    {.name = "day", .meter = WindowSpec{5000, 24h}}}};
  EXPECT_EQ(Desk(spec).acquire("{}").headers,
            "RateLimit-Policy: \"hour\";q=1000;w=3600, \"day\";q=5000;w=86400\r\n"
            "RateLimit: \"hour\";r=999;t=3600, \"day\";r=4999;t=57600\r\n");
}

TEST(IetfHeaders, DescribeABucketByTheTimeFromEmptyToFullRoundedUp) {
  EXPECT_EQ(headers_for(one_limit("b", BucketSpec{3, 1s, 10})),  // 3.33 s
            "RateLimit-Policy: \"b\";q=10;w=4\r\nRateLimit: \"b\";r=9;t=1\r\n");
}

TEST(IetfHeaders, DescribeATickerByTheTimeFromEmptyToFull) {
  EXPECT_EQ(headers_for(one_limit("t", TickerSpec{.per_tick = 2, .interval = 3s, .burst = 5})),
            "RateLimit-Policy: \"t\";q=5;w=9\r\nRateLimit: \"t\";r=4;t=3\r\n");
}

TEST(IetfHeaders, DescribeALogByItsWindow) {
  EXPECT_EQ(headers_for(one_limit("l", LogSpec{5, 1500ms})),
            "RateLimit-Policy: \"l\";q=5;w=2\r\nRateLimit: \"l\";r=4\r\n");
}

TEST(IetfHeaders, DescribeACalendarByTheLengthOfTheUnitInForce) {
  EXPECT_EQ(headers_for(one_limit("m", CalendarSpec{5, meter::CalendarUnit::kMonth})),
            "RateLimit-Policy: \"m\";q=5;w=2678400\r\n"  // January
            "RateLimit: \"m\";r=4;t=1440000\r\n");
}

TEST(IetfHeaders, GiveSlotsNoTime) {
  EXPECT_EQ(headers_for(one_limit("s", SlotsSpec{5})),
            "RateLimit-Policy: \"s\";q=5;qu=\"concurrent-requests\"\r\nRateLimit: \"s\";r=4\r\n");
}

TEST(IetfHeaders, NameAUnitOtherThanRequests) {
  const RuleSetSpec spec{
      .limits = {{.name = "peruser", .unit = "content-bytes", .meter = WindowSpec{65535, 10s}}},
      .units = {{"content-bytes"}}};
  EXPECT_EQ(Desk(spec).acquire(R"({"costs":{"content-bytes":5}})").headers,
            "RateLimit-Policy: \"peruser\";q=65535;qu=\"content-bytes\";w=10\r\n"
            "RateLimit: \"peruser\";r=65530;t=10\r\n");
}

TEST(IetfHeaders, NameMillionthsOfAMicroUnit) {
  const RuleSetSpec spec{
      .limits = {{.name = "pu", .unit = "pu", .meter = WindowSpec{2'500'000, 10s}}},
      .units = {{"pu", engine::UnitScale::kMicro}}};
  EXPECT_EQ(Desk(spec).acquire(R"({"costs":{"pu":0.5}})").headers,
            "RateLimit-Policy: \"pu\";q=2500000;qu=\"micro-pu\";w=10\r\n"
            "RateLimit: \"pu\";r=2000000;t=10\r\n");
}

TEST(IetfHeaders, SayWhenALimitThatRefusedAdmitsAgainAndLeaveTheOthersOpen) {
  const RuleSetSpec spec{.limits = {{.name = "tight", .meter = WindowSpec{1, 10s}},
                                    {.name = "slow", .meter = BucketSpec{1, 1h, 5}}}};
  Desk desk(spec);
  desk.acquire("{}");
  desk.pass(3500ms);
  EXPECT_EQ(desk.acquire("{}").headers,
            "RateLimit-Policy: \"tight\";q=1;w=10, \"slow\";q=5;w=18000\r\n"
            "RateLimit: \"tight\";r=0;t=7, \"slow\";r=4\r\n"
            "Retry-After: 7\r\n");
}

TEST(IetfHeaders, LeaveLimitsInShadowOut) {
  const RuleSetSpec spec{.limits = {{.name = "dark", .shadow = true, .meter = WindowSpec{1, 10s}}}};
  EXPECT_EQ(Desk(spec).acquire("{}").headers, "");
}

TEST(IetfHeaders, SayNothingOfTheTimeOfAKeyWithParametersOfItsOwn) {
  Desk desk(one_limit("b", BucketSpec{3, 1s, 10}));
  ASSERT_EQ(desk.ask("PUT", "/v1/overrides/b?key=acme",
                     R"({"kind":"bucket","amount":1,"period":"1h","burst":20})")
                .status,
            200u);
  EXPECT_EQ(desk.acquire(kAcme).headers,
            "RateLimit-Policy: \"b\";q=20\r\nRateLimit: \"b\";r=19\r\n");
}

TEST(IetfHeaders, SayNothingOfTheTimeOfAKeyWithTheSameCapacityButARateOfItsOwn) {
  Desk desk(one_limit("b", BucketSpec{3, 1s, 10}));
  ASSERT_EQ(desk.ask("PUT", "/v1/overrides/b?key=acme",
                     R"({"kind":"bucket","amount":1,"period":"1h","burst":10})")
                .status,
            200u);
  EXPECT_EQ(desk.acquire(kAcme).headers,
            "RateLimit-Policy: \"b\";q=10\r\nRateLimit: \"b\";r=9\r\n");
}

TEST(IetfHeaders, CapIntegersAtFifteenDigits) {
  EXPECT_EQ(headers_for(one_limit("big", WindowSpec{kTermMax, 10s})),
            "RateLimit-Policy: \"big\";q=999999999999999;w=10\r\n"
            "RateLimit: \"big\";r=999999999999999;t=10\r\n");
}

TEST(IetfHeaders, FollowTheRules) {
  Desk desk(one_limit("b", WindowSpec{3, 1s}));
  desk.acquire(kAcme);
  ASSERT_TRUE(desk.engine->swap(*engine::compile(one_limit("b", WindowSpec{3, 1min})), kTestStart));
  EXPECT_EQ(desk.acquire(kAcme).headers.substr(0, 34), "RateLimit-Policy: \"b\";q=3;w=60\r\nRa");
}

TEST(FieldString, EscapesQuotesAndBackslashes) {
  EXPECT_EQ(field_string("burst"), "\"burst\"");
  EXPECT_EQ(field_string("a\"b\\c ~"), "\"a\\\"b\\\\c ~\"");
}

TEST(FieldString, WritesWhatItCannotHoldAsPercent) {
  EXPECT_EQ(field_string("grün\r\n"), "\"gr%C3%BCn%0D%0A\"");
  EXPECT_EQ(field_string("\x7f"), "\"%7F\"");
}

// --- X-RateLimit

std::string x_headers(int limit, int remaining, std::int64_t reset) {
  return "X-RateLimit-Limit: " + std::to_string(limit) +
         "\r\nX-RateLimit-Remaining: " + std::to_string(remaining) +
         "\r\nX-RateLimit-Reset: " + std::to_string(reset) + "\r\n";
}

// Limit 5, one in a second: the sequence that throttled and redis-cell share.
TEST(XHeaders, CountTheSecondsUntilABucketIsFull) {
  Desk desk(one_limit("b", BucketSpec{1, 1s, 5}), {.headers = HeaderStyle::kXRateLimit});
  for (int i = 1; i <= 5; ++i) EXPECT_EQ(desk.acquire(kAcme).headers, x_headers(5, 5 - i, i));
  EXPECT_EQ(desk.acquire(kAcme).headers, x_headers(5, 0, 5) + "Retry-After: 1\r\n");
  desk.pass(3s);
  EXPECT_EQ(desk.acquire(kAcme).headers, x_headers(5, 2, 3));
  desk.pass(100ms);
  EXPECT_EQ(desk.acquire(kAcme).headers, x_headers(5, 1, 4));  // 3.9
}

TEST(XHeaders, CountTheSecondsUntilTheNextWindow) {
  Desk desk(one_limit("w", WindowSpec{1, 1min}), {.headers = HeaderStyle::kXRateLimit});
  desk.pass(2s);
  EXPECT_EQ(desk.acquire(kAcme).headers, x_headers(1, 0, 58));
  EXPECT_EQ(desk.acquire(kAcme).headers, x_headers(1, 0, 58) + "Retry-After: 58\r\n");
}

TEST(XHeaders, CountFromTheEpochWhenAsked) {
  Desk desk(one_limit("w", WindowSpec{1, 1min}), {.headers = HeaderStyle::kXRateLimitEpoch});
  desk.pass(2s);
  EXPECT_EQ(desk.acquire(kAcme).headers, x_headers(1, 0, 1'800'000'060));
}

TEST(XHeaders, KnowTheDebtOfABucketThatWasBookedAhead) {
  Desk desk(one_limit("b", BucketSpec{1, 1s, 2}), {.headers = HeaderStyle::kXRateLimit});
  for (int i = 0; i < 6; ++i) {
    desk.acquire(R"({"attributes":{"client":"acme"},"book_within":"10s"})");
  }
  EXPECT_EQ(desk.acquire(kAcme).headers, x_headers(2, 0, 6) + "Retry-After: 5\r\n");
}

TEST(XHeaders, ShowTheLimitWithTheLeastLeft) {
  const RuleSetSpec spec{.limits = {{.name = "wide", .meter = WindowSpec{9, 1h}},
                                    {.name = "tight", .meter = WindowSpec{3, 1min}},
                                    {.name = "same", .meter = WindowSpec{3, 1s}}}};
  EXPECT_EQ(Desk(spec, {.headers = HeaderStyle::kXRateLimit}).acquire("{}").headers,
            x_headers(3, 2, 60));
}

TEST(XHeaders, CompareLimitsByThePartThatIsLeft) {
  // 3 of 4 requests, and 10 of 100 tokens: the tokens end first. What holds nothing is tightest.
  RuleSetSpec spec{.limits = {{.name = "few", .meter = WindowSpec{4, 1h}},
                              {.name = "many", .unit = "tokens", .meter = WindowSpec{100, 1min}}},
                   .units = {{"tokens"}}};
  const std::string ask = R"({"costs":{"tokens":90}})";
  EXPECT_EQ(Desk(spec, {.headers = HeaderStyle::kXRateLimit}).acquire(ask).headers,
            x_headers(100, 10, 60));
  // The largest amounts there are do not overflow.
  spec.limits[0].meter = WindowSpec{kTermMax, 1h};
  EXPECT_EQ(Desk(spec, {.headers = HeaderStyle::kXRateLimit}).acquire(ask).headers,
            x_headers(100, 10, 60));
}

TEST(XHeaders, PromiseNoResetOfSlots) {
  EXPECT_EQ(headers_for(one_limit("s", SlotsSpec{5}), HeaderStyle::kXRateLimit),
            "X-RateLimit-Limit: 5\r\nX-RateLimit-Remaining: 4\r\n");
}

// --- Retry-After

TEST(RetryAfter, IsThereWithoutOtherHeadersToo) {
  Desk desk(one_limit("w", WindowSpec{1, 1min}), {.headers = HeaderStyle::kNone});
  EXPECT_EQ(desk.acquire(kAcme).headers, "");
  EXPECT_EQ(desk.acquire(kAcme).headers, "Retry-After: 60\r\n");
}

TEST(RetryAfter, IsRoundedUp) {
  Desk desk(one_limit("w", WindowSpec{1, 1min}), {.headers = HeaderStyle::kNone});
  desk.acquire(kAcme);
  desk.pass(1ns);
  EXPECT_EQ(desk.acquire(kAcme).headers, "Retry-After: 60\r\n");
  desk.pass(1s);
  EXPECT_EQ(desk.acquire(kAcme).headers, "Retry-After: 59\r\n");
  desk.pass(58'999'999'998ns);
  EXPECT_EQ(desk.acquire(kAcme).headers, "Retry-After: 1\r\n");
}

TEST(RetryAfter, IsNotPromisedWhereTheInstantIsUnknown) {
  Desk desk(one_limit("s", SlotsSpec{1}), {.headers = HeaderStyle::kNone});
  desk.acquire(kAcme);
  const Answer denied = desk.acquire(kAcme);
  EXPECT_EQ(denied.status, 429u);
  EXPECT_EQ(denied.headers, "");
}

TEST(RetryAfter, IsNotPromisedForWhatNeverFits) {
  Desk desk(one_limit("w", WindowSpec{1, 1min}), {.headers = HeaderStyle::kNone});
  const Answer never = desk.acquire(R"({"attributes":{"client":"a"},"costs":{"requests":2}})");
  EXPECT_EQ(never.status, 422u);
  EXPECT_EQ(never.headers, "");
}

}  // namespace
}  // namespace weir::wire::http
