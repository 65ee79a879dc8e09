#include "weir/store/redis/link/script.h"

#include <gtest/gtest.h>

namespace weir::store::redis {
namespace {

// The example of the standard, FIPS 180.
TEST(Script, IsNamedByTheSha1OfItsText) {
  EXPECT_EQ(Script("x", "abc").sha(), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(Script("x", "").sha(), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
}

}  // namespace
}  // namespace weir::store::redis
