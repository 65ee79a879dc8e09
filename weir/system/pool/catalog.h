// Catalog: the models and job types of an instance, by name and by place.
//
// A place is a number from 0 on, in the order of the settings. Names and places never change, so
// they may be read without the owner's lock; the rest of the settings may change while jobs run.
//
// Thread safety: names, places and the rule from any thread; the rest with the owner's lock.

#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/system/pool/settings.h"

namespace weir::system::pool {

class Catalog {
 public:
  // Requires valid settings.
  explicit Catalog(PoolsSettings settings);

  const PoolsSettings& settings() const noexcept { return settings_; }
  bool is_strict() const noexcept { return settings_.rule == CountRule::kStrict; }
  std::size_t model_count() const noexcept { return settings_.models.size(); }
  std::size_t type_count() const noexcept { return settings_.types.size(); }
  const ModelSpec& model(std::size_t place) const noexcept { return settings_.models[place]; }
  const JobType& type(std::size_t place) const noexcept { return settings_.types[place]; }
  Amounts estimate(std::size_t type) const noexcept { return estimate_of(settings_, type); }
  // Places of models, in the order in which they are tried.
  const std::vector<std::size_t>& escalation() const noexcept { return escalation_; }

  std::optional<std::size_t> place_of_model(std::string_view name) const;
  // An error that lists the names there are.
  Result<std::size_t> place_of_type(std::string_view name) const;
  Duration max_wait(std::size_t type, std::size_t model, Instant now) const;

  // Whether jobs that run may go on under these settings: the names and their order are the same,
  // and so is what running jobs hold. Requires valid ones with an escalation order.
  Status allows(const PoolsSettings& next) const;
  // Requires allows().
  void change(const PoolsSettings& next);

 private:
  PoolsSettings settings_;
  std::vector<std::size_t> escalation_;
  std::map<std::string, std::size_t, std::less<>> models_;
  std::map<std::string, std::size_t, std::less<>> types_;
};

}  // namespace weir::system::pool
