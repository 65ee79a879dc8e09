// Strategies: how the units of a cluster are split over the workers.
//
//   equal    every active worker gets the same
//   subset   the workers that the wallet names get the same, the others nothing
//   shares   each named worker gets its basis points
//   custom   whatever a Strategy says
//
// Units are whole, so a split leaves a remainder. The published contracts drop it; by
// default it is rotated: one unit more goes to as many workers as there are units left,
// by id, from the one on whose turn it is. Turns begin elsewhere for each cluster, so that
// remainders of many clusters lie evenly over the workers, and move on in each epoch.
//
//   10 units over workers 1 2 3 4: two each, two left over
//   epoch 8: workers 1 2 get 3      epoch 9: workers 4 1      epoch 11: workers 2 3
//
// Thread safety: plain values; a Strategy must be callable from any thread.

#pragma once

#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "weir/base/integer.h"
#include "weir/base/result.h"
#include "weir/system/compute/fault.h"

namespace weir::system::compute {

using WorkerId = std::int64_t;  // given out by the ledger, from 1

enum class Remainder : std::uint8_t { kRotate, kDrop };

// What a share is asked for.
struct ShareOf {
  std::int64_t units = 0;  // of the cluster in this epoch, at least 0
  WorkerId worker = 0;
  std::span<const WorkerId> active{};  // ascending
  std::int64_t epoch = 0;
  Remainder remainder = Remainder::kRotate;
  std::uint32_t cluster = 0;  // its place in the ledger
};

// A share, or the fault that kept the cluster from having one.
struct Share {
  std::int64_t units = 0;
  Fault fault = Fault::kNone;

  friend constexpr bool operator==(const Share&, const Share&) = default;
};

// Whose turn it is to get what is left over, among `count` workers in one epoch.
//
// Clusters begin a golden part of the circle apart: any run of them is spread evenly, without one
// knowing of another, so that a cluster's shares change with itself alone. From epoch to epoch all
// move on by about the same part, but by a number without a common divisor with `count`: after
// `count` epochs every worker has had every turn once, so that nothing adds up.
class RemainderTurns {
 public:
  // Requires 1 <= count < 2^31 and epoch >= 0.
  constexpr RemainderTurns(std::int64_t count, std::int64_t epoch) noexcept
      : count_(count), moved_(epoch % count * step(count) % count) {}  // below 2^62

  // From 0; below count.
  constexpr std::int64_t first(std::uint32_t cluster) const noexcept {
    const std::uint64_t turn = kGolden * cluster;  // in 2^-64 of the circle, whole turns dropped
    return (part(turn, count_) + moved_) % count_;
  }

 private:
  static constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;  // 0.618… of 2^64

  // Rounded down. Of 64 and 31 bits: the product has at most 95.
  static constexpr std::int64_t part(std::uint64_t turn, std::int64_t count) noexcept {
    constexpr Wide kTurn = Wide{1} << 64;
    return static_cast<std::int64_t>(Wide{turn} * count / kTurn);
  }
  // Below count: count - 1 has no divisor in common with it, and of 1 worker it is 0.
  static constexpr std::int64_t step(std::int64_t count) noexcept {
    std::int64_t step = part(kGolden, count);
    while (std::gcd(step, count) != 1) step += 1;
    return step;
  }

  std::int64_t count_;
  std::int64_t moved_;
};

// The share of the worker at `place` of `count` that get the same, with what is left over
// of `units` dropped, or rotated from `first` on. Requires count >= 1 and places from 0 to below
// it.
constexpr std::int64_t equal_share(std::int64_t units, std::int64_t place, std::int64_t count,
                                   std::int64_t first, Remainder remainder) noexcept {
  const std::int64_t each = units / count;
  if (remainder == Remainder::kDrop) return each;
  const std::int64_t after_first = (place - first + count) % count;
  return each + (after_first < units % count ? 1 : 0);
}

Share equal_share(const ShareOf& of) noexcept;

// A strategy of the embedder. An error, an exception, or more units than there are breaks
// only the cluster that chose it: it has no units at that worker.
class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual Result<std::int64_t> share(const ShareOf& of) const = 0;
};

// A set of workers. The published contract counts by the lengths of the lists it was
// given, so that naming a worker twice halves the shares; that count is kept beside.
class Subset {
 public:
  void support(std::span<const WorkerId> workers);
  // Whether the published contract would let these be taken out.
  bool can_unsupport(std::span<const WorkerId> workers) const noexcept {
    return static_cast<std::int64_t>(workers.size()) <= listed_;
  }
  void unsupport(std::span<const WorkerId> workers);

  // Rotated: over the members that are active. Dropped: over all members.
  Share share(const ShareOf& of) const noexcept;
  // By the lengths of lists; kDivByZero where that count is 0 and the worker a member.
  Share published_share(std::int64_t units, WorkerId worker) const noexcept;

  std::span<const WorkerId> members() const noexcept { return members_; }  // ascending

 private:
  bool has(WorkerId worker) const noexcept;

  std::vector<WorkerId> members_;
  std::int64_t listed_ = 0;
};

// Basis points by worker.
class Shares {
 public:
  // Repeated workers add up. kLengthMismatch, kNoSuchWorker (an id from `next_worker` on)
  // or kOver100Percent, in this order, leave `out` as it was.
  static Fault make(std::span<const WorkerId> workers, std::span<const std::int64_t> basis_points,
                    WorkerId next_worker, Shares& out);

  // What the floors leave over is rotated over the workers that are active.
  Share share(const ShareOf& of) const noexcept;
  // What one worker has for its points alone, rounded down.
  std::int64_t floor_of(std::int64_t units, WorkerId worker) const noexcept;
  // What those floors lose of the whole that is shared out: less than a unit for each row.
  std::int64_t left_over(std::int64_t units) const noexcept;
  std::int64_t unallocated_bp() const noexcept;
  const std::vector<std::pair<WorkerId, std::int64_t>>& rows() const noexcept { return rows_; }

 private:
  std::vector<std::pair<WorkerId, std::int64_t>> rows_;  // ascending
};

}  // namespace weir::system::compute
