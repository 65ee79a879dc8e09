// Files that cannot be used are refused by name; none is ever replaced unasked.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/store/sqlite/support.h"
#include "tests/support/sanitizer.h"
#include "weir/store/sqlite/crc.h"
#include "weir/store/sqlite/database.h"
#include "weir/store/sqlite/store.h"

namespace weir::store::sqlite {
namespace {

using engine::admitted;
using engine::remaining;
using engine::window_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kDamagedKeys = 3000;

// A directory with a file that has something in every table.
struct Damaged : ::testing::Test {
  Damaged() {
    const Server server = started(dir.path(), window_of(1000), kStart);
    for (int i = 0; i < kDamagedKeys; ++i)
      admitted(*server, client(std::to_string(i)), kStart, 1 + i % 7);
    held = engine::acquire(*server, client("held"), {.hold = 1h}, kStart)->hold;
    server.flush(kStart);
    EXPECT_TRUE(server.store->compact_all(*server.engine, kStart).ok());
    for (int i = 0; i < kDamagedKeys; i += 2)
      admitted(*server, client(std::to_string(i)), kStart, 3);
    server.flush(kStart);
  }

  void run(const char* sql) const {
    auto database = Database::open(file);
    ASSERT_TRUE(database.ok());
    const Status status = database->run(sql);
    ASSERT_TRUE(status.ok()) << status.error().message;
  }

  std::string refusal() const { return sqlite::refusal(dir.path(), window_of(1000)); }
  auto refers_to_the_file_and_says(const std::string& found) const {
    return AllOf(HasSubstr(file.string() + ": "), HasSubstr(found), HasSubstr("--start-empty"));
  }

  // Whether everything is as it was.
  static void expect_whole(const Server& server) {
    for (int i = 0; i < kDamagedKeys; ++i) {
      ASSERT_EQ(remaining(*server, "window", {std::to_string(i)}, kStart),
                1000 - (1 + i % 7) - (i % 2 == 0 ? 3 : 0))
          << i;
    }
    EXPECT_EQ(server->usage().holds, 1u);
  }

