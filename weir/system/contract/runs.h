// Runs: what many reservations, one after the other, do to the levels of a book, in one step.
//
// A level refills up to its capacity, and a debit leaves it no more than what is in hand less the
// cost. Each of these is l -> min(l + gain, most), and so are several of them in a row:
//
//   min(min(l + g1, m1) + g2, m2) = min(l + (g1 + g2), min(m1 + g2, m2))
//
// So a run of reservations is two numbers for each policy, whatever the level before it, and two
// runs are one with the refill between them. A book keeps the run of every 64 reservations and of
// every 64 of those: one that ends changes one of each, and the last level is reached in as many
// steps as there are runs of 4096, and less than 128 more.
//
// Gains and bounds stay within kLevelMin and kLevelMax: sums of two fit 128 bits. A level that a
// book can have by its own asks is far from both.
//
// Thread safety: none needed. Everything here is a value.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "weir/base/time.h"
#include "weir/system/contract/policy.h"

namespace weir::system::contract {

struct LevelStep {
  Wide gain_fs = 0;
  Wide most_fs = kLevelMax;

  constexpr Wide of(Wide level_fs) const noexcept {
    return std::max(kLevelMin, std::min(level_fs + gain_fs, most_fs));
  }
  // This one first.
  constexpr LevelStep then(const LevelStep& next) const noexcept {
    return {std::clamp(gain_fs + next.gain_fs, kLevelMin, kLevelMax),
            std::min(std::clamp(most_fs + next.gain_fs, kLevelMin, kLevelMax), next.most_fs)};
  }
};

struct Run {
  std::array<LevelStep, kPoliciesMax> steps{};  // by policy
  Instant first{};                              // start of the first reservation that counts
  Instant last{};
  bool is_empty = true;  // none counts
  bool is_stale = true;  // something in it has changed
};

constexpr std::size_t kRunShift = 6;
constexpr std::size_t kRunLength = std::size_t{1} << kRunShift;

}  // namespace weir::system::contract
