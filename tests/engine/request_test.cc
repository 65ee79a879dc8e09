// Tests what a request says of itself.

#include "weir/engine/request.h"

#include <gtest/gtest.h>

namespace weir::engine {
namespace {

constexpr Attribute kAttributes[] = {{"client", "acme"}, {"operation", ""}};
constexpr Cost kCosts[] = {{"tokens", 1200}, {"gas", 0}};
constexpr Request kRequest{kAttributes, kCosts};

TEST(Request, FindsAnAttributeByName) {
  EXPECT_EQ(kRequest.attribute("client"), "acme");
  EXPECT_EQ(kRequest.attribute("operation"), "") << "there, though it is empty";
  EXPECT_EQ(kRequest.attribute("model"), std::nullopt);
}

TEST(Request, FindsACostByUnit) {
  EXPECT_EQ(kRequest.cost("tokens"), 1200);
  EXPECT_EQ(kRequest.cost("gas"), 0) << "there, though it is nothing";
  EXPECT_EQ(kRequest.cost(kRequests), std::nullopt) << "the engine counts 1, the request says none";
}

TEST(Request, OfNothingNamesNothing) {
  EXPECT_EQ(Request{}.attribute("client"), std::nullopt);
  EXPECT_EQ(amount_in({}, "tokens"), std::nullopt);
}

}  // namespace
}  // namespace weir::engine
