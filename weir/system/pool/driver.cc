#include "weir/system/pool/driver.h"

#include <future>
#include <new>
#include <utility>

namespace weir::system::pool {
namespace {

// Turns a callback into an answer to wait for.
class Answer {
 public:
  JobCallback callback() {
    return
        [promise = promise_](Instant, const JobOutcome& outcome) { promise->set_value(outcome); };
  }
  Result<Start> wait() {
    JobOutcome outcome = promise_->get_future().get();
    if (Start* const start = std::get_if<Start>(&outcome)) return std::move(*start);
    JobRefusal& refusal = std::get<JobRefusal>(outcome);
    const bool is_unavailable =
        refusal.reason == JobRefused::kUnavailable || refusal.reason == JobRefused::kStopped;
    return Error{is_unavailable ? ErrorCode::kUnavailable : ErrorCode::kExhausted,
                 std::move(refusal.message)};
  }

 private:
  std::shared_ptr<std::promise<JobOutcome>> promise_ = std::make_shared<std::promise<JobOutcome>>();
};

}  // namespace

RunningJob::RunningJob(RunningJob&& other) noexcept
    : pools_(std::exchange(other.pools_, nullptr)),
      clock_(other.clock_),
      start_(std::move(other.start_)) {}

RunningJob& RunningJob::operator=(RunningJob&& other) noexcept {
  if (this == &other) return *this;
  drop();
  pools_ = std::exchange(other.pools_, nullptr);
  clock_ = other.clock_;
  start_ = std::move(other.start_);
  return *this;
}

void RunningJob::drop() noexcept {
  if (pools_ != nullptr) static_cast<void>(fail());
}

Result<Settlement> RunningJob::ended(Result<Settlement> settlement) {
  if (settlement) pools_ = nullptr;
  return settlement;
}

Result<Settlement> RunningJob::finish(const Used& used) {
  WEIR_ASSERT(pools_ != nullptr);
  return ended(pools_->finish(start_.job, used, clock_->now()));
}

Result<Settlement> RunningJob::fail(const std::optional<Used>& used) {
  WEIR_ASSERT(pools_ != nullptr);
  return ended(pools_->fail(start_.job, used, clock_->now()));
}

Result<Settlement> RunningJob::reject(const Used& used) {
  WEIR_ASSERT(pools_ != nullptr);
  return ended(pools_->reject(start_.job, used, clock_->now()));
}

Status RunningJob::delegate(const Used& used) {
  WEIR_ASSERT(pools_ != nullptr);
  Answer answer;
  Status delegated = pools_->delegate(start_.job, used, clock_->now(), answer.callback());
  if (!delegated) return delegated;
  Result<Start> next = answer.wait();
  if (!next) {
    pools_ = nullptr;
    return std::move(next).error();
  }
  start_ = *std::move(next);
  return Done{};
}

Result<std::unique_ptr<Driver>> Driver::create(Pools& pools, Clock& clock) noexcept {
  std::unique_ptr<Driver> driver(new (std::nothrow) Driver(pools, clock));
  if (driver == nullptr) {
    return Error{ErrorCode::kExhausted, "driver: no memory for it; allow the process more"};
  }
  if (Status started = driver->thread_.start(); !started) return std::move(started).error();
  return driver;
}

Driver::Driver(Pools& pools, Clock& clock) noexcept
    : pools_(pools), clock_(clock), thread_(clock, [&pools](Instant now) {
        pools.advance(now);
        return pools.next_instant();
      }) {
  pools_.set_wakeup([this](Instant) { thread_.wake(); });
}

Driver::~Driver() { pools_.set_wakeup(nullptr); }

Result<RunningJob> Driver::acquire(std::string_view type, std::optional<Duration> patience) {
  Answer answer;
  Result<JobId> job = pools_.submit({type, patience}, clock_.now(), answer.callback());
  if (!job) return std::move(job).error();
  Result<Start> start = answer.wait();
  if (!start) return std::move(start).error();
  return RunningJob(pools_, clock_, *std::move(start));
}

}  // namespace weir::system::pool
