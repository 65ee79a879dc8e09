// A sixth system, made as the others are: a gate, a route, a part of the state, and an object for
// the server. It is asked over both protocols, and takes part in reloads and restarts.

#include "weir/server/systems.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/server/http_client.h"
#include "tests/server/support.h"
#include "weir/wire/http/exchange.h"
#include "weir/wire/resp/command.h"

namespace weir::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// --- the system: a jar of cookies, filled once

class Jar final : public engine::Gate {
 public:
  explicit Jar(std::int64_t cookies) : left_(cookies) {}

  void lock() noexcept override { lock_.lock(); }
  void unlock() noexcept override { lock_.unlock(); }
  meter::Check check(const engine::Request&, Instant now, std::int64_t cost) override {
    if (cost <= left_) return {Verdict::kAllowed, now, 0};
    return {Verdict::kDenied, kForever, cost - left_};
  }
  Instant fits_from(const engine::Request&, Instant, std::int64_t) const override {
    return kForever;
  }
  void charge(const engine::Request&, Instant, std::int64_t cost) override { left_ -= cost; }
  void end(Instant, const engine::HoldEnd& hold) override { left_ += hold.back; }
  std::int64_t available(const engine::Request&, Instant) override { return left_; }
  std::int64_t capacity(const engine::Request&) const override { return 100; }

  std::int64_t left() {
    const std::scoped_lock lock(lock_);
    return left_;
  }
  void fill(std::int64_t cookies) {
    const std::scoped_lock lock(lock_);
    left_ = cookies;
  }

 private:
  std::mutex lock_;
  std::int64_t left_;
};

using JarPart = std::shared_ptr<Jar>;

void show_jar(wire::http::Exchange& exchange) {
  exchange.answer.content_type = wire::http::kJsonType;
  exchange.answer.body = fmt::format(R"({{"left":{}}})", exchange.in_force<JarPart>()->left());
}
constexpr wire::http::Route kJarRoutes[] = {
    {"GET", "/v1/jar", Role::kObserve, show_jar, "jar", "Show what is left in the jar.", "",
     "Document"},
};
std::size_t tell_jar(wire::resp::Run& run) {
  run.reply.write_integer(run.in_force<JarPart>()->left());
  return 1;
}
constexpr wire::resp::Command kJarCommands[] = {
    {"WEIR.JAR", 1, 1, Role::kObserve, false, tell_jar, "", "Show what is left in the jar."},
};
constexpr MetricRow kJarMetrics[] = {
    {"weir_jar_cookies", "gauge", "", "Cookies left in the jar."},
};

// What was done to the systems, in order.
std::vector<std::string>& calls() {
  static std::vector<std::string> all;
  return all;
}
std::string refusal;  // of the next check()

class JarSystem final : public System, private store::sqlite::Parts {
 public:
  std::string_view name() const noexcept override { return "jar"; }

  Status check(const config::Config&) override {
    calls().emplace_back("check");
    return refusal.empty() ? Status(Done{}) : Status(bad_argument(refusal));
  }
  void add_gates(engine::Gates& gates) const override { gates.emplace("jar", jar_); }
  void change(Instant) noexcept override { calls().emplace_back("change"); }
  Status start() override {
    calls().emplace_back("start");
    return Done{};
  }
  void tick(Instant) override { ticks += 1; }
  void rest() override { calls().emplace_back("rest"); }
  Status stop() override {
    calls().emplace_back("stop");
    return Done{};
  }
  std::string trouble() const override { return jar_->left() > 0 ? "" : "the jar is empty"; }
  std::span<const MetricRow> metric_rows() const noexcept override { return kJarMetrics; }
  void write_metrics(MetricsText& out, Instant) const override {
    out.begin("weir_jar_cookies");
    out.value(static_cast<std::uint64_t>(jar_->left()));
  }
  store::sqlite::Parts* parts() noexcept override { return this; }
  const wire::http::RouteTable* routes() const noexcept override { return &routes_; }
  const wire::resp::CommandTable* commands() const noexcept override { return &commands_; }

  static std::atomic<int> ticks;

 private:
  std::vector<store::sqlite::Part> changed(Instant) override {
    const auto left = static_cast<std::byte>(jar_->left());
    return {{"jar", {left}}};
  }
  void mark_changed(const std::vector<store::sqlite::Part>&) override {}
  Status restore(std::string_view part, store::sqlite::Bytes bytes, Instant) override {
    if (part == "jar") jar_->fill(static_cast<std::int64_t>(bytes[0]));
    return Done{};
  }

  const std::shared_ptr<Jar> jar_ = std::make_shared<Jar>(5);
  const wire::http::SystemRoutes<JarPart> routes_{kJarRoutes, [this] { return jar_; }};
  const wire::resp::SystemCommands<JarPart> commands_{kJarCommands, [this] { return jar_; }};
};
std::atomic<int> JarSystem::ticks{0};

std::unique_ptr<System> make_jar_system(const SystemGround&) {
  return std::make_unique<JarSystem>();
}

// --- the list with one line more

struct SixthSystem : ServerTest {
  SixthSystem() {
    calls().clear();
    refusal.clear();
    JarSystem::ticks = 0;
  }

