#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>

#include "tests/config/support.h"
#include "weir/system/contract/document.h"

namespace weir::config {
namespace {

namespace contract = system::contract;
using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kRequests = "{ type: REQUESTS, capacity: 5, period: PT1M }";
constexpr std::string_view kDocument = R"({"data":[
  {"id":1,"userId":"u1","policies":[{"capacity":7,"samplingPeriod":"PT1M"},
                                    {"capacity":70,"samplingPeriod":"PT1H"}],
   "type":{"name":"REQUESTS"}}]})";

std::string account(const std::string& rest) {
  return "contracts:\n  - { name: acme, " + rest + " }\n";
}

Config contracts_with(const std::string& rest, const std::string& after = "") {
  return config_of(account(rest) + after, saying(std::string(kDocument)));
}

std::string account_mistakes(const std::string& rest, const std::string& after = "") {
  return mistakes_of(account(rest) + after, saying(std::string(kDocument)));
}

std::vector<std::string> ids(const ContractSettings& settings) {
  std::vector<std::string> all;
  for (const contract::Policy& policy : settings.policies) all.push_back(policy_id(policy));
  return all;
}
using Ids = std::vector<std::string>;

TEST(Contracts, AreNotThereWithoutTheirSection) {
  const Config config = config_of("limits: []");
  EXPECT_TRUE(config.contracts.empty());
}

TEST(Contracts, HaveTheDefaultsOfTheLibrary) {
  const Config config = contracts_with("policies: []");
  ASSERT_EQ(config.contracts.size(), 1u);
  const ContractSettings& settings = config.contracts[0];
  const contract::AccountOptions usual;
  EXPECT_EQ(settings.user_id, "acme");
  EXPECT_EQ(settings.options.role, usual.role);
  EXPECT_EQ(settings.options.rule, usual.rule);
  EXPECT_EQ(settings.options.jitter, 100ms);
  EXPECT_EQ(settings.options.hold, 10min);
  EXPECT_EQ(settings.options.max_delay, std::nullopt);
  EXPECT_EQ(settings.options.retry_after, contract::RetryAfterUnit::kMilliseconds);
  EXPECT_EQ(settings.options.retry_after_default, 30s);
}

