// /openapi.json: that it describes the routes, that its requests are what the readers take, and
// that what is described can be read. That its answers are what is answered, every test sees to
// (described.h).

#include "weir/wire/http/openapi.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/json_schema.h"
#include "tests/wire/http/support.h"
#include "weir/base/hold_text.h"
#include "weir/engine/quantity.h"
#include "weir/store/sqlite/ledger_store.h"
#include "weir/system/contract/accounts.h"
#include "weir/system/pool/held_jobs.h"
#include "weir/system/pool/local_coordinator.h"
#include "weir/system/sampling/sampling.h"
#include "weir/system/throttle/validate.h"
#include "weir/wire/http/routes.h"

namespace weir::wire::http {
namespace {

using ::testing::HasSubstr;
using Json = boost::json::value;

// A desk with every system, so that all bodies are read.
struct WholeDesk : Desk {
  WholeDesk() : Desk(three_per_second()) {
    auto definitions = system::throttle::load_definitions(
        R"({"buckets":[{"name":"Calls","burstPeriod":2000,"throttleGroups":[)"
        R"({"milliOpsPerSec":1,"operations":["ContractCall"]}]}]})",
        "t.json", 1);
    host.throttles_in_force =
        *system::throttle::Throttles::create({.definitions = *definitions, .owner = 1});
    auto rules = system::sampling::make_rules(
        {.environments = {
             {.name = "E", .rotation_count_micro = 0, .sampling_count_micro = 288 * kMicro}}});
    host.sampling_in_force =
        system::sampling::Sampling::create(std::move(*rules), {.secret = {1, 2, 3, 4}});
    host.compute_in_force.ledger = *store::sqlite::LedgerStore::open(std::nullopt, {}, kTestStart);
    host.compute_in_force.desk = std::make_shared<AllocationDesk>(host.compute_in_force.ledger);
    host.compute_in_force.worker = std::make_shared<system::compute::SharedWorker>(
        std::in_place, system::compute::WorkerSettings{});
    namespace contract = system::contract;
    auto accounts = std::make_shared<contract::Accounts>();
    auto account = contract::Account::create(
        "acme", {*contract::make_policy(contract::Resource::kRequests, 5, 24h)}, {}, kTestStart);
    EXPECT_TRUE(accounts->add(*account).ok());
    host.contract_in_force = std::move(accounts);
    system::pool::PoolsSettings settings;
    settings.models = {{.name = "big", .limits = {{.requests_per_minute = 100}, 8}}};
    settings.types = {{.name = "summary", .requests = 1}};
    auto pools = system::pool::Pools::create(std::move(settings),
                                             std::make_unique<system::pool::LocalCoordinator>(
                                                 std::make_shared<system::pool::LocalFleet>()));
    jobs = std::make_unique<system::pool::HeldJobs>(std::move(*pools), system::pool::HoldSettings{},
                                                    0xc0ffee);
    host.pool_in_force = jobs.get();
  }

  Answer ask_with(const Route& route, std::string_view body) {
    std::string path(route.path);
    if (const std::size_t brace = path.find('{'); brace != std::string::npos) {
      path.replace(brace, path.find('}') - brace + 1,
                   parameter_of(route) == "limit" ? "per-client" : "acme");
    }
    return ask(route.method, path, body);
  }

  std::unique_ptr<system::pool::HeldJobs> jobs;
};

// Every schema in `value`, also those inside of others. `each` is given an object that is one.
void each_schema(const Json& value, const std::function<void(const boost::json::object&)>& each) {
  const auto all = [&](const Json& list) {
    for (const Json& one : list.as_array()) each_schema(one, each);
  };
  const boost::json::object& schema = value.as_object();
  each(schema);
  for (const auto& [keyword, says] : schema) {
    if (keyword == "properties") {
      for (const auto& member : says.as_object()) each_schema(member.value(), each);
    } else if (keyword == "oneOf" || keyword == "anyOf") {
      all(says);
    } else if (keyword == "items" || (keyword == "additionalProperties" && says.is_object())) {
      each_schema(says, each);
    }
  }
}

std::set<std::string> names_in(std::string_view list) {
  std::set<std::string> names;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(", "), list.size());
    names.emplace(list.substr(0, end));
    list.remove_prefix(std::min(end + 2, list.size()));
  }
  return names;
}