  void serve(const std::string& settings = "") {
    write("listen: { resp: 127.0.0.1:0, http: 127.0.0.1:0 }\n" + settings +
          std::string(kServerLimits));
    auto config = config::load(path());
    ASSERT_TRUE(config) << config.error().message;
    config->limits_spec.limits.push_back(
        {.name = "cookies", .unit = "requests", .meter = engine::GateRef{"jar"}});
    auto rules = engine::compile_unbound(config->limits_spec);
    ASSERT_TRUE(rules) << rules.error().message;
    config->rules = std::move(*rules);
    std::vector<MakeSystem> makers(all_systems().begin(), all_systems().end());
    makers.push_back(make_jar_system);
    auto started = Server::start(std::move(*config), clock, StartEmpty::kNo, {}, makers);
    ASSERT_TRUE(started) << started.error().message;
    server = std::move(*started);
  }
  std::string resp(const std::string& command) {
    Client client(server->addresses()[0]);
    client.send(command + "\r\nECHO end\r\n");
    return client.receive_until("end\r\n");
  }
  HttpAnswer http(const std::string& request) {
    HttpClient client(server->addresses()[1]);
    return client.ask(request);
  }
  HttpAnswer acquire(int cookies) {
    return http(post(
        "/v1/acquire",
        R"({"attributes":{"client":"a"},"costs":{"requests":)" + std::to_string(cookies) + "}}",
        "Content-Type: application/json\r\n"));
  }
};

TEST_F(SixthSystem, IsALimitOverBothProtocols) {
  serve();
  EXPECT_THAT(resp("WEIR.ACQUIRE client=a COST requests=2"), HasSubstr("cookies"));
  EXPECT_THAT(acquire(2).body, HasSubstr(R"("verdict":"allowed")"));
  const HttpAnswer denied = acquire(2);
  EXPECT_EQ(denied.status, 429);
  EXPECT_THAT(denied.body, HasSubstr(R"("limit":"cookies","shortfall":1)"));
  EXPECT_THAT(resp("WEIR.ACQUIRE client=a COST requests=2"), HasSubstr("denied"));
}

TEST_F(SixthSystem, HasRoutesMetricsAndADescription) {
  serve();
  EXPECT_EQ(http(get("/v1/jar")).body, R"({"left":5})");
  EXPECT_THAT(http(get("/metrics")).body, HasSubstr("\nweir_jar_cookies 5\n"));
  EXPECT_THAT(http(get("/metrics")).body, HasSubstr(R"(route="jar",status="2xx"} 1)"));
  EXPECT_THAT(http(get("/openapi.json")).body, HasSubstr(R"("operationId":"jar")"));
}

TEST_F(SixthSystem, HasACommandThatIsListedAndKeptByMulti) {
  serve();
  EXPECT_EQ(resp("WEIR.JAR"), ":5\r\n$3\r\nend\r\n");
  EXPECT_THAT(resp("COMMAND DOCS WEIR.JAR"), HasSubstr("Show what is left in the jar."));
  EXPECT_THAT(resp("MULTI\r\nWEIR.JAR\r\nEXEC"), HasSubstr("+QUEUED\r\n*1\r\n:5\r\n"));
  EXPECT_THAT(resp("WEIR.POOL.ACQUIRE chat"), HasSubstr("-NOTFOUND no pools are configured"));
}

TEST_F(SixthSystem, LivesWithTheServer) {
  serve();
  ASSERT_TRUE(eventually([] { return JarSystem::ticks > 1; }));
  ASSERT_TRUE(server->stop(1s));
  EXPECT_THAT(calls(), ElementsAre("check", "change", "start", "rest", "stop"));
}

TEST_F(SixthSystem, KeepsItsPartOfTheState) {
  serve("state: { dir: " + (dir / "state").string() + " }\n");
  EXPECT_EQ(acquire(3).status, 200);
  ASSERT_TRUE(server->stop(1s));
  server.reset();
  serve("state: { dir: " + (dir / "state").string() + " }\n");
  EXPECT_EQ(http(get("/v1/jar")).body, R"({"left":2})");
}

TEST_F(SixthSystem, IsCheckedBeforeAnySystemChanges) {
  serve();
  const auto before = server->engine().rules();
  calls().clear();
  write(
      "listen: { resp: 127.0.0.1:0, http: 127.0.0.1:0 }\nauth: [ { token: a-token-of-an-admin, "
      "role: admin } ]\n");
  refusal = "jar: no";
  const Status refused = server->reload();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "jar: no");
  EXPECT_THAT(calls(), ElementsAre("check"));
  EXPECT_EQ(server->engine().rules(), before);
  EXPECT_EQ(acquire(1).status, 200) << "nobody needs a token, and the limits are those of before";

  refusal.clear();
  ASSERT_TRUE(server->reload());
  EXPECT_THAT(calls(), ElementsAre("check", "check", "change"));
  EXPECT_NE(server->engine().rules(), before);
  EXPECT_EQ(acquire(1).status, 401);
}

TEST_F(SixthSystem, IsRefusedBeforeAnotherSystemHasMadeAFile) {
  const std::string state = "state: { dir: " + (dir / "state").string() + " }\n";
  serve(state);
  write("listen: { resp: 127.0.0.1:0, http: 127.0.0.1:0 }\n" + state +
        "sampling: { environments: [ { name: E, rotation_count: 0, sampling_count: 48 } ] }\n");
  refusal = "jar: no";
  ASSERT_FALSE(server->reload());
  EXPECT_FALSE(std::filesystem::exists(dir / "state" / "sampling.db"));
  refusal.clear();
  ASSERT_TRUE(server->reload());
  EXPECT_TRUE(std::filesystem::exists(dir / "state" / "sampling.db"));
}

}  // namespace
}  // namespace weir::server
