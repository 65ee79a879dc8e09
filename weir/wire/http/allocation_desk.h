// Allocation desk: answers whoever asks a ledger for the allocations of a worker.
//
// What is the same for every worker, names and portals, is written once for a snapshot. An answer
// is that text with the worker's units in between:
//
//   {"cluster":"acme","units":  2857  ,"portals":["portal-1"]}  ,{"cluster":…
//
// It has a tag, by which a client that asks again is told that nothing has changed. A tag is good
// as long as the process: after a restart each client fetches once more.
//
// Thread safety: every function may be called from any thread.

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/time.h"
#include "weir/system/compute/snapshot.h"

namespace weir::wire::http {

class AllocationDesk {
 public:
  explicit AllocationDesk(std::shared_ptr<system::compute::LedgerService> ledger);

  struct Said {
    bool is_known = false;  // the client has it already; `body` is empty
    std::string tag{};      // with its quotes; empty: it need not be known to say so
    std::string body{};
  };
  // `known_tags`: the value of If-None-Match. `known_epoch`: -1, or the one that the client has.
  Said ask(std::string_view worker, std::string_view known_tags, std::int64_t known_epoch,
           Instant now);

  const system::compute::SnapshotDesk& snapshots() const noexcept { return snapshots_; }

 private:
  struct Text;

  std::shared_ptr<const Text> text_of(std::shared_ptr<const system::compute::Snapshot> snapshot);

  system::compute::SnapshotDesk snapshots_;
  const std::string process_;  // a part of each tag
  std::mutex lock_;
  std::shared_ptr<const Text> last_;
};

// Whether a list such as `"a", W/"b"`, or `*`, has the tag.
bool names_tag(std::string_view list, std::string_view tag) noexcept;

}  // namespace weir::wire::http