// The members that a reader knows, which it tells of a body with another one.
std::set<std::string> members_read(const std::string& problem) {
  constexpr std::string_view kBefore = "known are ";
  const std::size_t begin = problem.find(kBefore);
  if (begin == std::string::npos) return {"(no list in: " + problem + ")"};
  const std::size_t names = begin + kBefore.size();
  return names_in(std::string_view(problem).substr(names, problem.find(';', names) - names));
}

// Compares the members of `schema`, and of what lies in it, with those that the reader of the
// route knows. A value of the schema lies in a body between `before` and `after`.
void expect_members(WholeDesk& desk, const Route& route, const Json& reference,
                    const std::string& before, const std::string& after) {
  const boost::json::object& schema = desk.described.schemas().resolved(reference);
  if (const Json* const items = schema.if_contains("items")) {
    return expect_members(desk, route, *items, before + '[', ']' + after);
  }
  std::set<std::string> described;
  std::vector<std::pair<std::string, const Json*>> members;
  const auto add = [&](const boost::json::object& of) {
    const Json* const properties = of.if_contains("properties");
    if (properties == nullptr) return;
    EXPECT_TRUE(of.contains("additionalProperties")) << route.name << " at " << before;
    for (const auto& member : properties->as_object()) {
      if (described.emplace(member.key()).second)
        members.emplace_back(member.key(), &member.value());
    }
  };
  add(schema);
  if (const Json* const kinds = schema.if_contains("oneOf")) {
    for (const Json& kind : kinds->as_array()) add(desk.described.schemas().resolved(kind));
  }
  if (members.empty()) return;
  EXPECT_EQ(members_read(detail(desk.ask_with(route, before + R"({"?":0})" + after))), described)
      << route.name << " at " << before;
  for (const auto& [name, inner] : members) {
    expect_members(desk, route, *inner, before + R"({")" + name + R"(":)", '}' + after);
  }
}

TEST(OpenApi, DescribesEveryRouteAndNoOther) {
  Desk desk(three_per_second());
  const Json document = parsed(desk.get("/openapi.json").body);
  EXPECT_EQ(document.at("openapi"), "3.1.0");
  std::size_t operations = 0;
  for (const auto& path : document.at("paths").as_object()) {
    operations += path.value().as_object().size();
  }
  EXPECT_EQ(operations, desk.api.routes().size());
  for (const Route* const each : desk.api.routes()) {
    const Route& route = *each;
    const Json& operation = desk.described.operation(route);
    EXPECT_EQ(std::string_view(operation.at("operationId").as_string()), route.name);
    EXPECT_EQ(std::string_view(operation.at("summary").as_string()), route.summary);
    EXPECT_EQ(std::string_view(operation.at("x-weir-role").as_string()), to_string(route.role));
    EXPECT_EQ(operation.as_object().contains("requestBody"), !route.body.empty()) << route.name;
  }
}

TEST(OpenApi, TellsTheVersionOfTheServer) {
  Desk desk(three_per_second());
  EXPECT_EQ(desk.described.schemas().document().at_pointer("/info/version"), WEIR_EXPECTED_VERSION);
}

void expect_references_exist(const Json& value, const boost::json::object& schemas) {
  if (const auto* object = value.if_object()) {
    for (const auto& member : *object) {
      if (member.key() == "$ref") {
        const std::string_view name = std::string_view(member.value().as_string()).substr(21);
        EXPECT_TRUE(schemas.contains(name)) << name;
      }
      expect_references_exist(member.value(), schemas);
    }
  } else if (const auto* list = value.if_array()) {
    for (const auto& element : *list) expect_references_exist(element, schemas);
  }
}

