// Pass: one round of the scheduler for one miner, over all environments.
//
// A miner has so many slots. Tasks that are pending or assigned occupy them; a pass fills
// what is left, in three stages: one task for every environment that starves, then towards
// each environment's share by weight, then in turn. An environment whose allowance is used
// up takes no part.
//
//   auto made = run_pass(sampling, {"5F3s", "r1", 7}, {.slots = 6, .work = work}, random, now);
//
// Capped, an environment is planned no more than it has left, so no pass overshoots. As a
// gate, which the published scheduler has, one that is open may be given anything.
//
// Thread safety: plan_pass() is pure; run_pass() may be called from any number of threads.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/system/sampling/sampling.h"

namespace weir::system::sampling {

constexpr std::int64_t kSlotsMax = 1'000'000;
constexpr std::int64_t kTasksMax = std::int64_t{1} << 40;  // active or missing, of one environment

// A number from 0 up to, and without, `below`.
using Random = std::function<std::uint64_t(std::uint64_t below)>;

struct Candidate {
  std::string_view name;
  std::int64_t active = 0;  // tasks that are pending or assigned
  std::int64_t work = 0;    // tasks that could be created; 0: it takes no part
  std::int64_t weight_micro = kMicro;
  bool is_open = true;  // otherwise only its active tasks count
};

// Tasks for each candidate. `random` decides who of the starving comes first where there
// is not room for all. Requires 1 <= slots <= kSlotsMax.
std::vector<std::int64_t> plan_pass(std::int64_t slots, std::span<const Candidate> candidates,
                                    Arithmetic arithmetic, const Random& random);

struct Miner {
  std::string_view hotkey;
  std::string_view revision;
  std::optional<std::int64_t> id;
};

struct Work {
  std::string_view environment;
  std::int64_t active = 0;
  std::int64_t missing = 0;  // of the sampling list, neither completed nor pending
};

struct Round {
  std::int64_t slots = 0;
  std::span<const Work> work{};  // in the order of the configuration
};

struct Planned {
  std::string_view environment;
  std::int64_t count_before = 0;
  Grant grant;  // what the pass was given; commit or release it
};

// Counts, plans and grants in one go: no other caller is granted anything meanwhile.
Result<std::vector<Planned>> run_pass(Sampling& sampling, const Miner& miner, const Round& round,
                                      const Random& random, Instant now);

}  // namespace weir::system::sampling
