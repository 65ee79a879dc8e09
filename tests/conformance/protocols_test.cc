// A request means the same over every protocol: the same ones, at the same instants, go to one
// engine over RESP and to another over HTTP, and the answers are compared field by field.
//
// Both engines have the same rules, a clock that moves only when told, and, for shared limits, a
// Redis each. What waits is answered when it is answered: over both, or over none.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/store/redis/shared/support.h"
#include "tests/support/eventually.h"
#include "tests/support/seed.h"
#include "weir/system/throttle/gate.h"
#include "weir/system/throttle/read.h"
#include "weir/system/throttle/throttles.h"
#include "weir/wire/http/api.h"
#include "weir/wire/resp/session.h"

namespace weir::wire {
namespace {

using namespace std::chrono_literals;
namespace json = boost::json;
using store::redis::compiled;
using store::redis::kStart;
namespace throttle = system::throttle;

// What an answer says, named as in HTTP: {"verdict":"denied","retry_after_ms":500,...}.
using Said = json::object;

// Answers that may come later, from any thread.
class Box {
 public:
  void put(Said said) {
    const std::scoped_lock lock(lock_);
    ASSERT_FALSE(said_) << "an answer came twice: " << said;
    said_ = std::move(said);
  }
  std::optional<Said> get() const {
    const std::scoped_lock lock(lock_);
    return said_;
  }

 private:
  mutable std::mutex lock_;
  std::optional<Said> said_;
};

// --- what is asked

struct Asked {
  std::string what = "acquire";  // or peek, settle, cancel, renew, inspect, reset
  std::vector<std::pair<std::string, std::string>> attributes{};
  std::vector<std::pair<std::string, std::int64_t>> costs{};
  std::string hold{}, up_to{}, book{}, wait{};  // of an acquire; hold: how long to renew, too
  std::size_t held = 0;                         // which hold to settle, cancel or renew
  std::string limit{};                          // to inspect or reset
};

// --- RESP

// One value of a reply in version 3, as JSON.
json::value read_resp(std::string_view& bytes) {
  const std::size_t end = bytes.find("\r\n");
  const char type = bytes[0];
  const std::string line(bytes.substr(1, end - 1));
  bytes.remove_prefix(end + 2);
  switch (type) {
    case '_':
      return nullptr;
    case '#':
      return line == "t";
    case ':':
      return std::stoll(line);
    case '+':
      return json::value(line);
    case '-':
      return json::object{{"error", line.substr(0, line.find(' '))},
                          {"detail", line.substr(line.find(' ') + 1)}};
    case '$': {
      const auto size = static_cast<std::size_t>(std::stoll(line));
      json::value text(bytes.substr(0, size));
      bytes.remove_prefix(size + 2);
      return text;
    }
    default: {
      EXPECT_EQ(type, '%') << line;
      json::object map;
      for (std::int64_t i = std::stoll(line); i > 0; --i) {
        const json::value key = read_resp(bytes);
        map[key.as_string()] = read_resp(bytes);
      }
      return map;
    }
  }
}

struct OpenHost final : resp::Host {
  Role role_of(std::string_view) const override { return Role::kAdmin; }
  std::uint64_t token_epoch() const noexcept override { return 1; }
  void reload_later(engine::StatusCallback told) override { told(Done{}); }
  std::string info() const override { return ""; }
};

class OverResp {
 public:
  OverResp(engine::Engine& engine, Clock& clock) : clock_(clock) {
    service_.engine = &engine;
    service_.host = &host_;
  }

  void ask(const Asked& asked, const std::string& hold, const std::shared_ptr<Box>& box) {
    sessions_.emplace_back();  // a connection of its own: one that waits holds the others back
    Connection& connection = sessions_.back();
    connection.session = std::make_unique<resp::Session>(
        service_, sessions_.size(), [this, &connection, what = asked.what, box] {
          return [this, &connection, what, box](std::size_t place, resp::LateReply late) {
            std::string out;
            const std::scoped_lock lock(connection.lock);
            if (connection.session->deliver(place, late, clock_.now(), out)) {
              box->put(said(what, out));
            }
          };
        });
    connection.session->set_version(3);
    std::string out;
    const std::string bytes = command_of(asked, hold);
    const std::scoped_lock lock(connection.lock);
    EXPECT_EQ(connection.session->run(bytes, clock_.now(), scratch_, out), bytes.size());
    if (!out.empty()) box->put(said(asked.what, out));
  }