TEST(Contracts, TakeEverySettingOfAnAccount) {
  const Config config = contracts_with(
      "user_id: u1, role: service, rule: published, jitter: 0s, hold: 1m, max_delay: 2m, "
      "retry_after: seconds, retry_after_default: 3s, policies: [ { type: PROCESSING_UNITS, "
      "capacity: 70000, period: P31D, refill: 38262857142ns } ]");
  const ContractSettings& settings = config.contracts[0];
  EXPECT_EQ(settings.options.role, contract::AccountRole::kService);
  EXPECT_EQ(settings.options.rule, contract::Rule::kPublished);
  EXPECT_EQ(settings.options.jitter, 0s);
  EXPECT_EQ(settings.options.hold, 1min);
  EXPECT_EQ(settings.options.max_delay, 2min);
  EXPECT_EQ(settings.options.retry_after, contract::RetryAfterUnit::kSeconds);
  EXPECT_EQ(settings.options.retry_after_default, 3s);
  EXPECT_EQ(ids(settings), Ids{"PU_70000_PT744H"});
  EXPECT_EQ(settings.policies[0].refill_ns, 38'262'857'142);
  EXPECT_EQ(settings.user_id, "u1");
}

TEST(Contracts, TakePoliciesFromAFile) {
  EXPECT_EQ(ids(contracts_with("file: c.json").contracts[0]), (Ids{"RQ_7_PT1M", "RQ_70_PT1H"}));
}

TEST(Contracts, TakeThoseOfTheListInsteadOfTheFilesOrBesidesThem) {
  const Config config = contracts_with(
      "user_id: u1, file: c.json, policies: [ { type: REQUESTS, capacity: 5, period: PT1M }, "
      "{ type: PROCESSING_UNITS, capacity: 9, period: PT1M } ]");
  EXPECT_EQ(ids(config.contracts[0]), (Ids{"RQ_5_PT1M", "RQ_70_PT1H", "PU_9_PT1M"}));
}

TEST(Contracts, AreDrawnOnByALimit) {
  const Config config =
      contracts_with("policies: [ " + std::string(kRequests) + " ]",
                     "limits: [ { name: provider, when: { client: a }, contract: acme } ]");
  const engine::Rule* rule = config.rules->find("provider");
  ASSERT_NE(rule, nullptr);
  EXPECT_EQ(rule->gate_name, contract_gate("acme"));
  ASSERT_EQ(config.limits_spec.units.size(), 1u);
  EXPECT_EQ(config.limits_spec.units[0].name, "processing_units");
  EXPECT_EQ(config.limits_spec.units[0].scale, engine::UnitScale::kMicro);
}

TEST(Contracts, AreDescribed) {
  EXPECT_THAT(
      describe(contracts_with("policies: [ " + std::string(kRequests) + " ], max_delay: 1h")),
      HasSubstr("contract acme of user acme: RQ_5_PT1M; guard, jitter 100ms; joint "
                "reservation; held 10m; at most 1h; Retry-After in milliseconds\n"));
}

// --- mistakes

TEST(ContractMistakes, HaveTheirPlace) {
  const std::pair<std::string, std::string> cases[] = {
      {"policies: [ { capacity: 5, period: PT1M } ]", "f:2:31: contract 'acme': type is missing"},
      {"policies: [ { type: requests, capacity: 5, period: PT1M } ]",
       "f:2:39: contract 'acme': type is 'requests'"},
      {"policies: [ { type: REQUESTS, capacity: -5, period: PT1M } ]",
       "f:2:59: contract 'acme': capacity is '-5'"},
      {"policies: [ { type: REQUESTS, capacity: 4611686018428, period: PT1M } ]",
       "f:2:59: contract 'acme': capacity is '4611686018428'"},
      {"policies: [ { type: REQUESTS, capacity: NaN, period: PT1M } ]",
       "f:2:59: contract 'acme': capacity is 'NaN'"},
      {"policies: [ { type: REQUESTS, capacity: 5, period: P1Y } ]", "f:2:70: contract 'acme': "},
      {"policies: [ { type: REQUESTS, capacity: 5, period: 1m } ]", "f:2:70: contract 'acme': "},
      {"policies: [ { type: REQUESTS, capacity: 5, period: -PT1M } ]", "f:2:31: contract 'acme': "},
      {"policies: [ { type: REQUESTS, capacity: 5, period: PT1M, refill: 0s } ]",
       "f:2:84: contract 'acme': refill is '0s'"},
      {"policies: [ { type: REQUESTS, capacity: 5, period: PT1M, refil: 1s } ]",
       "f:2:76: contract 'acme': "},
      {"policies: [ 5 ]", "f:2:31: contract 'acme': a policy is '5', but it must be a map"},
      {"policies: { type: REQUESTS }", "f:2:29: contract 'acme': policies"},
      {"policies: [ " + std::string(kRequests) + ", " + kRequests + " ]",
       "f:2:78: contract 'acme': duplicate_policy"},
      {"policies: [ " + std::string(kRequests) +
           ", { type: REQUESTS, capacity: 6, period: PT60S } ]",
       "f:2:78: contract 'acme': overlapping_policies"},
      {"role: judge", "f:2:25: contract 'acme': role is 'judge'"},
      {"rule: joint", "f:2:25: contract 'acme': rule is 'joint'"},
      {"jitter: -1s", "f:2:27: contract 'acme': jitter is '-1s'"},
      {"hold: 367d", "f:2:25: contract 'acme': hold is '367d', but it may be at most 366d"},
      {"retry_after: minutes", "f:2:32: contract 'acme': retry_after is 'minutes'"},
      {"user_id: u2, file: c.json", "c.json: unknown_user: "},
  };
  for (const auto& [rest, message] : cases) {
    EXPECT_THAT(account_mistakes(rest), StartsWith(message)) << rest;
  }
}

TEST(ContractMistakes, NameAccountsThatAreThereTwice) {
  EXPECT_THAT(mistakes_of("contracts: [ { name: a }, { name: a } ]"),
              StartsWith("f:1:27: contract 'a': account 'a': the name is taken"));
  EXPECT_THAT(mistakes_of("contracts: [ { name: a }, { name: b, user_id: a } ]"),
              StartsWith("f:1:27: contract 'b': account 'b': the user id 'a' is that of another"));
  EXPECT_THAT(mistakes_of("contracts: [ { user_id: a } ]"),
              StartsWith("f:1:14: contract 1: name is missing"));
  EXPECT_THAT(mistakes_of("contracts: [ { name: " + repeated("a", 129) + " } ]"),
              HasSubstr("has 129 bytes"));
  EXPECT_THAT(mistakes_of("contracts: { name: a }"), StartsWith("f:1:12: top level: contracts"));
}

TEST(ContractMistakes, AreThoseOfTheFileToo) {
  const std::string yaml = account("file: c.json");
  EXPECT_THAT(mistakes_of(yaml, saying("{")), StartsWith("c.json: not_json: "));
  EXPECT_THAT(mistakes_of(yaml, saying(std::string(contract::kDocumentBytesMax + 1, ' '))),
              StartsWith("c.json: too_large: "));
  EXPECT_THAT(mistakes_of(yaml, saying(R"({"data":[{"id":1,"userId":"u","policies":[
                {"capacity":1,"samplingPeriod":"1 minute"}],"type":{"name":"REQUESTS"}}]})")),
              StartsWith("c.json: bad_period: data[0].policies[0]"));
  EXPECT_THAT(mistakes_of(yaml), StartsWith("f:2:25: contract 'acme': file 'c.json' is not read"));
}