TEST(OpenApi, RefersOnlyToSchemasItHas) {
  Desk desk(three_per_second());
  expect_references_exist(desk.described.schemas().document(), desk.described.components());
}

TEST(OpenApi, HasNoSchemaThatNothingRefersTo) {
  Desk desk(three_per_second());
  const std::string text = desk.get("/openapi.json").body;
  for (const auto& schema : desk.described.components()) {
    EXPECT_THAT(text, HasSubstr(fmt::format(R"("#/components/schemas/{}")",
                                            std::string_view(schema.key()))));
  }
}

TEST(OpenApi, HasNoKeywordThatTheTestsDoNotCheck) {
  Desk desk(three_per_second());
  for (const auto& named : desk.described.components()) {
    each_schema(named.value(), [&](const boost::json::object& schema) {
      for (const auto& keyword : schema) {
        EXPECT_TRUE(JsonSchemas::knows(keyword.key())) << named.key() << ": " << keyword.key();
      }
    });
  }
}

// Whatever an answer has, it has always, but for what stands here.
TEST(OpenApi, SaysWhichMembersAnAnswerAlwaysHas) {
  const std::set<std::string> may_be_missing = {"Decision.granted",   "DocumentTaken.left_out",
                                                "KeyState.leased",    "Rule.shared",
                                                "Rule.lease",         "Committed.debited",
                                                "ParameterSet.epoch", "ParameterSet.next_epoch",
                                                "Restored.converted", "Restored.missing",
                                                "Restored.restored",  "Restored.unknown",
                                                "Sampling.key",       "State.holds"};
  std::set<std::string> found;
  Desk desk(three_per_second());
  for (const auto& named : desk.described.components()) {
    each_schema(named.value(), [&](const boost::json::object& schema) {
      const bool is_request = schema.contains("additionalProperties");
      if (is_request || !schema.contains("properties")) return;
      std::set<std::string_view> required;
      for (const Json& name : schema.at("required").as_array()) required.insert(name.as_string());
      for (const auto& member : schema.at("properties").as_object()) {
        if (required.contains(member.key())) continue;
        found.insert(
            fmt::format("{}.{}", std::string_view(named.key()), std::string_view(member.key())));
      }
    });
  }
  EXPECT_EQ(found, may_be_missing);
}

TEST(OpenApi, HasTheMembersThatTheReadersOfBodiesKnow) {
  WholeDesk desk;
  std::size_t compared = 0;
  for (const Route* const route : desk.api.routes()) {
    if (route->body.empty() || route->body == "Document") continue;
    const Json reference = {{"$ref", fmt::format("#/components/schemas/{}", route->body)}};
    expect_members(desk, *route, reference, "", "");
    compared += 1;
  }
  EXPECT_EQ(compared, 43u);
}

std::string trouble_with(const Desk& desk, std::string_view schema, const Json& value) {
  return desk.described.schemas().mismatch(
      {{"$ref", fmt::format("#/components/schemas/{}", schema)}}, value);
}

TEST(OpenApi, DescribesDurationsAsTheyAreRead) {
  Desk desk(three_per_second());
  for (const std::string_view text :
       {"1s",    "0s",   "500ms", "1.5s",     "1w",  "1h30m", "1d12h", "250us", "7ns", "1_000ms",
        "1.5w",  "0.5m", "1m1m",  "1_0.2_5s", "",    "s",     "1",     "1.s",   ".5s", "1._5s",
        "1__0s", "_1s",  "1_s",   "-1s",      "1 s", "1S",    "1sx",   "1y",    "s1",  "1s1"}) {
    const bool is_read = engine::parse_span("duration", text).ok();
    EXPECT_EQ(trouble_with(desk, "Duration", Json(text)).empty(), is_read) << text;
  }
  EXPECT_EQ(trouble_with(desk, "Duration", 1500), "");
}