  TemporaryDirectory dir;
  fs::path file = dir / "meters.db";
  HoldId held;
};

TEST_F(Damaged, IsNotSaidOfAWholeFile) {
  expect_whole(started(dir.path(), window_of(1000), kStart));
}

TEST_F(Damaged, IsAFileThatWasTruncatedAnywhere) {
  const std::string whole = bytes_of(file);
  std::set<std::size_t> sizes = {0, 1, 15, 16, 99, 100, 511, 512, whole.size() - 1};
  constexpr std::size_t kStep = kSanitized ? 16'384 : 4096;
  for (std::size_t page = kStep; page < whole.size(); page += kStep) {
    sizes.insert({page - 1, page, page + 1, page + 2000});
  }
  for (const std::size_t size : sizes) {
    if (size >= whole.size()) continue;
    write_bytes(file, std::string_view(whole).substr(0, size));
    ASSERT_THAT(refusal(), refers_to_the_file_and_says("")) << size << " of " << whole.size();
    ASSERT_EQ(bytes_of(file).size(), size) << "a file that is refused is left alone";
  }
}

TEST_F(Damaged, IsAFileWithFlippedBytesOrTheyDoNotMatter) {
  const std::uint64_t seed = seed_of_test();
  SCOPED_TRACE(testing::Message() << "reproduce with WEIR_SEED=" << seed);
  std::mt19937_64 random(seed);
  run("VACUUM");  // few bytes that do not matter
  const std::string whole = bytes_of(file);
  int refused = 0;
  constexpr int kFlips = kSanitized ? 150 : 300;
  for (int i = 0; i < kFlips; ++i) {
    std::string bytes = whole;
    const std::size_t at = i < kFlips / 3 ? static_cast<std::size_t>(i) : random() % bytes.size();
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
    write_bytes(file, bytes);
    const Result<Server> server = start(dir.path(), window_of(1000), kStart);
    if (server) {
      expect_whole(*server);
    } else {
      refused += 1;
      EXPECT_THAT(server.error().message, HasSubstr(file.string())) << at;
    }
    ASSERT_FALSE(HasFatalFailure()) << "byte " << at;
  }
  EXPECT_GT(refused, kFlips / 2);
}

TEST_F(Damaged, IsAFileThatIsNotADatabase) {
  write_bytes(file, "limits:\n  - name: per-client\n");
  EXPECT_THAT(refusal(), refers_to_the_file_and_says("it is not a database"));
}

TEST_F(Damaged, IsADatabaseOfSomebodyElse) {
  fs::remove(file);
  write_bytes(file, "");
  run("CREATE TABLE songs (title TEXT)");
  EXPECT_THAT(refusal(), refers_to_the_file_and_says("not one of weir's"));
}

TEST_F(Damaged, IsALogWithoutItsDatabase) {
  fs::rename(file, dir / "meters.db-wal");
  EXPECT_THAT(refusal(), HasSubstr("meters.db-wal"));
}

TEST_F(Damaged, IsABlobWhoseChecksumIsWrong) {
  run("UPDATE changes SET blob = substr(blob, 1, 40) || x'ff' || substr(blob, 42)");
  EXPECT_THAT(refusal(), refers_to_the_file_and_says("its checksum is wrong"));
  EXPECT_THAT(refusal(), HasSubstr(": changes "));
}

TEST_F(Damaged, IsAFileThatDoesNotKnowThePlacesOfItsBase) {
  run("UPDATE facts SET blob = zeroblob(2060) WHERE name = 'places'");
  EXPECT_THAT(refusal(), refers_to_the_file_and_says("fact 'places': it does not begin as one"));
  run("DELETE FROM facts WHERE name = 'places'");
  EXPECT_THAT(refusal(), refers_to_the_file_and_says("fact 'places' is missing"));
}

// They would seem to come before the base, and not to count.
TEST_F(Damaged, IsAFileWhoseChangesAreAtOtherPlaces) {
  run("UPDATE changes SET place = place - 200");
  EXPECT_THAT(refusal(), refers_to_the_file_and_says("it is of another place"));
}

// With one bit more in the definition, `place` is a column like others, and empty.
TEST_F(Damaged, IsAFileWhoseChangesHaveLostTheirPlaces) {
  run("PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = replace(sql, 'INTEGER PRIMARY', "
      "'INTEGER0PRIMARY') WHERE name = 'changes'");
  EXPECT_THAT(refusal(), refers_to_the_file_and_says("it is of another place"));
}

// As the first schema had them: blobs of meters without their places.
void make_first_format(Database& database, const std::string& table, const char* key) {
  std::map<std::int64_t, std::vector<std::byte>> blobs;
  auto query = database.prepare("SELECT " + std::string(key) + ", blob FROM " + table);
  while (*query->step()) {
    const Bytes blob = query->blob(1);
    if (blob[1] != std::byte{'M'}) continue;  // of holds
    std::vector<std::byte>& first = blobs[query->integer(0)];
    first.assign(blob.begin(), blob.end());
    first.erase(first.begin() + 12, first.begin() + 20);
    first[4] = std::byte{1};
    const std::uint32_t crc = crc32(Bytes(first).subspan(12));
    for (std::size_t i = 0; i < 4; ++i) first[8 + i] = static_cast<std::byte>(crc >> (8 * i));
  }
  EXPECT_FALSE(blobs.empty());
  auto update =
      database.prepare("UPDATE " + table + " SET blob = ?2 WHERE " + std::string(key) + " = ?1");
  for (const auto& [place, blob] : blobs) {
    EXPECT_TRUE(update->bind(1, place).bind(2, Bytes(blob)).run().ok());
  }
}

TEST_F(Damaged, IsNotSaidOfTheFirstSchemaWhichIsBroughtToThisOne) {
  run("DELETE FROM facts WHERE name = 'places'; PRAGMA user_version = 1");
  {
    auto database = Database::open(file);
    make_first_format(*database, "meter_base", "range");
    make_first_format(*database, "changes", "place");
  }
  expect_whole(started(dir.path(), window_of(1000), kStart));
  EXPECT_EQ(*Database::open(file)->integer("PRAGMA user_version"), 2);
  const Server server = started(dir.path(), window_of(1000), kStart);
  expect_whole(server);
  EXPECT_TRUE(server.store->compact_all(*server.engine, kStart).ok());
  expect_whole(server);
}

TEST_F(Damaged, IsAFileWithoutItsFacts) {
  run("DELETE FROM facts");
  EXPECT_THAT(refusal(), refers_to_the_file_and_says("fact 'facts' is missing"));
}

TEST_F(Damaged, IsNotSaidOfANewerSchemaWhichIsRefusedByName) {
  run("PRAGMA user_version = 3");
  EXPECT_THAT(refusal(), AllOf(HasSubstr(file.string()), HasSubstr("schema version is 3"),
                               HasSubstr("up to 2"), HasSubstr("newer weir")));
}

TEST_F(Damaged, IsMovedAsideOnlyWhenAsked) {
  write_bytes(file, "not a database");
  ASSERT_NE(refusal(), "");
  for (int n = 1; n <= 2; ++n) {
    const Result<Server> server = start(dir.path(), window_of(1000), kStart, StartEmpty::kYes);
    ASSERT_TRUE(server.ok()) << server.error().message;
    EXPECT_EQ((*server)->usage().keys, 0u);
  }
  EXPECT_EQ(bytes_of(dir / "meters.db.bad-1"), "not a database");
  EXPECT_TRUE(fs::exists(dir / "meters.db.bad-2"));
  EXPECT_EQ(refusal(), "") << "the new one is used from then on";
}

}  // namespace
}  // namespace weir::store::sqlite
