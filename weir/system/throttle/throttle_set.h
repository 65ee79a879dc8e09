// Throttle set: all buckets of one role, and the decisions over them.
//
// An operation claims from every bucket that lists it, in the order of the file, and is
// refused if any of them is full. A refusal gives back what the other buckets granted, but
// all of them have leaked and moved their clocks. An operation that no bucket lists is
// refused. Decisions are those of the published network, unit for unit.
//
//   auto definitions = load_definitions(text, "throttles.json", /*nodes=*/31);
//   ThrottleSet set(*definitions, {.role = SetRole::kFrontEnd, .nodes = 31});
//   Transaction transaction{.operation = set.operations().find("CryptoTransfer")};
//   Answered<Admission> said = set.decide(transaction, moment_of(clock.now()));
//   if (said.ok() && !said->allowed) ... said->refuser, said->fits_at
//
// An anomaly (time that went backwards, a negative amount) leaves what was done before it was
// met, as published. With `clamp_clock`, decisions at earlier moments happen at the latest
// one so far instead.
//
// Thread safety: none; the owner orders the calls.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/time.h"
#include "weir/system/throttle/admission.h"
#include "weir/system/throttle/answer.h"
#include "weir/system/throttle/build.h"
#include "weir/system/throttle/definitions.h"
#include "weir/system/throttle/listing.h"
#include "weir/system/throttle/operations.h"
#include "weir/system/throttle/published/moment.h"
#include "weir/system/throttle/published/operation_bucket.h"
#include "weir/system/throttle/published/scalar_bucket.h"
#include "weir/system/throttle/transaction.h"

namespace weir::system::throttle {

// What decisions have claimed, to be given back together. May be used again and again.
class Claims {
 public:
  enum class Kind : std::uint8_t { kBucket, kGas, kBytes };

  void clear() noexcept { items_.clear(); }
  bool empty() const noexcept { return items_.empty(); }

 private:
  friend class ThrottleSet;
  struct Item {
    Kind kind;
    std::uint32_t bucket;
    std::uint32_t generation;  // of the buckets; those of another are gone
    std::int64_t amount;       // logical operations, gas or bytes
  };
  std::vector<Item> items_;
};

// A live bucket, as it stands.
struct LiveBucket {
  std::string name;
  bool high_volume = false;
  std::int64_t burst_ms = 0;
  OperationBucket bucket;
  std::uint64_t refusals = 0;
};

// Decisions that were refused by something else than an operation bucket.
struct OtherRefusals {
  std::uint64_t gas = 0;
  std::uint64_t bytes = 0;
  std::uint64_t schedule = 0;
  std::uint64_t duration = 0;
  std::uint64_t unlisted = 0;  // or malformed
};

struct DroppedBucket {
  std::string name;
  bool high_volume = false;
  Finding finding = Finding::kSuccess;
};

struct ThrottleOptions {
  SetRole role = SetRole::kFrontEnd;
  std::int32_t nodes = 1;  // into how many parts capacity is split; consensus: 1
  bool clamp_clock = true;
  bool explain = true;         // a refusal says when it would fit
  bool knows_queries = false;  // a transaction with the operation of a query is one
  NetworkSettings settings{};
};

class ThrottleSet {
 public:
  // Buckets that cannot be built are left out. Requires nodes >= 1 and limits of gas and
  // bytes that are not negative.
  ThrottleSet(const Definitions& definitions, ThrottleOptions options);

  // --- decisions. What is granted is also noted in `claims`, if there is one.
  Answered<Admission> decide(const Transaction& transaction, Moment now, Claims* claims = nullptr);
  Answered<Admission> decide(const Query& query, Moment now);
  // `count` operations at once, unscaled.
  Answered<Admission> decide(OperationId operation, std::int32_t count, Moment now);

  // What decide() would say. Changes nothing.
  Answered<Admission> peek(const Transaction& transaction, Moment now) const;

  // The first moment from `from` on at which it would be granted; kForever: unknown.
  Instant fits_from(const Transaction& transaction, Instant from) const;

  // How many such transactions would be granted at once, now and at most.
  std::int64_t room_for(const Transaction& transaction, Moment at) const;
  std::int64_t capacity_for(const Transaction& transaction) const;

  // What one such transaction takes, and of which buckets. None: it is refused whatever the levels.
  std::optional<std::vector<Requirement>> taken_by(const Transaction& transaction) const;

  // --- giving back
  Anomaly undo(OperationId operation, std::int32_t count);
  // Of buckets that have been made anew since nothing is given back.
  void refund(const Claims& claims);
  // `part` of `whole` operations that were claimed together.
  void refund_operations(const Claims& claims, std::int64_t part, std::int64_t whole);
  // Gas that was claimed beyond what was used. Returns whether there was any.
  bool refund_gas(const Claims& claims, std::int64_t used);
  // Gas that a transaction did not use. Exempt payers have used none.
  Anomaly return_gas(std::int64_t gas, std::optional<std::int64_t> payer);

