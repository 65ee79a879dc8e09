// Everything of the file but its limits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string_view>

#include "tests/config/support.h"

namespace weir::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

std::vector<std::string> texts(const std::vector<Address>& addresses) {
  std::vector<std::string> result;
  for (const Address& address : addresses) result.push_back(address.text());
  return result;
}

// --- addresses

TEST(Address, IsReadAndWrittenBack) {
  for (const std::string text : {"127.0.0.1:6380", "0.0.0.0:0", "[::1]:6380", "[2001:db8::1]:65535",
                                 "unix:/run/weir.sock", "unix:relative"}) {
    const Result<Address> address = parse_address(text);
    ASSERT_TRUE(address.ok()) << address.error().message;
    EXPECT_EQ(address->text(), text);
  }
  EXPECT_EQ(parse_address("localhost:1")->text(), "127.0.0.1:1");
}

TEST(Address, IsRefusedUnlessNumericWithAPort) {
  for (const std::string text :
       {"", ":", "80", ":80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
        "127.0.0.1:x", "127.0.0:1", "example.org:80", "::1:80", "[::1]", "[::1:80",
        "[127.0.0.1]:80", "[]:80", "unix:", "256.0.0.1:80", "127.0.0.1 :80"}) {
    const Result<Address> address = parse_address(text);
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_THAT(address.error().message, HasSubstr("is '" + text + "', but it must be "));
  }
}

TEST(Address, IsRefusedIfItGoesOnAfterAZeroByte) {
  using namespace std::string_view_literals;
  for (const std::string_view text : {"127.0.0.1\0:80"sv, "[::1\0x]:80"sv, "unix:/run/a\0b"sv}) {
    const Result<Address> address = parse_address(text);
    ASSERT_FALSE(address.ok());
    EXPECT_THAT(address.error().message, HasSubstr("but it must be a numeric address"));
  }
}

TEST(Address, IsLocalOnLoopbackAndUnixSockets) {
  for (const char* text : {"127.0.0.1:1", "127.255.0.1:1", "[::1]:1", "[0:0::1]:1", "unix:/x"}) {
    EXPECT_TRUE(parse_address(text)->is_local()) << text;
  }
  for (const char* text :
       {"0.0.0.0:1", "128.0.0.1:1", "10.0.0.1:1", "[::]:1", "[::2]:1", "[::ffff:10.0.0.1]:1"}) {
    EXPECT_FALSE(parse_address(text)->is_local()) << text;
  }
}

// --- listen and auth

TEST(ConfigListen, DefaultsToLoopback) {
  const Config config = config_of("limits: []");
  EXPECT_THAT(texts(config.resp), ElementsAre("127.0.0.1:6380"));
  EXPECT_THAT(texts(config.http), ElementsAre("127.0.0.1:8080"));
}

TEST(ConfigListen, TakesOneOrSeveralAddressesOrNone) {
  const Config config = config_of("listen: { resp: ['[::1]:1', 'unix:/x'], http: none }");
  EXPECT_THAT(texts(config.resp), ElementsAre("[::1]:1", "unix:/x"));
  EXPECT_THAT(config.http, IsEmpty());
  EXPECT_THAT(config_of("listen: { http: 127.0.0.1:1 }").resp, IsEmpty());
}

TEST(ConfigListen, LetsOnlyItsOwnerUseAUnixSocketUnlessAModeSaysMore) {
  const Config config = config_of(
      "listen: { resp: [{ unix: /x, mode: 0660, group: weir }, { unix: y, mode: 666 }, 'unix:z'],\n"
      "          http: { unix: /w } }");
  EXPECT_THAT(texts(config.resp), ElementsAre("unix:/x", "unix:y", "unix:z"));
  EXPECT_EQ(config.resp[0].mode, 0660u);
  EXPECT_EQ(config.resp[0].group, "weir");
  EXPECT_EQ(config.resp[1].mode, 0666u);
  EXPECT_EQ(config.resp[2].mode, 0600u);
  EXPECT_EQ(config.http[0].mode, 0600u);
  EXPECT_EQ(config.http[0].group, "");
  EXPECT_THAT(describe(config),
              HasSubstr("listen resp: unix:/x (mode 0660, group weir), unix:y (mode 0666), unix:z\n"
                        "listen http: unix:/w\n"));
}

