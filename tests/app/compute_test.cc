// `weir compute`: the calculator and the table.

#include <gmock/gmock.h>

#include "apps/weir/exit.h"
#include "tests/app/support.h"

namespace weir::app {
namespace {

using ::testing::HasSubstr;

struct ComputeCommand : AppTest {
  static Ran compute(std::vector<std::string> words) {
    words.insert(words.begin(), "compute");
    return run_words(weir(std::move(words)));
  }
};

TEST_F(ComputeCommand, CountsTheUnitsOfALock) {
  const Ran ran = compute({"units", "--amount", "10000", "--duration", "180d"});
  EXPECT_EQ(ran.code, kExitOk);
  EXPECT_EQ(ran.out,
            "tokens 10000\nblocks 1296000\nseconds 15552000\nboost 2.0000\nunits 259200000\n"
            "units_per_epoch 20000\n");
}

TEST_F(ComputeCommand, TakesBlocksAndOtherParameters) {
  const Ran ran = compute({"units", "--amount", "0.5", "--duration", "18000", "--mana", "1000",
                           "--epoch", "50", "--block-time", "2s"});
  EXPECT_THAT(ran.out, HasSubstr("seconds 36000\nboost 1.0000\nunits 9000\nunits_per_epoch 25\n"));
}

TEST_F(ComputeCommand, SplitsThemOverWorkersAndLosesNone) {
  const Ran ran =
      compute({"allocate", "--amount", "10000", "--duration", "180d", "--workers", "7"});
  EXPECT_EQ(ran.code, kExitOk);
  EXPECT_THAT(ran.out, HasSubstr("       5                 2858 419ms874us38ns\n"));
  EXPECT_THAT(ran.out, HasSubstr("allocated 20000 of 20000\n"));
  EXPECT_THAT(compute({"allocate", "--amount", "10000", "--duration", "180d", "--workers", "7",
                       "--remainder", "drop"})
                  .out,
              HasSubstr("allocated 19999 of 20000\n"));
}

TEST_F(ComputeCommand, SplitsThemByShares) {
  const Ran ran = compute({"allocate", "--amount", "10000", "--duration", "180d", "--workers", "3",
                           "--share", "1=5000", "--share", "3=2500"});
  EXPECT_THAT(ran.out, HasSubstr("allocated 15000 of 20000\n"));
  EXPECT_THAT(ran.out, HasSubstr("       2                    0          never\n"));
}

TEST_F(ComputeCommand, SaysWhatIsWrongWithWhatWasWritten) {
  const Ran amount = compute({"units", "--amount", "ten", "--duration", "180d"});
  EXPECT_EQ(amount.code, kExitUsage);
  EXPECT_THAT(amount.err, HasSubstr("--amount is 'ten', but it must be tokens"));
  EXPECT_THAT(compute({"units", "--amount", "1", "--duration", "1s"}).err,
              HasSubstr("--duration is 0 blocks, but it must be from an epoch (100)"));
  EXPECT_THAT(compute({"units", "--amount", "2000000000", "--duration", "180d"}).err,
              HasSubstr("but there are 1337000000; write less"));
  EXPECT_THAT(compute({"allocate", "--amount", "1", "--duration", "180d", "--workers", "2",
                       "--share", "1=6000", "--share", "2=6000"})
                  .err,
              HasSubstr("OVER_100_PERCENT"));
}

}  // namespace
}  // namespace weir::app
