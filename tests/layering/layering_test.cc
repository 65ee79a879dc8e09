// The folders of this project, then each rule by files made up for it, so that it is known to fail.

#include "tests/layering/layering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace weir::layering {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Layering, HoldsForEveryFileUnderWeir) {
  std::size_t files = 0;
  EXPECT_THAT(violations_below(WEIR_SOURCE_DIR, files), IsEmpty());
  EXPECT_GT(files, 30u);
}

// As the calls of weir_library() say.
Uses declared_uses() {
  Uses uses;
  std::ifstream file(WEIR_DEPS_FILE);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string library;
    words >> library;
    std::set<std::string>& used = uses[library];
    for (std::string dep; words >> dep;) used.insert(dep);
  }
  return uses;
}

TEST(Dependencies, AreDeclaredAsTheFilesIncludeThem) {
  const Uses declared = declared_uses();
  const Uses used = uses_below(WEIR_SOURCE_DIR);
  EXPECT_GT(used.size(), 10u);
  for (const auto& [library, deps] : used) {
    ASSERT_TRUE(declared.contains(library)) << library << " is no library";
    EXPECT_EQ(declared.at(library), deps) << "DEPS of " << library << " and its includes differ";
  }
}

TEST(Dependencies, AreTheOtherLibrariesThatAFileIncludes) {
  Uses uses;
  add_uses("weir/wire/resp/a.h", "#include <vector>\n#include \"weir/system/pool/a.h\"\n", uses);
  add_uses("weir/wire/resp/a.cc", "#include \"weir/wire/resp/a.h\"\n#include <weir/base/b.h>\n",
           uses);
  EXPECT_EQ(uses, (Uses{{"wire_resp", {"base", "system_pool"}}}));
}

TEST(Dependencies, OfAFolderInsideALibraryAreThoseOfTheLibrary) {
  Uses uses;
  add_uses("weir/engine/internal/a.cc",
           "#include \"weir/engine/b.h\"\n#include \"weir/meter/c.h\"\n", uses);
  EXPECT_EQ(uses, (Uses{{"engine", {"meter"}}}));
}

TEST(Layering, KeepsWhatIsInternalToALibraryInside) {
  const std::string engine = "#include \"weir/engine/internal/a.h\"\n";
  EXPECT_THAT(violations("weir/engine/b.cc", engine), IsEmpty());
  EXPECT_THAT(violations("weir/engine/internal/b.cc", engine), IsEmpty());
  EXPECT_THAT(violations("weir/wire/resp/b.cc", engine),
              ElementsAre("weir/wire/resp/b.cc:1: includes weir/engine/internal/a.h, but only "
                          "'engine' uses what is internal to it"));
  EXPECT_EQ(
      violations("weir/store/redis/b.cc", "#include \"weir/store/sqlite/internal/a.h\"\n").size(),
      1u);
}

TEST(Layering, AllowsWhatStandsAbove) {
  EXPECT_THAT(violations("weir/engine/plan.h", "#include \"weir/meter/bucket.h\"\n"), IsEmpty());
  EXPECT_THAT(violations("weir/engine/plan.h", "#include \"weir/engine/print.h\"\n"), IsEmpty());
}

TEST(Layering, RefusesAnIncludeThatGoesUp) {
  EXPECT_THAT(violations("weir/meter/bucket.h", "\n#include \"weir/engine/plan.h\"\n"),
              ElementsAre("weir/meter/bucket.h:2: includes weir/engine/plan.h, but 'meter' stands "
                          "above 'engine'"));
}

TEST(Layering, RefusesOneSystemThatKnowsAnother) {
  EXPECT_THAT(
      violations("weir/system/pool/ratio.cc", "#include \"weir/system/compute/ledger.h\"\n"),
      ElementsAre("weir/system/pool/ratio.cc:1: includes weir/system/compute/ledger.h, but 'pool' "
                  "and 'compute' do not know each other"));
}

TEST(Layering, RefusesOneProtocolThatKnowsAnotherAndAStore) {
  EXPECT_EQ(violations("weir/wire/http/route.h", "#include <weir/wire/resp/reply.h>\n").size(), 1u);
  EXPECT_EQ(violations("weir/wire/http/route.h", "#include \"weir/store/redis/x.h\"\n").size(), 1u);
  EXPECT_EQ(violations("weir/store/sqlite/a.h", "#include \"weir/store/redis/x.h\"\n").size(), 1u);
}

TEST(Layering, KeepsEveryTwoProtocolsApart) {
  for (const std::string from : {"resp", "http", "grpc"}) {
    for (const std::string to : {"resp", "http", "grpc"}) {
      const std::string include = "#include \"weir/wire/" + to + "/a.h\"\n";
      EXPECT_EQ(violations("weir/wire/" + from + "/b.cc", include).empty(), from == to)
          << from << " includes " << to;
    }
  }
}