TEST(ConfigListen, RefusesModesThatAreNoneAndGroupsThatMayNotConnect) {
  for (const std::string mode : {"8", "0o660", "1777", "06600", "66", "rw", "0668", ""}) {
    EXPECT_EQ(mistakes_of("listen: { http: { unix: x, mode: '" + mode + "' } }"),
              "f:1:34: listen: mode is '" + mode +
                  "', but it must be three octal digits, with a zero in front; write '0600' or "
                  "'0660'");
  }
  for (const std::string mode : {"", "mode: 0600, ", "mode: 0646, "}) {
    EXPECT_THAT(mistakes_of("listen: { http: { unix: x, " + mode + "group: g } }"),
                HasSubstr("does not let a group in; write 'mode: 0660'"));
  }
  EXPECT_EQ(mistakes_of("listen: { http: { mode: 0600 } }"),
            "f:1:17: listen: unix is missing, but it is needed; write 'unix: /run/weir.sock'");
  const std::string path(kUnixPathBytesMax, 'p');
  EXPECT_EQ(mistakes_of("listen: { http: { unix: " + path + " } }"), "");
  EXPECT_THAT(mistakes_of("listen: { http: { unix: " + path + "p } }"), HasSubstr("108 bytes"));
  const std::string group(kGroupBytesMax, 'g');
  const std::string begin = "listen: { http: { unix: x, mode: 0660, group: ";
  EXPECT_EQ(mistakes_of(begin + group + " } }"), "");
  EXPECT_THAT(mistakes_of(begin + group + "g } }"), HasSubstr("257 bytes"));
  EXPECT_THAT(mistakes_of("listen: { http: [{ unix: x }, 'unix:x'] }"),
              HasSubstr("which is already listened on"));
}

TEST(ConfigListen, NeedsAuthBeyondThisMachine) {
  EXPECT_EQ(mistakes_of("listen: { resp: 0.0.0.0:6380 }"),
            "f:1:17: listen: resp is '0.0.0.0:6380', which others can reach, but there is no "
            "'auth'; write tokens under 'auth', or a loopback address such as '127.0.0.1:6380'");
  EXPECT_EQ(mistakes_of("listen: { resp: 0.0.0.0:6380 }\nauth: [ { token: x, role: decide } ]"),
            "");
}

TEST(ConfigListen, RefusesAnAddressTwiceUnlessItsPortIsAnyFreeOne) {
  EXPECT_EQ(mistakes_of("listen: { resp: 127.0.0.1:1, http: 127.0.0.1:1 }"),
            "f:1:36: listen: http is '127.0.0.1:1', which is already listened on; write another "
            "address");
  EXPECT_EQ(mistakes_of("listen: { resp: 127.0.0.1:0, http: 127.0.0.1:0 }"), "");
}

TEST(ConfigAuth, HasRolesAndNames) {
  const Config config = config_of(
      "auth:\n"
      "  - { token: a, role: observe }\n"
      "  - { token: b, role: decide, name: n }\n"
      "  - { token: c, role: admin }\n");
  ASSERT_EQ(config.auth.size(), 3u);
  EXPECT_EQ(config.auth[0].role, Role::kObserve);
  EXPECT_EQ(config.auth[1].role, Role::kDecide);
  EXPECT_EQ(config.auth[1].name, "n");
  EXPECT_EQ(config.auth[1].token, "b");
  EXPECT_EQ(config.auth[2].role, Role::kAdmin);
}

TEST(ConfigAuth, BindsTokens) {
  const Config config = config_of(
      "limits: [ { name: a, per: [client], window: { limit: 1, every: 1d } } ]\n"
      "auth:\n"
      "  - { token: 0123456789abcdef, role: decide, only: { client: [acme, acme-*] },\n"
      "      portals: p-1, keys: ['acme:*'] }\n"
      "  - { token: fedcba9876543210, role: observe }\n");
  const engine::Reach& reach = config.auth[0].reach;
  EXPECT_EQ(reach.only, (std::vector<engine::Condition>{{"client", {"acme", "acme-*"}}}));
  EXPECT_EQ(reach.identities,
            (std::vector<engine::Condition>{{"portal", {"p-1"}}, {"key", {"acme:*"}}}));
  EXPECT_FALSE(config.auth[1].reach.is_bound());
}

