// Readiness: why requests should not be sent here, if anything.
//
// Each part of the server that can stand in the way says so under its own name, and
// takes it back when it no longer does.
//
//   readiness.obstruct("state", "the disk is full: what is decided now is not kept");
//   readiness.clear("state");
//   readiness.note("contract/acme", "it began as configured");   // does not stand in the way
//
// Thread safety: every function may be called from any thread.

#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace weir::server {

class Readiness {
 public:
  void obstruct(std::string part, std::string reason) {
    const std::scoped_lock lock(lock_);
    reasons_.insert_or_assign(std::move(part), std::move(reason));
  }
  void clear(std::string_view part) {
    const std::scoped_lock lock(lock_);
    if (const auto found = reasons_.find(part); found != reasons_.end()) reasons_.erase(found);
  }

  // What should be known though requests may be sent here, for as long as the process runs.
  void note(std::string part, std::string what) {
    const std::scoped_lock lock(lock_);
    notes_.insert_or_assign(std::move(part), std::move(what));
  }

  // What to say of a part: reasons may hold paths and what the system said of them.
  enum class Detail : std::uint8_t { kParts, kReasons };

  // If not ready, `why` is every part, with its reason: `state: the disk is full; …`. Otherwise it
  // is what was noted, likewise.
  bool ready(std::string& why, Detail detail = Detail::kReasons) const {
    const std::scoped_lock lock(lock_);
    why.clear();
    for (const auto& [part, reason] : reasons_.empty() ? notes_ : reasons_) {
      if (!why.empty()) why += "; ";
      why += part;
      if (detail == Detail::kParts) continue;
      why += ": ";
      why += reason;
    }
    return reasons_.empty();
  }

 private:
  using Texts = std::map<std::string, std::string, std::less<>>;  // by part

  mutable std::mutex lock_;
  Texts reasons_;
  Texts notes_;
};

}  // namespace weir::server
