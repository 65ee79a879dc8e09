// Local coordinator: the instances of one process share their models' limits.
//
// The embedded default: it works with no other program. Instances that were given the same
// fleet share it; one alone has everything.
//
//   auto fleet = std::make_shared<LocalFleet>();
//   LocalCoordinator first(fleet), second(fleet);   // each has half
//
// Answers come at once, on the calling thread. Time is what the callers say; where they
// disagree, windows only move forward.
//
// Thread safety: every function may be called from any thread.

#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "weir/system/pool/coordinator.h"

namespace weir::system::pool {

// What the fleet's models have used and who belongs to it.
class LocalFleet {
 public:
  struct Options {
    // Published: every release tells the instance its share of what is left. The strict rule
    // has no use for it.
    bool announces_usage = false;
  };

  LocalFleet() = default;
  explicit LocalFleet(const Options& options) : options_(options) {}
  LocalFleet(const LocalFleet&) = delete;
  LocalFleet& operator=(const LocalFleet&) = delete;

 private:
  friend class LocalCoordinator;

  struct Model {
    ModelLimits limits{};
    Instant minute{};
    Instant day{};
    Usage used{};
    std::int64_t in_flight = 0;
    std::set<std::uint64_t> refused{};  // members that want to hear when something is freed
  };
  struct Member {
    std::uint64_t number = 0;
    CoordinatorListener* listener = nullptr;
    std::uint64_t version = 0;
    std::map<std::uint64_t, Grant> grants{};
    int calls = 0;  // of its listener that are running
    bool is_stopped = false;
    StatusCallback stopped{};
  };
  using MemberPtr = std::shared_ptr<Member>;
  using Lock = std::unique_lock<std::mutex>;
  // What to tell whom, once the lock is released.
  using Call = std::pair<MemberPtr, std::function<void(CoordinatorListener&)>>;

  Status adopt(const Registration& registration);
  Model* model(std::string_view name, Instant now);
  Allocation allocation() const;
  void announce(const MemberPtr& member, Instant now, std::vector<Call>& calls);
  void announce_all(Instant now, std::vector<Call>& calls);
  void announce_freed(Model& model, std::string_view name, Instant now, std::vector<Call>& calls);
  void run(Lock& lock, const std::vector<Call>& calls, Instant now);
  static void settle(Model& model, const Grant& grant, const Amounts& used);

  Options options_{};
  mutable std::mutex lock_;
  std::condition_variable quiet_;  // a member's last call returned
  Registration rules_{};
  std::map<std::string, Model, std::less<>> models_;
  std::map<std::uint64_t, MemberPtr> members_;
  std::uint64_t next_number_ = 1;
  std::uint64_t next_grant_ = 1;
  std::uint64_t epoch_ = 0;
  Instant last_{};  // that a call named
};

class LocalCoordinator final : public Coordinator {
 public:
  explicit LocalCoordinator(std::shared_ptr<LocalFleet> fleet) : fleet_(std::move(fleet)) {}
  ~LocalCoordinator() override;
  LocalCoordinator(const LocalCoordinator&) = delete;
  LocalCoordinator& operator=(const LocalCoordinator&) = delete;

  void start(Registration registration, CoordinatorListener& listener, Instant now,
             StatusCallback started) override;
  void stop(Instant now, StatusCallback stopped) override;
  void acquire(std::string_view model, const Amounts& estimate, Instant now,
               AcquireCallback answered) override;
  void adopt(std::string_view model, const Amounts& estimate, Instant since, Instant now,
             AcquireCallback answered) override;
  void release(const Grant& grant, const Amounts& used, Instant now,
               ReleaseCallback released) override;
  void replay(std::string_view model, const Amounts& used, Instant used_at, Instant now,
              StatusCallback replayed) override;
  void update(Registration registration, Instant now, StatusCallback updated) override;
  void report(Instant now, ReportCallback reported) override;

 private:
  // The model, or why there is none to ask.
  std::variant<LocalFleet::Model*, Refusal> find(std::string_view name, Instant now);
  Acquired decide(std::string_view name, const Amounts& estimate, Instant now);
  Grant make_grant(std::string_view name, LocalFleet::Model& model, const Amounts& estimate);
  bool is_member() const { return member_ && !member_->is_stopped; }

  std::shared_ptr<LocalFleet> fleet_;
  LocalFleet::MemberPtr member_;  // guarded by the fleet's lock
};

}  // namespace weir::system::pool