TEST(ConfigAuth, RefusesBoundsThatBindNothing) {
  const std::string limits =
      "limits: [ { name: a, per: [client], window: { limit: 1, every: 1d } } ]\n";
  EXPECT_EQ(
      mistakes_of(limits + "auth: [ { token: 0123456789abcdef, role: admin, portals: [p] } ]\n"),
      "f:2:9: auth 1: it is bound, but its role is 'admin', which changes what is "
      "everybody's; write 'role: decide', or leave out the bounds");
  EXPECT_EQ(mistakes_of(limits + "auth: [ { token: 0123456789abcdef, role: decide, only: {} } ]\n"),
            "f:2:56: auth 1: only is an empty map, but it must name an attribute; write '{ "
            "client: [acme-*] }', or leave it out");
  EXPECT_EQ(
      mistakes_of(limits +
                  "auth: [ { token: 0123456789abcdef, role: decide, only: { clinet: x } } ]\n"),
      "f:2:50: auth 1: only names the attribute 'clinet', which no limit reads; "
      "correct the name, or add it to 'attributes'");
}

TEST(ConfigAuth, NeverShowsATokenInAMessage) {
  const std::string message = mistakes_of(
      "auth: [ { token: hush, role: decide }, { token: hush, role: decide },\n"
      "        { token: \"hush\\n\", role: x } ]");
  EXPECT_EQ(message,
            "f:1:40: auth 2: its token is used before; write another token\n"
            "f:2:18: auth 3: token has a control character; write plain text\n"
            "f:2:34: auth 3: role is 'x', but it must be one of observe, decide, admin; write "
            "one of them");
}

TEST(ConfigAuth, TakesATokenFromTheFirstLineOfAFile) {
  const Config config = config_of("auth: [ { token_file: ./t, role: admin } ]",
                                  saying(" the token, sixteen+\t\r\n# of the operators\n"));
  ASSERT_EQ(config.auth.size(), 1u);
  EXPECT_EQ(config.auth[0].token, "the token, sixteen+");
  EXPECT_EQ(config.warnings.size(), 0u);
}

TEST(ConfigAuth, SaysWhatIsWrongWithATokenFile) {
  const std::string_view one = "auth: [ { token_file: ./t, role: admin } ]";
  EXPECT_EQ(mistakes_of(one, saying("\nhush\n")),
            "f:1:23: auth 1: token_file has 0 bytes in the first line of './t', but it must have 1 "
            "to 512; put the secret alone there");
  EXPECT_EQ(mistakes_of(one, saying(std::string(512, 'x'))), "");
  EXPECT_THAT(mistakes_of(one, saying(std::string(513, 'x'))), HasSubstr("has 513 bytes in"));
  EXPECT_EQ(mistakes_of(one, saying("hu\x01sh\n")),
            "f:1:23: auth 1: token_file has a control character in the first line of './t'; put "
            "plain text there");
  EXPECT_EQ(mistakes_of(one),
            "f:1:23: auth 1: file './t' is not read here, because no files are; load the "
            "configuration from a file");
  EXPECT_EQ(mistakes_of("auth: [ { token: hush, token_file: ./t, role: admin } ]", saying("x")),
            "f:1:24: auth 1: token_file stands beside 'token'; write one of them");
  EXPECT_EQ(mistakes_of("auth: [ { role: admin } ]"),
            "f:1:9: auth 1: token is missing, but it is needed; write 'token: secret', or "
            "'token_file: ./token'");
  EXPECT_EQ(mistakes_of("auth: [ { token_file: ./t, role: decide }, { token_file: ./u, role: "
                        "admin } ]",
                        saying("the same in both files")),
            "f:1:44: auth 2: its token is used before; write another token");
}

TEST(ConfigAuth, WarnsOfATokenThatCanBeGuessed) {
  const Config config = config_of(
      "auth:\n  - { token: 0123456789abcde, role: decide }\n"
      "  - { token: 0123456789abcdef, role: admin }\n");
  ASSERT_EQ(config.warnings.size(), 1u);
  EXPECT_EQ(config.warnings[0],
            "f:2:14: auth 1: token has 15 bytes, which can be guessed; write at least 16, such as "
            "what `openssl rand -hex 16` prints");
}

// --- the rest

TEST(ConfigState, HasAFolderAsWritten) {
  const Config config = config_of("state: { dir: ./here }");
  ASSERT_TRUE(config.state.has_value());
  EXPECT_EQ(config.state->dir, "./here");
  EXPECT_EQ(config.state->flush, 200ms);
  EXPECT_EQ(config_of("state: { dir: x, flush: 1s }").state->flush, 1s);
  EXPECT_FALSE(config_of("{}").state.has_value());
}

