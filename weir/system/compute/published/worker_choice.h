// Worker choice: whom a portal asks next, by what workers answered it before.
//
//   best         neither paused nor in trouble, with fewer queries than the most: the one with
//                the fewest running, then the fastest; one that was never measured is fastest
//   backoff      paused by a hint, or by a refusal without one: the soonest of the fewest
//   unavailable  had an error or a timeout not long ago, or runs as many as it may
//
// A worker that answers with a hint is paused until then, also by a success. Overload,
// errors and missing data keep it away for the error window, a timeout for its own; windows
// count whole seconds. Of two alike the one that is named first is chosen.
//
//   WorkerChoice choice({});
//   Chosen chosen = choice.pick(workers_of_the_chunk, now);      // leased, if there is one
//   choice.answered(*chosen.worker, {.kind = AnswerKind::kOk}, later);
//
// Thread safety: none; callers share it behind a lock.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "weir/base/time.h"

namespace weir::system::compute {

struct ChoiceSettings {
  std::int64_t queries_per_worker = 1;
  Duration error_window = std::chrono::seconds{30};
  Duration timeout_window = std::chrono::seconds{300};
  Duration default_backoff = std::chrono::seconds{1};
};

enum class AnswerKind : std::uint8_t {
  kOk,
  kBadRequest,
  kTooManyRequests,
  kOverloaded,
  kServerError,
  kNotFound,
  kTimeout,
};

struct WorkerAnswer {
  AnswerKind kind = AnswerKind::kOk;
  std::optional<Duration> hint{};
  std::optional<std::int64_t> throughput{};  // bytes in a second
};

struct Chosen {
  std::optional<std::string_view> worker{};  // of those that were named
  std::optional<Instant> until{};            // none, but one may be there by then
};

class WorkerChoice {
 public:
  explicit WorkerChoice(const ChoiceSettings& settings) : settings_(settings) {}

  Chosen pick(std::span<const std::string_view> workers, Instant now);
  // Ends the lease of one query.
  void answered(std::string_view worker, const WorkerAnswer& answer, Instant now);

 private:
  struct Known {
    std::int64_t running = 0;
    Instant paused_until{};
    std::optional<std::int64_t> throughput{};
    std::optional<Instant> error_at{};
    std::optional<Instant> timeout_at{};
  };
  enum class Group : std::uint8_t { kBest, kBackoff, kUnavailable };
  struct Rank {
    Group group;
    std::int64_t running;
    std::int64_t key;  // less is better

    friend constexpr auto operator<=>(const Rank&, const Rank&) = default;
  };

  Rank rank_of(const Known& worker, Instant now) const noexcept;

  ChoiceSettings settings_;
  std::map<std::string, Known, std::less<>> known_;
};

}  // namespace weir::system::compute
