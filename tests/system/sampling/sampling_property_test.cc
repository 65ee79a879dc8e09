// What sampling promises, for any passes, acquires, restarts and reloads.

#include <algorithm>

#include "tests/meter/property.h"
#include "tests/support/on_stack.h"
#include "tests/system/sampling/support.h"
#include "weir/engine/engine.h"
#include "weir/system/sampling/gate.h"
#include "weir/system/sampling/published/pass.h"

namespace weir::system::sampling {
namespace {

using meter::between;
using meter::for_all;

// Tasks that exist, by when they were really granted.
struct Tasks {
  Instant at;
  std::string environment;
  std::string revision;
  std::int64_t count;
  HoldId reservation;  // none, or it has ended
  HoldId hold{};
};

// Fails now and then, and keeps what it is told all the same.
class UnreliableJournal final : public MemoryJournal {
 public:
  Status ready() const override {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    if ((state_ >> 33) % 8 != 0) return Done{};
    return Error{ErrorCode::kUnavailable, "the disk is full"};
  }

 private:
  mutable std::uint64_t state_ = static_cast<std::uint64_t>(*between(0, 1'000'000));
};

// A scheduler on a machine whose clock may be set back while it is down.
struct World {
  explicit World(bool with_parents) : has_parents(with_parents) { begin(); }

  Instant clock() const { return real - behind; }

  RulesSpec any_spec() {
    RulesSpec spec = spec_of({});
    spec.formula.window_s = window_s;
    spec.formula.horizon_s = 48 * window_s;
    for (const char* name : {"A", "B"}) {
      spec.environments.push_back(rotating(name, *between(0, 8), window_s, *between(1, 300)));
    }
    // Beyond what is counted by exact stamps, and without a limit of its own.
    spec.environments.push_back(rotating("large", 0, 0, 48 * *between(1020, 3000)));
    spec.environments.push_back(rotating("unlimited", 0, 0, 0));
    for (EnvironmentSpec& environment : spec.environments) {
      // Always or never: what was granted without a parent is not counted over revisions.
      const std::int64_t most = environment.name == "large" ? 4000 : 12;
      if (has_parents) environment.parent = ParentSpec{*between(1, most)};
    }
    return spec;
  }

  void begin() {
    sampling = Sampling::create(rules_of(any_spec()), {.secret = {1, 2, 3, 4}});
    for (const Record& record : journal.records) {
      RC_ASSERT(sampling->restore(record, clock()).ok());
    }
    sampling->set_journal(&journal);
    auto compiled = engine::compile(
        {.limits = {{.name = "sampling", .meter = std::make_shared<SamplingGate>(sampling)}},
         .attributes = {"hotkey", "revision", "environment", "uid"}});
    engine = std::move(*engine::Engine::create(*compiled));
    for (Tasks& each : tasks) each.hold = {};
  }

  static std::string any_revision() { return *between(0, 2) == 0 ? "r2" : "r1"; }

  void pass() {
    const std::string revision = any_revision();
    const Work work[] = {{"A", *between(0, 3), *between(0, 60)}, {"B", *between(0, 3), 60}};
    const Random random = [](std::uint64_t below) {
      return static_cast<std::uint64_t>(*between(0, static_cast<std::int64_t>(below) - 1));
    };
    const auto made = run_pass(*sampling, {"5F3s", revision, 7},
                               {.slots = *between(1, 30), .work = work}, random, clock());
    if (!made) {
      RC_ASSERT(made.error().code == ErrorCode::kUnavailable);
      return;
    }
    for (const Planned& planned : *made) {
      if (planned.grant.granted == 0) continue;
      tasks.push_back({real, std::string(planned.environment), revision, planned.grant.granted,
                       planned.grant.reservation});
    }
    // A limit holds when something is granted; one that was lowered may be exceeded by
    // what was granted before.
    for (const Planned& planned : *made) {
      if (planned.grant.granted > 0) {
        check(planned.environment, revision, planned.grant.limit, planned.grant.parent_limit);
      }
    }
  }

  // Somebody who asks through the engine, beside the passes.
  void acquire() {
    const char* const names[] = {"A", "B", "large", "unlimited"};
    const std::string environment = names[*between(0, 3)];
    const std::string revision = any_revision();
    const bool is_exempt = *between(0, 9) == 0;
    const std::vector<engine::Attribute> who = {{"hotkey", "5F3s"},
                                                {"revision", revision},
                                                {"environment", environment},
                                                {"uid", is_exempt ? "0" : "7"}};
    const engine::Cost cost[] = {{"requests", *between(1, environment == "large" ? 900 : 10)}};
    engine::Wants options;
    if (*between(0, 1) == 1) options.up_to = "requests";
    if (*between(0, 1) == 1) options.hold = 10 * window();
    const auto said = engine::acquire(*engine, {who, cost}, options, clock());
    RC_ASSERT(said.ok());
    if (!said->allowed()) return;
    const std::int64_t granted = options.up_to.empty() ? cost[0].amount : said->granted;
    tasks.push_back({real, environment, revision, granted, {}, said->hold});
    if (is_exempt) return;
    const Grant now = *sampling->peek({"5F3s", revision, environment, 7}, 0, clock());
    check(environment, revision, now.limit, now.parent_limit);
  }

