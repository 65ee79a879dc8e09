#include "weir/server/recording.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace weir::server {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr Instant kRecorded{1'800'000'000'000'000'000};

struct Read {
  Status status;
  std::vector<Recorded> lines;
};
Read read(const std::string& lines, std::string_view header = kRecordingHeader) {
  Read result{Done{}, {}};
  result.status = read_recording(std::string(header) + lines, [&](const Recorded& recorded) {
    result.lines.push_back(recorded);
  });
  return result;
}

Decision denied() {
  Decision decision;
  decision.verdict = Verdict::kDenied;
  decision.binding_index = 0;
  decision.outcome_count = 1;
  decision.outcome_rows[0].limit = "per client";
  decision.shortfall = 3;
  decision.earliest = kRecorded + 5s;
  return decision;
}

TEST(Recording, ReadsBackWhatWasWritten) {
  std::string every_byte;
  for (int byte = 0; byte < 256; ++byte) every_byte += static_cast<char>(byte);
  const engine::Attribute attributes[] = {
      {"client", "acme"}, {"odd = name%", every_byte}, {"empty", ""}};
  const engine::Cost costs[] = {{"tokens", 1200}, {"none", 0}};
  std::string out;
  append_decision(out,
                  {.request = {attributes, costs},
                   .hold = 1s,
                   .up_to = "tokens",
                   .book_within = 3s,
                   .wait_until = kRecorded + 2s},
                  kRecorded, denied());

  const Read got = read(out);
  ASSERT_TRUE(got.status) << got.status.error().message;
  Recorded expected;
  expected.now = kRecorded;
  expected.verdict = Verdict::kDenied;
  expected.limit = "per client";
  expected.shortfall = 3;
  expected.earliest = kRecorded + 5s;
  expected.attributes = {{"client", "acme"}, {"odd = name%", every_byte}, {"empty", ""}};
  expected.costs = {{"tokens", 1200}, {"none", 0}};
  expected.hold = 1s;
  expected.wait = 2s;
  expected.book_within = 3s;
  expected.up_to = "tokens";
  ASSERT_EQ(got.lines.size(), 1u);
  EXPECT_EQ(got.lines[0], expected);
}

TEST(Recording, WritesTheLinesOfItsReferencePage) {
  const engine::Attribute who[] = {{"client", "acme"}};
  Decision decision = denied();
  decision.outcome_rows[0].limit = "per-client";
  decision.shortfall = 1;
  decision.earliest = kRecorded + 500ms;
  std::string out;
  append_decision(out, {.request = {.attributes = who}}, kRecorded, decision);
  append_ad_hoc(out, {"user123", 2'000'000'000, 16, 1}, kRecorded, true);
  append_dropped(out, kRecorded + 1s, 250);
  EXPECT_EQ(out,
            "d 1800000000000000000 denied l=per-client s=1 e=1800000000500000000 a:client=acme\n"
            "t 1800000000000000000 allowed k=user123 n=2000000000 b=16 q=1\n"
            "x 1800000001000000000 250\n");
  const Read got = read(out);
  ASSERT_EQ(got.lines.size(), 3u);
  EXPECT_EQ(got.lines[1].kind, Recorded::Kind::kAdHoc);
  EXPECT_EQ(got.lines[1].key, "user123");
  EXPECT_EQ(got.lines[1].token_ns, 2'000'000'000);
  EXPECT_EQ(got.lines[1].burst, 16);
  EXPECT_EQ(got.lines[1].quantity, 1);
  EXPECT_EQ(got.lines[2].kind, Recorded::Kind::kDropped);
  EXPECT_EQ(got.lines[2].dropped, 250u);
}

TEST(Recording, LeavesOutALineThatWasNotFinished) {
  const Read got = read("x 1 2\nx 3 4");
  ASSERT_TRUE(got.status);
  EXPECT_EQ(got.lines.size(), 1u);
}

TEST(Recording, NamesTheLineThatCannotBeRead) {
  for (const std::string line :
       {"", "y 1 2", "d", "d x allowed", "d 1 perhaps", "d 1 allowed z=1", "d 1 allowed s=x",
        "d 1 allowed a:name", "d 1 allowed a:n=%2", "d 1 allowed a:n=%zz", "d 1 allowed a:n=a=b",
        "d 1 allowed c:n=x", "d 1 allowed h=-1", "d 1 allowed  s=1", "t 1 allowed z=1", "x 1 -2",
        "x 1 2 3", "d 99999999999999999999 allowed"}) {
    const Read got = read("x 1 2\n" + line + "\n");
    ASSERT_FALSE(got.status) << line;
    EXPECT_THAT(got.status.error().message, HasSubstr("line 3: found '"));
    EXPECT_EQ(got.lines.size(), 1u);
  }
}

TEST(Recording, RefusesAnotherVersion) {
  for (const char* header : {"", "weir-recording 2\n", "weir-recording 1", "{}\n"}) {
    const Read got = read("", header);
    ASSERT_FALSE(got.status) << header;
    EXPECT_THAT(got.status.error().message, HasSubstr("line 1"));
  }
}

TEST(Recording, HasABoundOnWordsAndOnBytes) {
  std::string words = "d 1 allowed";
  for (std::size_t i = 0; i < kRecordWordsMax; ++i) words += " c:n=1";
  EXPECT_TRUE(read(words + "\n").status);
  EXPECT_FALSE(read(words + " c:n=1\n").status);

  const std::string start = "d 1 allowed a:n=";
  EXPECT_TRUE(read(start + std::string(kRecordLineBytesMax - start.size(), 'x') + "\n").status);
  EXPECT_FALSE(
      read(start + std::string(kRecordLineBytesMax + 1 - start.size(), 'x') + "\n").status);
}

}  // namespace
}  // namespace weir::server