 private:
  struct Connection {
    // A reply may come later before run() has returned, from the thread of the store.
    std::recursive_mutex lock;
    std::unique_ptr<resp::Session> session;
  };

  static std::string command_of(const Asked& asked, const std::string& hold) {
    std::vector<std::string> words = {"WEIR." + asked.what};
    if (!asked.limit.empty()) words.push_back(asked.limit);
    if (asked.what == "settle" || asked.what == "cancel" || asked.what == "renew") {
      words.push_back(hold);
    }
    if (asked.what == "renew") words.push_back(asked.hold);
    for (const auto& [name, value] : asked.attributes) words.push_back(name + "=" + value);
    if (!asked.costs.empty() && asked.what != "settle") words.emplace_back("COST");
    for (const auto& [unit, amount] : asked.costs) {
      words.push_back(fmt::format("{}={}", unit, amount));
    }
    const auto option = [&](const char* name, const std::string& value) {
      if (!value.empty()) words.insert(words.end(), {name, value});
    };
    if (asked.what != "renew") option("HOLD", asked.hold);
    option("UPTO", asked.up_to);
    option("BOOK", asked.book);
    option("WAIT", asked.wait);
    std::string bytes = fmt::format("*{}\r\n", words.size());
    for (const std::string& word : words) bytes += fmt::format("${}\r\n{}\r\n", word.size(), word);
    return bytes;
  }

  static Said said(std::string_view what, std::string_view bytes) {
    json::value reply = read_resp(bytes);
    EXPECT_TRUE(bytes.empty()) << bytes;
    if (reply.is_string()) {
      return what == "reset" ? Said{{"state", "reset"}} : Said{{"state", std::move(reply)}};
    }
    Said map = std::move(reply.as_object());
    if (map.contains("retry_after_ms") && map["retry_after_ms"] == -1) {
      map["retry_after_ms"] = nullptr;
    }
    return map;
  }

  Clock& clock_;
  OpenHost host_;
  resp::Service service_;
  resp::Scratch scratch_;
  std::deque<Connection> sessions_;  // never move
};

// --- HTTP

class OverHttp {
 public:
  OverHttp(engine::Engine& engine, Clock& clock)
      : clock_(clock), host_(clock), api_(engine, host_, {}) {}

  void ask(const Asked& asked, const std::string& hold, const std::shared_ptr<Box>& box) {
    const std::string body = asked.what == "inspect" ? "" : json::serialize(body_of(asked, hold));
    std::string target = "/v1/" + asked.what;
    if (asked.what == "inspect") {
      target = "/v1/meters?limit=" + asked.limit;
      for (const auto& [name, value] : asked.attributes) target += "&key=" + value;
    }
    http::Answer answer;
    const bool is_answered = api_.handle({.method = asked.what == "inspect" ? "GET" : "POST",
                                          .target = target,
                                          .body = body,
                                          .content_type = "application/json",
                                          .role = Role::kAdmin},
                                         clock_.now(), answer,
                                         [box](const http::Answer& late) { box->put(said(late)); });
    if (is_answered) box->put(said(answer));
  }

 private:
  struct QuietHost final : http::Host {
    explicit QuietHost(Clock& the_clock) : clock(the_clock) {}
    Instant now() noexcept override { return clock.now(); }
    void reload_later(engine::StatusCallback told) noexcept override { told(Done{}); }
    std::string metrics() noexcept override { return ""; }
    bool ready(std::string&, bool) noexcept override { return true; }

    Clock& clock;
  };