TEST(Layering, LetsAProtocolUseTheEngineAndSystems) {
  EXPECT_THAT(violations("weir/wire/resp/a.h", "#include \"weir/engine/engine.h\"\n"), IsEmpty());
  EXPECT_THAT(violations("weir/wire/resp/a.h", "#include \"weir/system/pool/a.h\"\n"), IsEmpty());
}

TEST(Layering, AllowsWhatOthersWrote) {
  EXPECT_THAT(violations("weir/meter/log.cc", "#include <algorithm>\n"), IsEmpty());
  EXPECT_THAT(violations("weir/meter/log.cc", "#include <fmt/format.h>\n"), IsEmpty());
}

TEST(Layering, RefusesAPathThatClimbs) {
  EXPECT_THAT(violations("weir/meter/bucket.h", "#include \"../engine/plan.h\"\n"),
              ElementsAre("weir/meter/bucket.h:1: includes ../engine/plan.h, but it must be named "
                          "from the root, as weir/..."));
  EXPECT_EQ(violations("weir/meter/bucket.h", "#include <../engine/plan.h>\n").size(), 1u);
  EXPECT_EQ(violations("weir/meter/a.h", "#include \"weir/meter/../engine/a.h\"\n").size(), 1u);
  EXPECT_EQ(violations("weir/meter/a.h", "#include \"weir/base/./a.h\"\n").size(), 1u);
}

TEST(Layering, RefusesAQuotedIncludeThatIsNotNamedFromTheRoot) {
  EXPECT_THAT(violations("weir/meter/bucket.h", "#include \"step.h\"\n"),
              ElementsAre("weir/meter/bucket.h:1: includes step.h, but what is quoted must start "
                          "with weir/; others stand in <>"));
  EXPECT_EQ(violations("weir/meter/log.cc", "#include \"fmt/format.h\"\n").size(), 1u);
}

TEST(Layering, RefusesTestsInTheLibrary) {
  EXPECT_THAT(
      violations("weir/meter/bucket.h", "#include \"tests/support/seed.h\"\n"),
      ElementsAre(
          "weir/meter/bucket.h:1: includes tests/support/seed.h, but 'weir' does not use 'tests'"));
}

TEST(Layering, RefusesProgramsInTheLibrary) {
  EXPECT_THAT(violations("weir/meter/bucket.h", "#include \"apps/weir/server_connection.h\"\n"),
              ElementsAre("weir/meter/bucket.h:1: includes apps/weir/server_connection.h, but "
                          "'weir' does not use 'apps'"));
}

TEST(Layering, RefusesWhateverUsesTheLibraryInAngleBracketsToo) {
  for (const std::string user : {"apps", "bench", "examples", "fuzz", "simulate", "tests"}) {
    EXPECT_THAT(violations("weir/testing/a.h", "#include <" + user + "/a.h>\n"),
                ElementsAre("weir/testing/a.h:1: includes " + user +
                            "/a.h, but 'weir' does not use '" + user + "'"));
  }
}

TEST(Clocks, AreNamedInOneFile) {
  std::size_t files = 0;
  EXPECT_THAT(clocks_below(WEIR_SOURCE_DIR, files), IsEmpty());
  EXPECT_GT(files, 100u);
}

TEST(Clocks, AreFoundWhereTheyAreNamed) {
  EXPECT_THAT(
      clocks("weir/engine/a.cc", "int a;\nauto t = std::chrono::steady_clock::now();\n"),
      ElementsAre("weir/engine/a.cc:2: names a clock ('steady_clock'), which only weir/base/clock "
                  "does; take a weir::Clock, or monotonic_clock()"));
  for (const std::string line :
       {"std::chrono::system_clock::now()", "using T = high_resolution_clock::time_point;",
        "::clock_gettime(id, &now);", "gettimeofday(&tv, nullptr);", "__builtin_ia32_rdtsc()",
        "__rdtscp(&x)", "read(CLOCK_REALTIME)", "time_t t = time(nullptr);", "t = std::time(0);",
        "::time(&t);", "std::clock()", "timespec_get(&t, TIME_UTC);"}) {
    EXPECT_EQ(clocks("apps/weir/a.cc", line + "\n").size(), 1u) << line;
  }
}

TEST(Clocks, MayBeNamedWhereTheyAreRead) {
  const std::string text = "::clock_gettime(CLOCK_REALTIME, &at);\n";
  EXPECT_THAT(clocks("weir/base/clock.cc", text), IsEmpty());
  EXPECT_EQ(clocks("weir/base/clock_line.h", text).size(), 1u);
}