TEST(OpenApi, DescribesHoldsAsTheyAreRead) {
  Desk desk(three_per_second());
  for (const std::string_view text :
       {"00000000000004d2-17", "9a6f055e433d097c-2s", "00000000000004d2-0", "00000000000004d2-",
        "00000000000004d2-s", "00000000000004d2-17x", "00000000000004D2-17", "4d2-17"}) {
    EXPECT_EQ(trouble_with(desk, "Hold", Json(text)).empty(), read_hold(text).has_value()) << text;
  }
}

TEST(OpenApi, DescribesHeadersOfTheStyleInForceOnly) {
  const std::string_view kOwn[] = {"RateLimit", "X-RateLimit-Reset", "X-RateLimit-Reset", ""};
  for (const HeaderStyle style : {HeaderStyle::kIetf, HeaderStyle::kXRateLimit,
                                  HeaderStyle::kXRateLimitEpoch, HeaderStyle::kNone}) {
    Desk desk(three_per_second(), {.headers = style});
    const Json& responses = desk.described.schemas()
                                .document()
                                .at("paths")
                                .at("/v1/acquire")
                                .at("post")
                                .at("responses");
    const boost::json::object& headers = responses.at("200").at("headers").as_object();
    for (const std::string_view name : {"RateLimit", "X-RateLimit-Reset"}) {
      EXPECT_EQ(headers.contains(name), name == kOwn[static_cast<std::size_t>(style)]);
    }
    EXPECT_FALSE(headers.contains("Retry-After"));
    EXPECT_TRUE(responses.at("429").at("headers").as_object().contains("Retry-After"));
  }
}

// --- the checker itself

TEST(JsonSchema, TakesWhatIsDescribedAndNothingElse) {
  const JsonSchemas schemas(boost::json::parse(
      R"({"a":{"type":"object","required":["n"],"properties":{
            "n":{"type":["integer","null"],"minimum":1,"maximum":3},
            "t":{"type":"string","pattern":"^a+$","maxLength":3},
            "at":{"type":"string","format":"date-time"},
            "l":{"type":"array","items":{"$ref":"#/a/properties/n"},"maxItems":2},
            "m":{"type":"object","additionalProperties":{"type":"boolean"}},
            "e":{"enum":["x",1]}}}})"));
  const auto takes = [&](std::string_view text) {
    return schemas.mismatch({{"$ref", "#/a"}}, boost::json::parse(text)).empty();
  };
  EXPECT_TRUE(takes(R"({"n":1,"t":"aaa","l":[1,null],"m":{"b":true},"e":1})"));
  EXPECT_TRUE(takes(R"({"n":3.0,"at":"2027-01-15T08:00:00.333333334Z"})"));
  for (const std::string_view text :
       {"{}", "[]", R"({"n":0})", R"({"n":4})", R"({"n":1.5})", R"({"n":"1"})", R"({"n":1,"o":1})",
        R"({"n":1,"t":"aaaa"})", R"({"n":1,"t":"b"})", R"({"n":1,"l":[1,1,1]})",
        R"({"n":1,"l":[0]})", R"({"n":1,"m":{"b":1}})", R"({"n":1,"e":"y"})",
        R"({"n":1,"at":"today"})"}) {
    EXPECT_FALSE(takes(text)) << text;
  }
}

TEST(JsonSchema, WantsExactlyOneOfSeveral) {
  const Json one_of = boost::json::parse(
      R"({"oneOf":[{"type":"object","properties":{"a":{"type":"integer"}}},
                   {"type":"object","properties":{"b":{"type":"integer"}}}]})");
  const JsonSchemas schemas(nullptr);
  EXPECT_THAT(schemas.mismatch(one_of, {{"a", 1}}), HasSubstr("as 2 of the 2 choices"))
      << "a reader that allows unknown members takes both";
  EXPECT_THAT(schemas.mismatch(one_of, 1), HasSubstr("as 0 of the 2 choices"));
}

TEST(JsonSchema, RefusesAKeywordItDoesNotKnow) {
  EXPECT_THAT(JsonSchemas(nullptr).mismatch({{"multipleOf", 2}}, 4),
              HasSubstr("keyword 'multipleOf' is unknown"));
}

}  // namespace
}  // namespace weir::wire::http
