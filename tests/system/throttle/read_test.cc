#include "weir/system/throttle/read.h"

#include <gmock/gmock.h>

#include <random>

#include "tests/system/throttle/support.h"

namespace weir::system::throttle {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string error_of(std::string_view text, Reader reader = Reader::kStrict) {
  const auto read = read_definitions(text, "t.json", reader);
  return read ? "no error" : read.error().message;
}

std::string in_group(std::string_view fields) {
  return R"({"buckets": [{"name": "B", "throttleGroups": [{)" + std::string(fields) + "}]}]}";
}

TEST(Read, UnderstandsTheExample) {
  const Definitions definitions = definitions_of(example());
  ASSERT_EQ(definitions.buckets.size(), 4u);
  EXPECT_EQ(definitions.buckets[2].name, "CreationLimits");
  EXPECT_EQ(definitions.buckets[2].burst_ms(), 10'000);
  EXPECT_EQ(definitions.buckets[0].groups[1].rate(), 13'000);
  EXPECT_EQ(definitions.buckets[0].groups[1].operations[0].name, "ContractCall");
  EXPECT_EQ(definitions.buckets[0].groups[1].operations[0].at, (Place{22, 26}));
}

TEST(Read, TakesAnyOperationName) {
  const Definitions definitions =
      definitions_of(in_group(R"("opsPerSec": 1, "operations": ["é"])"));
  EXPECT_EQ(definitions.buckets[0].groups[0].operations[0].name, "é");
}

TEST(Read, LetsMillisecondsAndThousandthsWin) {
  const Definitions definitions = definitions_of(
      R"({"buckets": [{"name": "B", "burstPeriod": 5, "burstPeriodMs": 1500, "throttleGroups":
          [{"opsPerSec": 9, "milliOpsPerSec": 2500, "operations": ["a"]}]}]})");
  EXPECT_EQ(definitions.buckets[0].burst_ms(), 1500);
  EXPECT_EQ(definitions.buckets[0].groups[0].rate(), 2500);
}

TEST(Read, NamesThePlaceOfAnUnknownKey) {
  EXPECT_EQ(error_of("{\"buckets\": [\n  {\"name\": \"B\",\n   \"burst\": 1}]}"),
            "t.json:3:4: UNPARSEABLE_THROTTLE_DEFINITIONS: bucket 'B': unknown key 'burst'; known "
            "are name, burstPeriod, burstPeriodMs, throttleGroups, highVolume");
}

struct Bad {
  std::string text;
  std::string says;
};

