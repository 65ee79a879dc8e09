// A specification is checked whole, then each environment gets its allowance and its shapes; names
// are sorted once, for finding them.

#include "weir/system/sampling/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "weir/base/in_quotes.h"
#include "weir/base/integer.h"

namespace weir::system::sampling {
namespace {

// A parameter of an environment; nothing was written: 0 in published mode only.
Result<std::int64_t> parameter(std::string_view name, std::optional<std::int64_t> micro,
                               bool is_needed, Mode mode) {
  if (mode == Mode::kPublished) return micro.value_or(0);
  if (!micro) {
    if (!is_needed) return std::int64_t{0};
    return bad_argument(fmt::format(
        "{} is missing, but without it there would be no limit; write it, and 0 if none is meant",
        name));
  }
  if (*micro < 0) {
    return bad_argument(
        fmt::format("{} is {}, but it must not be negative; write 0 to switch its term off", name,
                    decimal_text(*micro)));
  }
  return *micro;
}

Result<Rotation> rotation_of(const EnvironmentSpec& spec, Mode mode) {
  const Result<std::int64_t> count =
      parameter("rotation_count", spec.rotation_count_micro, true, mode);
  if (!count) return count.error();
  const Result<std::int64_t> interval =
      parameter("rotation_interval", spec.rotation_interval_micro, *count > 0, mode);
  if (!interval) return interval.error();
  const Result<std::int64_t> sampling =
      parameter("sampling_count", spec.sampling_count_micro, true, mode);
  if (!sampling) return sampling.error();
  if (mode == Mode::kStrict && *count > 0 && *interval == 0) {
    return bad_argument(
        "rotation_interval is 0, but rotation_count is not, so the list would rotate without "
        "pause; write the seconds between two rotations, such as 3600");
  }
  return Rotation{*count, *interval, *sampling};
}

// An allowance of at most `burst` is not spaced by it.
Status space(Environment& environment, std::int64_t burst, const RulesSpec& rules) {
  if (burst < 1 || burst > kAllowanceMax) {
    return bad_argument(
        fmt::format("burst is {}, but it must be between 1 and {}; write how many tasks a key may "
                    "be granted at once",
                    burst, kAllowanceMax));
  }
  if (!environment.allowed) {
    return bad_argument(
        "burst is there, but without an allowance nothing is spaced; leave it out, or write the "
        "counts of the rotation");
  }
  if (rules.granting == Granting::kGate) {
    return bad_argument(
        "burst is there, but a gate grants all that is wanted while it is open; leave it out, or "
        "write 'grants: capped'");
  }
  if (burst >= *environment.allowed) return Done{};
  environment.burst = burst;
  // window <= 2^61 ns and burst < allowed, so the quotient is below the window.
  environment.spacing = environment.shape;
  environment.spacing->limit = burst;
  environment.spacing->window_ns = static_cast<std::int64_t>(
      ceil_div(Wide{environment.shape.window_ns} * burst, *environment.allowed));
  return Done{};
}

Result<Environment> environment_of(const EnvironmentSpec& spec, const RulesSpec& rules) {
  Environment made{.name = spec.name, .weight_micro = spec.weight_micro};
  if (Status status = check_name("the name", spec.name); !status) return std::move(status).error();
  const Result<Rotation> rotation = rotation_of(spec, rules.mode);
  if (!rotation) return rotation.error();
  made.rotation = *rotation;
  if (spec.weight_micro < 0 || spec.weight_micro > kParameterMicroMax) {
    return bad_argument(fmt::format(
        "scheduling_weight is {}, but it must be between 0 and 10^9; write one such as 1",
        decimal_text(spec.weight_micro)));
  }
  const Result<std::optional<std::int64_t>> allowed = allowance(rules.formula, *rotation);
  if (!allowed) return allowed.error();
  made.allowed = *allowed;
  const Duration window = std::chrono::seconds{rules.formula.window_s};
  // A log without a limit still has a bound on its runs; up to that its stamps are exact.
  const Result<meter::LogShape> shape =
      meter::make_log(made.allowed.value_or(meter::kRunsMax), window);
  if (!shape) return shape.error();
  made.shape = *shape;
  made.parent_shape = *shape;
  if (spec.burst) {
    if (Status status = space(made, *spec.burst, rules); !status) return std::move(status).error();
  }
  if (!spec.parent) return made;
  made.parent = spec.parent->limit ? spec.parent->limit : made.allowed;
  if (made.parent && (*made.parent < 1 || *made.parent > kAllowanceMax)) {
    return bad_argument(
        fmt::format("parent is {}, but it must be between 1 and {}; write how many tasks all "
                    "revisions of a hotkey may have, or 'allowance'",
                    *made.parent, kAllowanceMax));
  }
  const Result<meter::LogShape> parent =
      meter::make_log(made.parent.value_or(meter::kRunsMax), window);
  if (!parent) return parent.error();
  made.parent_shape = *parent;
  return made;
}

Status check_all(const RulesSpec& spec) {
  if (spec.environments.empty() && spec.mode == Mode::kStrict) {
    return bad_argument(
        "environments is empty, but nothing would be limited then; write at least one, or 'mode: "
        "published' to leave the door open");
  }
  if (spec.environments.size() > kEnvironmentsMax) {
    return bad_argument(
        fmt::format("environments has {} entries, but at most {} are kept; write "
                    "fewer",
                    spec.environments.size(), kEnvironmentsMax));
  }
  if (spec.exempt.ids.size() > kExemptIdsMax) {
    return bad_argument(
        fmt::format("exempt ids has {} entries, but at most {} are kept; write "
                    "fewer, or 'above'",
                    spec.exempt.ids.size(), kExemptIdsMax));
  }
  return Done{};
}

}  // namespace

bool Exemptions::covers(std::int64_t id) const noexcept {
  if (above && id > *above) return true;
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

Status check_name(std::string_view what, std::string_view name) {
  if (!name.empty() && name.size() <= kNameBytesMax) return Done{};
  return bad_argument(
      fmt::format("{} is {} bytes long, but it must have 1 to {}; write one that "
                  "names it, or a digest of it",
                  what, name.size(), kNameBytesMax));
}

const Environment* Rules::find(std::string_view name) const noexcept {
  const auto found = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                      [&](std::size_t place, std::string_view sought) {
                                        return environments_[place].name < sought;
                                      });
  if (found == by_name_.end() || environments_[*found].name != name) return nullptr;
  return &environments_[*found];
}

Result<Rules> make_rules(RulesSpec spec) {
  if (Status status = check_all(spec); !status) return std::move(status).error();
  Rules rules;
  for (const EnvironmentSpec& written : spec.environments) {
    Result<Environment> made = environment_of(written, spec);
    if (!made) {
      return bad_argument(
          fmt::format("environment {}: {}", in_quotes(written.name), made.error().message));
    }
    rules.environments_.push_back(std::move(*made));
  }
  // Also without environments: the parameters of the formula themselves.
  if (const auto checked = allowance(spec.formula, {}); !checked) return checked.error();
  rules.by_name_.resize(rules.environments_.size());
  std::iota(rules.by_name_.begin(), rules.by_name_.end(), std::size_t{0});
  std::sort(rules.by_name_.begin(), rules.by_name_.end(), [&](std::size_t a, std::size_t b) {
    return rules.environments_[a].name < rules.environments_[b].name;
  });
  for (std::size_t i = 1; i < rules.by_name_.size(); ++i) {
    const std::string& name = rules.environments_[rules.by_name_[i]].name;
    if (name != rules.environments_[rules.by_name_[i - 1]].name) continue;
    return bad_argument(
        fmt::format("environment {}: it is there twice; write it once", in_quotes(name)));
  }
  rules.formula_ = spec.formula;
  rules.exempt_ = std::move(spec.exempt);
  rules.granting_ = spec.granting;
  rules.mode_ = spec.mode;
  return rules;
}

}  // namespace weir::system::sampling
