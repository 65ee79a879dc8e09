// Pool coordinator: the instances of a fleet share their models' limits through one Redis.
//
//   Loop loop;
//   auto coordinator = make_pool_coordinator(loop, clock, {.address = *parse_address(url)});
//   (*coordinator)->start(registration, listener, clock.now(), started);
//
// Each model has one hash, its books: the windows, the jobs in flight, who is registered.
// Every question is one script on it, decided on the Redis server's clock. So a limit holds
// for any number of instances that join, leave or die, as long as no job uses more than its
// estimate. An instance derives its share from the books' totals by itself; no instance writes
// shares, so a release costs the same however many there are.
//
// An instance that was taken for dead registers again by itself; what it holds from before is
// fenced. A Redis that lost its data is noticed by a marker; a model then admits again once
// the instances have reported what they used, or after `instance_timeout` with the silent
// ones counted at their full share.
//
// Deadlines of questions are instants of `clock`: the instance that is given a ManualClock waits
// for an answer until that clock is moved. Heartbeats and announcements keep to real time.
//
// Mechanism and an example in numbers: docs/design/redis.md. Keys, scripts and messages:
// docs/reference/pool-redis.md.
//
// Thread safety: every function may be called from any thread; callbacks run on the loop's.
// It must be destroyed on another one, before the loop.

#pragma once

#include <memory>
#include <string>

#include "weir/base/clock.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/store/redis/link/client.h"
#include "weir/store/redis/link/loop.h"
#include "weir/system/pool/coordinator.h"

namespace weir::store::redis {

constexpr std::size_t kPrefixBytesMax = 64;

enum class Announce : std::uint8_t {
  kBrief,  // that something changed
  kFull,   // also each instance's allocation, as the published document has it
};

struct PoolCoordinatorOptions : LinkOptions {
  std::string prefix = "weir";  // of every key; instances with the same one are a fleet
  std::string instance{};       // its name in reports; nothing: one is made up
  Duration timeout = std::chrono::milliseconds{500};  // of a question
  // At least; in a fleet of more than heartbeat / 5 ms instances 5 ms for each of them, and at most
  // a third of `instance_timeout`.
  Duration heartbeat = std::chrono::seconds{1};
  Duration instance_timeout = std::chrono::seconds{15};  // without a heartbeat: dead
  // Without it, an empty Redis that has not run for `instance_timeout` may be one that lost its
  // data, and the first instance waits for as long.
  bool trusts_empty = false;
  // The windows. The same for the whole fleet.
  Duration minute = system::pool::kMinute;
  Duration day = system::pool::kDay;
  Announce announce = Announce::kBrief;
  Duration announce_every = std::chrono::milliseconds{20};  // at most, for each model
};

// Refused, with a message, unless every option can be used.
Status validate_options(const PoolCoordinatorOptions& options);

// Requires nothing: options that cannot be used are refused.
Result<std::unique_ptr<system::pool::Coordinator>> make_pool_coordinator(
    Loop& loop, Clock& clock, PoolCoordinatorOptions options);

}  // namespace weir::store::redis