TEST(Read, RefusesEveryMistakeByName) {
  const Bad mistakes[] = {
      {"", "has no JSON value"},
      {"{", "the text ends here"},
      {"[]", "'the document' is a list, but it must be an object"},
      {R"({"buckets": {}})", "'buckets' is an object, but it must be a list"},
      {R"({"buckets": null})", "'buckets' is null"},
      {R"({"buckets": []} x)", "after the end"},
      {R"({"buckets": [], "buckets": []})", "there twice"},
      {R"({"bucket": []})", "unknown key 'bucket'"},
      {R"({"buckets": [1]})", "'a bucket' is a number"},
      {R"({"buckets": [{"throttleGroups": []}]})", "the bucket has no name"},
      {R"({"buckets": [{"name": ""}]})", "'name' is 0 bytes long"},
      {R"({"buckets": [{"name": 7}]})", "'name' is a number"},
      {R"({"buckets": [{"name": "B", "highVolume": "true"}]})", "'highVolume' is a text"},
      {R"({"buckets": [{"name": "B", "burstPeriod": 2147483648}]})", "must be between 0 and"},
      {R"({"buckets": [{"name": "B", "burstPeriod": -1}]})", "'burstPeriod' is -1"},
      {R"({"buckets": [{"name": "B", "burstPeriodMs": 9223372036854775808}]})", "between 0 and"},
      {in_group(R"("opsPerSec": "13")"), "'opsPerSec' is a text, but it must be a whole number"},
      {in_group(R"("opsPerSec": 1.9)"), "'opsPerSec' is 1.9"},
      {in_group(R"("opsPerSec": 1e3)"), "'opsPerSec' is 1e3"},
      {in_group(R"("opsPerSec": 2147484)"), "between 0 and 2147483"},
      {in_group(R"("opsPerSec": 01)"), "no JSON number"},
      {in_group(R"("opsPerSec": tru)"), "'opsPerSec' is true or false"},
      {in_group(R"("operations": "a")"), "'operations' is a text, but it must be a list"},
      {in_group(R"("operations": [1])"), "'an operation' is a number"},
      {in_group(R"("operations": ["a",])"), "'an operation' has no JSON value"},
      {in_group(R"("operations": ["a)"), "ends inside a string"},
      {in_group("\"operations\": [\"\xff\"]"), "not UTF-8"},
      {in_group("\"operations\": [\"\n\"]"), "control character"},
      {in_group(R"("operations": ["\ud800"])"), "surrogate"},
      {in_group(R"("operations": ["\x"])"), "unknown escape"},
  };
  for (const Bad& bad : mistakes) {
    EXPECT_THAT(error_of(bad.text), StartsWith("t.json:")) << bad.text;
    EXPECT_THAT(error_of(bad.text), HasSubstr("UNPARSEABLE_THROTTLE_DEFINITIONS")) << bad.text;
    EXPECT_THAT(error_of(bad.text), HasSubstr(bad.says)) << bad.text;
  }
}

TEST(Read, AsPublishedTakesNumbersInQuotesAndCutsFractions) {
  const Definitions definitions = definitions_of(
      R"({"buckets": [{"name": "x", "burstPeriod": "2", "throttleGroups":
          [{"opsPerSec": 1.9, "operations": ["CryptoCreate", "CryptoCreate"]}]}]} trailing)",
      Reader::kPublished);
  EXPECT_EQ(definitions.buckets[0].burst_ms(), 2'000);
  EXPECT_EQ(definitions.buckets[0].groups[0].rate(), 1'000);
}

TEST(Read, AsPublishedKnowsOnlyTheNetworksOperations) {
  EXPECT_THAT(
      error_of(in_group(R"("opsPerSec": 1, "operations": ["CRYPTO_CREATE"])"), Reader::kPublished),
      HasSubstr("operation 'CRYPTO_CREATE' is unknown"));
}

TEST(Read, RefusesOneByteMoreThanItReads) {
  std::string text = R"({"buckets": []})";
  text.resize(kDefinitionsBytesMax, ' ');
  EXPECT_EQ(error_of(text), "no error");
  text += ' ';
  EXPECT_THAT(error_of(text), HasSubstr("1048577 bytes"));
}

TEST(Read, RefusesOneBucketMoreThanItKeeps) {
  std::string text = R"({"buckets": [{"name": "B"})";
  for (std::size_t i = 1; i < kBucketsMax; ++i) text += R"(,{"name": "B"})";
  EXPECT_EQ(error_of(text + "]}"), "no error");
  EXPECT_THAT(error_of(text + R"(,{"name": "B"}]})"), HasSubstr("more than 1024 buckets"));
}

TEST(Read, RefusesTenMegabytesOfNonsenseByName) {
  std::mt19937_64 random(4);
  std::string text(10 * 1024 * 1024, '\0');
  for (char& c : text) c = static_cast<char>(random());
  for (const std::string_view start : {"", "{", R"({"buckets": [)", R"({"buckets": [{"name": ")"}) {
    text.replace(0, start.size(), start);
    EXPECT_THAT(error_of(text), HasSubstr("UNPARSEABLE_THROTTLE_DEFINITIONS"));
  }
  // Inside the bound, too, every byte is looked at once.
  const std::string_view inside = std::string_view(text).substr(0, kDefinitionsBytesMax);
  EXPECT_THAT(error_of(inside), HasSubstr("UNPARSEABLE_THROTTLE_DEFINITIONS"));
}

}  // namespace
}  // namespace weir::system::throttle