TEST(ConfigBounds, AreReadEachIntoItsOwnField) {
  const Bounds bounds =
      config_of(
          "bounds: { connections: 1, request_bytes: 1025, header_bytes: 1026, reply_bytes: 16385, "
          "reply_bytes_all: 1048577, batch: 4,\n"
          "  waiting: 5, streams: 11, idle: 6s, slow: 7s, keys: 8, cl_throttle_keys: 3, holds: 9, "
          "log_runs: 10, overrides: 15, hold: 12s, wait: 13s, book: 14s, when_full: evict }")
          .bounds;
  EXPECT_EQ(bounds.connections, 1u);
  EXPECT_EQ(bounds.request_bytes, 1025u);
  EXPECT_EQ(bounds.header_bytes, 1026u);
  EXPECT_EQ(bounds.reply_bytes, 16'385u);
  EXPECT_EQ(bounds.reply_bytes_all, 1'048'577u);
  EXPECT_EQ(bounds.batch, 4u);
  EXPECT_EQ(bounds.waiting, 5u);
  EXPECT_EQ(bounds.idle, 6s);
  EXPECT_EQ(bounds.slow, 7s);
  EXPECT_EQ(bounds.keys, 8u);
  EXPECT_EQ(bounds.cl_throttle_keys, 3u);
  EXPECT_EQ(bounds.holds, 9u);
  EXPECT_EQ(bounds.log_runs, 10u);
  EXPECT_EQ(bounds.streams, 11u);
  EXPECT_EQ(bounds.overrides, 15u);
  EXPECT_EQ(bounds.hold, 12s);
  EXPECT_EQ(bounds.wait, 13s);
  EXPECT_EQ(bounds.book, 14s);
  EXPECT_EQ(bounds.when_full, engine::WhenFull::kEvict);
}

TEST(ConfigChoices, AreReadByName) {
  EXPECT_EQ(config_of("headers: ietf").headers, HeaderStyle::kIetf);
  EXPECT_EQ(config_of("headers: x-ratelimit").headers, HeaderStyle::kXRateLimit);
  EXPECT_EQ(config_of("headers: x-ratelimit-epoch").headers, HeaderStyle::kXRateLimitEpoch);
  EXPECT_EQ(config_of("headers: none").headers, HeaderStyle::kNone);
  EXPECT_EQ(config_of("rounding: cell").rounding, Rounding::kCell);
  EXPECT_EQ(config_of("rounding: dragonfly").rounding, Rounding::kDragonfly);
  EXPECT_EQ(config_of("{}").rules->unmatched(), engine::Unmatched::kAllow);
  EXPECT_EQ(config_of("unmatched: allow").rules->unmatched(), engine::Unmatched::kAllow);
  EXPECT_EQ(config_of("unmatched: deny").rules->unmatched(), engine::Unmatched::kDeny);
  EXPECT_EQ(config_of("unmatched: error").rules->unmatched(), engine::Unmatched::kError);
}

TEST(ConfigRest, IsReadToo) {
  const Config config = config_of(
      "threads: 3\nrecord: ./r.jsonl\nattributes: [region]\nunits: { t: whole, p: micro }");
  EXPECT_EQ(config.path, "f");
  EXPECT_EQ(config.threads, 3u);
  EXPECT_EQ(config.record, "./r.jsonl");
  EXPECT_THAT(config.limits_spec.attributes, ElementsAre("region"));
  ASSERT_EQ(config.limits_spec.units.size(), 2u);
  EXPECT_EQ(config.limits_spec.units[0].scale, engine::UnitScale::kWhole);
  EXPECT_EQ(config.limits_spec.units[1].scale, engine::UnitScale::kMicro);
  EXPECT_EQ(config_of("{}").threads, 0u);
}

// --- load

TEST(ConfigLoad, ReadsAFileAndNamesItInMistakes) {
  const std::string path = ::testing::TempDir() + "/config_test_load.yaml";
  std::ofstream(path) << "threads: 2\n";
  EXPECT_EQ(load(path)->threads, 2u);
  EXPECT_EQ(load(path)->path, path);
  std::ofstream(path) << "threads: x\n";
  EXPECT_THAT(load(path).error().message, ::testing::StartsWith(path + ":1:10: top level: "));
  std::remove(path.c_str());
}

TEST(ConfigLoad, SaysWhyAFileCannotBeRead) {
  const Result<Config> missing = load("/nowhere/weir.yaml");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(missing.error().message,
            "/nowhere/weir.yaml: the file cannot be read (No such file or directory); write the "
            "path of a readable file");
  const Result<Config> folder = load("/");
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(folder.error().message, HasSubstr("Is a directory"));
}

}  // namespace
}  // namespace weir::config