TEST(Clocks, AreNotWhatOnlySoundsLikeOne) {
  for (const std::string line :
       {"boost::asio::steady_timer timer;", "// as steady_clock does", "int a;  // not rdtsc",
        "Clock& clock();", "options.clock()", "reply.time(0)", "monotonic_clock().now()",
        "redis_clock_->now()", "{\"TIME\", time_row}", "run_time(0)", "using wall_time = int;"}) {
    EXPECT_THAT(clocks("weir/server/a.cc", line + "\n"), IsEmpty()) << line;
  }
  EXPECT_EQ(clocks("weir/a.cc", "say(\"redis://x\", steady_clock::now());\n").size(), 1u);
}

TEST(Naps, AreTakenInAFewFilesOnly) {
  std::vector<std::string> needless;
  EXPECT_THAT(naps_below(WEIR_SOURCE_DIR, needless), IsEmpty());
  EXPECT_THAT(needless, IsEmpty()) << "take them off the list";
}

TEST(Naps, AreFoundWhereTheyAreTaken) {
  EXPECT_THAT(
      naps("weir/server/a.cc", "int a;\nstd::this_thread::sleep_for(5ms);\n"),
      ElementsAre("weir/server/a.cc:2: waits in the machine's time ('sleep_for'); wait by a "
                  "weir::Clock, as weir/base/timed_wait.h does"));
  for (const std::string line :
       {"told.wait_for(lock, kAnswerMax, is_told);", "told->wait_until(guard_lock_, then);",
        "future.wait_for(5s)", "future.wait_for(std::chrono::seconds{5})", "::usleep(5);",
        "answer.wait_for(Duration{5})", "std::this_thread::sleep_until(then);"}) {
    EXPECT_EQ(naps("apps/weir/a.cc", line + "\n").size(), 1u) << line;
  }
}

TEST(Naps, MayBeTakenWhereAReasonIsKnown) {
  const std::string text = "woken_.wait_for(lock, nap);\n";
  EXPECT_THAT(naps("weir/base/alarm_thread.cc", text), IsEmpty());
  EXPECT_EQ(naps("weir/base/other_thread.cc", text).size(), 1u);
}

TEST(Naps, AreNotWhatOnlySoundsLikeOne) {
  for (const std::string line :
       {"reply.wait_for(answer->record);", "exchange.wait_for(decision->record)",
        "told.wait(lock, is_told);", "// it does not sleep_for long", "wait_by(told, lock, clock_)",
        "timer_.async_wait(call);"}) {
    EXPECT_THAT(naps("weir/server/a.cc", line + "\n"), IsEmpty()) << line;
  }
}

TEST(Layering, RefusesAFolderThatTheDesignDoesNotHave) {
  EXPECT_EQ(violations("weir/util/a.h", "#include \"weir/base/time.h\"\n").size(), 1u);
}

// --- what an embedder sees

// The public functions that the class declares, overloads one by one. Constructors of its own,
// the destructor and what is deleted are not counted.
std::size_t public_functions(const std::string& header, const std::string& class_name) {
  std::istringstream lines(header);
  bool is_inside = false;
  std::string code;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("class ") && line.ends_with(" " + class_name + " {")) {
      is_inside = true;
    } else if (line == " private:" || line == "};") {
      is_inside = false;
    } else if (is_inside && line != " public:") {
      code += line.substr(0, line.find("//"));
    }
  }
  std::size_t count = 0;
  std::istringstream statements(code);
  for (std::string statement; std::getline(statements, statement, ';');) {
    const bool is_function = statement.find('(') != std::string::npos;
    const bool is_deleted = statement.find("= delete") != std::string::npos;
    const bool is_destructor = statement.find('~') != std::string::npos;
    if (is_function && !is_deleted && !is_destructor) ++count;
  }
  return count;
}

TEST(Engine, HasAtMostTwentyFivePublicFunctions) {
  std::ifstream file(WEIR_SOURCE_DIR "/weir/engine/engine.h");
  std::stringstream header;
  header << file.rdbuf();
  const std::size_t count = public_functions(header.str(), "Engine");
  EXPECT_LE(count, 25u) << "give what only some programs need a header of its own, as ad_hoc.h";
  EXPECT_GE(count, 20u) << "they were not found";
}

TEST(Engine, HasThePublicFunctionsThatAreCounted) {
  EXPECT_EQ(
      public_functions("class Other {\n public:\n  void a();\n};\n"
                       "class WEIR_EXPORT Engine {\n public:\n  // f() and g();\n"
                       "  ~Engine();\n  Engine(const Engine&) = delete;\n"
                       "  void f(int a,\n         int b = {}) noexcept;\n  int g();  // h();\n"
                       "\n private:\n  void i();\n};\n",
                       "Engine"),
      2u);
}

}  // namespace
}  // namespace weir::layering