  // --- duration of operations
  std::int64_t free_duration(Moment at) const noexcept;
  Anomaly use_duration(std::int64_t units, Moment now) noexcept;
  // Duration is asked for after decide() has let a contract through, as in the network: the
  // contract must not start while none is free. without_duration() is the answer then, and
  // changes nothing; refuse_without_duration() also gives back what was claimed.
  bool lacks_duration(const Transaction& transaction, Moment at) const noexcept;
  Admission without_duration(Moment at) const noexcept;
  Admission refuse_without_duration(Claims& claims, Moment at);

  // The fullest of an operation's high-volume buckets, in hundredths of a percent. Leaks
  // them up to `now`, and moves their clocks.
  Answered<std::int32_t> high_volume_utilization(OperationId operation, Moment now);

  // --- changes
  // All operation buckets are built anew, and empty.
  void rebuild(const Definitions& definitions);
  void rebuild(const Definitions& definitions, std::int32_t nodes);
  // Gas, bytes and duration are made anew, and empty.
  void configure(NetworkSettings settings);

  // --- readings
  const ThrottleOptions& options() const noexcept { return options_; }
  const NetworkSettings& settings() const noexcept { return options_.settings; }
  const Operations& operations() const noexcept { return operations_; }
  const Listing& listing() const noexcept { return listing_; }
  // Normal ones in the order of the file, then high-volume ones.
  std::span<const LiveBucket> buckets() const noexcept { return buckets_; }
  std::size_t normal_buckets() const noexcept { return normal_count_; }
  std::span<const DroppedBucket> dropped() const noexcept { return dropped_; }
  const ScalarBucket& gas() const noexcept { return gas_; }
  const std::optional<ScalarBucket>& bytes() const noexcept { return bytes_; }  // not consensus
  const DurationBucket& duration() const noexcept { return duration_; }
  const OtherRefusals& other_refusals() const noexcept { return other_refusals_; }
  // Changes with every rebuild() and forget_claims(); numbers of operations mean the same until
  // then.
  std::uint32_t generation() const noexcept { return generation_; }
  bool last_was_refused_by_gas() const noexcept { return last_by_gas_; }

  // What was claimed so far can no longer be given back.
  void forget_claims() noexcept {
    generation_ += 1;
    scalar_generation_ += 1;
  }

  // --- for claims that are kept
  struct KeptItem {
    Claims::Kind kind = Claims::Kind::kBucket;
    std::uint32_t bucket = 0;
    std::int64_t amount = 0;
  };
  // What of it could still be given back.
  std::vector<KeptItem> kept_items(const Claims& claims) const;
  // The same of another process, made of buckets of the same shape() as these; otherwise nothing of
  // it can be given back. False: these cannot have been claimed here.
  bool bring_back(const std::vector<KeptItem>& items, bool same_shape, Claims& claims) const;
  // Equal where buckets of one place are the same ones: names, rates, capacities.
  std::uint64_t shape() const noexcept;

  // --- for snapshots
  Anomaly restore_bucket(std::size_t bucket, const Usage& usage);
  Anomaly restore_gas(const Usage& usage) { return gas_.restore(usage); }
  Anomaly restore_bytes(const Usage& usage);
  Anomaly restore_duration(const Usage& usage) { return duration_.restore(usage); }

  // What a front end's clock has reached: part of the state if clocks are clamped.
  Moment clamped_to() const noexcept { return latest_; }
  void clamp_to(Moment latest) noexcept { latest_ = latest; }

 private:
  // The buckets of decision_order.h: as a decision claims from them, and as a look leaves them.
  struct Taking;
  struct Looking;

  Moment clamped(Moment now) noexcept;
  bool is_query(const Transaction& transaction) const noexcept;
  Claim claim_for(const Transaction& transaction) const;
  Answered<Admission> run(const Claim& claim, Moment now, Claims* claims);
  Answer claim_plainly(OperationId operation, Moment now);
  Answered<Admission> look(const Claim& claim, Moment now) const;
  void explain(const Claim& claim, Moment now, Admission& admission) const;
  void count_refusal(const Admission& admission) noexcept;
  template <typename OfBucket, typename OfGas>
  std::int64_t least(const Transaction& transaction, OfBucket&& of_bucket, OfGas&& of_gas) const;
  void make_scalars();

  ThrottleOptions options_;
  Operations operations_;
  Listing listing_;
  std::vector<LiveBucket> buckets_;
  std::vector<DroppedBucket> dropped_;
  std::size_t normal_count_ = 0;
  ScalarBucket gas_;
  std::optional<ScalarBucket> bytes_;
  DurationBucket duration_;
  OtherRefusals other_refusals_;
  Moment latest_{};
  std::uint32_t generation_ = 0;
  std::uint32_t scalar_generation_ = 0;
  bool last_by_gas_ = false;
};

}  // namespace weir::system::throttle
