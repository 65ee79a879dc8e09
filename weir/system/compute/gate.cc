// A query's outcome at the worker becomes a check. A query that would wait in the worker's queue is
// refused here: the engine's queue is where requests wait.

#include "weir/system/compute/gate.h"

#include <algorithm>
#include <optional>

#include "weir/base/assert.h"

namespace weir::system::compute {
namespace {

using engine::Request;

std::string_view portal_of(const Request& request) noexcept {
  return request.attribute(kPortalAttribute).value_or("");
}

}  // namespace

// The portals of a cluster share its bucket.
std::optional<std::uint64_t> ComputeGate::queue_of(const Request& request) const {
  return worker_->locked().queue_of(portal_of(request));
}

meter::Check ComputeGate::check(const Request& request, Instant now, std::int64_t cost) {
  if (cost < 1) return {weir::Verdict::kAllowed, now, 0};
  if (cost > 1) return {weir::Verdict::kNever, kForever, cost - 1};  // a query is one
  const Admission said = worker_->locked().peek(portal_of(request), now);
  if (said.outcome == QueryOutcome::kAccepted && !said.is_queued) {
    return {weir::Verdict::kAllowed, now, 0};
  }
  const bool is_rate = said.outcome == QueryOutcome::kRateLimited;
  return {weir::Verdict::kDenied, is_rate ? now + *said.retry_after : kForever, 1};
}

Instant ComputeGate::fits_from(const Request& request, Instant from, std::int64_t cost) const {
  if (cost < 1) return from;
  const std::string_view portal = portal_of(request);
  const Worker& worker = worker_->locked();
  const auto cluster = worker.cluster_of(portal, from);
  // When a slot becomes free, or a portal has units, is not known.
  if (cost > 1 || !cluster || !worker.could_start(portal)) return kForever;
  return cluster->tokens_micro >= kMicro ? from : cluster->next_tick;
}

void ComputeGate::charge(const Request& request, Instant now, std::int64_t cost) {
  if (cost < 1) return;
  const bool is_taken = worker_->locked().take_token(portal_of(request), now);
  WEIR_ASSERT(is_taken);
}

std::uint64_t ComputeGate::charge_held(const Request& request, Instant now, std::int64_t cost) {
  if (cost < 1) return 0;
  const Admission said = worker_->locked().admit_held(portal_of(request), now);
  WEIR_ASSERT(said.outcome == QueryOutcome::kAccepted && !said.is_queued);
  return static_cast<std::uint64_t>(said.query);
}

void ComputeGate::refused(const Request& request, Instant now, std::int64_t cost) {
  if (cost > 0) worker_->locked().count_refusal(portal_of(request), now);
}

void ComputeGate::end(Instant now, const engine::HoldEnd& hold) {
  const auto query = static_cast<QueryId>(hold.receipt);
  if (hold.how == engine::Ending::kCancelled) {
    worker_->locked().cancel(query, now);
    return;
  }
  const std::int64_t actual = engine::amount_in(hold.actual, kComputeUnit).value_or(kMicro);
  const std::int64_t cost = std::clamp<std::int64_t>(actual, 0, kMicro);
  worker_->locked().finish(query, cost, now);
}

std::int64_t ComputeGate::available(const Request& request, Instant now) {
  const std::string_view portal = portal_of(request);
  const Worker& worker = worker_->locked();
  const auto cluster = worker.cluster_of(portal, now);
  if (!cluster || !worker.could_start(portal)) return 0;
  return std::max<std::int64_t>(0, cluster->tokens_micro / kMicro);
}

std::int64_t ComputeGate::capacity(const Request& request) const {
  const auto cluster = worker_->locked().cluster_of(portal_of(request), Instant{0});
  return cluster ? cluster->burst_micro / kMicro : 0;
}

}  // namespace weir::system::compute
