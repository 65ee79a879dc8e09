#include "apps/weir/compute.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/weir/exit.h"
#include "apps/weir/server_connection.h"
#include "weir/base/in_quotes.h"
#include "weir/engine/quantity.h"
#include "weir/meter/ticker.h"
#include "weir/system/compute/parameters.h"
#include "weir/system/compute/strategy.h"
#include "weir/system/compute/units.h"

namespace weir::app {
namespace {

namespace compute = system::compute;
using compute::Amount;

constexpr std::int64_t kWorkersShownMax = 100'000;
constexpr std::int64_t kSecondNs = 1'000'000'000;

// The lock, as it is written.
struct LockFlags {
  std::string amount;
  std::string duration;
  std::int64_t mana = compute::Parameters{}.mana;
  std::int64_t epoch = compute::EpochClock{}.length;
  std::string block_time = "12s";
};

struct Lock {
  Amount amount = 0;
  std::int64_t blocks = 0;
  std::int64_t seconds = 0;
  std::int64_t block_time_s = 1;
  std::int64_t boost_bp = 0;
  Amount total = 0;
  Amount per_epoch = 0;
};

void add_lock_flags(CLI::App& command, LockFlags& flags) {
  command.add_option("--amount", flags.amount, "Tokens that are locked, such as 10000 or 0.5")
      ->required()
      ->type_name("TOKENS");
  command.add_option("--duration", flags.duration, "For how long: 180d, or a number of blocks")
      ->required()
      ->type_name("DURATION");
  command.add_option("--mana", flags.mana, "Units per token and 1000 blocks before boost")
      ->capture_default_str();
  command.add_option("--epoch", flags.epoch, "Blocks of one epoch")->capture_default_str();
  command.add_option("--block-time", flags.block_time, "Of one block, whole seconds")
      ->capture_default_str();
}

Result<std::int64_t> whole_seconds(std::string_view what, const std::string& text) {
  const Result<Duration> span = engine::parse_duration(what, text);
  if (!span) return span.error();
  if (span->count() % kSecondNs != 0) {
    return bad_argument(fmt::format("{} is {}, but it must be whole seconds; write such as '12s'",
                                    what, in_quotes(text)));
  }
  return span->count() / kSecondNs;
}

// A number is blocks; anything else is a time, of which whole blocks count.
Result<std::int64_t> blocks_of(const std::string& text, std::int64_t block_time_s) {
  if (text.find_first_not_of("0123456789") == std::string::npos) {
    return engine::parse_count("--duration", text, 1, compute::kDurationMax);
  }
  const Result<std::int64_t> seconds = whole_seconds("--duration", text);
  if (!seconds) return seconds.error();
  return *seconds / block_time_s;
}

Result<Lock> lock_of(const LockFlags& flags) {
  compute::Parameters parameters;
  const Result<std::int64_t> block_time = whole_seconds("--block-time", flags.block_time);
  if (!block_time) return block_time.error();
  parameters.block_time_s = *block_time;
  parameters.mana = flags.mana;
  parameters.clock.length = flags.epoch;
  if (Status status = validate(parameters); !status) return std::move(status).error();
  const Result<Amount> amount = compute::parse_tokens("--amount", flags.amount);
  if (!amount) return amount.error();
  if (*amount > parameters.supply) {
    return bad_argument(fmt::format("--amount is {} tokens, but there are {}; write less",
                                    flags.amount, compute::tokens_text(parameters.supply)));
  }
  const Result<std::int64_t> blocks = blocks_of(flags.duration, *block_time);
  if (!blocks) return blocks.error();
  const Wide seconds = Wide{*blocks} * *block_time;
  if (*blocks < flags.epoch || seconds > parameters.max_lock_s) {
    return bad_argument(
        fmt::format("--duration is {} blocks, but it must be from an epoch ({}) to "
                    "{} s; write one between",
                    *blocks, flags.epoch, parameters.max_lock_s));
  }
  Lock lock{*amount, *blocks, static_cast<std::int64_t>(seconds), *block_time};
  lock.boost_bp = boost_bp(parameters.boost, lock.seconds);
  lock.total = compute::total_units(lock.amount, lock.blocks, flags.mana, lock.boost_bp);
  lock.per_epoch = compute::epoch_units(lock.total, lock.blocks, flags.epoch);
  return lock;
}

int run_units(const LockFlags& flags) {
  const Result<Lock> lock = lock_of(flags);
  if (!lock) return wrong_usage("compute", lock.error().message);
  fmt::print("tokens {}\nblocks {}\nseconds {}\nboost {}.{:04}\nunits {}\nunits_per_epoch {}\n",
             compute::tokens_text(lock->amount), lock->blocks, lock->seconds,
             lock->boost_bp / compute::kBasisPoints, lock->boost_bp % compute::kBasisPoints,
             lock->total, lock->per_epoch);
  return kExitOk;
}

// --- allocate

struct AllocateFlags {
  LockFlags lock;
  std::int64_t workers = 1;
  std::int64_t number = 1;
  std::string remainder = "rotate";
  std::vector<std::string> shares;
};

// `3=2500` for each.
Result<std::optional<compute::Shares>> shares_of(const AllocateFlags& flags) {
  if (flags.shares.empty()) return std::optional<compute::Shares>{};
  std::vector<compute::WorkerId> workers;
  std::vector<std::int64_t> points;
  for (const std::string& text : flags.shares) {
    const std::size_t sign = text.find('=');
    const auto worker = engine::parse_count("--share", text.substr(0, sign), 1, flags.workers);
    if (!worker) return worker.error();
    const auto share = engine::parse_count(
        "--share", sign == std::string::npos ? "" : std::string_view(text).substr(sign + 1), 0,
        compute::kBasisPoints);
    if (!share) return share.error();
    workers.push_back(*worker);
    points.push_back(*share);
  }
  compute::Shares shares;
  const compute::Fault fault = compute::Shares::make(workers, points, flags.workers + 1, shares);
  if (fault != compute::Fault::kNone) {
    return bad_argument(
        fmt::format("--share: {}: shares come to more than 10000 basis points; "
                    "write less",
                    to_string(fault)));
  }
  return std::optional(std::move(shares));
}

int run_allocate(const AllocateFlags& flags) {
  const Result<Lock> lock = lock_of(flags.lock);
  if (!lock) return wrong_usage("compute", lock.error().message);
  const auto shares = shares_of(flags);
  if (!shares) return wrong_usage("compute", shares.error().message);
  std::vector<compute::WorkerId> active;
  for (std::int64_t id = 1; id <= flags.workers; ++id) active.push_back(id);
  const Duration epoch_time{flags.lock.epoch * lock->block_time_s * kSecondNs};
  fmt::print("units_per_epoch {}\nepoch_time {}\n\n{:>8} {:>20} {:>14}\n", lock->per_epoch,
             engine::duration_text(epoch_time), "worker", "units", "a token every");
  Amount given = 0;
  for (const compute::WorkerId worker : active) {
    const compute::ShareOf of{
        static_cast<std::int64_t>(lock->per_epoch), worker, active, flags.number,
        flags.remainder == "drop" ? compute::Remainder::kDrop : compute::Remainder::kRotate};
    const compute::Share share = *shares ? (*shares)->share(of) : compute::equal_share(of);
    given += static_cast<Amount>(share.units);
    const std::int64_t interval_ns = meter::tick_interval_ns(epoch_time, share.units);
    fmt::print("{:>8} {:>20} {:>14}\n", worker, share.units,
               share.units == 0
                   ? "never"
                   : engine::duration_text(Duration{std::max<std::int64_t>(1, interval_ns)}));
  }
  fmt::print("\nallocated {} of {}\n", given, lock->per_epoch);
  return kExitOk;
}

}  // namespace

std::function<int()> add_compute_units_flags(CLI::App& command) {
  auto flags = std::make_shared<LockFlags>();
  add_lock_flags(command, *flags);
  return [flags] { return run_units(*flags); };
}

std::function<int()> add_compute_allocate_flags(CLI::App& command) {
  auto flags = std::make_shared<AllocateFlags>();
  add_lock_flags(command, flags->lock);
  command.add_option("--workers", flags->workers, "How many are active")
      ->check(CLI::Range(std::int64_t{1}, kWorkersShownMax))
      ->capture_default_str();
  command.add_option("--number", flags->number, "Of the epoch, by which the remainder rotates")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 60))
      ->capture_default_str();
  command.add_option("--remainder", flags->remainder, "rotate it, or drop it as published")
      ->check(CLI::IsMember({"rotate", "drop"}))
      ->capture_default_str();
  command.add_option("--share", flags->shares, "Basis points of one worker; may be repeated")
      ->type_name("WORKER=POINTS")
      ->allow_extra_args(false);
  return [flags] { return run_allocate(*flags); };
}

}  // namespace weir::app