  static json::object body_of(const Asked& asked, const std::string& hold) {
    json::object body;
    if (!hold.empty()) body["hold"] = hold;
    if (asked.what == "renew") body["ttl"] = asked.hold;
    if (asked.what == "cancel" || asked.what == "renew") return body;
    if (!asked.limit.empty()) {
      body["limit"] = asked.limit;
      json::array& key = (body["key"] = json::array()).as_array();
      for (const auto& [name, value] : asked.attributes) key.emplace_back(value);
      return body;
    }
    json::object attributes;
    for (const auto& [name, value] : asked.attributes) attributes[name] = value;
    if (!attributes.empty()) body["attributes"] = attributes;
    json::object costs;
    for (const auto& [unit, amount] : asked.costs) costs[unit] = amount;
    if (!costs.empty()) body["costs"] = costs;
    if (asked.what == "settle") return body;
    const auto option = [&](const char* name, const std::string& value) {
      if (!value.empty()) body[name] = value;
    };
    option("hold", asked.hold);
    option("up_to", asked.up_to);
    option("book_within", asked.book);
    option("wait", asked.wait);
    return body;
  }

  // What RESP says, too; the rest is HTTP's own.
  static Said said(const http::Answer& answer) {
    const json::object all = json::parse(answer.body).as_object();
    Said said;
    if (all.contains("detail")) {
      static const std::map<std::string, std::string> kCodes = {
          {"urn:weir:bad-argument", "BADARG"},
          {"urn:weir:not-found", "NOTFOUND"},
          {"urn:weir:exhausted", "EXHAUSTED"},
          {"urn:weir:unavailable", "UNAVAILABLE"}};
      const std::string detail(all.at("detail").as_string());
      // Over RESP a hold that has ended is told as a state, not as a problem.
      if (detail.starts_with("hold '")) {
        for (const std::string state : {"settled", "cancelled", "active"}) {
          if (detail.find("has been " + state) != std::string::npos) return {{"state", state}};
        }
        EXPECT_NE(detail.find("it has expired"), std::string::npos) << detail;
        return {{"state", "gone"}};
      }
      const std::string type(all.at("type").as_string());
      const auto code = kCodes.find(type);
      said["error"] = code == kCodes.end() ? type : code->second;
      said["detail"] = detail;
      return said;
    }
    for (const char* name : {"verdict", "limit", "shortfall", "retry_after_ms", "granted", "hold",
                             "state", "remaining", "capacity", "overridden", "waiters", "leased"}) {
      if (all.contains(name)) said[name] = all.at(name);
    }
    if (all.contains("key")) said.erase("limit");  // of an inspection: as it was asked
    if (all.contains("limits")) {
      json::object remaining;
      for (const json::value& row : all.at("limits").as_array()) {
        remaining[row.at("limit").as_string()] = row.at("remaining");
      }
      said["remaining"] = remaining;
    }
    return said;
  }

