// What sampling promises, for any passes, restarts and reloads.

#include <algorithm>
#include <map>

#include "tests/meter/property.h"
#include "tests/system/sampling/support.h"
#include "weir/system/sampling/pass.h"

namespace weir::system::sampling {
namespace {

using meter::between;
using meter::for_all;

// Tasks that exist, by when they were really granted.
struct Task {
  Instant at;
  std::string environment;
  std::string revision;
  std::uint64_t reservation;
};

// A scheduler on a machine whose clock may be set back while it is down.
struct World {
  explicit World(bool with_parents) : has_parents(with_parents) { begin(); }

  Instant clock() const { return real - behind; }

  RulesSpec any_spec() {
    RulesSpec spec = spec_of({});
    for (const char* name : {"A", "B"}) {
      EnvironmentSpec environment = rotating(name, *between(0, 8), 3600, *between(1, 300));
      // Always or never: what was granted without a parent is not counted over revisions.
      if (has_parents) environment.parent = ParentSpec{*between(1, 12)};
      spec.environments.push_back(environment);
    }
    return spec;
  }

  void begin() {
    rules = rules_of(any_spec());
    sampling = Sampling::create(rules, {.secret = {1, 2, 3, 4}, .journal = nullptr});
    for (const Record& record : journal.records) {
      RC_ASSERT(sampling->restore(record, clock()).ok());
    }
    sampling->set_journal(&journal);
  }

  void pass() {
    const std::string revision = *between(0, 2) == 0 ? "r2" : "r1";
    const Work work[] = {{"A", *between(0, 3), *between(0, 60)}, {"B", *between(0, 3), 60}};
    const Random random = [](std::uint64_t below) {
      return static_cast<std::uint64_t>(*between(0, static_cast<std::int64_t>(below) - 1));
    };
    const auto made = run_pass(*sampling, {"5F3s", revision, 7},
                               {.slots = *between(1, 30), .work = work}, random, clock());
    RC_ASSERT(made.ok());
    for (const Planned& planned : *made) {
      for (std::int64_t i = 0; i < planned.grant.granted; ++i) {
        tasks.push_back(
            {real, std::string(planned.environment), revision, planned.grant.reservation});
      }
    }
    // A limit holds when something is granted; one that was lowered may be exceeded by
    // what was granted before.
    for (const Planned& planned : *made) {
      if (planned.grant.granted > 0) check(planned, revision);
    }
  }

  void check(const Planned& planned, const std::string& revision) const {
    std::int64_t of_revision = 0;
    std::int64_t of_all = 0;
    for (const Task& task : tasks) {
      if (task.at + 1h <= real || task.environment != planned.environment) continue;
      of_all += 1;
      if (task.revision == revision) of_revision += 1;
    }
    RC_ASSERT(of_revision <= *planned.grant.limit);
    if (planned.grant.parent_limit) RC_ASSERT(of_all <= *planned.grant.parent_limit);
  }

  // Some of the tasks of one reservation could not be created.
  void end_one() {
    if (tasks.empty()) return;
    const std::uint64_t reservation =
        tasks[static_cast<std::size_t>(*between(0, static_cast<std::int64_t>(tasks.size()) - 1))]
            .reservation;
    const auto count = std::count_if(tasks.begin(), tasks.end(), [&](const Task& task) {
      return task.reservation == reservation;
    });
    const std::int64_t created = *between(0, count);
    const auto back = sampling->commit(reservation, created, clock());
    if (!back) return;
    std::int64_t left = *back;
    std::erase_if(tasks,
                  [&](const Task& task) { return task.reservation == reservation && left-- > 0; });
  }

  const bool has_parents;
  Instant real = kStart;
  Duration behind{};
  MemoryJournal journal;
  Rules rules = rules_of(spec_of({six_an_hour()}));
  std::shared_ptr<Sampling> sampling;
  std::vector<Task> tasks;
};

TEST(SamplingProperty, NoHourHoldsMoreThanTheAllowanceWhateverHappens) {
  for_all([] {
    World world(*between(0, 1) == 1);
    const std::int64_t steps = *between(1, 80);
    for (std::int64_t i = 0; i < steps; ++i) {
      world.real = world.real + Duration{*between(0, 1) * *between(0, 1'200'000'000'000)};
      switch (*between(0, 9)) {
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
