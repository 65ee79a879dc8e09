#include "weir/store/sqlite/parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/store/sqlite/support.h"

namespace weir::store::sqlite {
namespace {

using engine::window_of;
using ::testing::HasSubstr;

// Texts by name.
struct Notes final : Parts {
  void set(const std::string& name, const std::string& text) {
    texts[name] = text;
    unwritten.insert(name);
  }

  std::vector<Part> changed(Instant) override {
    std::vector<Part> parts;
    for (const std::string& name : unwritten) {
      const auto* begin = reinterpret_cast<const std::byte*>(texts[name].data());
      parts.push_back({name, {begin, begin + texts[name].size()}});
    }
    unwritten.clear();
    return parts;
  }
  void mark_changed(const std::vector<Part>& parts) override {
    for (const Part& part : parts) unwritten.insert(part.name);
  }
  Status restore(std::string_view name, Bytes bytes, Instant) override {
    if (name == "broken") return bad_argument("it makes no sense");
    texts[std::string(name)] = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    return Done{};
  }

  std::map<std::string, std::string> texts;
  std::set<std::string> unwritten;
};
using Texts = std::map<std::string, std::string>;

struct PartsTest : ::testing::Test {
  // A store and an engine that keep `notes` too.
  std::string begin(Notes& notes) {
    server = {};
    auto store = Store::open(dir.path());
    EXPECT_TRUE(store.ok());
    server.store = std::move(*store);
    server.engine =
        engine::engine_of(window_of(1), {.secret = server.store->secret(), .durable = true});
    const auto report = server.store->restore(*server.engine, kStart, &notes);
    return report ? "" : report.error().message;
  }

  bool run(const char* statement) const {
    auto database = Database::open(dir.path() / kDatabaseName);
    return database.ok() && database->run(statement).ok();
  }
  std::int64_t count(const std::string& query) const {
    auto database = Database::open(dir.path() / kDatabaseName);
    EXPECT_TRUE(database.ok());
    return database->integer(query.c_str()).value();
  }

  TemporaryDirectory dir;
  Server server{};
};

TEST_F(PartsTest, ComeBackAsTheyWereFlushed) {
  Notes notes;
  EXPECT_EQ(begin(notes), "");
  notes.set("a", "one");
  notes.set("b", std::string(100'000, '\0'));
  server.flush(kStart);
  notes.set("a", "two");
  server.flush(kStart);
  notes.set("a", "never flushed");
  Notes after;
  EXPECT_EQ(begin(after), "");
  EXPECT_EQ(after.texts, (Texts{{"a", "two"}, {"b", std::string(100'000, '\0')}}));
}

TEST_F(PartsTest, AreNotThereForAStoreThatKeepsNone) {
  Notes notes;
  EXPECT_EQ(begin(notes), "");
  notes.set("a", "one");
  server.flush(kStart);
  server = {};
  const Server plain = started(dir.path(), window_of(1), kStart);
  plain.flush(kStart);
}

TEST_F(PartsTest, ThatMakeNoSenseFailByThemselves) {
  Notes notes;
  EXPECT_EQ(begin(notes), "");
  notes.set("broken", "x");
  notes.set("z", "sound");
  server.flush(kStart);
  Notes after;
  EXPECT_EQ(begin(after), "");
  EXPECT_EQ(after.texts, (Texts{{"z", "sound"}}));
  const std::vector<UnusablePart> unusable = server.store->unusable_parts();
  ASSERT_EQ(unusable.size(), 1u);
  EXPECT_EQ(unusable[0].name, "broken");
  EXPECT_EQ(unusable[0].why, "it makes no sense");
  EXPECT_EQ(unusable[0].kept_as, "bad-1:broken");
}

TEST_F(PartsTest, ThatAreDamagedFailByThemselves) {
  Notes notes;
  EXPECT_EQ(begin(notes), "");
  notes.set("a", "one");
  notes.set("b", "two");
  server.flush(kStart);
  server = {};
  ASSERT_TRUE(run("UPDATE facts SET blob = x'57505254010000000000000061' WHERE name = 'part:a'"));
  Notes after;
  EXPECT_EQ(begin(after), "");
  EXPECT_EQ(after.texts, (Texts{{"b", "two"}}));
  ASSERT_EQ(server.store->unusable_parts().size(), 1u);
  EXPECT_THAT(server.store->unusable_parts()[0].why, HasSubstr("its checksum is wrong"));
}

TEST_F(PartsTest, ThatCannotBeUsedAreKeptBesideWhatIsWrittenAfterThem) {
  for (int i = 1; i <= kBadPartsMax + 1; ++i) {
    Notes notes;
    EXPECT_EQ(begin(notes), "");
    EXPECT_EQ(server.store->unusable_parts().size(), i == 1 ? 0u : 1u);
    notes.set("broken", std::to_string(i));
    server.flush(kStart);
  }
  Notes last;
  EXPECT_EQ(begin(last), "");
  server.flush(kStart);
  server = {};
  EXPECT_EQ(count("SELECT count(*) FROM facts WHERE name LIKE 'bad-%:broken'"), kBadPartsMax);
  EXPECT_EQ(count("SELECT count(*) FROM facts WHERE name = 'part:broken'"), 0);
  // The first is kept as it was, the last was replaced.
  const std::string head = "SELECT CAST(substr(blob, -1) AS INTEGER) FROM facts WHERE name = 'bad-";
  EXPECT_EQ(count(head + "1:broken'"), 1);
  EXPECT_EQ(count(head + "8:broken'"), 9);
}

TEST_F(PartsTest, AreCollectedAgainWhenAFlushFails) {
  Notes notes;
  EXPECT_EQ(begin(notes), "");
  notes.set("a", "one");
  {
    // Somebody else holds the file for writing.
    auto other = Database::open(dir.path() / kDatabaseName);
    ASSERT_TRUE(other.ok());
    auto transaction = Transaction::begin(*other);
    ASSERT_TRUE(transaction.ok());
    ASSERT_TRUE(other->run("UPDATE facts SET blob = blob WHERE name = 'facts'"));
    EXPECT_FALSE(server.store->flush(*server.engine, kStart).ok());
    EXPECT_EQ(notes.unwritten, std::set<std::string>{"a"});
  }
  server.flush(kStart);
  Notes after;
  EXPECT_EQ(begin(after), "");
  EXPECT_EQ(after.texts, (Texts{{"a", "one"}}));
}

}  // namespace
}  // namespace weir::store::sqlite
