#include "weir/store/redis/shared/epochs.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace weir::store::redis {
namespace {

const std::string kFirst = "00000000000000aa";
const std::string kSecond = "00000000000000bb";

TEST(Epochs, AreNotKnownAtFirst) {
  const Epochs epochs;
  EXPECT_EQ(epochs.known()->seen, "");
  EXPECT_EQ(epochs.us_since_loss(epochs.known()), std::nullopt);
}

TEST(Epochs, StayAsTheyAreWhereNothingIsSaid) {
  Epochs epochs;
  epochs.learn(kFirst + ":0");
  const EpochRef known = epochs.known();
  epochs.learn("");
  epochs.learn(kFirst + ":0");
  EXPECT_EQ(epochs.known(), known);
  EXPECT_EQ(epochs.us_since_loss(known), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(epochs.losses(), 0u);
}

TEST(Epochs, ThatAreTakenLeaveAnotherFreshOne) {
  Epochs epochs;
  const std::string fresh = epochs.known()->fresh;
  epochs.learn(kFirst + ":0");
  EXPECT_EQ(epochs.known()->fresh, fresh);
  epochs.learn(fresh + ":7");
  EXPECT_NE(epochs.known()->fresh, fresh);
}

TEST(Epochs, OfAnotherIdAreALoss) {
  Epochs epochs;
  epochs.learn(kFirst + ":0");
  epochs.learn(kFirst + ":9");  // marked by a server that knew other data
  EXPECT_EQ(epochs.losses(), 0u);
  epochs.learn(kSecond + ":100");
  EXPECT_EQ(epochs.losses(), 1u);
  EXPECT_EQ(epochs.known()->lost_at_us, 100);
}

TEST(Epochs, TellHowLongAgoALossWasOnceTheTimeIsHeard) {
  Epochs epochs;
  epochs.learn(kFirst + ":100");
  const EpochRef known = epochs.known();
  EXPECT_LT(*epochs.us_since_loss(known), 0);
  epochs.hear_time(350, known);
  EXPECT_EQ(epochs.us_since_loss(known), 250);
}

TEST(Epochs, DoNotTrustATimeFromBeforeALoss) {
  Epochs epochs;
  epochs.learn(kFirst + ":100");
  const EpochRef before = epochs.known();
  epochs.learn(kSecond + ":50");
  epochs.hear_time(350, before);
  EXPECT_LT(*epochs.us_since_loss(epochs.known()), 0);
  EXPECT_EQ(epochs.us_since_loss(before), std::nullopt);
}

TEST(Epochs, ThatCannotBeReadSayNothingAboutLosses) {
  Epochs epochs;
  for (const std::string& odd : {kFirst, kFirst + ":", kFirst + ":1x", std::string("x")}) {
    epochs.learn(odd);
    EXPECT_EQ(epochs.us_since_loss(epochs.known()), std::nullopt) << odd;
  }
}

}  // namespace
}  // namespace weir::store::redis
