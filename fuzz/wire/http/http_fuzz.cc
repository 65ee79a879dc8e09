// Calls with any target and any body: whatever comes, the answer is a status that the
// reference lists, headers of whole lines, and a body that is there when its type is.
//
// The first byte chooses the method, the rest up to the first newline is the target,
// and what follows is the body. Throttles, sampling and contracts are configured, so that their
// bodies and the documents of a service are read too.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "weir/engine/engine.h"
#include "weir/system/throttle/read.h"
#include "weir/wire/http/api.h"
#include "weir/wire/http/compute_routes.h"
#include "weir/wire/http/contract_routes.h"
#include "weir/wire/http/pool_routes.h"
#include "weir/wire/http/sampling_routes.h"
#include "weir/wire/http/text.h"
#include "weir/wire/http/throttle_routes.h"

namespace {

using namespace std::chrono_literals;
using namespace weir;
using namespace weir::wire::http;

constexpr std::array<std::string_view, 6> kMethods = {"POST", "GET",    "PUT",
                                                      "HEAD", "DELETE", "PATCH"};
constexpr std::array<unsigned, 12> kStatuses = {200, 400, 404, 405, 409, 413,
                                                414, 422, 429, 503, 401, 403};

class QuietHost final : public Host {
 public:
  Instant now() noexcept override { return now_; }
  void reload_later(engine::StatusCallback told) noexcept override { told(Done{}); }
  std::string metrics() noexcept override { return {}; }
  bool ready(std::string&, bool) noexcept override { return true; }

  void advance() { now_ = now_ + 10ms; }

 private:
  Instant now_{1'800'000'000'000'000'000};
};

std::unique_ptr<engine::Engine> make_engine() {
  auto rules = engine::compile(
      {.limits = {{.name = "per-client", .per = {"client"}, .meter = engine::BucketSpec{3, 1s, 5}},
                  {.name = "tokens", .unit = "tokens", .meter = engine::WindowSpec{1000, 1s}},
                  {.name = "slots", .per = {"job"}, .meter = engine::SlotsSpec{2, 2, 1s}}},
       .units = {{"tokens"}}});
  auto engine = engine::Engine::create(*rules, {.keys_max = 10'000, .secret = engine::Secret{}});
  return std::move(*engine);
}

void require(bool holds) {
  if (!holds) std::abort();
}

ThrottlePart make_throttles() {
  auto definitions = system::throttle::read_definitions(
      R"({"buckets":[{"name":"A","burstPeriod":3,"throttleGroups":[
            {"opsPerSec":100,"operations":["CryptoTransfer"]},
            {"opsPerSec":5,"operations":["ContractCall","ScheduleCreate"]}]}]})",
      "f", system::throttle::Reader::kStrict);
  auto made = system::throttle::Throttles::create({.definitions = *definitions, .owner = 1});
  return *made;
}

SamplingPart make_sampling() {
  auto rules =
      system::sampling::make_rules({.environments = {{.name = "e",
                                                      .rotation_count_micro = 5'000'000,
                                                      .rotation_interval_micro = 3'600'000'000,
                                                      .sampling_count_micro = 200'000'000}}});
  return system::sampling::Sampling::create(*rules, {.secret = {}, .keys_max = 1'000});
}

ContractPart make_contracts() {
  namespace contract = system::contract;
  auto accounts = std::make_shared<contract::Accounts>();
  for (const contract::AccountRole role :
       {contract::AccountRole::kGuard, contract::AccountRole::kService}) {
    const auto units = contract::make_policy(contract::Resource::kProcessingUnits, 1'000, 60s, {});
    const auto requests = contract::make_policy(contract::Resource::kRequests, 100, 60s, {});
    auto account = contract::Account::create(
        role == contract::AccountRole::kGuard ? "acme" : "serve", {*units, *requests},
        {.role = role, .owner = 7}, Instant{1'800'000'000'000'000'000});
    require(account.ok() && accounts->add(*account).ok());
  }
  return accounts;
}

void check(const Answer& answer) {
  bool known = false;
  for (const unsigned status : kStatuses) known |= answer.status == status;
  require(known);
  require(answer.headers.empty() || answer.headers.ends_with("\r\n"));
  require(find_not_utf8(answer.body) == std::string_view::npos);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static QuietHost host;
  static const std::unique_ptr<engine::Engine> engine = make_engine();
  static const ThrottleRoutes throttles = throttle_routes([] {
    static const ThrottlePart part = make_throttles();
    return part;
  });
  static const SamplingRoutes sampling = sampling_routes([] {
    static const SamplingPart part = make_sampling();
    return part;
  });
  static const PoolRoutes pools = pool_routes([] { return PoolPart{}; });
  static const ContractRoutes contracts = contract_routes([] {
    static const ContractPart part = make_contracts();
    return part;
  });
  static const ComputeRoutes compute = compute_routes([] { return ComputePart{}; });
  static Api api(*engine, host, {.batch_max = 8},
                 {&throttles, &sampling, &pools, &contracts, &compute});
  if (size == 0) return 0;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::size_t newline = std::min(all.find('\n', 1), size);
  const Call call{kMethods[data[0] % kMethods.size()], all.substr(1, newline - 1),
                  all.substr(std::min(newline + 1, size)), "application/json", Role::kAdmin};
  host.advance();
  engine->advance(host.now());
  int later = 0;
  Answer answer;
  const bool answered = api.handle(call, host.now(), answer, [&](const Answer& late) {
    ++later;
    check(late);
  });
  if (answered) {
    check(answer);
    require(later == 0);
  } else if (answer.give_up && answer.give_up(host.now())) {
    require(later == 0);
  } else {
    require(later == 1);
  }
  return 0;
}
