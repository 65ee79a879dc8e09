// Rules: the environments, who is exempt, and what the published scheduler does differently.
//
//   auto rules = make_rules({.environments = {{.name = "LGC-v2", .rotation_count_micro = 5'000'000,
//                                              .rotation_interval_micro = 3'600'000'000,
//                                              .sampling_count_micro = 200'000'000}},
//                            .exempt = {.ids = {0}, .above = 1000}});
//
// What is left out is a mistake, never an open door: an environment says how it rotates, a
// caller says who it is. An environment that says zero is unlimited on purpose. `published`
// opens the doors that the published scheduler has: a missing id is id 0, negative or
// missing parameters count as none, and there may be no environments.
//
// Thread safety: immutable once made.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/result.h"
#include "weir/meter/log.h"
#include "weir/system/sampling/published/allowance.h"

namespace weir::system::sampling {

constexpr std::size_t kEnvironmentsMax = 1024;
constexpr std::size_t kExemptIdsMax = 1024;
constexpr std::size_t kNameBytesMax = 512;  // of a hotkey, a revision or an environment

// How a grant is bounded.
enum class Granting : std::uint8_t {
  kCapped,  // as many as are left
  kGate,    // all that is wanted while fewer than the allowance count: may overshoot
};

enum class Mode : std::uint8_t {
  kStrict,
  kPublished,  // with the published scheduler's open doors
};

// A limit over all revisions of a hotkey, so that a new revision starts no new counter.
struct ParentSpec {
  std::optional<std::int64_t> limit{};  // none: the environment's own allowance
};

struct EnvironmentSpec {
  std::string name;
  std::optional<std::int64_t> rotation_count_micro{};
  std::optional<std::int64_t> rotation_interval_micro{};  // seconds
  std::optional<std::int64_t> sampling_count_micro{};
  std::int64_t weight_micro = kMicro;  // share of the slots in a pass
  std::optional<ParentSpec> parent{};
  // Most tasks at once: the allowance is spaced, so that any window * burst / allowance holds at
  // most so many. None: all of it may be taken at once.
  std::optional<std::int64_t> burst{};
};

struct Exemptions {
  std::vector<std::int64_t> ids{};
  std::optional<std::int64_t> above{};  // ids larger than this

  bool covers(std::int64_t id) const noexcept;
  friend bool operator==(const Exemptions&, const Exemptions&) = default;
};
// Of the published scheduler: its own models.
inline Exemptions published_exemptions() { return {.ids = {0}, .above = 1000}; }

struct RulesSpec {
  Formula formula{};
  std::vector<EnvironmentSpec> environments{};
  Exemptions exempt{};
  Granting granting = Granting::kCapped;
  Mode mode = Mode::kStrict;
};

struct Environment {
  std::string name;
  Rotation rotation{};
  std::int64_t weight_micro = kMicro;
  std::optional<std::int64_t> allowed{};     // none: unlimited
  std::optional<std::int64_t> parent{};      // none: nothing is counted over revisions; limits
                                             // also where the environment itself is unlimited
  std::optional<std::int64_t> burst{};       // below the allowance; none: it is not spaced
  std::optional<meter::LogShape> spacing{};  // of the same runs as shape; where there is a burst
  meter::LogShape shape{};                   // exact and of no consequence if unlimited
  meter::LogShape parent_shape{};
};

class Rules {
 public:
  const std::vector<Environment>& environments() const noexcept { return environments_; }
  const Environment* find(std::string_view name) const noexcept;
  const Formula& formula() const noexcept { return formula_; }
  const Exemptions& exempt() const noexcept { return exempt_; }
  Granting granting() const noexcept { return granting_; }
  Mode mode() const noexcept { return mode_; }
  Duration window() const noexcept { return std::chrono::seconds{formula_.window_s}; }

 private:
  friend Result<Rules> make_rules(RulesSpec spec);
  Rules() = default;

  std::vector<Environment> environments_;  // in the order of the configuration
  std::vector<std::size_t> by_name_;
  Formula formula_;
  Exemptions exempt_;
  Granting granting_ = Granting::kCapped;
  Mode mode_ = Mode::kStrict;
};

// Refused, with a message, if something is missing, negative, repeated or beyond a bound.
Result<Rules> make_rules(RulesSpec spec);

// What is wrong with a hotkey, a revision or an environment's name.
Status check_name(std::string_view what, std::string_view name);

}  // namespace weir::system::sampling
