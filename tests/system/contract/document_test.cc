#include "weir/system/contract/document.h"

#include <fmt/format.h>

#include "tests/system/contract/support.h"
#include "weir/system/contract/repeated_key.h"

namespace weir::system::contract {
namespace {

std::string policy_json(std::string_view fields) { return fmt::format("{{{}}}", fields); }

const std::string kMinute =
    policy_json(R"("capacity":1000,"samplingPeriod":"PT1M","nanosBetweenRefills":60000000)");

std::string contract_json(std::string_view policies, std::string_view type = "REQUESTS",
                          std::string_view user = "u1", std::string_view defaults = "[]") {
  return fmt::format(
      R"({{"id":7,"userId":"{}","policies":{},"type":{{"name":"{}","defaultPolicies":{}}}}})", user,
      policies, type, defaults);
}

std::string document(std::string_view contracts) {
  return fmt::format(R"({{"data":[{}],"links":{{"currentToken":"0"}}}})", contracts);
}

std::string mistake_in(std::string_view text) {
  const auto contracts = read_contracts(text);
  return contracts ? "" : std::string(name_of(contracts.error()));
}

TEST(Document, ReadsTheContractsOfTheSource) {
  const auto contracts = read_contracts(document(
      contract_json(
          R"([{"capacity":1000,"samplingPeriod":"PT1M","nanosBetweenRefills":60000000,"niceSamplindPeriod":"1 minute"},
              {"capacity":400000,"samplingPeriod":"PT744H","nanosBetweenRefills":6696000000,"niceSamplingPeriod":"31 days"}])",
          "PROCESSING_UNITS") +
      "," + contract_json("[" + kMinute + "]")));
  ASSERT_TRUE(contracts) << contracts.error().message;
  const auto policies = policies_of(*contracts, "u1");
  ASSERT_TRUE(policies);
  ASSERT_EQ(policies->size(), 3u);
  EXPECT_EQ(policy_id((*policies)[0]), "PU_1000_PT1M");
  EXPECT_EQ(policy_id((*policies)[1]), "PU_400000_PT744H");
  EXPECT_EQ((*policies)[1].refill_ns, 6'696'000'000);
  EXPECT_EQ(policy_id((*policies)[2]), "RQ_1000_PT1M");
}

TEST(Document, UsesTheDefaultsOfTheTypeWhereThereAreNoPolicies) {
  for (const char* policies : {"[]", "null"}) {
    const auto contracts =
        read_contracts(document(contract_json(policies, "REQUESTS", "u1", "[" + kMinute + "]")));
    ASSERT_TRUE(contracts);
    EXPECT_EQ(policies_of(*contracts, "u1")->size(), 1u);
  }
  EXPECT_EQ(mistake_in(document(contract_json("[]"))), "missing_policies");
}

TEST(Document, WorksTheIntervalOutOnlyWhereItIsAbsent) {
  const auto read = [](std::string_view policy) {
    return (*policies_of(*read_contracts(document(contract_json(fmt::format("[{}]", policy)))),
                         ""))[0]
        .refill_ns;
  };
  EXPECT_EQ(read(R"({"capacity":7,"samplingPeriod":"PT1M"})"), 8'571'428'571);
  EXPECT_EQ(read(R"({"capacity":7,"samplingPeriod":"PT1M","nanosBetweenRefills":9})"), 9);
  EXPECT_EQ(read(R"({"capacity":7.0,"samplingPeriod":"P31D","nanosBetweenRefills":null})"),
            382'628'571'428'571);
  EXPECT_EQ(
      read(R"({"capacity":7,"samplingPeriod":"PT0S","nanosBetweenRefills":9223372036854775807})"),
      kNeverRefills);
}

TEST(Document, NamesEveryMistake) {
  const auto with = [](std::string_view policy) {
    return mistake_in(document(contract_json(fmt::format("[{}]", policy))));
  };
  EXPECT_EQ(mistake_in(""), "not_json");
  EXPECT_EQ(mistake_in("{"), "not_json");
  EXPECT_EQ(mistake_in("[]"), "wrong_type");
  EXPECT_EQ(mistake_in("{}"), "missing_field");
  EXPECT_EQ(mistake_in(R"({"data":{}})"), "wrong_type");
  EXPECT_EQ(mistake_in(document("3")), "wrong_type");
  EXPECT_EQ(mistake_in(document("{}")), "missing_field");
  EXPECT_EQ(mistake_in(document(contract_json("[]", "EGRESS"))), "unknown_type");
  EXPECT_EQ(mistake_in(document(contract_json("3"))), "wrong_type");
  EXPECT_EQ(with(R"({"samplingPeriod":"PT1M"})"), "missing_field");
  EXPECT_EQ(with(R"({"capacity":1})"), "missing_field");
  EXPECT_EQ(with(R"({"capacity":1.5,"samplingPeriod":"PT1M"})"), "wrong_type");
  EXPECT_EQ(with(R"({"capacity":"1","samplingPeriod":"PT1M"})"), "wrong_type");
  EXPECT_EQ(with(R"({"capacity":18446744073709551615,"samplingPeriod":"PT1M"})"), "wrong_type");
  EXPECT_EQ(with(R"({"capacity":-1,"samplingPeriod":"PT1M"})"), "bad_capacity");
  EXPECT_EQ(with(R"({"capacity":9223372036854775807,"samplingPeriod":"PT1M"})"), "bad_capacity");
  EXPECT_EQ(with(R"({"capacity":1,"samplingPeriod":"1 minute"})"), "bad_period");
  EXPECT_EQ(with(R"({"capacity":1,"samplingPeriod":"-PT1M"})"), "bad_period");
  EXPECT_EQ(with(R"({"capacity":1,"samplingPeriod":60})"), "wrong_type");
  EXPECT_EQ(with(R"({"capacity":1,"samplingPeriod":"PT1M","nanosBetweenRefills":0})"),
            "bad_refill");
  EXPECT_EQ(with(R"({"capacity":9000000000,"samplingPeriod":"PT1S"})"), "bad_refill");
  EXPECT_EQ(with(R"({"capacity":1,"samplingPeriod":"PT0S","nanosBetweenRefills":60})"),
            "bad_refill");
  EXPECT_EQ(mistake_in(document(std::string(64, '[') + std::string(64, ']'))), "not_json");
}

TEST(Document, SaysWhereAMistakeIs) {
  const auto contracts = read_contracts(
      document(contract_json("[" + kMinute + R"(,{"capacity":-4,"samplingPeriod":"PT1H"}])")));
  EXPECT_NE(contracts.error().message.find("data[0].policies[1]"), std::string::npos)
      << contracts.error().message;
}

TEST(Document, RefusesDuplicatesAndContradictions) {
  EXPECT_EQ(mistake_in(document(contract_json("[" + kMinute + "," + kMinute + "]"))),
            "duplicate_policy");
  EXPECT_EQ(mistake_in(document(
                contract_json("[" + kMinute + R"(,{"capacity":5,"samplingPeriod":"PT60S"}])"))),
            "overlapping_policies");
  const std::string one = contract_json("[" + kMinute + "]");
  EXPECT_EQ(mistake_in(document(one + "," + one)), "duplicate_contract");
}

TEST(Document, KeepsUsersApart) {
  const auto contracts =
      read_contracts(document(contract_json("[" + kMinute + "]", "REQUESTS", "u1") + "," +
                              contract_json("[" + kMinute + "]", "REQUESTS", "u2")));
  ASSERT_TRUE(contracts);
  EXPECT_EQ(policies_of(*contracts, "u2")->size(), 1u);
  EXPECT_EQ(name_of(policies_of(*contracts, "u3").error()), "unknown_user");
  EXPECT_EQ(name_of(policies_of(*contracts, "").error()), "unknown_user");
}

TEST(Document, RefusesContractsOfTenMegabytes) {
  const std::string large = document(contract_json("[]", std::string(10'000'000, 'x')));
  EXPECT_EQ(mistake_in(large), "too_large");
  EXPECT_EQ(name_of(read_token_counts(large).error()), "too_large");
  EXPECT_EQ(mistake_in(std::string(kDocumentBytesMax + 1, ' ')), "too_large");
  EXPECT_EQ(mistake_in(std::string(kDocumentBytesMax, ' ')), "not_json");
}

TEST(Document, RefusesTooManyPolicies) {
  const auto many = [](std::size_t count) {
    std::string policies;
    for (std::size_t i = 0; i < count; ++i) {
      policies +=
          fmt::format(R"({}{{"capacity":1,"samplingPeriod":"PT{}S"}})", i ? "," : "", i + 1);
    }
    return document(contract_json("[" + policies + "]"));
  };
  EXPECT_EQ(mistake_in(many(kPoliciesMax)), "");
  EXPECT_EQ(mistake_in(many(kPoliciesMax + 1)), "too_many");
}

TEST(Document, ReadsTokenCountsRoundedDown) {
  const auto counts = read_token_counts(
      R"({"data":{"REQUESTS":{"PT1M":1000.0},"PROCESSING_UNITS":{"P31D":8.8990000009,"PT0S":-1.5}}})");
  ASSERT_TRUE(counts) << counts.error().message;
  ASSERT_EQ(counts->size(), 3u);
  EXPECT_EQ((*counts)[0].left_micro, 1000 * kMicro);
  EXPECT_EQ((*counts)[1].period, 744h);
  EXPECT_EQ((*counts)[1].left_micro, 8'899'000);
  EXPECT_EQ((*counts)[2].left_micro, -1'500'000);
}

TEST(Document, NamesTheMistakesOfTokenCounts) {
  const auto name = [](std::string_view text) {
    return std::string(name_of(read_token_counts(text).error()));
  };
  EXPECT_EQ(name(R"({"data":[]})"), "wrong_type");
  EXPECT_EQ(name(R"({"data":{"EGRESS":{}}})"), "unknown_type");
  EXPECT_EQ(name(R"({"data":{"REQUESTS":3}})"), "wrong_type");
  EXPECT_EQ(name(R"({"data":{"REQUESTS":{"PT1M":"3"}}})"), "wrong_type");
  EXPECT_EQ(name(R"({"data":{"REQUESTS":{"PT1M":1e300}}})"), "wrong_type");
  EXPECT_EQ(name(R"({"data":{"REQUESTS":{"P1M":3}}})"), "bad_period");
  EXPECT_EQ(name(R"({"data":{"REQUESTS":{"PT1M":3,"PT60S":4}}})"), "duplicate_count");
  EXPECT_EQ(name(R"({"data":{"REQUESTS":{"PT1M":3,"PT1M":4}}})"), "duplicate_key");
  EXPECT_TRUE(read_token_counts(
      R"({"data":{"REQUESTS":{"PT1M":3,"PT1H":4},"PROCESSING_UNITS":{"PT1M":3}}})"));
}

TEST(Document, ThatSaysOneThingTwiceIsRefused) {
  EXPECT_EQ(repeated_key(R"({"a":{"b":1},"c":[{"b":1},{"b":2}]})", 16), std::nullopt);
  EXPECT_EQ(repeated_key(R"({"a":{"b":1,"c":{},"b":2}})", 16), "b");
  EXPECT_EQ(repeated_key(R"({"a":1,"\u0061":2})", 16), "a") << "however it is written";
  EXPECT_EQ(repeated_key("[1,2", 16), std::nullopt);
}

TEST(Document, IsReadBackAsItWasWritten) {
  const Contract contract{.id = 364,
                          .user_id = "u\"1\n",
                          .resource = Resource::kProcessingUnits,
                          .policies = {units_per(400'000, 744h), units_per(5, 0s)},
                          .default_policies = {units_per(300, 1min)}};
  const auto again = read_contracts(write_contracts({&contract, 1}));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ((*again)[0].id, 364);
  EXPECT_EQ((*again)[0].user_id, contract.user_id);
  EXPECT_EQ((*again)[0].policies, contract.policies);
  EXPECT_EQ((*again)[0].default_policies, contract.default_policies);
}

TEST(Document, WritesPeriodsForPeopleToo) {
  const Contract contract{
      .user_id = "u1",
      .resource = Resource::kRequests,
      .policies = {requests_per(1, 1min), requests_per(1, 744h), requests_per(1, 25h),
                   requests_per(1, 90s), requests_per(1, 1500ms), requests_per(1, 0s)}};
  const std::string text = write_contracts({&contract, 1});
  for (const char* nice : {"1 minute", "31 days", "25 hours", "90 seconds", "PT1.5S", "PT0S"}) {
    EXPECT_NE(text.find(fmt::format(R"("niceSamplingPeriod":"{}")", nice)), std::string::npos)
        << nice << " in " << text;
  }
}

TEST(Document, WritesWhatIsLeft) {
  const PolicyView views[] = {{requests_per(1000, 1min), 999 * kMicro + 500'000, 0},
                              {units_per(400'000, 744h), 400'000 * kMicro, 0}};
  const std::string text = write_token_counts(views);
  const auto counts = read_token_counts(text);
  ASSERT_TRUE(counts) << text;
  EXPECT_EQ((*counts)[0].left_micro, 999'500'000);
  EXPECT_EQ((*counts)[1].resource, Resource::kProcessingUnits);
}

TEST(Document, ReadsTheListingOfTypes) {
  const auto types = read_contract_types(
      fmt::format(R"({{"data":[{{"name":"REQUESTS","defaultPolicies":[{}]}}]}})", kMinute));
  ASSERT_TRUE(types) << types.error().message;
  EXPECT_EQ(policies_of(*types, "")->size(), 1u);
}

TEST(Document, ReadsAccessTokens) {
  const auto token = read_access_token(R"({"access_token":"abc","expires_in":3600})");
  ASSERT_TRUE(token);
  EXPECT_EQ(token->token, "abc");
  EXPECT_EQ(token->lasts, 1h);
  for (const char* text : {"", "{}", R"({"expires_in":5})", R"({"access_token":"","expires_in":5})",
                           R"({"access_token":""})", R"({"access_token":"a","expires_in":0})",
                           R"({"access_token":"a","expires_in":"soon"})"}) {
    EXPECT_FALSE(read_access_token(text)) << text;
  }
}

TEST(Document, ReadsAnAccessTokenThatDoesNotSayHowLongItLasts) {
  for (const char* text :
       {R"({"access_token":"abc"})", R"({"access_token":"abc","expires_in":null})"}) {
    const auto token = read_access_token(text);
    ASSERT_TRUE(token) << token.error().message;
    EXPECT_EQ(token->lasts, kTokenLasts);
  }
}

TEST(Document, FindsTheUserInAnAccessToken) {
  // {"alg":"none"} . {"sub":"u-1547","n":"é?"} . nothing
  EXPECT_EQ(subject_of("eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1LTE1NDciLCJuIjoiw6k_In0."), "u-1547");
  EXPECT_EQ(subject_of("eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1LTE1NDciLCJuIjoiw6k_In0=.x"), "u-1547");
  for (const char* other : {"", "abc", "a.b", "a.!.c", "a.e30.c", "a.eyJzdWIiOiIifQ.c",
                            "a.eyJzdWIiOjV9.c", "a.W10.c", "..", "secret.secret.secret"}) {
    EXPECT_EQ(subject_of(other), std::nullopt) << other;
  }
}

TEST(Document, LeavesUnknownTypesOutAndNamesThem) {
  const std::string text =
      document(contract_json("[" + kMinute + "]") + "," + contract_json("[{}]", "DATA_TRANSFER") +
               "," + contract_json("3", "DATA_TRANSFER", "u2"));
  LeftOut left_out;
  const auto contracts = read_contracts(text, &left_out);
  ASSERT_TRUE(contracts) << contracts.error().message;
  EXPECT_EQ(contracts->size(), 1u);
  EXPECT_EQ(left_out, LeftOut{"DATA_TRANSFER"});
  LeftOut of_counts;
  const auto counts = read_token_counts(
      R"({"data":{"DATA_TRANSFER":{"never":"read"},"REQUESTS":{"PT1M":3}}})", &of_counts);
  ASSERT_TRUE(counts) << counts.error().message;
  EXPECT_EQ(counts->size(), 1u);
  EXPECT_EQ(of_counts, LeftOut{"DATA_TRANSFER"});
}

TEST(Document, NamesNoMoreUnknownTypesThanItKeeps) {
  std::string rows = contract_json("[" + kMinute + "]");
  for (std::size_t i = 0; i <= kLeftOutMax; ++i) {
    rows += "," + contract_json("[]", std::string(kTypeNameBytesMax, 'x') + "y", "u1") + "," +
            contract_json("[]", fmt::format("T{}", i), "u1");
  }
  LeftOut left_out;
  ASSERT_TRUE(read_contracts(document(rows), &left_out));
  ASSERT_EQ(left_out.size(), kLeftOutMax);
  EXPECT_EQ(left_out[0], std::string(kTypeNameBytesMax, 'x'));
}

TEST(Document, TakesARowWithoutAUserForTheOneThatWasAskedFor) {
  const auto contracts = read_contracts(
      document(R"({"id":1,"policies":[)" + kMinute + R"(],"type":{"name":"REQUESTS"}})"));
  ASSERT_TRUE(contracts) << contracts.error().message;
  EXPECT_EQ(policies_of(*contracts, "u1")->size(), 1u);
}

// --- what is published again

TEST(Document, IsPublishedAsItWasGiven) {
  const std::string text = document(
      R"({"@id":"https://services.example.org/contract/1547","id":1547,"policies":[)" + kMinute +
      R"(],"usageNotificationExtra":{"at":[80]},"userId":"u1","type":{"name":"PROCESSING_UNITS",)"
      R"("suffix":"PU","defaultPolicies":[{"capacity":300,"samplingPeriod":"PT1M"}]}})");
  const auto given = read_contracts(text);
  ASSERT_TRUE(given) << given.error().message;
  const auto again = published_contracts(*given, given->front().policies, "u1", 1);
  EXPECT_EQ(again, *given);
  const std::string written = write_contracts(again);
  EXPECT_EQ(*read_contracts(written), *given);
  EXPECT_NE(written.find(R"("@id":"https://services.example.org/contract/1547","id":1547)"),
            std::string::npos)
      << written;
  EXPECT_NE(written.find(R"("usageNotificationExtra":{"at":[80]})"), std::string::npos) << written;
  EXPECT_EQ((*read_contract_types(write_contract_types(again)))[0].default_policies,
            given->front().default_policies);
}

TEST(Document, IsPublishedWithThePoliciesThatAreInForce) {
  const Contract given{.id = 364,
                       .resource = Resource::kProcessingUnits,
                       .policies = {units_per(300, 1min)},
                       .default_policies = {units_per(5, 1min)}};
  const Policy policies[] = {requests_per(9, 1min), units_per(400, 1min)};
  const auto published = published_contracts({given}, policies, "u1", 7);
  ASSERT_EQ(published.size(), 2u);
  EXPECT_EQ(published[0].id, 7);
  EXPECT_EQ(published[0].policies, std::vector{policies[0]});
  EXPECT_EQ(published[1].id, 364);
  EXPECT_EQ(published[1].user_id, "u1");
  EXPECT_EQ(published[1].policies, std::vector{policies[1]});
  EXPECT_EQ(published[1].default_policies, given.default_policies);
}

TEST(Document, PublishesPoliciesOfTheTypeAsSuch) {
  const Contract given{
      .id = 3, .resource = Resource::kRequests, .default_policies = {requests_per(5, 1min)}};
  const auto published = published_contracts({given}, given.default_policies, "u1", 1);
  ASSERT_EQ(published.size(), 1u);
  EXPECT_TRUE(published[0].policies.empty());
}

TEST(Document, GivesATypeANumberOfItsOwnWhenItIsPublishedAsAContract) {
  const auto types = read_contract_types(
      R"({"data":[{"name":"REQUESTS","defaultPolicies":[{"capacity":5,"samplingPeriod":"PT1M"}]},)"
      R"({"name":"PROCESSING_UNITS","defaultPolicies":[{"capacity":9,"samplingPeriod":"PT1M"}]}]})");
  ASSERT_TRUE(types) << types.error().message;
  const Policy policies[] = {requests_per(5, 1min), units_per(9, 1min)};
  const auto published = published_contracts(*types, policies, "u1", 7);
  ASSERT_EQ(published.size(), 2u);
  EXPECT_EQ(published[0].id, 7);
  EXPECT_EQ(published[1].id, 8);
}

TEST(Document, WritesCountsAsPlainNumbers) {
  const PolicyView views[] = {{units_per(400'000, 744h), 398'000'250'000, 0},
                              {requests_per(1000, 1min), 1000 * kMicro, 0},
                              {units_per(5, 1min), -55 * kMicro / 10, 0}};
  EXPECT_EQ(write_token_counts(views), R"({"data":{"REQUESTS":{"PT1M":1000.0},)"
                                       R"("PROCESSING_UNITS":{"PT744H":398000.25,"PT1M":-5.5}}})");
  EXPECT_EQ(write_token_counts({}), R"({"data":{}})");
}

}  // namespace
}  // namespace weir::system::contract
