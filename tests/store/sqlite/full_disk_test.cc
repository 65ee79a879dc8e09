// A disk that is full: an error, deciding goes on, and nothing is lost once there is
// room again.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/store/sqlite/support.h"
#include "tests/support/small_disk.h"
#include "weir/store/sqlite/store.h"

namespace weir::store::sqlite {
namespace {

using engine::admitted;
using engine::HoldState;
using engine::remaining;
using engine::window_of;
using ::testing::HasSubstr;

TEST(FullDisk, IsReportedAndNothingIsLostOnceThereIsRoom) {
  const SmallDisk disk;
  HoldId kept;
  HoldId ended;
  {
    const Server server = started(disk.path(), window_of(1000), kStart);
    ended = engine::acquire(*server, client("h"), {.hold = 1h}, kStart)->hold;
    admitted(*server, client("a"), kStart, 5);
    server.flush(kStart);

    disk.fill();
    for (int i = 0; i < 2000; ++i) admitted(*server, client(std::to_string(i)), kStart, 1);
    kept = engine::acquire(*server, client("h"), {.hold = 1h}, kStart)->hold;
    ASSERT_EQ(engine::cancel(*server, ended, kStart), HoldState::kCancelled);
    for (int n = 0; n < 3; ++n) {
      const Status flushed = server.store->flush(*server.engine, kStart);
      ASSERT_FALSE(flushed.ok());
      EXPECT_THAT(flushed.error().message, HasSubstr((disk.path() / "meters.db").string()));
      EXPECT_THAT(flushed.error().message, HasSubstr("make room"));
      EXPECT_EQ(admitted(*server, client("a"), kStart, 1), 1) << "deciding goes on";
    }
    EXPECT_EQ(server.store->stats().failed_flushes, 3u);

    disk.make_room();
    server.flush(kStart);
  }
  const Server server = started(disk.path(), window_of(1000), kStart);
  EXPECT_EQ(remaining(*server, "window", {"a"}, kStart), 1000 - 5 - 3);
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(remaining(*server, "window", {std::to_string(i)}, kStart), 999) << i;
  }
  EXPECT_EQ(server->usage().holds, 1u);
  EXPECT_EQ(engine::cancel(*server, ended, kStart), HoldState::kGone);
  EXPECT_EQ(engine::cancel(*server, kept, kStart), HoldState::kCancelled);
}

TEST(FullDisk, DoesNotHurtACompaction) {
  const SmallDisk disk;
  {
    const Server server = started(disk.path(), window_of(1000), kStart);
    for (int i = 0; i < 2000; ++i) admitted(*server, client(std::to_string(i)), kStart, 1);
    server.flush(kStart);
    disk.fill();
    EXPECT_FALSE(server.store->compact_all(*server.engine, kStart).ok());
    disk.make_room();
    EXPECT_TRUE(server.store->compact_all(*server.engine, kStart).ok());
  }
  EXPECT_EQ(started(disk.path(), window_of(1000), kStart)->usage().keys, 2000u);
}

TEST(FullDisk, IsNotTakenForDamage) {
  const SmallDisk disk;
  started(disk.path(), window_of(1000), kStart);
  disk.fill();
  const std::string why = refusal(disk.path(), window_of(1000));
  disk.make_room();
  EXPECT_NE(why, "");
  EXPECT_THAT(why, ::testing::Not(HasSubstr("--start-empty")));
  EXPECT_EQ(refusal(disk.path(), window_of(1000)), "");
}

}  // namespace
}  // namespace weir::store::sqlite
