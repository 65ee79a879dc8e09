// Outage: what to do while the coordinator cannot be asked.
//
//   deny    refuse; nothing is admitted on a guess
//   allow   admit all that this instance alone may have, as if there were no other
//   local   admit within the last known share: floor(limit / instances) of every window,
//           what this instance was granted before the outage included
//
// It stands between the pools and the coordinator, and is one itself:
//
//   std::make_unique<OutageCoordinator>(std::move(redis), OutagePolicy::kLocal)
//
// When the coordinator is back it is told what was used meanwhile, and it adopts what still
// runs: that counts there from then on, in flight too. Releases that did not arrive are sent
// again. All of it is bounded: usage is added up by model and minute, of the current day only.
//
// Thread safety: every function may be called from any thread.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "weir/system/pool/coordinator.h"
#include "weir/system/pool/model_limiter.h"

namespace weir::system::pool {

enum class OutagePolicy : std::uint8_t { kDeny, kAllow, kLocal };
std::string_view to_string(OutagePolicy policy) noexcept;

constexpr std::size_t kUnsentReleasesMax = 100'000;  // beyond it estimates stay counted

struct OutageReading {
  OutagePolicy policy = OutagePolicy::kDeny;
  bool is_out = false;
  std::uint64_t admitted = 0;  // without the coordinator, since the instance began
  std::uint64_t refused = 0;
  std::size_t unsent = 0;  // releases and sums of usage that wait for the coordinator
};

class OutageCoordinator final : public Coordinator, private CoordinatorListener {
 public:
  OutageCoordinator(std::unique_ptr<Coordinator> inner, OutagePolicy policy)
      : policy_(policy), inner_(std::move(inner)) {}
  ~OutageCoordinator() override { inner_.reset(); }
  OutageCoordinator(const OutageCoordinator&) = delete;
  OutageCoordinator& operator=(const OutageCoordinator&) = delete;

  void start(Registration registration, CoordinatorListener& listener, Instant now,
             StatusCallback started) override;
  void stop(Instant now, StatusCallback stopped) override;
  void acquire(std::string_view model, const Amounts& estimate, Instant now,
               AcquireCallback answered) override;
  void release(const Grant& grant, const Amounts& used, Instant now,
               ReleaseCallback released) override;
  void adopt(std::string_view model, const Amounts& estimate, Instant since, Instant now,
             AcquireCallback answered) override {
    inner_->adopt(model, estimate, since, now, std::move(answered));
  }
  void replay(std::string_view model, const Amounts& used, Instant used_at, Instant now,
              StatusCallback replayed) override {
    inner_->replay(model, used, used_at, now, std::move(replayed));
  }
  void update(Registration registration, Instant now, StatusCallback updated) override;
  void report(Instant now, ReportCallback reported) override {
    inner_->report(now, std::move(reported));
  }
  std::string trouble() const override { return inner_->trouble(); }
  Amounts uncertain() const override { return inner_->uncertain(); }

  OutageReading reading() const;

 private:
  // What this instance holds, and on whose word.
  struct Held {
    std::string model{};
    Grant grant{};  // the coordinator's own; fence 0: none
    Reservation reservation{};
    Instant granted_at{};
    std::optional<Amounts> ended{};  // what it used, while the coordinator adopts it
  };
  using Unsent = std::map<std::pair<std::string, Instant>, Amounts>;  // by model and minute

  void allocated(Instant now, const Allocation& allocation) override;
  void freed(Instant now, std::string_view model) override { listener_->freed(now, model); }
  void reachable(Instant now, bool is_reachable) override;

  // With the lock held.
  ModelLimiter* model(std::string_view name);
  void set_shares();
  Acquired admit(std::string_view name, const Amounts& estimate, Instant now,
                 const std::string& trouble);
  Grant keep(std::string_view name, Grant inner, const Reservation& reservation, Instant now);
  void add_unsent(const std::string& model, const Amounts& used, Instant used_at);
  void answer(Instant now, std::string_view model, const Amounts& estimate, Acquired answer,
              const AcquireCallback& answered);
  // As if there were no other instance.
  Allocation alone() const;
  // Without the lock.
  void send_again(Instant now);
  void adopt_own(const std::set<std::uint64_t>& ids, Instant now);
  void adopted(std::uint64_t id, Instant now, const Acquired& answer);
  void release_inner(const Grant& grant, const Amounts& used, Instant now,
                     const ReleaseCallback& released);

  const OutagePolicy policy_;
  CoordinatorListener* listener_ = nullptr;

  mutable std::mutex lock_;
  bool is_out_ = false;
  Registration registration_{};
  std::int64_t instance_count_ = 0;  // 0: never known
  std::uint64_t epoch_ = 0;          // of the last allocation
  std::map<std::string, ModelLimiter, std::less<>> models_;
  std::map<std::uint64_t, Held> held_;
  std::set<std::uint64_t> own_;  // of them, those that the coordinator does not know of
  Unsent unsent_usage_;
  std::vector<std::pair<Grant, Amounts>> unsent_releases_;
  std::uint64_t last_id_ = 0;
  std::uint64_t admitted_ = 0;
  std::uint64_t refused_ = 0;

  std::unique_ptr<Coordinator> inner_;  // first to go: nothing is called after it
};

}  // namespace weir::system::pool
