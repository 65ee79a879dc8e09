#include "weir/system/pool/outage.h"

#include <fmt/format.h>

#include <algorithm>

#include "weir/base/in_quotes.h"

namespace weir::system::pool {

std::string_view to_string(OutagePolicy policy) noexcept {
  switch (policy) {
    case OutagePolicy::kDeny:
      return "deny";
    case OutagePolicy::kAllow:
      return "allow";
    case OutagePolicy::kLocal:
      return "local";
  }
  return "unknown";
}

void OutageCoordinator::start(Registration registration, CoordinatorListener& listener, Instant now,
                              StatusCallback started) {
  {
    const std::scoped_lock lock(lock_);
    registration_ = registration;
    listener_ = &listener;
    for (const auto& [name, limits] : registration.limits) {
      models_.try_emplace(name, ModelLimits{}, LimiterRule::kStrict);
    }
  }
  if (policy_ == OutagePolicy::kAllow) {
    // Should the coordinator never answer, this instance acts as if it were alone. Any epoch
    // of the coordinator's replaces this one.
    listener.allocated(now, alone());
  }
  inner_->start(std::move(registration), *this, now,
                [this, started = std::move(started)](Instant at, const Status& status) {
                  if (!status && status.error().code == ErrorCode::kUnavailable) {
                    reachable(at, false);
                  }
                  started(at, status);
                });
}

Allocation OutageCoordinator::alone() const {
  Allocation alone{.epoch = epoch_, .instance_count = 1};
  for (const auto& [name, limits] : registration_.limits) {
    alone.pools[name] = make_pool(limits, {}, registration_.average, 1);
  }
  return alone;
}

void OutageCoordinator::stop(Instant now, StatusCallback stopped) {
  inner_->stop(now, std::move(stopped));
}

ModelLimiter* OutageCoordinator::model(std::string_view name) {
  const auto found = models_.find(name);
  return found == models_.end() ? nullptr : &found->second;
}

// While the coordinator answers, the counters only count.
void OutageCoordinator::set_shares() {
  const std::int64_t instances =
      policy_ == OutagePolicy::kAllow ? 1 : std::max<std::int64_t>(1, instance_count_);
  for (auto& [name, counters] : models_) {
    const auto limits = registration_.limits.find(name);
    if (!is_out_ || limits == registration_.limits.end()) {
      counters.set_limits({});
      counters.set_concurrency(std::nullopt);
      continue;
    }
    Rates shares = limits->second.rates;
    for (const Dimension rate : kRates) {
      if (shares.of(rate)) *shares.of(rate) /= instances;
    }
    counters.set_limits(shares);
    std::optional<std::int64_t> concurrent = limits->second.concurrent;
    if (concurrent) *concurrent /= instances;
    counters.set_concurrency(concurrent);
  }
}

Grant OutageCoordinator::keep(std::string_view name, Grant inner, const Reservation& reservation,
                              Instant now) {
  Grant grant = inner;
  grant.id = ++last_id_;
  if (inner.fence == 0) {
    grant.model = std::string(name);
    grant.estimate = reservation.estimate;
    grant.minute = window_begin(Dimension::kTokensPerMinute, now);
    grant.day = window_begin(Dimension::kTokensPerDay, now);
  }
  if (inner.fence == 0) own_.insert(grant.id);
  held_[grant.id] = {std::string(name), std::move(inner), reservation, now};
  return grant;
}

// Decides without the coordinator.
Acquired OutageCoordinator::admit(std::string_view name, const Amounts& estimate, Instant now,
                                  const std::string& trouble) {
  Refusal refusal{.reason = Refused::kUnreachable,
                  .message = trouble.empty() ? "unreachable: the coordinator does not answer"
                                             : fmt::format("unreachable: {}", trouble)};
  ModelLimiter* const counters = model(name);
  const bool is_share_known = policy_ == OutagePolicy::kAllow || instance_count_ > 0;
  if (policy_ == OutagePolicy::kDeny || counters == nullptr || !is_share_known) {
    refused_ += 1;
    return refusal;
  }
  Shortage shortage;
  if (const auto reservation = counters->try_reserve(estimate, now, shortage)) {
    admitted_ += 1;
    return keep(name, Grant{}, *reservation, now);
  }
  refused_ += 1;
  const bool is_busy = shortage.dimension == Dimension::kConcurrency;
  refusal.reason = is_busy ? Refused::kBusy : Refused::kExhausted;
  refusal.dimension = shortage.dimension;
  // A share that is too small for the job grows again when the coordinator is back.
  refusal.retry_at =
      is_busy ? window_begin(Dimension::kTokensPerMinute, now) + kMinute : shortage.retry_at;
  refusal.message = fmt::format(
      "{}: model {}: the coordinator does not answer, and this instance's share of {} is used up",
      to_string(refusal.reason), in_quotes(name), to_string(shortage.dimension));
  return refusal;
}

void OutageCoordinator::acquire(std::string_view model, const Amounts& estimate, Instant now,
                                AcquireCallback answered) {
  std::unique_lock lock(lock_);
  if (is_out_) {
    Acquired decided = admit(model, estimate, now, inner_->trouble());
    lock.unlock();
    answered(now, std::move(decided));
    return;
  }
  lock.unlock();
  inner_->acquire(
      model, estimate, now,
      [this, name = std::string(model), estimate, answered = std::move(answered)](
          Instant at, Acquired reply) { answer(at, name, estimate, std::move(reply), answered); });
}

void OutageCoordinator::answer(Instant now, std::string_view name, const Amounts& estimate,
                               Acquired answer, const AcquireCallback& answered) {
  std::set<std::uint64_t> adopting;
  std::unique_lock lock(lock_);
  if (Grant* const grant = std::get_if<Grant>(&answer)) {
    adopting = own_;
    Reservation reservation{.estimate = estimate};
    if (ModelLimiter* const counters = model(name)) {
      reservation = counters->reserve_anyway(estimate, now);
    }
    answer = keep(name, std::move(*grant), reservation, now);
  } else if (Refusal& refusal = std::get<Refusal>(answer);
             refusal.reason == Refused::kUnreachable) {
    // The first to time out; reachable() will tell for the others.
    const bool was_out = std::exchange(is_out_, true);
    set_shares();
    Acquired decided = admit(name, estimate, now, {});
    Refusal* const other = std::get_if<Refusal>(&decided);
    // It has said why.
    if (other != nullptr && other->reason == Refused::kUnreachable) {
      other->message = std::move(refusal.message);
    }
    answer = std::move(decided);
    is_out_ = was_out;
    set_shares();
    // One answer that is missing is not an outage yet: no call will say that it is over.
    const Grant* const admitted = std::get_if<Grant>(&answer);
    if (admitted != nullptr && !was_out) adopting = {admitted->id};
  }
  lock.unlock();
  if (!adopting.empty()) adopt_own(adopting, now);
  answered(now, std::move(answer));
}

void OutageCoordinator::adopt_own(const std::set<std::uint64_t>& ids, Instant now) {
  struct Job {
    std::uint64_t id;
    std::string model;
    Amounts estimate;
    Instant since;
  };
  std::vector<Job> jobs;
  {
    const std::scoped_lock lock(lock_);
    for (const std::uint64_t id : ids) {
      if (own_.erase(id) == 0) continue;
      const Held& held = held_.at(id);
      jobs.push_back({id, held.model, held.reservation.estimate, held.granted_at});
    }
  }
  for (const Job& job : jobs) {
    inner_->adopt(
        job.model, job.estimate, job.since, now,
        [this, id = job.id](Instant at, const Acquired& answer) { adopted(id, at, answer); });
  }
}

void OutageCoordinator::adopted(std::uint64_t id, Instant now, const Acquired& answer) {
  std::unique_lock lock(lock_);
  Held& held = held_.at(id);
  const std::optional<Amounts> used = held.ended;
  if (const Grant* const grant = std::get_if<Grant>(&answer)) {
    held.grant = *grant;
    if (!used) return;
    held_.erase(id);
    lock.unlock();
    release_inner(*grant, *used, now, [](Instant, Released) {});
    return;
  }
  if (used) {
    add_unsent(held.model, *used, held.granted_at);
    held_.erase(id);
  } else {
    own_.insert(id);
  }
}

void OutageCoordinator::add_unsent(const std::string& model, const Amounts& used, Instant used_at) {
  const Instant minute = window_begin(Dimension::kTokensPerMinute, used_at);
  Amounts& sum = unsent_usage_[{model, minute}];
  sum.tokens = std::min(sum.tokens + used.tokens, kLimitMax);
  sum.requests = std::min(sum.requests + used.requests, kLimitMax);
}

void OutageCoordinator::release(const Grant& grant, const Amounts& used, Instant now,
                                ReleaseCallback released) {
  std::unique_lock lock(lock_);
  const auto found = held_.find(grant.id);
  if (found == held_.end()) {
    lock.unlock();
    released(now, Released::kNotHeld);
    return;
  }
  if (ModelLimiter* const counters = model(grant.model)) {
    counters->finish(found->second.reservation, used, now);
  }
  const bool is_own = own_.erase(grant.id) > 0;
  if (!is_own && found->second.grant.fence == 0) {
    // It is being adopted.
    found->second.ended = used;
    lock.unlock();
    released(now, Released::kSettled);
    return;
  }
  const Held held = std::move(found->second);
  held_.erase(found);
  if (!is_own) {
    lock.unlock();
    release_inner(held.grant, used, now, released);
    return;
  }
  if (used != Amounts{}) add_unsent(grant.model, used, held.granted_at);
  const bool is_out = is_out_;
  lock.unlock();
  if (!is_out) send_again(now);
  released(now, Released::kSettled);
}

void OutageCoordinator::release_inner(const Grant& grant, const Amounts& used, Instant now,
                                      const ReleaseCallback& released) {
  inner_->release(grant, used, now, [this, grant, used, released](Instant at, Released result) {
    if (result == Released::kUnreachable) {
      const std::scoped_lock lock(lock_);
      if (unsent_releases_.size() < kUnsentReleasesMax) unsent_releases_.emplace_back(grant, used);
    }
    released(at, result);
  });
}

void OutageCoordinator::update(Registration registration, Instant now, StatusCallback updated) {
  inner_->update(
      registration, now,
      [this, registration, updated = std::move(updated)](Instant at, const Status& status) {
        if (status) {
          const std::scoped_lock lock(lock_);
          registration_ = registration;
          for (const auto& [name, limits] : registration_.limits) {
            models_.try_emplace(name, ModelLimits{}, LimiterRule::kStrict);
          }
          set_shares();
        }
        updated(at, status);
      });
}

void OutageCoordinator::allocated(Instant now, const Allocation& allocation) {
  {
    const std::scoped_lock lock(lock_);
    if (allocation.instance_count > 0) instance_count_ = allocation.instance_count;
    epoch_ = std::max(epoch_, allocation.epoch);
    set_shares();
  }
  listener_->allocated(now, allocation);
}

void OutageCoordinator::reachable(Instant now, bool is_reachable) {
  std::set<std::uint64_t> adopting;
  std::optional<Allocation> without_others;
  {
    const std::scoped_lock lock(lock_);
    is_out_ = !is_reachable;
    set_shares();
    adopting = own_;
    if (is_out_ && policy_ == OutagePolicy::kAllow) without_others = alone();
  }
  // The next allocation of the coordinator's takes its place.
  if (without_others) listener_->allocated(now, *without_others);
  if (is_reachable) {
    adopt_own(adopting, now);
    send_again(now);
  }
  listener_->reachable(now, is_reachable);
}

// What could not be told before.
void OutageCoordinator::send_again(Instant now) {
  Unsent usage;
  std::vector<std::pair<Grant, Amounts>> releases;
  {
    const std::scoped_lock lock(lock_);
    usage.swap(unsent_usage_);
    releases.swap(unsent_releases_);
  }
  const Instant today = window_begin(Dimension::kTokensPerDay, now);
  for (const auto& [where, used] : usage) {
    const auto& [model, minute] = where;
    if (minute < today) continue;
    inner_->replay(
        model, used, minute, now,
        [this, model = model, minute = minute, used = used](Instant, const Status& status) {
          if (status || status.error().code != ErrorCode::kUnavailable) return;
          const std::scoped_lock lock(lock_);
          add_unsent(model, used, minute);
        });
  }
  for (const auto& [grant, used] : releases) {
    release_inner(grant, used, now, [](Instant, Released) {});
  }
}

OutageReading OutageCoordinator::reading() const {
  const std::scoped_lock lock(lock_);
  return {policy_, is_out_, admitted_, refused_, unsent_usage_.size() + unsent_releases_.size()};
}

}  // namespace weir::system::pool