  void check(std::string_view environment, const std::string& revision,
             std::optional<std::int64_t> limit, std::optional<std::int64_t> parent_limit) const {
    std::int64_t of_revision = 0;
    std::int64_t of_all = 0;
    for (const Tasks& each : tasks) {
      if (each.at + window() <= real || each.environment != environment) continue;
      of_all += each.count;
      if (each.revision == revision) of_revision += each.count;
    }
    if (limit) RC_ASSERT(of_revision <= *limit);
    if (parent_limit) RC_ASSERT(of_all <= *parent_limit);
  }

  // Some of the tasks of one grant could not be created, or more were.
  void end_one() {
    if (tasks.empty()) return;
    Tasks& any =
        tasks[static_cast<std::size_t>(*between(0, static_cast<std::int64_t>(tasks.size()) - 1))];
    if (any.hold) {
      end_hold(any);
    } else if (any.reservation) {
      const std::int64_t created = *between(0, any.count);
      const auto back = sampling->commit(any.reservation, created, clock());
      if (!back) return;
      RC_ASSERT(*back == any.count - created);
      any.count = created;
      any.reservation = {};
    }
  }

  void end_hold(Tasks& any) {
    // Of a grant that has left the window more than was granted is not counted.
    const bool may_exceed = any.at + window() > real;
    const std::int64_t created = *between(0, may_exceed ? any.count + 5 : any.count);
    const HoldId hold = std::exchange(any.hold, HoldId{});
    if (created == 0) {
      if (engine::cancel(*engine, hold, clock()) == engine::HoldState::kCancelled) any.count = 0;
      return;
    }
    const engine::Cost actual[] = {{"requests", created}};
    const auto ended = engine::settle(*engine, hold, actual, clock());
    RC_ASSERT(ended.ok());
    if (*ended != engine::HoldState::kSettled) return;
    const Tasks more{real, any.environment, any.revision, created - any.count, {}};
    any.count = std::min(any.count, created);
    if (more.count > 0) tasks.push_back(more);
  }

  Duration window() const { return std::chrono::seconds{window_s}; }

  const bool has_parents;
  const std::int64_t window_s = *between(1, 4) * 900;
  Instant real = kStart;
  Duration behind{};
  UnreliableJournal journal;
  std::shared_ptr<Sampling> sampling;
  std::unique_ptr<engine::Engine> engine;
  std::vector<Tasks> tasks;
};

TEST(SamplingProperty, NoHourHoldsMoreThanTheAllowanceWhateverHappens) {
  for_all([] {
    World world(*between(0, 1) == 1);
    const std::int64_t steps = *between(1, 80);
    for (std::int64_t i = 0; i < steps; ++i) {
      world.real = world.real + Duration{*between(0, 1) * *between(0, 1'200'000'000'000)};
      switch (*between(0, 11)) {
        case 0:  // a reload
          world.sampling->set_rules(rules_of(world.any_spec()));
          break;
        case 1:  // a crash and a restart, maybe with a clock that was set back
          world.behind += *between(0, 1) * std::chrono::seconds{*between(0, 10'000)};
          world.begin();
          break;
        case 2:
        case 3:
          world.end_one();
          break;
        case 4:
          world.sampling->sweep(world.clock());
          break;
        case 5:
        case 6:
        case 7:
        case 8:
          world.acquire();
          break;
        default:
          world.pass();
      }
    }
  });
}

// The plainest model there is: all stamps, counted anew each time.
TEST(SamplingProperty, GrantsWhatAListOfStampsWouldGrant) {
  for_all([] {
    const std::int64_t limit = *between(1, 40);
    const auto sampling = sampling_of(spec_of({rotating("E", 0, 0, limit * 48)}));
    std::vector<Instant> stamps;
    Instant now = kStart;
    const std::int64_t steps = *between(1, 200);
    for (std::int64_t i = 0; i < steps; ++i) {
      now = now + Duration{*between(0, 1) * *between(0, 1'000'000'000'000)};
      const std::int64_t want = *between(0, 50);
      std::erase_if(stamps, [&](Instant at) { return at + 1h <= now; });
      const auto count = static_cast<std::int64_t>(stamps.size());
      const Grant grant = granted(*sampling, miner(), want, now);
      RC_ASSERT(grant.granted == std::min(want, limit - count));
      RC_ASSERT(grant.count == count + grant.granted);
      stamps.insert(stamps.end(), static_cast<std::size_t>(grant.granted), now);
      if (grant.count == limit) {
        RC_ASSERT(grant.next_free == stamps.front() + 1h);
      } else {
        RC_ASSERT(grant.next_free == now);
      }
    }
  });
}

}  // namespace
}  // namespace weir::system::sampling
