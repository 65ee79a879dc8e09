// Invariants:
// 1. The life of jobs is read and changed under the lock alone. Callbacks, the coordinator and the
//    hook are called without it, in the order in which the call under the lock has left them.
// 2. Time never goes back: a call that comes with an earlier instant than one before it acts at the
//    later one.
// 3. After each call the hook knows of an instant at or before the next one to act at.

#include "weir/system/pool/pools.h"

#include <utility>

namespace weir::system::pool {
namespace {

Status validate_hold(Duration hold) {
  if (hold > Duration{0} && hold <= kWaitMax) return Done{};
  return bad_argument("the hold must be above 0 and at most 7 days; write 10m");
}

}  // namespace

Result<std::unique_ptr<Pools>> Pools::create(PoolsSettings settings,
                                             std::unique_ptr<Coordinator> coordinator) {
  WEIR_ASSERT(coordinator != nullptr);
  if (Status valid = validate_settings(settings); !valid) return std::move(valid).error();
  if (settings.escalation.empty()) settings.escalation.push_back(settings.models.front().name);
  Result<std::vector<double>> ratios = initial_ratios(settings.types);
  if (!ratios) return std::move(ratios).error();
  return std::unique_ptr<Pools>(
      new Pools(std::move(settings), std::move(coordinator), *std::move(ratios)));
}

Pools::Pools(PoolsSettings settings, std::unique_ptr<Coordinator> coordinator,
             const std::vector<double>& ratios)
    : life_(std::move(settings), ratios, *this), coordinator_(std::move(coordinator)) {}

Pools::~Pools() { coordinator_.reset(); }

template <typename Act>
auto Pools::call(Instant now, const Act& act) {
  Lock lock(lock_);
  Work work{last_ = later_of(last_, now)};
  auto answer = act(work);
  conclude(lock, work);
  return answer;
}

void Pools::conclude(Lock& lock, Work& work) {
  const Instant next = life_.earliest();
  const auto hook = wakeup_.begin(next);
  lock.unlock();
  for (const std::function<void()>& action : work.after) action();
  if (hook == nullptr) return;
  (*hook)(next);
  const Lock again(lock_);
  wakeup_.end();
}

void Pools::start(Instant now, StatusCallback started) {
  Registration registration;
  {
    const Lock lock(lock_);
    last_ = later_of(last_, now);
    life_.start(now);
    registration = registration_of(life_.catalog().settings());
  }
  coordinator_->start(std::move(registration), *this, now,
                      [this, started = std::move(started)](Instant at, const Status& status) {
                        if (!status && status.error().code == ErrorCode::kBadArgument) {
                          const Lock lock(lock_);
                          life_.refuse_all(status.error().message);
                        }
                        started(at, status);
                      });
}

void Pools::stop(Instant now, StatusCallback stopped) {
  call(now, [&](Work& work) {
    life_.stop(work);
    work.after.emplace_back(
        [this, now, stopped = std::move(stopped)] { coordinator_->stop(now, stopped); });
    return Done{};
  });
}

// --- Jobs.

Result<JobId> Pools::submit(const JobRequest& request, Instant now, JobCallback callback) {
  const Result<std::size_t> type = life_.catalog().place_of_type(request.type);
  if (!type) return type.error();
  if (request.patience && *request.patience < Duration{0}) {
    return bad_argument("the wait is negative; write 0s for none");
  }
  if (request.hold) {
    if (Status valid = validate_hold(*request.hold); !valid) return std::move(valid).error();
  }
  return call(now,
              [&](Work& work) { return life_.submit(*type, request, std::move(callback), work); });
}

bool Pools::withdraw(JobId job, Instant now) {
  return call(now, [&](Work& work) { return life_.withdraw(job, work); });
}

Result<Settlement> Pools::end(JobId job, JobLife::Ending ending, const std::optional<Used>& used,
                              const std::optional<Used>& counted, Instant now) {
  if (used) {
    if (Status valid = validate_used(*used); !valid) return std::move(valid).error();
  }
  return call(now, [&](Work& work) { return life_.end(job, ending, used, counted, work); });
}

Result<Settlement> Pools::finish(JobId job, const Used& used, Instant now) {
  return end(job, JobLife::Ending::kFinished, used, used, now);
}

// The published rules count nothing of a job that failed.
Result<Settlement> Pools::fail(JobId job, const std::optional<Used>& used, Instant now) {
  return end(job, JobLife::Ending::kFailed, used, life_.catalog().is_strict() ? used : std::nullopt,
             now);
}

Result<Settlement> Pools::reject(JobId job, const Used& used, Instant now) {
  return fail(job, used, now);
}

Status Pools::delegate(JobId job, const Used& used, Instant now, JobCallback callback) {
  if (Status valid = validate_used(used); !valid) return valid;
  return call(now,
              [&](Work& work) { return life_.delegate(job, used, std::move(callback), work); });
}

Status Pools::cancel(JobId job, Instant now) {
  return call(now, [&](Work& work) { return life_.cancel(job, work); });
}

Result<Instant> Pools::renew(JobId job, Duration hold, Instant now) {
  if (Status valid = validate_hold(hold); !valid) return std::move(valid).error();
  return call(now, [&](Work& work) { return life_.renew(job, hold, work); });
}

// --- Settings.

void Pools::change(PoolsSettings settings, Instant now, StatusCallback changed) {
  Status valid = validate_settings(settings);
  if (!valid) return changed(now, std::move(valid));
  if (settings.escalation.empty()) settings.escalation.push_back(settings.models.front().name);
  Registration registration = registration_of(settings);
  bool is_same = false;
  {
    const Lock lock(lock_);
    valid = life_.catalog().allows(settings);
    is_same = registration == registration_of(life_.catalog().settings());
  }
  if (!valid) return changed(now, std::move(valid));
  if (is_same) {
    apply(settings, now);
    return changed(now, Done{});
  }
  coordinator_->update(std::move(registration), now,
                       [this, settings = std::move(settings), changed = std::move(changed)](
                           Instant at, const Status& status) {
                         if (status) apply(settings, at);
                         changed(at, status);
                       });
}

void Pools::apply(const PoolsSettings& settings, Instant now) {
  call(now, [&](Work& work) {
    life_.change(settings, work);
    return Done{};
  });
}

// --- Time.

void Pools::advance(Instant now) {
  call(now, [&](Work& work) {
    life_.advance(work);
    return Done{};
  });
}

Instant Pools::next_instant() const {
  const Lock lock(lock_);
  return life_.earliest();
}

void Pools::set_wakeup(std::function<void(Instant)> hook) {
  Lock lock(lock_);
  wakeup_.set(lock, std::move(hook));
}

// --- What is told, and what is shown.

void Pools::on_allocation(std::function<void(Instant, const Allocation&)> told) {
  allocation_told_ = std::move(told);
}

void Pools::on_overage(std::function<void(Instant, std::string_view, const Overage&)> told) {
  overage_told_ = std::move(told);
}

PoolsSettings Pools::settings() const {
  const Lock lock(lock_);
  return life_.catalog().settings();
}

bool Pools::is_reachable() const {
  const Lock lock(lock_);
  return life_.is_reachable();
}

Reading Pools::reading(Instant now) const {
  const Lock lock(lock_);
  return life_.reading(now);
}

// --- The coordinator, to and fro.

void Pools::allocated(Instant now, const Allocation& allocation) {
  call(now, [&](Work& work) {
    if (!life_.allocate(allocation, work) || !allocation_told_) return Done{};
    work.after.emplace_back(
        [this, at = work.now, allocation] { allocation_told_(at, allocation); });
    return Done{};
  });
}

void Pools::freed(Instant now, std::string_view model) {
  const auto place = life_.catalog().place_of_model(model);
  if (!place) return;
  call(now, [&](Work& work) {
    life_.freed(*place, work);
    return Done{};
  });
}

void Pools::reachable(Instant now, bool is_reachable) {
  call(now, [&](Work& work) {
    life_.set_reachable(is_reachable, work);
    return Done{};
  });
}

void Pools::ask(JobId job, std::size_t model, const Amounts& estimate, Instant now) {
  coordinator_->acquire(life_.catalog().model(model).name, estimate, now,
                        [this, job](Instant at, Acquired answer) {
                          call(at, [&](Work& work) {
                            life_.answered(job, std::move(answer), work);
                            return Done{};
                          });
                        });
}

void Pools::release(const Grant& grant, std::size_t model, const Amounts& used, Instant now) {
  // Only when the coordinator has settled it, it is free for others who ask it.
  coordinator_->release(grant, used, now, [this, model](Instant at, Released) {
    call(at, [&](Work& work) {
      life_.freed(model, work);
      return Done{};
    });
  });
}

void Pools::tell_overage(std::size_t model, const Overage& overage, Instant now) {
  if (overage_told_) overage_told_(now, life_.catalog().model(model).name, overage);
}

}  // namespace weir::system::pool
