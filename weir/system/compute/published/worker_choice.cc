// A worker's rank is a tuple that is compared: group, queries running, then pause or throughput.

#include "weir/system/compute/published/worker_choice.h"

#include <algorithm>
#include <limits>

namespace weir::system::compute {
namespace {

bool is_within(const std::optional<Instant>& at, Duration window, Instant now) noexcept {
  return at && std::chrono::floor<std::chrono::seconds>(now - *at) < window;
}

bool is_error(AnswerKind kind) noexcept {
  return kind == AnswerKind::kOverloaded || kind == AnswerKind::kServerError ||
         kind == AnswerKind::kNotFound;
}

bool is_refusal(AnswerKind kind) noexcept {
  return kind == AnswerKind::kOverloaded || kind == AnswerKind::kTooManyRequests;
}

}  // namespace

WorkerChoice::Rank WorkerChoice::rank_of(const Known& worker, Instant now) const noexcept {
  if (worker.paused_until > now) {
    return {Group::kBackoff, worker.running, (worker.paused_until - now).count()};
  }
  if (is_within(worker.error_at, settings_.error_window, now) ||
      is_within(worker.timeout_at, settings_.timeout_window, now) ||
      worker.running >= settings_.queries_per_worker) {
    return {Group::kUnavailable, worker.running, 0};
  }
  return {Group::kBest, worker.running,
          -worker.throughput.value_or(std::numeric_limits<std::int64_t>::max())};
}

Chosen WorkerChoice::pick(std::span<const std::string_view> workers, Instant now) {
  std::optional<Rank> best;
  std::string_view name;
  for (const std::string_view worker : workers) {
    const auto found = known_.find(worker);
    const Rank rank = rank_of(found == known_.end() ? Known{} : found->second, now);
    if (best && !(rank < *best)) continue;
    best = rank;
    name = worker;
  }
  if (!best || best->group == Group::kUnavailable) return {};
  if (best->group == Group::kBackoff) return {.until = now + Duration{best->key}};
  known_[std::string(name)].running += 1;
  return {.worker = name};
}

void WorkerChoice::answered(std::string_view worker, const WorkerAnswer& answer, Instant now) {
  Known& known = known_[std::string(worker)];
  known.running = std::max<std::int64_t>(0, known.running - 1);
  std::optional<Duration> pause = answer.hint;
  if (!pause && is_refusal(answer.kind)) pause = settings_.default_backoff;
  if (pause) known.paused_until = later_of(known.paused_until, now + *pause);
  if (answer.throughput) known.throughput = answer.throughput;
  if (is_error(answer.kind)) known.error_at = now;
  if (answer.kind == AnswerKind::kTimeout) known.timeout_at = now;
}

}  // namespace weir::system::compute
