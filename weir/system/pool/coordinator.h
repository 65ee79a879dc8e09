// Coordinator: where the instances of one deployment share the limits of their models.
//
// An instance registers, asks before a job starts, and reports what the job used. Every
// acquire books the job's estimate, in the windows of the coordinator's clock, and a slot in
// flight; its release settles them with what was used. So a limit holds for any number of
// instances as long as no job uses more than its estimate:
//
//   coordinator.start({.limits = {{"gpt-5", limits}}, .average = {10'000, 1}}, listener, now,
//                     started);
//   coordinator.acquire("gpt-5", {.tokens = 10'000, .requests = 1}, now,
//                       [&](Instant at, Acquired answer) { ... });
//   coordinator.release(grant, {.tokens = 6'000, .requests = 1}, now, done);
//
// No job type is named here: only estimates, and their average.
//
// Callbacks: each is called exactly once, within the time-out that the implementation was
// given, with an instant of the process's clock. It may run before the function returns, on
// the same thread, or later on a thread of the coordinator's; never with a lock of the
// coordinator held, so it may call the coordinator again. A caller must hold no lock that its
// callback takes. A callback must not wait.
//
// Listener: its functions are called under the same rules, from start() until stop()'s
// callback was called. Several threads may call at once, and so allocations may come out of
// order: one with an older epoch than the last is not to be applied, one with a smaller instance
// count is.
//
// Thread safety: every function may be called from any thread.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/system/pool/limits.h"

namespace weir::system::pool {

// What an instance tells about itself. Limits that differ from the fleet's are refused by
// the name of the model, unless `version` is higher than the fleet's. Then they replace them,
// and instances of a lower version are told kMismatch until they follow.
struct Registration {
  std::map<std::string, ModelLimits, std::less<>> limits{};
  Amounts average{};          // estimate over the job types; a 0 does not constrain
  std::uint64_t version = 0;  // of limits and average together

  friend bool operator==(const Registration&, const Registration&) = default;
};
// Refused, with a message, unless names, limits and average are valid.
Status validate_registration(const Registration& registration);
// Refused, with a message that names the first model that differs.
Status same_limits(const Registration& fleet, const Registration& own);

// A booked reservation. To be released exactly once, by the coordinator that gave it.
struct Grant {
  std::uint64_t id = 0;     // unique within the coordinator object, never 0
  std::uint64_t fence = 0;  // the registration it was made under, never 0
  std::string model{};
  Amounts estimate{};
  // First instants of the windows it is booked in, by the coordinator's clock.
  Instant minute{};
  Instant day{};
  Usage used{};  // of the model in these windows by all instances, this grant included
};

enum class Refused : std::uint8_t {
  kExhausted,      // a window of the model has no room left for the estimate
  kBusy,           // as many jobs are in flight as the model allows
  kNever,          // the estimate is larger than a limit
  kNotRegistered,  // the instance was taken for dead; it registers again by itself
  kRecovering,     // shared state was lost and the instances are reporting what they used
  kUnreachable,    // no answer within the time-out
  kMismatch,       // the fleet has other limits; the message names the model
  kUnknownModel,   // not in the registration
  kStopped,        // stop() was called, or start() was not
};
// `exhausted`, `busy`, ...: stable, the first word of a message on the wire.
std::string_view to_string(Refused reason) noexcept;

// Nothing is booked. An acquire that ended in kUnreachable may have been booked all the same:
// the coordinator gives it back as soon as it learns of it, and until then it counts.
struct Refusal {
  Refused reason = Refused::kStopped;
  Dimension dimension = Dimension::kConcurrency;  // of kExhausted, kBusy and kNever: what bound
  // When it makes sense to ask again; kForever: not with these limits. A busy model frees at an
  // unknown instant: then this is the latest at which to try, and freed() tells earlier.
  Instant retry_at = kForever;
  std::string message{};  // where, what was found, what was expected, what to write
};

using Acquired = std::variant<Grant, Refusal>;
using AcquireCallback = std::function<void(Instant now, Acquired answer)>;

enum class Released : std::uint8_t {
  kSettled,      // the difference was given back or added
  kFenced,       // the registration had ended: its slot was free already, nothing was freed
  kNotHeld,      // no such grant, or released before; nothing changed
  kUnreachable,  // not settled; the estimate stays counted, the slot until its lease ends
  kStopped,
};
std::string_view to_string(Released result) noexcept;
using ReleaseCallback = std::function<void(Instant now, Released result)>;

// Of start() and stop(). An error of start(): kBadArgument is final (limits that differ, bad
// names), kUnavailable is not: the coordinator goes on trying and tells the listener.
using StatusCallback = std::function<void(Instant now, Status status)>;

class CoordinatorListener {
 public:
  virtual ~CoordinatorListener() = default;