TEST(ContractMistakes, AreFoundInLimitsThatDrawOnThem) {
  const std::pair<std::string, std::string> cases[] = {
      {"{ name: l, contract: umbrella }",
       "f:3:32: limit 'l': contract is 'umbrella', but it must be the name of an account under "
       "'contracts'; known are 'acme'"},
      {"{ name: l, unit: processing_units, contract: acme }",
       "f:3:46: limit 'l': a contract counts requests and processing_units by itself"},
      {"{ name: l, contract: acme, window: { limit: 1, every: 1s } }",
       "f:3:22: limit 'l': it has a 'window' and a 'contract'"},
      {"{ name: l, per: [client], contract: acme }", "f:3:11: limit 'l': a gate has no key"},
      {"{ name: l, contract: acme }, { name: m, contract: acme }",
       "f:3:40: limit 'm': its gate is already used by limit 'l'"},
  };
  for (const auto& [limit, message] : cases) {
    EXPECT_THAT(account_mistakes("policies: []", "limits: [ " + limit + " ]"), StartsWith(message));
  }
  EXPECT_THAT(account_mistakes("rule: published", "limits: [ { name: l, contract: acme } ]"),
              StartsWith("f:3:32: limit 'l': account 'acme' follows the published rule"));
  EXPECT_EQ(account_mistakes("role: judge", "limits: [ { name: l, contract: acme } ]").find('\n'),
            std::string::npos)
      << "a mistake in the account is reported once";
  EXPECT_THAT(account_mistakes("policies: []", "units: { processing_units: whole }"),
              HasSubstr("contracts: unit 'processing_units' is 'whole', but contracts count it "
                        "micro"));
}

TEST(ContractMistakes, CountAccounts) {
  const auto many = [](std::size_t count) {
    std::string yaml = "contracts:\n";
    for (std::size_t i = 0; i < count; ++i) yaml += "  - { name: a" + std::to_string(i) + " }\n";
    return yaml;
  };
  EXPECT_EQ(mistakes_of(many(kAccountsMax)), "");
  EXPECT_THAT(mistakes_of(many(kAccountsMax + 1)),
              StartsWith("f:1026:5: contracts: there are 1025 accounts"));
}

}  // namespace
}  // namespace weir::config
