// The published rule: one ask debits every policy at once, and says how long to wait.
//
// Every bucket is debited, even below zero; the delay is the longest time until one
// of them is no longer negative. No ask is refused, nothing is given back. It is kept
// because the source document describes it and the recorded cases check it. By default
// weir uses the rule in book.h; docs/design/contract.md says why.
//
// Thread safety: none; an account locks it.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/system/contract/policy.h"

namespace weir::system::contract {

struct Delay {
  Wide delay_ns = 0;                     // may be longer than 63 bits: fixed quotas
  std::optional<std::size_t> binding{};  // the first policy with the longest delay
};

class Published {
 public:
  // Full at `now`.
  Published(std::vector<Policy> policies, Instant now);
  // With these levels, one for each policy.
  Published(std::vector<Policy> policies, std::vector<Wide> levels_fs, Instant at);
  // Other policies from `now` on: one of the same resource and period keeps what is used of
  // it, a new one starts full.
  Published changed(std::vector<Policy> policies, Instant now) const;

  // Sets what is left of one policy; may be negative.
  void set_left(std::size_t policy, std::int64_t left_micro, Instant now);

  // A `now` earlier than the last one counts as that one. An error, with nothing
  // debited, for costs that are absurd or a debt beyond 2^126 fs.
  Result<Delay> ask(const Costs& costs, Instant now);

  const std::vector<Policy>& policies() const noexcept { return policies_; }
  // As of the last call.
  std::span<const Wide> levels_fs() const noexcept { return levels_fs_; }
  Instant at() const noexcept { return at_; }
  void advance(Instant now);
  // Grows with each ask and each value that is set.
  std::uint64_t changes() const noexcept { return changes_; }

 private:
  std::vector<Policy> policies_;
  std::vector<Wide> levels_fs_;
  Instant at_;
  std::uint64_t changes_ = 0;
};

}  // namespace weir::system::contract
