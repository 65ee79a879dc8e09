#include "weir/system/pool/held_jobs.h"

#include <fmt/format.h>

#include <atomic>

#include "weir/base/hold_text.h"
#include "weir/base/keyed_word.h"

namespace weir::system::pool {
namespace {

enum Side : std::uint8_t { kNeither, kAsker, kCallback };

std::int64_t ms_of(Duration span) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(span).count();
}

}  // namespace

// Between who asks and who is called back: the second of the two to come tells the answer.
struct HeldJobs::Turn {
  explicit Turn(JobAnswered to_tell) : told(std::move(to_tell)) {}

  std::atomic<Side> first{kNeither};
  std::optional<JobAnswer> answer{};  // written by the callback before it comes
  JobAnswered told;
};

Status validate_hold_settings(const HoldSettings& settings) {
  const auto is_valid = [](Duration span) { return span >= kHoldLeast && span <= kHoldMost; };
  if (!is_valid(settings.hold) || !is_valid(settings.hold_max)) {
    return bad_argument("hold and hold_max must be 1s to 7d; write 10m and 1h");
  }
  if (settings.hold > settings.hold_max) {
    return bad_argument("hold is longer than hold_max; write a shorter hold, or a longer hold_max");
  }
  return Done{};
}

HeldJobs::HeldJobs(std::unique_ptr<Pools> pools, const HoldSettings& settings, std::uint64_t owner)
    : settings_(settings), owner_(owner), pools_(std::move(pools)) {
  WEIR_ASSERT(validate_hold_settings(settings).ok());
}

JobCallback HeldJobs::callback_of(const std::shared_ptr<Turn>& turn) const {
  return [owner = owner_, turn](Instant now, const JobOutcome& outcome) {
    if (const auto* start = std::get_if<Start>(&outcome)) {
      turn->answer = HeldStart{{owned_word(owner, start->job), start->job}, *start};
    } else {
      turn->answer = std::get<JobRefusal>(outcome);
    }
    if (turn->first.exchange(kCallback) == kAsker) turn->told(now, *turn->answer);
  };
}

JobTurn HeldJobs::begin(const std::shared_ptr<Turn>& turn, JobId job) {
  if (turn->first.exchange(kAsker) == kCallback) return {.answer = std::move(turn->answer)};
  return {.ticket = job};
}

HoldSettings HeldJobs::settings() const {
  const std::scoped_lock lock(lock_);
  return settings_;
}

void HeldJobs::change(const HoldSettings& settings) {
  WEIR_ASSERT(validate_hold_settings(settings).ok());
  const std::scoped_lock lock(lock_);
  settings_ = settings;
}

Result<Duration> HeldJobs::hold_of(const std::optional<Duration>& asked) const {
  const HoldSettings settings = this->settings();
  const Duration hold = asked.value_or(settings.hold);
  if (hold >= kHoldLeast && hold <= settings.hold_max) return hold;
  return bad_argument(
      fmt::format("hold is {} ms, but it must be {} to {} ms; ask for less, or "
                  "raise hold_max of the pools",
                  ms_of(hold), ms_of(kHoldLeast), ms_of(settings.hold_max)));
}

Result<JobTurn> HeldJobs::acquire(const JobAsk& ask, Instant now, JobAnswered answered) {
  const Result<Duration> hold = hold_of(ask.hold);
  if (!hold) return hold.error();
  const auto turn = std::make_shared<Turn>(std::move(answered));
  const Result<JobId> job = pools_->submit({.type = ask.type, .patience = ask.wait, .hold = *hold},
                                           now, callback_of(turn));
  if (!job) return job.error();
  return begin(turn, *job);
}

Result<JobTurn> HeldJobs::delegate(HoldId id, const Used& used, Instant now, JobAnswered answered) {
  if (Status held = check(id); !held) return std::move(held).error();
  const auto turn = std::make_shared<Turn>(std::move(answered));
  Status status = pools_->delegate(id.number, used, now, callback_of(turn));
  if (!status) return std::move(status).error();
  return begin(turn, id.number);
}

bool HeldJobs::give_up(std::uint64_t ticket, Instant now) { return pools_->withdraw(ticket, now); }

void HeldJobs::discard(HoldId job, Instant now) {
  // It may have ended.
  if (check(job)) static_cast<void>(pools_->cancel(job.number, now).ok());
}

Result<Settlement> HeldJobs::finish(HoldId job, const Used& used, Instant now) {
  if (Status held = check(job); !held) return std::move(held).error();
  return pools_->finish(job.number, used, now);
}

Result<Settlement> HeldJobs::fail(HoldId job, const std::optional<Used>& used, Instant now) {
  if (Status held = check(job); !held) return std::move(held).error();
  return pools_->fail(job.number, used, now);
}

Result<Settlement> HeldJobs::reject(HoldId job, const Used& used, Instant now) {
  if (Status held = check(job); !held) return std::move(held).error();
  return pools_->reject(job.number, used, now);
}

Result<Instant> HeldJobs::renew(HoldId job, const std::optional<Duration>& hold, Instant now) {
  if (Status held = check(job); !held) return std::move(held).error();
  const Result<Duration> span = hold_of(hold);
  if (!span) return span.error();
  return pools_->renew(job.number, *span, now);
}

Status HeldJobs::check(HoldId job) const {
  if (job.owner == owned_word(owner_, job.number)) return Done{};
  return Error{ErrorCode::kNotFound,
               fmt::format("job {} is not held here: another instance gave it, or this one before "
                           "it was started again",
                           hold_text(job))};
}

}  // namespace weir::system::pool