  // The instance's share changed, or is known for the first time.
  virtual void allocated(Instant now, const Allocation& allocation) = 0;
  // A refused acquire for this model may succeed now.
  virtual void freed(Instant now, std::string_view model) = 0;
  // Whether the coordinator can be asked. Before the first call: not known.
  virtual void reachable(Instant now, bool is_reachable) = 0;
};

// --- What `GET /v1/pool` shows.

constexpr std::size_t kInstancesReportedMax = 1'000;  // the counts cover all of them

struct InstanceReport {
  std::string id{};
  Instant last_heard{};
  std::int64_t in_flight = 0;
  bool is_own = false;
};

struct ModelReport {
  std::string model{};
  ModelLimits limits{};
  Instant minute{};  // windows by the coordinator's clock
  Instant day{};
  Usage used{};  // reserved or settled in these windows
  std::int64_t in_flight = 0;
};

struct CoordinatorReport {
  std::string kind{};      // `local`, `redis`
  std::string instance{};  // own id
  bool is_reachable = false;
  std::uint64_t epoch = 0;
  std::int64_t instance_count = 0;
  std::vector<InstanceReport> instances{};
  std::vector<ModelReport> models{};
};
using ReportCallback = std::function<void(Instant now, Result<CoordinatorReport> report)>;

class Coordinator {
 public:
  virtual ~Coordinator() = default;

  // Registers the instance. Called once; the listener must outlive stop()'s callback. If it is
  // not stopped, the destructor must leave no callback running or to come.
  virtual void start(Registration registration, CoordinatorListener& listener, Instant now,
                     StatusCallback started) = 0;

  // Unregisters. Acquires and releases that have no answer yet get one first (kStopped at the
  // latest after the time-out); after the callback nothing is called any more, and acquires and
  // releases are answered kStopped at once.
  virtual void stop(Instant now, StatusCallback stopped) = 0;

  // Books the estimate, or says why not. An estimate of 0 takes nothing of that kind, and a
  // window that is full refuses it all the same. Requires a valid estimate.
  virtual void acquire(std::string_view model, const Amounts& estimate, Instant now,
                       AcquireCallback answered) = 0;

  // Books a job that runs already, since `since`, even above the limits: it was admitted while
  // the coordinator could not be asked. In the windows that contain that instant, if they are
  // still the current ones, and in flight. Requires a valid estimate.
  virtual void adopt(std::string_view model, const Amounts& estimate, Instant since, Instant now,
                     AcquireCallback answered) = 0;

  // Settles with what was used: less than the estimate is given back if its window is still
  // the current one, more is counted in the current one. All of it is given back with {}.
  // Requires valid amounts.
  virtual void release(const Grant& grant, const Amounts& used, Instant now,
                       ReleaseCallback released) = 0;

  // Counts what was used without a grant, at `used_at`, while the coordinator could not be
  // asked: in the windows that contain that instant, if they are still the current ones.
  // Done: it will be counted, once, as soon as the coordinator can be asked.
  virtual void replay(std::string_view model, const Amounts& used, Instant used_at, Instant now,
                      StatusCallback replayed) = 0;

  // New limits or estimates, of a higher version.
  virtual void update(Registration registration, Instant now, StatusCallback updated) = 0;

  virtual void report(Instant now, ReportCallback reported) = 0;

  // Why it cannot be asked, in the words of who refused; empty: it can, or nobody said. It may be
  // asked under any lock.
  virtual std::string trouble() const { return {}; }

  // What is perhaps booked today for acquires that ended in kUnreachable, of all models together,
  // and given back as soon as that is known.
  virtual Amounts uncertain() const { return {}; }
};

}  // namespace weir::system::pool
