#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tests/config/support.h"

namespace weir::config {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

std::string synced(const std::string& sync, const std::string& account = "") {
  return "contracts:\n  - { name: acme, user_id: u1" + account + ", sync: { " + sync + " } }\n";
}
system::contract::FollowerOptions read(const std::string& sync, const std::string& account = "",
                                       const std::string& file = "") {
  const Config config = config_of(synced(sync, account), saying(file));
  EXPECT_TRUE(config.contracts.at(0).sync.has_value());
  return *config.contracts.at(0).sync;
}
std::string mistakes(const std::string& sync, const std::string& account = "",
                     const std::string& file = "") {
  return mistakes_of(synced(sync, account), saying(file));
}

constexpr const char* kUrl = "url: https://services.example.org";

TEST(Sync, HasDefaults) {
  const system::contract::FollowerOptions options = read(kUrl);
  EXPECT_EQ(options.service.url, "https://services.example.org");
  EXPECT_EQ(options.service.user_id, "u1");
  EXPECT_EQ(options.service.token_url, "");
  EXPECT_TRUE(options.service.transfer.verify);
  EXPECT_EQ(options.service.transfer.timeout, 10s);
  EXPECT_EQ(options.refresh, 5min);
  EXPECT_EQ(options.retry, 5s);
}

TEST(Sync, ReadsEverySetting) {
  const system::contract::FollowerOptions options =
      read(std::string(kUrl) +
               ", token_url: https://services.example.org/token, client_id: me, client_secret: "
               "secret, refresh: 1m, retry: 100ms, timeout: 1s, ca_file: ./ca.pem, verify: false",
           ", retry_after: seconds");
  EXPECT_EQ(options.service.token_url, "https://services.example.org/token");
  EXPECT_EQ(options.service.client_id, "me");
  EXPECT_EQ(options.service.client_secret, "secret");
  EXPECT_EQ(options.service.retry_after, system::contract::RetryAfterUnit::kSeconds);
  EXPECT_EQ(options.service.transfer.ca_file, "./ca.pem");
  EXPECT_FALSE(options.service.transfer.verify);
  EXPECT_EQ(options.service.transfer.timeout, 1s);
  EXPECT_EQ(options.refresh, 1min);
  EXPECT_EQ(options.retry, 100ms);
}

TEST(Sync, ReadsSecretsFromFiles) {
  const std::string grants =
      std::string(kUrl) + ", token_url: 'http://[::1]:1/', client_id: me, client_secret_file: ./s";
  EXPECT_EQ(read(grants, "", "secret\n").service.client_secret, "secret");
  EXPECT_EQ(read(std::string(kUrl) + ", token_file: ./t", "", "look\r\n").service.bearer, "look");
  EXPECT_THAT(mistakes(grants, "", "\n"),
              HasSubstr("contract 'acme': sync: client_secret_file has 0 bytes in the first line "
                        "of './s', but it must have 1 to 4096"));
  EXPECT_THAT(mistakes(grants + ", client_secret: s", "", "x"),
              HasSubstr("'client_secret_file' stands beside the secret itself; write one"));
}

TEST(Sync, RefusesWhatCannotWork) {
  const std::string url(kUrl);
  EXPECT_THAT(mistakes("refresh: 1m"), HasSubstr("sync: url is missing"));
  EXPECT_THAT(mistakes("url: services.example.org"),
              HasSubstr("sync: url is 'services.example.org', but it must be"));
  EXPECT_THAT(mistakes(url + ", token_url: 'http://a/'"), HasSubstr("write 'client_id' and"));
  EXPECT_THAT(mistakes(url + ", client_id: me"), HasSubstr("are for 'token_url'"));
  EXPECT_THAT(mistakes(url + ", token: t, token_url: 'http://a/', client_id: i, client_secret: s"),
              HasSubstr("token and token_url are two ways to be let in; write one"));
  EXPECT_THAT(mistakes(url + ", refresh: 999ms"), HasSubstr("must lie between 1s and 1d"));
  EXPECT_THAT(mistakes(url + ", refresh: 25h"), HasSubstr("must lie between 1s and 1d"));
  EXPECT_THAT(mistakes(url + ", retry: 99ms"), HasSubstr("must lie between 100ms and 1d"));
  EXPECT_THAT(mistakes(url + ", tokenurl: x"), HasSubstr("token_url"));
  EXPECT_THAT(mistakes(url, ", role: service"),
              HasSubstr("its role is 'service', which counts itself"));
}

TEST(Sync, IsDescribedWithoutItsSecrets) {
  const Config config =
      config_of(synced(std::string(kUrl) + ", token: hush, refresh: 1m"), saying(""));
  EXPECT_THAT(describe(config), HasSubstr("follows https://services.example.org every 1m"));
  EXPECT_THAT(describe(config), ::testing::Not(HasSubstr("hush")));
}

TEST(Sync, RefusesAServiceWithAQuery) {
  EXPECT_THAT(mistakes("url: 'https://services.example.org/?x=1'"),
              HasSubstr("url is 'https://services.example.org/?x=1', but it must have no query"));
}

TEST(Sync, IsForSixtyFourAccountsAtMost) {
  const auto accounts = [](int count) {
    std::string text = "contracts:\n";
    for (int i = 0; i < count; ++i) {
      text += "  - { name: a" + std::to_string(i) + ", sync: { " + kUrl + " } }\n";
    }
    return text;
  };
  EXPECT_EQ(config_of(accounts(64), saying("")).contracts.size(), 64u);
  EXPECT_THAT(mistakes_of(accounts(65), saying("")),
              HasSubstr("65 accounts have 'sync', but at most 64 may; run several servers"));
}

}  // namespace
}  // namespace weir::config
