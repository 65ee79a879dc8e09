// Throttle parts: levels and clocks of the throttles as parts of the state that outlives
// the process, one for the front end and one for consensus.
//
// Claims are not kept: what was claimed before a restart can no longer be given back.
//
// Thread safety: as its parent says.

#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/store/sqlite/parts.h"
#include "weir/system/throttle/throttles.h"

namespace weir::server {

class ThrottleParts final : public store::sqlite::Parts {
 public:
  // What `in_force` returns may be nullptr: there are no throttles.
  using InForce = std::function<std::shared_ptr<system::throttle::Throttles>()>;
  explicit ThrottleParts(InForce in_force) : in_force_(std::move(in_force)) {}

  std::vector<store::sqlite::Part> changed(Instant now) override;
  void mark_changed(const std::vector<store::sqlite::Part>& parts) override;
  Status restore(std::string_view name, store::sqlite::Bytes bytes, Instant now) override;

 private:
  InForce in_force_;
  std::map<std::string, std::string, std::less<>> written_;  // snapshot, by the name of the part
};

// Several systems' parts as one. They must outlive it.
class AllParts final : public store::sqlite::Parts {
 public:
  explicit AllParts(std::vector<store::sqlite::Parts*> of) : of_(std::move(of)) {}

  std::vector<store::sqlite::Part> changed(Instant now) override;
  void mark_changed(const std::vector<store::sqlite::Part>& parts) override;
  Status restore(std::string_view name, store::sqlite::Bytes bytes, Instant now) override;

 private:
  std::vector<store::sqlite::Parts*> of_;
};

}  // namespace weir::server