  Clock& clock_;
  QuietHost host_;
  http::Api api_;
};

// --- the rules

engine::RuleSetSpec some_of_each() {
  return {
      .limits = {{.name = "bucket",
                  .per = {"client"},
                  .unit = "tokens",
                  .meter = engine::BucketSpec{.amount = 20, .period = 1s, .burst = 30}},
                 {.name = "ticker",
                  .per = {"client"},
                  .meter = engine::TickerSpec{.interval = 200ms, .burst = 8}},
                 // Not of every request, since where they are nothing can be booked.
                 {.name = "window", .when = {{"op", {"*"}}}, .meter = engine::WindowSpec{40, 5s}},
                 {.name = "calendar",
                  .when = {{"op", {"*"}}},
                  .per = {"client"},
                  .meter = engine::CalendarSpec{5000, meter::CalendarUnit::kDay}},
                 {.name = "log",
                  .per = {"client", "op"},
                  .shadow = true,
                  .meter = engine::LogSpec{6, 2s}},
                 {.name = "slots",
                  .when = {{"op", {"work*"}}},
                  .meter = engine::SlotsSpec{.limit = 3, .queue = 4, .hold = 3s}},
                 {.name = "child",
                  .when = {{"op", {"*"}}},
                  .per = {"client"},
                  .weigh = {"op", {{"worker", 3}, {"read", 2}}},
                  .parent = "window",
                  .meter = engine::WindowSpec{8, 2s}},
                 {.name = "throttles", .meter = engine::GateRef{"throttles"}}},
      .units = {{"tokens"}, {"gas"}, {"bytes"}, {"nfts"}, {"creations"}, {"associations"}},
      .attributes = {"client", "op", "operation", "payer", "high_volume"}};
}

std::shared_ptr<engine::Gate> some_throttles() {
  const auto definitions = throttle::read_definitions(
      R"({"buckets": [
          {"name": "all", "burstPeriod": 2, "throttleGroups": [
            {"opsPerSec": 6, "operations": ["CryptoTransfer"]},
            {"opsPerSec": 3, "operations": ["ContractCall"]}]}]})",
      "throttles.json");
  EXPECT_TRUE(definitions.ok());
  return std::make_shared<throttle::ThrottleGate>(*throttle::Throttles::create(
      {.definitions = *definitions,
       .nodes = 1,
       .settings = {.throttle_by_gas = true, .front_end_gas_per_second = 1'000}}));
}

// A gate is one engine's: each gets one of its own.
engine::RuleSetSpec with_gates(engine::RuleSetSpec rules) {
  for (engine::LimitSpec& limit : rules.limits) {
    if (std::holds_alternative<engine::GateRef>(limit.meter)) limit.meter = some_throttles();
  }
  return rules;
}

// --- both

// Two engines, asked the same at the same instants.
class Both {
 public:
  explicit Both(const engine::RuleSetSpec& rules) {
    for (std::unique_ptr<engine::Engine>& engine : engines_) {
      engine = std::move(*engine::Engine::create(compiled(with_gates(rules))));
    }
    begin();
  }
  Both(const engine::RuleSetSpec& rules, const testing::RedisServer& one,
       const testing::RedisServer& other) {
    shared_[0].emplace(one.url(), with_gates(rules), clock, store::redis::patient());
    shared_[1].emplace(other.url(), with_gates(rules), clock, store::redis::patient());
    begin();
  }

  // Asks, and compares what is answered now. What waits is compared when it is answered, unless
  // it cannot wait long enough: that is known before any time has passed.
  enum class Waits : std::uint8_t { kMaybe, kInVain };
  void ask(const Asked& asked, Waits waits = Waits::kMaybe) {
    Pending pending{.asked = asked};
    std::pair<std::string, std::string> hold;
    if (asked.what == "settle" || asked.what == "cancel" || asked.what == "renew") {
      hold = holds_[asked.held % holds_.size()];
    }
    resp_->ask(asked, hold.first, pending.resp);
    http_->ask(asked, hold.second, pending.http);
    asks += 1;
    hear_stores();
    pending_.push_back(std::move(pending));
    pending_.back().must_be_answered = asked.wait.empty() || waits == Waits::kInVain;
    compare(true);
  }
  void pass(Duration span) {
    clock.advance(span);
    engine(0).advance(clock.now());
    engine(1).advance(clock.now());
    hear_stores();
    compare(false);
  }
  // Waits until everything has been answered.
  void settle_down() {
    ASSERT_TRUE(eventually([&] {
      compare(false);
      return pending_.empty();
    })) << pending_.size()
        << " requests are not answered";
  }

  bool has_holds() const { return !holds_.empty(); }
  std::size_t waiting() const { return pending_.size(); }
  // Units of leases, by the first engine.
  std::uint64_t drawn() {
    std::uint64_t units = 0;
    for (const auto& lease : shared_[0]->limits().lease_counts()) units += lease.drawn;
    return units;
  }
  engine::Engine& engine(std::size_t i) { return shared_[i] ? shared_[i]->engine() : *engines_[i]; }

  testing::ManualClock clock{kStart};
  std::size_t asks = 0;
  std::map<std::string, int> verdicts;  // and states and errors: how often each was answered
  std::map<std::string, int> bound;     // which limit, of what was refused

 private:
  struct Pending {
    Asked asked;
    bool must_be_answered = false;
    std::shared_ptr<Box> resp = std::make_shared<Box>();
    std::shared_ptr<Box> http = std::make_shared<Box>();
  };

  void begin() {
    resp_.emplace(engine(0), clock);
    http_.emplace(engine(1), clock);
  }

  // Nothing is on its way to a store or back: what comes next meets the same on both sides. A look
  // that finds it so twice has also seen what an answer has brought about.
  void hear_stores() {
    if (!shared_[0]) return;
    std::uint64_t before = 0;
    ASSERT_TRUE(eventually([&] {
      std::uint64_t asked = 0;
      std::uint64_t heard = 0;
      for (auto& engine : shared_) {
        const store::redis::SharedCounts counts = engine->limits().counts();
        asked += counts.asked;
        heard += counts.answered + counts.failed;
      }
      return asked == heard && std::exchange(before, asked) == asked;
    }));
  }

  // `all`: everything that was asked must have been answered, by the store, if need be.
  void compare(bool all) {
    for (auto at = pending_.begin(); at != pending_.end();) {
      if (all && at->must_be_answered) {
        ASSERT_TRUE(eventually([&] { return at->resp->get() && at->http->get(); }))
            << at->asked.what << " is not answered";
      }
      const std::optional<Said> resp = at->resp->get();
      // A store answers one of them first.
      if (resp && !at->http->get() && shared_[0]) {
        ASSERT_TRUE(eventually([&] { return at->http->get().has_value(); }));
      }
      const std::optional<Said> http = at->http->get();
      if (http && !resp && shared_[0]) {
        ++at;
        continue;
      }
      ASSERT_EQ(resp.has_value(), http.has_value()) << at->asked.what << ": one of them waits";
      if (!resp) {
        ++at;
        continue;
      }
      expect_alike(at->asked, *resp, *http);
      at = pending_.erase(at);
    }
  }

  void expect_alike(const Asked& asked, Said resp, Said http) {
    if (resp.contains("hold") && http.contains("hold")) {
      ASSERT_EQ(resp["hold"].is_null(), http["hold"].is_null()) << resp << http;
      if (resp["hold"].is_string()) {
        holds_.emplace_back(resp["hold"].as_string(), http["hold"].as_string());
      }
      resp.erase("hold");
      http.erase("hold");
    }
    // What a protocol says of a mistake speaks of its own syntax; what it was is the same.
    resp.erase("detail");
    http.erase("detail");
    // What Redis has left beside a lease is as last heard, which is not at the same moment on both
    // sides. Every verdict, and when to come again, is the same.
    for (Said* const said : {&resp, &http}) {
      if (auto* const left = said->if_contains("remaining"); left != nullptr && left->is_object()) {
        left->as_object().erase("leased");
      }
      if (asked.what == "inspect" && asked.limit == "leased") said->erase("remaining");
      said->erase("leased");
    }
    EXPECT_EQ(json::value(resp), json::value(http)) << "over RESP and over HTTP: " << asked.what;
    for (const char* name : {"verdict", "state", "error"}) {
      if (resp.contains(name)) verdicts[std::string(resp[name].as_string())] += 1;
    }
    const json::value* const limit = resp.if_contains("limit");
    if (limit != nullptr && limit->is_string()) bound[std::string(limit->as_string())] += 1;
  }

  std::unique_ptr<engine::Engine> engines_[2];
  std::optional<store::redis::SharedEngine> shared_[2];
  std::optional<OverResp> resp_;
  std::optional<OverHttp> http_;
  std::vector<Pending> pending_;
  std::vector<std::pair<std::string, std::string>> holds_;  // of both engines
};

class Chance {
 public:
  explicit Chance(std::uint64_t seed) : random_(seed) {}

  std::int64_t draw(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }
  bool one_in(std::int64_t n) { return draw(1, n) == 1; }
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return *(values.begin() + draw(0, static_cast<std::int64_t>(values.size()) - 1));
  }

 private:
  std::mt19937_64 random_;
};

Asked any_request(Chance& chance, bool has_holds, bool may_wait) {
  Asked asked;
  const auto attributes = [&] {
    asked.attributes = {{"client", chance.one_of({"a", "b b", "ü"})}};
    if (chance.one_in(2)) {
      asked.attributes.emplace_back("op", chance.one_of({"work", "worker", "read"}));
    }
    if (chance.one_in(3)) {
      asked.attributes.emplace_back("operation",
                                    chance.one_of({"CryptoTransfer", "ContractCall", "Unlisted"}));
      if (chance.one_in(2)) asked.costs.emplace_back("gas", chance.draw(1, 700));
    }
  };
  const std::int64_t what = chance.draw(0, 19);
  if (what >= 15 && has_holds) {
    asked.what = chance.one_of({"settle", "cancel", "renew"});
    asked.held = static_cast<std::size_t>(chance.draw(0, 1'000'000));
    if (asked.what == "renew") asked.hold = chance.one_of({"1s", "5s", "100ms"});
    if (asked.what == "settle" && chance.one_in(2)) asked.costs = {{"tokens", chance.draw(0, 12)}};
    return asked;
  }
  if (what >= 13) {
    asked.what = what == 13 ? "inspect" : "reset";
    asked.limit = chance.one_of({"bucket", "ticker", "window", "calendar", "slots", "child",
                                 "throttles", "leased", "nothing"});
    if (asked.limit != "window" && asked.limit != "slots" && asked.limit != "throttles") {
      asked.attributes = {{"client", chance.one_of({"a", "b", "nobody"})}};
    }
    return asked;
  }
  attributes();
  if (chance.one_in(2)) asked.costs.emplace_back("tokens", chance.draw(0, 40));
  if (chance.one_in(4)) asked.costs.emplace_back("requests", chance.draw(0, 6));
  if (chance.one_in(40)) asked.costs.emplace_back("unheard-of", 1);
  if (what >= 11) {
    asked.what = "peek";
    return asked;
  }
  if (chance.one_in(3)) asked.hold = chance.one_of({"1s", "300ms", "2m"});
  switch (chance.draw(0, 5)) {
    case 0:
      asked.up_to = chance.one_of({"tokens", "requests"});
      break;
    case 1:
      asked.book = chance.one_of({"1s", "100ms"});
      break;
    case 2:
      if (may_wait) asked.wait = chance.one_of({"1s", "3s", "200ms"});
      break;
    default:
      break;
  }
  return asked;
}

constexpr int kRequests = 600;

TEST(Protocols, AnswerAlikeOfWhatLivesInMemory) {
  const std::uint64_t seed = seed_of_test();
  SCOPED_TRACE(fmt::format("WEIR_SEED={}", seed));
  Chance chance(seed);
  Both both(some_of_each());
  for (int i = 0; i < kRequests; ++i) {
    SCOPED_TRACE(fmt::format("request {}", i));
    ASSERT_NO_FATAL_FAILURE(both.ask(any_request(chance, both.has_holds(), true)));
    ASSERT_FALSE(HasFailure());
    if (chance.one_in(2)) {
      ASSERT_NO_FATAL_FAILURE(both.pass(chance.one_of<Duration>({1ms, 50ms, 200ms, 1s})));
    }
  }
  for (int i = 0; i < 10; ++i) both.pass(1s);
  EXPECT_EQ(both.waiting(), 0u) << "nobody waits longer than 3 s";
  // It was about something.
  for (const char* verdict : {"allowed", "denied", "settled", "cancelled", "active", "BADARG"}) {
    EXPECT_GT(both.verdicts[verdict], 0) << verdict;
  }
  for (const char* limit : {"child", "throttles"}) EXPECT_GT(both.bound[limit], 0) << limit;
}

TEST(Protocols, AnswerAlikeOfWhatLivesInRedis) {
  const std::uint64_t seed = seed_of_test();
  SCOPED_TRACE(fmt::format("WEIR_SEED={}", seed));
  Chance chance(seed);
  const testing::RedisServer one;
  const testing::RedisServer other;
  engine::RuleSetSpec rules = some_of_each();
  for (engine::LimitSpec& limit : rules.limits) {
    if (limit.name == "ticker" || limit.name == "calendar" || limit.name == "throttles") continue;
    limit.shared = engine::SharedSpec{};
    if (auto* slots = std::get_if<engine::SlotsSpec>(&limit.meter)) slots->queue = 0;
  }
  Both both(rules, one, other);
  for (int i = 0; i < kRequests / 2; ++i) {
    SCOPED_TRACE(fmt::format("request {}", i));
    ASSERT_NO_FATAL_FAILURE(both.ask(any_request(chance, both.has_holds(), false)));
    ASSERT_FALSE(HasFailure());
    if (chance.one_in(2)) {
      ASSERT_NO_FATAL_FAILURE(both.pass(chance.one_of<Duration>({1ms, 50ms, 200ms, 1s})));
    }
  }
  for (const char* verdict : {"allowed", "denied", "settled", "BADARG"}) {
    EXPECT_GT(both.verdicts[verdict], 0) << verdict;
  }
}

// The lease is as long as the test: what goes back by itself, on a thread of its own, would not go
// back at the same moment on both sides.
TEST(Protocols, AnswerAlikeOfWhatIsLeased) {
  const std::uint64_t seed = seed_of_test();
  SCOPED_TRACE(fmt::format("WEIR_SEED={}", seed));
  Chance chance(seed);
  const testing::RedisServer one;
  const testing::RedisServer other;
  engine::RuleSetSpec rules = some_of_each();
  std::erase_if(rules.limits, [](const engine::LimitSpec& limit) {
    return limit.name == "window" || limit.name == "child";
  });
  rules.limits.push_back({.name = "leased",
                          .per = {"client"},
                          .meter = engine::BucketSpec{.amount = 20, .period = 5s, .burst = 40},
                          .shared = engine::SharedSpec{.lease = engine::LeaseSpec{8, 1h}}});
  Both both(rules, one, other);
  for (int i = 0; i < kRequests / 2; ++i) {
    SCOPED_TRACE(fmt::format("request {}", i));
    Asked asked = any_request(chance, both.has_holds(), false);
    asked.book.clear();  // no shared limit can be booked
    ASSERT_NO_FATAL_FAILURE(both.ask(asked));
    ASSERT_FALSE(HasFailure());
    if (chance.one_in(2)) {
      ASSERT_NO_FATAL_FAILURE(both.pass(chance.one_of<Duration>({1ms, 50ms, 200ms, 1s})));
    }
  }
  for (const char* verdict : {"allowed", "denied", "settled", "BADARG"}) {
    EXPECT_GT(both.verdicts[verdict], 0) << verdict;
  }
  EXPECT_GT(both.drawn(), 0u);
}

TEST(Protocols, LetWaitAlikeForRedis) {
  const testing::RedisServer one;
  const testing::RedisServer other;
  engine::RuleSetSpec rules = some_of_each();
  rules.limits.erase(rules.limits.begin() + 1, rules.limits.end());
  rules.limits[0].shared = engine::SharedSpec{};
  Both both(rules, one, other);
  const auto tokens = [](std::int64_t amount, const std::string& wait = "") {
    return Asked{.attributes = {{"client", "a"}}, .costs = {{"tokens", amount}}, .wait = wait};
  };
  both.ask(tokens(30));
  for (int i = 0; i < 20; ++i) {
    SCOPED_TRACE(fmt::format("round {}", i));
    both.ask(tokens(5 + i % 3, "10s"));
    if (i % 2 == 0) {
      both.ask(tokens(3, "10s"));
    } else {
      both.ask(tokens(12, "1ms"), Both::Waits::kInVain);
    }
    for (int part = 0; part < 12; ++part) both.pass(50ms);
    ASSERT_NO_FATAL_FAILURE(both.settle_down());
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(both.verdicts["allowed"], 20);
  EXPECT_GT(both.verdicts["denied"], 0);
}

}  // namespace
}  // namespace weir::wire
