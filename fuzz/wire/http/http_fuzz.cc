// Calls with any target and any body: whatever comes, the answer is a status that the
// reference lists, headers of whole lines, and a body that is there when its type is.
//
// The first byte chooses the method, the rest up to the first newline is the target,
// and what follows is the body.

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
  static const ThrottleRoutes throttles = throttle_routes([] { return ThrottlePart{}; });
  static const SamplingRoutes sampling = sampling_routes([] { return SamplingPart{}; });
  static const PoolRoutes pools = pool_routes([] { return PoolPart{}; });
  static const ContractRoutes contracts = contract_routes([] { return ContractPart{}; });
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
