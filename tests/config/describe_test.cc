#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/support.h"

namespace weir::config {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Describe, SaysWhatAnEmptyMapMeans) {
  EXPECT_EQ(
      describe(config_of("{}")),
      "limits: none\n"
      "listen resp: 127.0.0.1:6380\n"
      "listen http: 127.0.0.1:8080\n"
      "state: memory only\n"
      "auth: none\n"
      "headers: ietf; rounding: cell; threads: one per core\n"
      "record: none\n"
      "bounds: 10000 connections, 65536 bytes a request, 8192 of headers, 1048576 of replies, "
      "268435456 of all replies, 1000 in a batch, 10000 waiting, 100 streams; idle 5m, slow 10s; "
      "10000000 keys, a fair share of them for CL.THROTTLE, one more is refused; 1000000 holds, "
      "16000000 log runs, 65536 overrides; held at most 1d, waiting 10m, booked 1d ahead\n");
}

TEST(Describe, NeverShowsAToken) {
  const Config config = config_of(
      "auth: [ { token: hush, role: observe }, { token: hush2, role: admin, name: me } ]");
  EXPECT_THAT(describe(config), HasSubstr("auth: observe, admin (me)\n"));
  EXPECT_THAT(describe(config), Not(HasSubstr("hush")));
}

TEST(Describe, JoinsConditionsAndGroupsOfExemptions) {
  const Config config = config_of(
      "limits: [ { name: a, when: { x: [p, q], y: r }, window: { limit: 1, every: week },\n"
      "            exempt: [ { x: p, y: s }, { z: t } ] } ]");
  EXPECT_THAT(
      describe(config),
      HasSubstr("limit a: window 1 every calendar week; one meter for all; when x is p or q "
                "and y is r; unit requests; exempt if x is p and y is s; exempt if z is "
                "t\n"));
}

TEST(Describe, ShowsTheDefaultsOfATicker) {
  EXPECT_THAT(describe(config_of("limits: [ { name: a, ticker: { interval: 1s } } ]")),
              HasSubstr("ticker 1 at ticks of 1s, burst 1, starts full"));
}

TEST(Describe, SaysNoneForAProtocolThatIsNotServed) {
  EXPECT_THAT(describe(config_of("listen: { resp: none }")),
              HasSubstr("listen resp: none\nlisten http: none\n"));
}

}  // namespace
}  // namespace weir::config
